// SPDX-License-Identifier: Apache-2.0
// Built modules in a folder, a file per key. Files appear whole or not at all, so several processes may share the
// folder; what does not load is simply built again.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/status.h"

namespace firstlight::device {

class BinaryCache {
 public:
  // `folder` empty: keeps nothing and finds nothing.
  BinaryCache(std::filesystem::path folder, std::string suffix)
      : folder_(std::move(folder)), suffix_(std::move(suffix)) {}

  std::optional<std::string> get(const std::string& key) const;
  // Errors: kNotFound where the folder can not be made or written.
  Status put(const std::string& key, const std::string& binary) const;

 private:
  std::filesystem::path folder_;
  std::string suffix_;
};

}  // namespace firstlight::device
