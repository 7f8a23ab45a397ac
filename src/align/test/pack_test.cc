// SPDX-License-Identifier: Apache-2.0
// Packs filled row by row, written and read again, and held to their size.
#include "align/pack.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <random>

#include "align/pack_builder.h"
#include "align/sketch.h"
#include "base/file_map.h"
#include "formats/tensor_file.h"

namespace firstlight::align {
namespace {

namespace fs = std::filesystem;

class Folder {
 public:
  Folder() {
    path_ = (fs::temp_directory_path() / ("firstlight_pack_" + std::string(6, 'X'))).string();  // mkdtemp names it
    if (::mkdtemp(path_.data()) == nullptr) path_.clear();
  }
  ~Folder() { fs::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

Pack head(int64_t width, int64_t tokens) {
  Pack pack;
  pack.origin = {{"kind", "firstlight"}, {"backend", "reference"}};
  pack.model = "tiny";
  pack.parameters = 1000;
  pack.taps = {
      {.name = "model.layers.0", .layer = "model.layers.0", .op = "map", .is_layer_output = true, .width = width},
      {.name = "model.layers.0.top_k.1", .layer = "model.layers.0", .op = "top_k", .is_integer = true, .width = 2},
      {.name = "logits", .layer = "head", .op = "linear", .width = 40}};
  pack.prompts.emplace_back();
  for (int64_t i = 0; i < tokens; ++i) pack.prompts[0].tokens.push_back(static_cast<int32_t>(i));
  return pack;
}

// Adds rows [begin, end) of values that depend on their place alone.
void add_rows(PackBuilder& builder, int64_t begin, int64_t end) {
  for (size_t t = 0; t < builder.pack().taps.size(); ++t) {
    const TapInfo& tap = builder.pack().taps[t];
    std::vector<float> floats;
    std::vector<int32_t> integers;
    for (int64_t i = begin * tap.width; i < end * tap.width; ++i) {
      floats.push_back(static_cast<float>(std::sin(static_cast<double>(i) * 0.7)));
      integers.push_back(static_cast<int32_t>(i % 5));
    }
    const auto type = tensor::Type::tensor(tap.is_integer ? tensor::DType::kI32 : tensor::DType::kF32,
                                           {tensor::Dim(end - begin), tensor::Dim(tap.width)});
    void* data = tap.is_integer ? static_cast<void*>(integers.data()) : static_cast<void*>(floats.data());
    builder.add(t, 0, begin, tensor::make_view(data, type));
  }
}

Pack made(const std::set<std::string>& full, int64_t chunk) {
  constexpr int64_t kTokens = 100;
  auto builder = PackBuilder::create(head(300, kTokens), full, size_limit(1000)).value();
  for (int64_t at = 0; at < kTokens; at += chunk) add_rows(builder, at, std::min(kTokens, at + chunk));
  return std::move(builder).finish();
}

void expect_equal(const Pack& a, const Pack& b) {
  ASSERT_EQ(a.taps.size(), b.taps.size());
  for (size_t t = 0; t < a.taps.size(); ++t) {
    const TapRecord &x = a.prompts[0].taps[t], &y = b.prompts[0].taps[t];
    EXPECT_EQ(a.taps[t].name, b.taps[t].name);
    EXPECT_EQ(x.num_rows, y.num_rows);
    EXPECT_EQ(x.statistics.rms, y.statistics.rms);
    EXPECT_EQ(x.histogram, y.histogram);
    EXPECT_EQ(x.norms, y.norms);
    EXPECT_EQ(x.sketch, y.sketch);
    EXPECT_EQ(x.row_ids, y.row_ids);
    EXPECT_EQ(x.rows, y.rows);
  }
  EXPECT_EQ(a.prompts[0].tokens, b.prompts[0].tokens);
  EXPECT_EQ(a.prompts[0].top_ids, b.prompts[0].top_ids);
  EXPECT_EQ(a.prompts[0].log_sum_exp, b.prompts[0].log_sum_exp);
  EXPECT_EQ(a.origin, b.origin);
}

TEST(Pack, IsTheSameWhateverTheChunks) {
  const Pack whole = made({}, 100);
  expect_equal(whole, made({}, 7));
  const TapRecord& layer = whole.prompts[0].taps[0];
  EXPECT_EQ(layer.statistics.count, 30000.0f);
  EXPECT_NEAR(layer.statistics.rms, std::sqrt(0.5), 1e-3);
  EXPECT_EQ(layer.norms.size(), 64u);
  EXPECT_EQ(layer.row_ids.size(), 100u) << "there is room for all";
  EXPECT_EQ(whole.prompts[0].taps[1].row_ids.size(), 100u) << "routing decisions are kept";
  int64_t counted = 0;
  for (const int32_t count : layer.histogram) counted += count;
  EXPECT_EQ(counted, 30000 - 1) << "all but the one zero";
}

TEST(Pack, ComesBackAsItWasWritten) {
  const Folder folder;
  Pack pack = made({"model.layers.0"}, 100);
  pack.prompts[0].greedy = {3, 4};
  EXPECT_EQ(pack.prompts[0].taps[0].row_ids.size(), 100u);
  ASSERT_TRUE(write_pack(pack, folder.path(), size_limit(1000)).ok());
  const auto back = read_pack(folder.path());
  ASSERT_TRUE(back.ok()) << back.status().to_string();
  expect_equal(pack, *back);
  EXPECT_EQ(back->prompts[0].greedy, pack.prompts[0].greedy);
  EXPECT_EQ(back->layout.seed, pack.layout.seed);
}

TEST(Pack, WhatARankHasComesBackToo) {
  const Folder folder;
  Pack pack = head(300, 40);
  pack.rank = 1;
  pack.ranks = 2;
  pack.taps[0].part = {
      .split = Split::kFeatures, .part = 1, .parts = 2, .first_feature = 300, .whole_width = 600, .place = 4};
  pack.taps[1].part = {.split = Split::kRows, .part = 1, .parts = 2, .place = 5};
  pack.prompts[0].taps.resize(3);
  for (int32_t row = 20; row < 40; ++row) pack.prompts[0].taps[1].part_rows.push_back(row);
  auto builder = PackBuilder::create(std::move(pack), {}, size_limit(1000)).value();
  std::vector<int32_t> choices(40, 3);
  const auto type = tensor::Type::tensor(tensor::DType::kI32, {tensor::Dim(20), tensor::Dim(2)});
  builder.add(1, 0, 0, tensor::make_view(choices.data(), type));
  const Pack made = std::move(builder).finish();
  ASSERT_TRUE(write_pack(made, folder.path(), 0).ok());
  const auto back = read_pack(folder.path());
  ASSERT_TRUE(back.ok()) << back.status().to_string();
  expect_equal(made, *back);
  EXPECT_EQ(back->rank, 1);
  EXPECT_EQ(back->ranks, 2);
  EXPECT_EQ(back->taps[0].part.first_feature, 300);
  EXPECT_EQ(back->taps[0].part.whole_width, 600);
  EXPECT_EQ(back->taps[1].part.place, 5);
  const TapRecord& choice = back->prompts[0].taps[1];
  EXPECT_EQ(choice.part_rows, made.prompts[0].taps[1].part_rows);
  EXPECT_EQ(choice.row_ids, choice.part_rows) << "routing decisions are kept";
  EXPECT_EQ(choice.norms.size(), 20u);
  const std::string path = folder.path() + "/manifest.json";
  const std::string good = read_text_file(path).value();
  for (const auto& [from, to] : {std::pair{"\"index\": 1", "\"index\": 2"},
                                 {"\"whole\": 600", "\"whole\": 599"},
                                 {"\"features\"", "\"halves\""},
                                 {"\"parts\": 2", "\"parts\": 1"},
                                 {"\"rank\"", "\"rang\""},
                                 {"\"part\": {", "\"port\": {"}}) {
    std::string text = good;
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    ASSERT_TRUE(write_file(path, text.replace(at, std::string(from).size(), to)).ok());
    EXPECT_EQ(read_pack(folder.path()).code(), StatusCode::kInvalidData) << to;
  }
}

TEST(Pack, KeepsToItsSize) {
  const Folder folder;
  // 2,000 values of 400 tokens: sketches have to become smaller, and only some rows can be kept.
  Pack pack = head(64, 400);
  while (pack.taps.size() < 2000) {
    pack.taps.push_back(pack.taps[0]);
    pack.taps.back().name += "#" + std::to_string(pack.taps.size());
  }
  auto builder = PackBuilder::create(std::move(pack), {}, size_limit(1000));
  ASSERT_TRUE(builder.ok()) << builder.status().to_string();
  const Pack made = std::move(*builder).finish();
  EXPECT_LT(made.layout.sampled_rows * made.layout.projections, 64 * 32);
  EXPECT_LT(made.prompts[0].taps.back().row_ids.size(), 400u);
  EXPECT_TRUE(write_pack(made, folder.path(), size_limit(1000)).ok());
  EXPECT_LE(fs::file_size(folder.path() + "/manifest.json") + fs::file_size(folder.path() + "/tensors.safetensors"),
            8'000'000u);
  EXPECT_EQ(write_pack(made, folder.path(), 100'000).code(), StatusCode::kInvalidArgument);
  Pack huge = head(64, 400);
  huge.taps.resize(100'000, huge.taps[0]);
  EXPECT_EQ(PackBuilder::create(std::move(huge), {}, size_limit(1000)).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(PackBuilder::create(head(64, 4), {"nobody"}, size_limit(1000)).code(), StatusCode::kNotFound);
}

TEST(Pack, BrokenOnesAreRefused) {
  const Folder folder;
  ASSERT_TRUE(write_pack(made({}, 100), folder.path(), 0).ok());
  const std::string path = folder.path() + "/manifest.json";
  const std::string good = read_text_file(path).value();
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    EXPECT_TRUE(write_file(path, text).ok());
    return read_pack(folder.path()).code();
  };
  EXPECT_EQ(with("firstlight.golden_pack", "another"), StatusCode::kInvalidData);
  EXPECT_EQ(with("\"width\": 300", "\"width\": 301"), StatusCode::kInvalidData);
  EXPECT_EQ(with("\"width\": 300", "\"width\": -1"), StatusCode::kInvalidData);
  EXPECT_EQ(with("\"projections\": 32", "\"projections\": 1000000"), StatusCode::kInvalidData);
  EXPECT_EQ(with("\"hash\": \"", "\"hash\": \"0"), StatusCode::kInvalidData);
  EXPECT_EQ(with("\"taps\"", "\"tops\""), StatusCode::kInvalidData);
  EXPECT_EQ(with("\"logits\"", "\"log\\u001b[31mits\""), StatusCode::kInvalidData);
  EXPECT_TRUE(write_file(path, good).ok());
  EXPECT_TRUE(read_pack(folder.path()).ok());
  EXPECT_EQ(read_pack(folder.path() + "/none").code(), StatusCode::kNotFound);
}

TEST(Pack, NumbersThatNoRecordingHasAreRefused) {
  const float none = std::numeric_limits<float>::quiet_NaN();
  const std::pair<const char*, std::function<void(TapRecord&)>> faults[] = {
      {"counts", [&](TapRecord& tap) { tap.statistics.not_finite = none; }},
      {"histogram", [](TapRecord& tap) { tap.histogram[3] = -1; }},
      {"norm", [](TapRecord& tap) { tap.norms[1] = -1; }},
      {"sketch", [&](TapRecord& tap) { tap.sketch[2] = none; }},
      {"row 100 kept", [](TapRecord& tap) { tap.row_ids[1] = 100; }},
      {"row 0 kept", [](TapRecord& tap) { tap.row_ids[1] = 0; }},
      {"row -1 kept", [](TapRecord& tap) { tap.row_ids[0] = -1; }},
      {"not finite", [&](TapRecord& tap) { tap.rows[5] = none; }}};
  for (const auto& [said, fault] : faults) {
    const Folder folder;
    Pack pack = made({}, 100);
    fault(pack.prompts[0].taps[0]);
    ASSERT_TRUE(write_pack(pack, folder.path(), 0).ok());
    const auto back = read_pack(folder.path());
    EXPECT_EQ(back.status().code(), StatusCode::kInvalidData) << said;
    EXPECT_NE(back.status().message().find(said), std::string::npos) << back.status().to_string();
  }
  // A value that was not finite when it was recorded is another thing.
  const Folder folder;
  Pack pack = made({}, 100);
  pack.prompts[0].taps[0].rows[5] = none;
  pack.prompts[0].taps[0].statistics.not_finite = 1;
  ASSERT_TRUE(write_pack(pack, folder.path(), 0).ok());
  EXPECT_TRUE(read_pack(folder.path()).ok());
}

TEST(Pack, SampledRowsAreSpreadOut) {
  EXPECT_EQ(sampled_row(0, 4, 100), 0);
  EXPECT_EQ(sampled_row(3, 4, 100), 99);
  EXPECT_EQ(sampled_row(0, 1, 100), 99);
  EXPECT_EQ(histogram_bin(1.5f), 20u);
  EXPECT_EQ(histogram_bin(-1.5f), 52u);
  EXPECT_EQ(histogram_bin(1e-30f), 0u);
  EXPECT_EQ(histogram_bin(1e30f), 31u);
}

}  // namespace
}  // namespace firstlight::align
