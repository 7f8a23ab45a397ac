// SPDX-License-Identifier: Apache-2.0
#include "device/binary_cache.h"

#include <unistd.h>

#include <atomic>
#include <fstream>
#include <sstream>
#include <system_error>

namespace firstlight::device {

std::optional<std::string> BinaryCache::get(const std::string& key) const {
  if (folder_.empty()) return std::nullopt;
  std::ifstream file(folder_ / (key + suffix_), std::ios::binary);
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

Status BinaryCache::put(const std::string& key, const std::string& binary) const {
  if (folder_.empty()) return ok_status();
  static std::atomic<int> count{0};
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  const std::filesystem::path path = folder_ / (key + suffix_);
  std::filesystem::path part = path;
  part += "." + std::to_string(getpid()) + "." + std::to_string(count++);
  {
    std::ofstream file(part, std::ios::binary);
    file << binary;
    if (!file.flush()) return not_found("cache folder '" + folder_.string() + "' can not be written");
  }
  std::filesystem::rename(part, path, error);
  if (error) return not_found(path.string() + ": " + error.message());
  return ok_status();
}

}  // namespace firstlight::device
