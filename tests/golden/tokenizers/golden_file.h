// SPDX-License-Identifier: Apache-2.0
// Reads the corpus and the goldens of tools/golden/tokenizers_goldens.py and compares a tokenizer with them.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "base/json.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

namespace firstlight::golden {

inline std::string folder() { return std::string(FL_SOURCE_DIR) + "/tests/golden/tokenizers/"; }
inline std::string shared() { return std::string(FL_SOURCE_DIR) + "/../shared/data/"; }

inline const std::vector<std::string>& corpus() {
  static const std::vector<std::string> texts = [] {
    std::vector<std::string> read;
    std::ifstream file(folder() + "corpus.txt");
    for (std::string line; std::getline(file, line);) read.push_back(parse_json(line)->get<std::string>());
    return read;
  }();
  return texts;
}

inline constexpr size_t kBatch = 20;

struct Golden {
  std::map<size_t, uint64_t> batches;            // batch to hash
  std::map<size_t, std::vector<int32_t>> shown;  // text to ids
};

inline Golden read_golden(const std::string& name) {
  Golden golden;
  std::ifstream file(folder() + name + ".golden");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string kind;
    size_t index = 0;
    words >> kind >> index;
    if (kind == "batch") words >> std::hex >> golden.batches[index];
    if (kind == "ids") {
      for (int32_t id = 0; words >> id;) golden.shown[index].push_back(id);
      golden.shown[index];
    }
  }
  return golden;
}

// FNV-1a over the number of ids and the ids, as 32-bit little endian.
class Hash {
 public:
  void add(const std::vector<int32_t>& ids) {
    add_word(static_cast<uint32_t>(ids.size()));
    for (int32_t id : ids) add_word(static_cast<uint32_t>(id));
  }
  uint64_t value() const { return value_; }

 private:
  void add_word(uint32_t word) {
    for (int shift = 0; shift < 32; shift += 8) value_ = (value_ ^ ((word >> shift) & 0xFF)) * 0x100000001b3u;
  }
  uint64_t value_ = 0xcbf29ce484222325u;
};

// The text that token by token decoding gives.
inline std::string stream(const text::Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  text::Detokenizer detokenizer(tokenizer, {.skip_special = false});
  std::string joined;
  for (int32_t id : ids) joined += detokenizer.push(id);
  return joined + detokenizer.flush();
}

// Compares the ids of every text of the corpus, and checks that decoding in one go and token by token agree.
inline void expect_golden(const std::string& name, const text::Tokenizer& tokenizer, text::EncodeOptions options) {
  const Golden golden = read_golden(name);
  const auto& texts = corpus();
  ASSERT_GE(texts.size(), 2000u);
  ASSERT_EQ(golden.batches.size(), (texts.size() + kBatch - 1) / kBatch) << name;
  for (size_t begin = 0; begin < texts.size(); begin += kBatch) {
    Hash hash;
    for (size_t i = begin; i < std::min(begin + kBatch, texts.size()); ++i) {
      const auto ids = tokenizer.encode(texts[i], options);
      ASSERT_TRUE(ids.ok()) << name << ", text " << i << ": " << ids.status().to_string();
      hash.add(*ids);
      if (golden.shown.contains(i)) {
        EXPECT_EQ(*ids, golden.shown.at(i)) << name << ", text " << i << ": " << texts[i];
      }
      ASSERT_EQ(stream(tokenizer, *ids), tokenizer.decode(*ids, {.skip_special = false})) << name << ", text " << i;
    }
    EXPECT_EQ(hash.value(), golden.batches.at(begin / kBatch))
        << name << ": an encoding differs in texts " << begin << " to " << begin + kBatch - 1;
  }
}

}  // namespace firstlight::golden
