// SPDX-License-Identifier: Apache-2.0
#include "intake/spec_store.h"

#include <algorithm>
#include <filesystem>

#include "base/file_map.h"

namespace firstlight::intake {
namespace {

constexpr size_t kMaxSpecBytes = size_t{1} << 20;
constexpr std::string_view kExtension = ".lua";

}  // namespace

void SpecStore::add(std::string_view path, std::string text) {
  SpecText entry{"architectures/" + std::string(path), std::move(text)};
  if (!path.starts_with("std/")) {
    specs_.push_back(std::move(entry));
    return;
  }
  std::string name(path.substr(0, path.size() - kExtension.size()));
  std::replace(name.begin(), name.end(), '/', '.');
  if (name == "std.init") name = "std";
  modules_[name] = std::move(entry);
}

Result<SpecStore> SpecStore::open(const std::string& directory) {
  SpecStore store;
  if (directory.empty()) {
    for (const EmbeddedFile& file : embedded_files()) store.add(file.path, std::string(file.text));
    return store;
  }
  namespace fs = std::filesystem;
  std::error_code error;
  std::vector<std::string> paths;
  for (const auto& folder : {fs::path(directory), fs::path(directory) / "std"}) {
    for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
      if (it->path().extension() == kExtension) {
        paths.push_back(fs::relative(it->path(), directory, error).generic_string());
      }
    }
    if (error) return not_found("no directory of specs at " + folder.string());
  }
  std::sort(paths.begin(), paths.end());
  for (const std::string& path : paths) {
    store.add(path, FL_TRY(read_text_file((fs::path(directory) / path).string(), kMaxSpecBytes)));
  }
  return store;
}

Status SpecStore::use_file(const std::string& path) {
  use_text(path, FL_TRY(read_text_file(path, kMaxSpecBytes)));
  return ok_status();
}

void SpecStore::use_text(std::string path, std::string text) {
  specs_.clear();
  specs_.push_back({std::move(path), std::move(text)});
}

const SpecText* SpecStore::module(std::string_view name) const {
  const auto it = modules_.find(name);
  return it == modules_.end() ? nullptr : &it->second;
}

const SpecText* SpecStore::find(std::string_view path) const {
  const bool cut = path.starts_with("...");
  if (cut) path.remove_prefix(3);
  const auto fits = [&](const SpecText& file) { return cut ? file.path.ends_with(path) : file.path == path; };
  for (const SpecText& spec : specs_) {
    if (fits(spec)) return &spec;
  }
  for (const auto& [name, text] : modules_) {
    if (fits(text)) return &text;
  }
  return nullptr;
}

}  // namespace firstlight::intake
