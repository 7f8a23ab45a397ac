// SPDX-License-Identifier: Apache-2.0
#include "adapt/output_directory.h"

#include <filesystem>
#include <set>
#include <utility>

#include "base/file_map.h"
#include "formats/hf_directory.h"

namespace firstlight::adapt {

namespace fs = std::filesystem;

Result<OutputDirectory> OutputDirectory::create(const std::string& path) {
  std::error_code error;
  if (fs::exists(path, error)) {
    if (!fs::is_directory(path, error)) return invalid_argument(path + " exists and is no directory");
    const bool empty = fs::is_empty(path, error);
    if (error) return invalid_argument(path + ": " + error.message());
    if (!empty) return invalid_argument(path + " is not empty; a new or empty directory is wanted");
    return OutputDirectory(path, false);
  }
  if (fs::is_symlink(fs::symlink_status(path, error))) return invalid_argument(path + ": a link to nowhere");
  error.clear();
  const bool made = fs::create_directories(path, error);
  if (error) return invalid_argument(path + ": " + error.message());
  return OutputDirectory(path, made);
}

OutputDirectory::OutputDirectory(OutputDirectory&& other) noexcept
    : path_(std::move(other.path_)),
      made_(other.made_),
      kept_(std::exchange(other.kept_, true)),
      files_(std::move(other.files_)) {}

OutputDirectory::~OutputDirectory() {
  if (kept_) return;
  std::error_code ignored;
  for (const std::string& file : files_) fs::remove(file, ignored);
  if (made_) fs::remove(path_, ignored);
}

Status OutputDirectory::write(const std::string& name, std::string_view content) {
  files_.push_back((fs::path(path_) / name).string());
  return write_file(files_.back(), content);
}

Status OutputDirectory::copy(const std::string& file) {
  files_.push_back((fs::path(path_) / fs::path(file).filename()).string());
  std::error_code error;
  fs::copy_file(file, files_.back(), error);
  return error ? invalid_argument(file + ": " + error.message()) : ok_status();
}

Status OutputDirectory::copy_texts(const formats::HfDirectory& source, bool generation) {
  std::set<std::string> found;
  for (const auto* file : {&source.tokenizer_json, &source.tokenizer_config, &source.special_tokens_map,
                           &source.added_tokens, &source.vocab_json, &source.merges_txt, &source.vocab_txt,
                           &source.chat_template_jinja, &source.chat_template_json}) {
    if (*file) found.insert(**file);
  }
  if (generation && source.generation_config) found.insert(*source.generation_config);
  for (const auto& file : source.sentencepiece_models) found.insert(file);
  for (const auto& file : source.tiktoken_files) found.insert(file);
  for (const std::string& file : found) FL_TRY(copy(file));
  return ok_status();
}

std::vector<std::string> OutputDirectory::keep() {
  kept_ = true;
  return files_;
}

}  // namespace firstlight::adapt
