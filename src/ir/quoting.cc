// SPDX-License-Identifier: Apache-2.0
#include "ir/quoting.h"

#include <algorithm>

namespace firstlight::ir {

std::string quoted_name(std::string_view text) {
  if (!text.empty() && std::all_of(text.begin(), text.end(), is_name_char)) return std::string(text);
  return quoted_string(text);
}

}  // namespace firstlight::ir
