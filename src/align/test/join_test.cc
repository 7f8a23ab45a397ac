// SPDX-License-Identifier: Apache-2.0
// A recording split over ranks in every way there is, joined, and held against the whole.
#include "align/join.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <random>
#include <set>

#include "align/compare.h"
#include "align/pack_builder.h"

namespace firstlight::align {
namespace {

constexpr int64_t kTokens = 21, kWidth = 150, kVocab = 90;

struct Value {
  TapInfo info;
  std::vector<float> rows;  // [tokens, width]
};

// A layer, routing decisions and logits. Numbers with few bits, so that sums of their parts are exact.
std::vector<Value> whole_values() {
  std::vector<Value> values = {
      {{.name = "layers.0", .layer = "layers.0", .op = "map", .is_layer_output = true, .width = kWidth}, {}},
      {{.name = "layers.1.top_k.1", .layer = "layers.1", .op = "top_k", .is_integer = true, .width = 4}, {}},
      {{.name = "layers.1", .layer = "layers.1", .op = "linear", .is_layer_output = true, .width = kWidth}, {}},
      {{.name = "logits", .layer = "head", .op = "linear", .is_layer_output = true, .width = kVocab}, {}}};
  std::mt19937 random(3);
  for (Value& value : values) {
    for (int64_t i = 0; i < kTokens * value.info.width; ++i) {
      const auto draw = static_cast<int>(random() % 4096);
      value.rows.push_back(value.info.is_integer ? static_cast<float>(draw % 8)
                                                 : static_cast<float>(draw - 2048) / 256);
    }
  }
  return values;
}

std::vector<int32_t> prompt() {
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < kTokens; ++i) tokens.push_back(i);
  return tokens;
}

const std::set<std::string> kAll = {"all"};

// What `values` are recorded as; of parts of the rows, `rows_of` says which.
Pack record(const std::vector<Value>& values, const std::set<std::string>& full, int64_t rank = 0, int64_t ranks = 1,
            const std::function<std::vector<int32_t>(const TapInfo&)>& rows_of = {}) {
  Pack pack;
  pack.model = "tiny";
  pack.spec_hash = "1";
  pack.rank = rank;
  pack.ranks = ranks;
  pack.whole_values = 4;
  PromptRecord& record = pack.prompts.emplace_back();
  record.tokens = prompt();
  for (const Value& value : values) {
    pack.taps.push_back(value.info);
    record.taps.emplace_back();
    if (value.info.part.split == Split::kRows) record.taps.back().part_rows = rows_of(value.info);
  }
  auto builder = PackBuilder::create(std::move(pack), full, 30'000).value();
  for (size_t t = 0; t < values.size(); ++t) {
    const TapInfo& info = values[t].info;
    const auto count = static_cast<int64_t>(values[t].rows.size()) / info.width;
    std::vector<int32_t> integers(values[t].rows.begin(), values[t].rows.end());
    const auto type = tensor::Type::tensor(info.is_integer ? tensor::DType::kI32 : tensor::DType::kF32,
                                           {tensor::Dim(count), tensor::Dim(info.width)});
    void* data = info.is_integer ? static_cast<void*>(integers.data()) : const_cast<float*>(values[t].rows.data());
    builder.add(t, 0, 0, tensor::make_view(data, type));
  }
  return std::move(builder).finish();
}

using Cut = std::function<bool(size_t tap, int64_t rank, int64_t ranks, Value& value, std::vector<int32_t>& rows)>;

// The recordings of all ranks; `cut` makes a rank's part of a value, or says that the rank has none.
std::vector<Pack> shard(int64_t ranks, const std::set<std::string>& full, const Cut& cut) {
  std::vector<Pack> packs;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    std::vector<Value> parts;
    std::map<std::string, std::vector<int32_t>> rows;
    const auto whole = whole_values();
    for (size_t t = 0; t < whole.size(); ++t) {
      Value value = whole[t];
      std::vector<int32_t> own;
      value.info.part.place = static_cast<int64_t>(t);
      if (!cut(t, rank, ranks, value, own)) continue;
      rows[value.info.name] = own;
      parts.push_back(std::move(value));
    }
    packs.push_back(record(parts, full, rank, ranks, [&](const TapInfo& info) { return rows.at(info.name); }));
  }
  return packs;
}

// Columns in pieces that are no multiple of the 64 that share a hash; integers and the first layer are replicated.
bool by_columns(size_t tap, int64_t rank, int64_t ranks, Value& value, std::vector<int32_t>&) {
  if (tap < 2) return true;
  const int64_t width = value.info.width, first = rank * width / ranks, end = (rank + 1) * width / ranks;
  std::vector<float> rows;
  for (int64_t t = 0; t < kTokens; ++t)
    rows.insert(rows.end(), value.rows.begin() + t * width + first, value.rows.begin() + t * width + end);
  value.rows = std::move(rows);
  value.info.width = end - first;
  value.info.part.split = Split::kFeatures;
  value.info.part.part = rank;
  value.info.part.parts = ranks;
  value.info.part.first_feature = first;
  value.info.part.whole_width = width;
  return true;
}

// Terms that add up exactly: all but the last rank have a drawn part of each number.
bool as_sums(size_t tap, int64_t rank, int64_t ranks, Value& value, std::vector<int32_t>&) {
  if (tap != 2) return true;
  for (size_t i = 0; i < value.rows.size(); ++i) {
    float left = value.rows[i];
    for (int64_t r = 0; r < ranks; ++r) {
      const auto drawn = static_cast<float>(static_cast<int>((i * 7 + static_cast<size_t>(r) * 13) % 101) - 50) / 64;
      const float term = r + 1 == ranks ? left : drawn;
      left -= term;
      if (r == rank) value.rows[i] = term;
    }
  }
  value.info.part.split = Split::kSum;
  value.info.part.part = rank;
  value.info.part.parts = ranks;
  return true;
}

// Every value's rows, in pieces (sequence parallel) or turned around as context parallelism deals them out.
bool by_rows(size_t, int64_t rank, int64_t ranks, Value& value, std::vector<int32_t>& own) {
  std::vector<float> rows;
  for (int32_t t = 0; t < kTokens; ++t) {
    const int64_t piece = t * 2 * ranks / kTokens;
    if (std::min(piece, 2 * ranks - 1 - piece) != rank) continue;
    own.push_back(t);
    rows.insert(rows.end(), value.rows.begin() + t * value.info.width, value.rows.begin() + (t + 1) * value.info.width);
  }
  value.rows = std::move(rows);
  value.info.part.split = Split::kRows;
  value.info.part.part = rank;
  value.info.part.parts = ranks;
  return true;
}

// Layers one behind the other.
bool by_layers(size_t tap, int64_t rank, int64_t ranks, Value&, std::vector<int32_t>&) {
  return static_cast<int64_t>(tap) * ranks / 4 == rank;
}

// Experts: each rank has rows of its own experts' tokens, and a term of their sum.
bool by_experts(size_t tap, int64_t rank, int64_t ranks, Value& value, std::vector<int32_t>& own) {
  if (tap != 2) return true;
  std::vector<float> rows;
  for (int32_t t = 0; t < kTokens; ++t) {
    if ((t * 5 + 3) % 7 % ranks != rank) continue;
    own.push_back(t);
    rows.insert(rows.end(), value.rows.begin() + t * kWidth, value.rows.begin() + (t + 1) * kWidth);
  }
  value.rows = std::move(rows);
  value.info.part.split = Split::kRows;
  value.info.part.part = rank;
  value.info.part.parts = ranks;
  return true;
}

struct Way {
  const char* name;
  Cut cut;
};
const std::vector<Way>& ways() {
  static const std::vector<Way> list = {
      {"columns", by_columns}, {"sums", as_sums}, {"rows", by_rows}, {"layers", by_layers}, {"experts", by_experts}};
  return list;
}

bool same_numbers(const Statistics& a, const Statistics& b) {
  return a.min == b.min && a.max == b.max && a.mean == b.mean && a.rms == b.rms && a.absmax == b.absmax &&
         a.count == b.count && a.not_finite == b.not_finite && a.zeros == b.zeros;
}

TEST(Join, WithAllRowsItIsTheWholeToTheBit) {
  const Pack whole = record(whole_values(), kAll);
  for (const Way& way : ways()) {
    for (const int64_t ranks : {2, 4}) {
      const auto joined = join_ranks(shard(ranks, kAll, way.cut)).value();
      EXPECT_TRUE(joined.findings.empty() && joined.unknown.empty()) << way.name;
      ASSERT_EQ(joined.pack.taps.size(), whole.taps.size());
      for (size_t t = 0; t < whole.taps.size(); ++t) {
        SCOPED_TRACE(std::string(way.name) + " " + whole.taps[t].name);
        const TapRecord &a = whole.prompts[0].taps[t], &b = joined.pack.prompts[0].taps[t];
        EXPECT_EQ(joined.pack.taps[t].name, whole.taps[t].name);
        EXPECT_EQ(joined.pack.taps[t].width, whole.taps[t].width);
        EXPECT_EQ(a.row_ids, b.row_ids);
        EXPECT_EQ(a.rows, b.rows);
        EXPECT_EQ(a.norms, b.norms);
        EXPECT_EQ(a.sketch, b.sketch);
        EXPECT_EQ(a.histogram, b.histogram);
        EXPECT_TRUE(same_numbers(a.statistics, b.statistics));
      }
      EXPECT_EQ(whole.prompts[0].top_ids, joined.pack.prompts[0].top_ids);
      EXPECT_EQ(whole.prompts[0].top_logits, joined.pack.prompts[0].top_logits);
      EXPECT_EQ(whole.prompts[0].log_sum_exp, joined.pack.prompts[0].log_sum_exp);
    }
  }
}

// Without: rows, histograms and largest logits exact, projections to float32's rounding of them.
TEST(Join, FromSketchesItIsTheWholeToRounding) {
  const Pack whole = record(whole_values(), {});
  ASSERT_LT(whole.prompts[0].taps[2].row_ids.size(), static_cast<size_t>(kTokens)) << "rows are left to sketches";
  for (const Way& way : ways()) {
    for (const int64_t ranks : {2, 4}) {
      SCOPED_TRACE(std::string(way.name) + " " + std::to_string(ranks));
      const auto joined = join_ranks(shard(ranks, {}, way.cut)).value();
      const TapRecord &a = whole.prompts[0].taps[2], &b = joined.pack.prompts[0].taps[2];
      ASSERT_EQ(a.sketch.size(), b.sketch.size());
      for (size_t i = 0; i < a.sketch.size(); ++i) EXPECT_NEAR(a.sketch[i], b.sketch[i], 1e-4) << i;
      const bool sums = std::string(way.name) == "sums";
      if (!sums) {
        for (size_t i = 0; i < a.norms.size(); ++i) EXPECT_NEAR(a.norms[i], b.norms[i], 1e-5f * a.norms[i]);
        EXPECT_EQ(a.histogram, b.histogram);
        EXPECT_NEAR(a.statistics.rms, b.statistics.rms, 1e-6f * a.statistics.rms);
        EXPECT_EQ(a.statistics.zeros, b.statistics.zeros);
      }
      EXPECT_EQ(joined.unknown, sums ? std::vector<std::string>{"layers.1"} : std::vector<std::string>{});
      EXPECT_EQ(whole.prompts[0].top_ids, joined.pack.prompts[0].top_ids);
      const auto comparison = compare(whole, joined.pack).value();
      EXPECT_TRUE(comparison.passed);
      EXPECT_LT(comparison.values[2].found.rel_l2, 1e-6);
      EXPECT_EQ(comparison.logits.top5, 1);
    }
  }
}

// A fault of one rank is as large in the joined recording as in the whole one.
TEST(Join, AFaultOfOneRankIsSeenInTheWhole) {
  const Pack whole = record(whole_values(), {});
  const auto faulty = [](size_t tap, int64_t rank, int64_t ranks, Value& value, std::vector<int32_t>& rows) {
    by_columns(tap, rank, ranks, value, rows);
    if (tap == 2 && rank == 1) {
      for (float& x : value.rows) x *= 1.1f;
    }
    return true;
  };
  const auto joined = join_ranks(shard(2, {}, faulty)).value();
  const auto comparison = compare(whole, joined.pack).value();
  EXPECT_EQ(comparison.first_wrong, 2);
  EXPECT_NEAR(comparison.values[2].found.rel_l2, 0.1 / std::sqrt(2.0), 0.02);
}

TEST(Join, ReplicasThatDifferAreFindings) {
  const auto differs = [](size_t tap, int64_t rank, int64_t ranks, Value& value, std::vector<int32_t>& rows) {
    by_columns(tap, rank, ranks, value, rows);
    if (tap == 0 && rank == 1) value.rows[5] += 1;
    return true;
  };
  const auto joined = join_ranks(shard(2, kAll, differs)).value();
  ASSERT_EQ(joined.findings.size(), 1u);
  EXPECT_EQ(joined.findings[0].name, "layers.0");
  EXPECT_EQ(joined.findings[0].rank_b, 1);
  EXPECT_GT(joined.findings[0].rel_l2, 1e-3);
  EXPECT_EQ(joined.pack.prompts[0].taps[0].rows, record(whole_values(), kAll).prompts[0].taps[0].rows) << "rank 0's";
}

TEST(Join, WhatIsNoWholeIsRefusedByName) {
  const auto packs = shard(4, {}, by_columns);
  const auto message = [](const std::vector<Pack>& ranks) {
    const auto result = join_ranks(ranks);
    EXPECT_EQ(result.code(), StatusCode::kInvalidArgument);
    return result.ok() ? std::string() : std::string(result.status().message());
  };
  EXPECT_NE(message({packs[0], packs[1], packs[3]}).find("rank 2 of 4 is missing"), std::string::npos);
  EXPECT_NE(message({packs[0], packs[1], packs[1], packs[3]}).find("rank 1 is there twice"), std::string::npos);
  EXPECT_NE(message({record(whole_values(), {})}).find("not of a rank"), std::string::npos);
  auto changed = packs;
  changed[2].prompts[0].tokens[0] = 77;
  EXPECT_NE(message(changed).find("rank 2 has other prompts than rank 0"), std::string::npos);
  changed = packs;
  changed[3].layout.seed = 1;
  EXPECT_NE(message(changed).find("rank 3 has sketches of another layout or seed"), std::string::npos);
  changed = packs;
  changed[1].taps[2].part.first_feature += 2;
  EXPECT_NE(message(changed).find("layers.1: columns 37 to 38 are on no rank"), std::string::npos) << message(changed);
  changed = packs;
  changed[1].taps[2].part.part = 0;
  EXPECT_NE(message(changed).find("part 1 of 4 is on no rank"), std::string::npos) << message(changed);
  auto rows = shard(2, {}, by_rows);
  rows[1].prompts[0].taps[0].part_rows[0] = 0;
  EXPECT_NE(message(rows).find("row 0 is on rank 0 and on rank 1"), std::string::npos) << message(rows);
  EXPECT_EQ(compare(packs[0], packs[0]).code(), StatusCode::kInvalidArgument) << "join first";
}

TEST(Join, LogitsAsTermsWantTheirRows) {
  const auto sums = [](size_t tap, int64_t rank, int64_t ranks, Value& value, std::vector<int32_t>&) {
    if (tap != 3) return true;
    for (float& x : value.rows) x /= static_cast<float>(ranks);
    value.info.part.split = Split::kSum;
    value.info.part.part = rank;
    value.info.part.parts = ranks;
    return true;
  };
  EXPECT_EQ(join_ranks(shard(2, {}, sums)).code(), StatusCode::kInvalidArgument);
  const auto joined = join_ranks(shard(2, {"logits"}, sums)).value();
  EXPECT_EQ(joined.pack.prompts[0].top_ids, record(whole_values(), {"logits"}).prompts[0].top_ids);
}

}  // namespace
}  // namespace firstlight::align
