// SPDX-License-Identifier: Apache-2.0
#include "device/private_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <system_error>

namespace firstlight::device {

Status make_private_folder(const std::filesystem::path& folder) {
  std::error_code error;
  if (!std::filesystem::exists(folder, error)) {
    std::filesystem::create_directories(folder.parent_path(), error);
    ::mkdir(folder.c_str(), 0700);
  }
  struct stat info {};
  if (::stat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
    return unavailable("cache folder " + folder.string() + " can not be made");
  }
  if (info.st_uid != ::geteuid() || (info.st_mode & 022) != 0) {
    return unavailable("cache folder " + folder.string() + " belongs to another user or is writable by others");
  }
  return ok_status();
}

}  // namespace firstlight::device
