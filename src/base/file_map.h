// SPDX-License-Identifier: Apache-2.0
// A file mapped read-only into memory. Owns the mapping; spans taken from it die with it.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/status.h"

namespace firstlight {

class FileMap {
 public:
  // Maps the whole file. Errors: kNotFound (no such file, dangling link: the link's target is named), kInvalidData (a
  // directory or another thing that is not a regular file). An empty file maps to an empty span.
  static Result<FileMap> open(const std::string& path);

  FileMap(FileMap&& other) noexcept;
  FileMap& operator=(FileMap&& other) noexcept;
  FileMap(const FileMap&) = delete;
  FileMap& operator=(const FileMap&) = delete;
  ~FileMap();

  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(data_), size_bytes_}; }
  const std::string& path() const { return path_; }

 private:
  FileMap() = default;
  std::string path_;
  void* data_ = nullptr;
  size_t size_bytes_ = 0;
};

// The whole file as text. Errors as FileMap::open; kInvalidData when it is longer than `limit_bytes`.
Result<std::string> read_text_file(const std::string& path, size_t limit_bytes = size_t{1} << 30);

// Writes through a temporary file and a rename, so that a reader never sees half a file.
Status write_file(const std::string& path, std::string_view content);

}  // namespace firstlight
