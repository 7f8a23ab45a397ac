// SPDX-License-Identifier: Apache-2.0
// Strings as the text forms of attributes and graphs write them.
#pragma once

#include <string>
#include <string_view>

namespace firstlight::ops {

// "\"…\"", with \" \\ and \xHH for control bytes; all other bytes as they are.
std::string quoted_string(std::string_view text);

}  // namespace firstlight::ops
