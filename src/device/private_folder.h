// SPDX-License-Identifier: Apache-2.0
// Folders that code is loaded from belong to this user alone.
#pragma once

#include <filesystem>

#include "base/status.h"

namespace firstlight::device {

// Makes the folder where it is missing, for this user alone. Errors: kUnavailable where it can not be made, or is
// another user's or writable by others, who could put code there.
Status make_private_folder(const std::filesystem::path& folder);

}  // namespace firstlight::device
