// SPDX-License-Identifier: Apache-2.0
#include "cli/environment.h"

#include <cstdlib>

#include "device/private_folder.h"

namespace firstlight::cli {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

Result<std::filesystem::path> cache_folder() {
  if (const std::filesystem::path wanted = variable("FIRSTLIGHT_CACHE"); !wanted.empty()) {
    const Status made = device::make_private_folder(wanted);
    if (!made.ok()) return invalid_argument("FIRSTLIGHT_CACHE: " + made.message());
    return wanted;
  }
  std::filesystem::path base = variable("XDG_CACHE_HOME");
  if (!base.is_absolute() && !variable("HOME").empty()) base = std::filesystem::path(variable("HOME")) / ".cache";
  if (!base.is_absolute() || !device::make_private_folder(base / "firstlight").ok()) return std::filesystem::path();
  return base / "firstlight";
}

std::string host_compiler() {
  const std::string own = variable("FIRSTLIGHT_CXX");
  return own.empty() ? variable("CXX") : own;
}

}  // namespace firstlight::cli
