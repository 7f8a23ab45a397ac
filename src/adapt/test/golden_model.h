// SPDX-License-Identifier: Apache-2.0
// A tiny model of tests/golden/data for the tests of this module and of cli: where it lies, what is known about it, a
// loaded form of it, and copies with other files beside it. Include <gtest/gtest.h> first.
#pragma once

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "adapt/bring_up.h"
#include "base/json.h"

namespace firstlight::adapt {

inline std::string golden_path(const std::string& name = "llama") {
  return std::string(FL_SOURCE_DIR) + "/tests/golden/data/" + name;
}

inline Json read_json_file(const std::string& path) {
  std::ifstream file(path);
  return Json::parse(file);
}

inline void write_text(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

// A folder that goes with the test.
class TestFolder {
 public:
  TestFolder() {
    static std::atomic<int> counter{0};
    path_ = std::filesystem::temp_directory_path() /
            ("firstlight-adapt-" + std::to_string(::getpid()) + "-" + std::to_string(counter++));
    std::filesystem::create_directories(path_);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  ~TestFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::string path() const { return path_.string(); }

  void copy_golden(const std::string& name = "llama") const {
    using std::filesystem::copy_options;
    std::filesystem::copy(golden_path(name), path_, copy_options::recursive | copy_options::overwrite_existing);
  }

 private:
  std::filesystem::path path_;
};

inline BringUpOptions quick_options(catalog::Backend backend = catalog::Backend::kReference) {
  BringUpOptions options;
  options.backend = backend;
  options.num_threads = 1;
  options.buckets = {{16, 16}};
  return options;
}

inline std::unique_ptr<LoadedModel> bring_up_golden(const BringUpOptions& options = quick_options(),
                                                    const std::string& name = "llama") {
  auto loaded = bring_up(golden_path(name), options);
  EXPECT_TRUE(loaded.ok()) << loaded.status().message();
  return loaded.ok() ? std::move(*loaded) : nullptr;
}

inline std::vector<int32_t> golden_ids(const char* key, const std::string& name = "llama") {
  return read_json_file(golden_path(name) + "/golden.json")[key].get<std::vector<int32_t>>();
}

// A tokenizer of single characters, three special tokens and 61 characters: as many as the golden llama has ids.
inline const std::string kCharacters = "abcdefghijklmnopqrstuvwxyz0123456789 \n.,:;!?'-()[]<>/_*+=ABCD";
inline std::string character_tokenizer() {
  Json added = Json::array(), vocab = Json::object();
  for (const char* special : {"<unk>", "<s>", "</s>"}) {
    added.push_back({{"id", added.size()},
                     {"content", special},
                     {"special", true},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false}});
    vocab[special] = vocab.size();
  }
  for (const char c : kCharacters) vocab[std::string(1, c)] = vocab.size();
  const Json document = {
      {"version", "1.0"},
      {"added_tokens", added},
      {"normalizer", Json()},
      {"pre_tokenizer", Json()},
      {"post_processor", Json()},
      {"decoder", {{"type", "Fuse"}}},
      {"model", {{"type", "BPE"}, {"unk_token", "<unk>"}, {"vocab", vocab}, {"merges", Json::array()}}}};
  return dump_json(document);
}

// The text the character tokenizer makes of ids.
inline std::string as_characters(const std::vector<int32_t>& ids) {
  std::string text;
  for (const int32_t id : ids) {
    if (id >= 3) text += kCharacters[static_cast<size_t>(id) - 3];
  }
  return text;
}

}  // namespace firstlight::adapt
