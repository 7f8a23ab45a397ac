// SPDX-License-Identifier: Apache-2.0
// A directory that a verb fills with a checkpoint: new or empty before, and as it was where the verb fails.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace firstlight::formats {
struct HfDirectory;
}

namespace firstlight::adapt {

class OutputDirectory {
 public:
  // Makes the directory, or finds it empty. Errors: kInvalidArgument (a file, not empty, or not to be written).
  static Result<OutputDirectory> create(const std::string& path);
  OutputDirectory(OutputDirectory&& other) noexcept;
  OutputDirectory& operator=(OutputDirectory&&) = delete;
  ~OutputDirectory();  // without keep(): removes the files that were added, and the directory if it was made here

  const std::string& path() const { return path_; }
  const std::vector<std::string>& files() const { return files_; }  // full paths

  void add(const std::vector<std::string>& files) { files_.insert(files_.end(), files.begin(), files.end()); }
  Status write(const std::string& name, std::string_view content);
  Status copy(const std::string& file);  // under its own name
  // Tokenizer, templates and generation_config.json. `generation`: whether the last one as well.
  Status copy_texts(const formats::HfDirectory& source, bool generation = true);
  std::vector<std::string> keep();  // the files; they stay

 private:
  OutputDirectory(std::string path, bool made) : path_(std::move(path)), made_(made) {}
  std::string path_;
  bool made_ = false;
  bool kept_ = false;
  std::vector<std::string> files_;
};

}  // namespace firstlight::adapt
