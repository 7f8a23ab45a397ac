// SPDX-License-Identifier: Apache-2.0
#include "align/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "align/pack_builder.h"
#include "base/json.h"

namespace firstlight::align {
namespace {

constexpr int64_t kTokens = 40, kWidth = 200, kVocab = 50;

// A pack of three values; `change` may alter each element before it is recorded.
using Change = std::function<float(size_t tap, int64_t row, int64_t column, float value)>;
Pack pack_of(const Change& change, const std::string& backend = "reference", const char* rounding = "3e-08") {
  Pack pack;
  pack.origin = {{"kind", "firstlight"}, {"backend", backend}, {"rounding", rounding}};
  pack.weights_hash = pack.spec_hash = "1";
  pack.taps = {{.name = "a", .layer = "a", .op = "linear", .is_layer_output = true, .width = kWidth},
               {.name = "b", .layer = "b", .op = "map", .is_layer_output = true, .width = kWidth},
               {.name = "logits", .layer = "head", .op = "linear", .is_layer_output = true, .width = kVocab}};
  pack.prompts.emplace_back();
  pack.prompts[0].tokens.resize(kTokens, 5);
  constexpr int64_t kLimit = 60'000;  // room for the sketches and the ends, not for whole values
  auto builder = PackBuilder::create(std::move(pack), {}, kLimit).value();
  for (size_t t = 0; t < builder.pack().taps.size(); ++t) {
    std::mt19937 random(static_cast<unsigned>(t));
    std::normal_distribution<float> normal;
    const int64_t width = builder.pack().taps[t].width;
    std::vector<float> rows(static_cast<size_t>(kTokens * width));
    for (int64_t i = 0; i < kTokens * width; ++i) {
      const float value = 3 * normal(random);
      rows[static_cast<size_t>(i)] = change ? change(t, i / width, i % width, value) : value;
    }
    const auto type = tensor::Type::tensor(tensor::DType::kF32, {tensor::Dim(kTokens), tensor::Dim(width)});
    builder.add(t, 0, 0, tensor::make_view(rows.data(), type));
  }
  return std::move(builder).finish();
}

// Noise of that relative size, on values from tap `from` on.
Change noise(double size, size_t from, unsigned seed) {
  auto random = std::make_shared<std::mt19937>(seed);
  return [=](size_t tap, int64_t, int64_t, float value) {
    std::normal_distribution<double> normal;
    return tap < from ? value : value + static_cast<float>(3 * size * normal(*random));
  };
}

TEST(Compare, EqualPacksAreEqual) {
  const auto comparison = compare(pack_of({}), pack_of({}, "cpu")).value();
  EXPECT_TRUE(comparison.passed);
  EXPECT_EQ(comparison.values[0].found.rel_l2, 0);
  EXPECT_EQ(comparison.values[0].found.ulps[0], 2 * kWidth);
  EXPECT_EQ(comparison.logits.top1, 1);
  EXPECT_LT(comparison.logits.kl_bound, 1e-6);
  EXPECT_TRUE(comparison.sights.at("kernels").sees);
  EXPECT_FALSE(comparison.sights.at("spec").sees);
}

TEST(Compare, MeasuresFromTheSketchAlone) {
  const auto comparison = compare(pack_of({}), pack_of(noise(1e-3, 1, 5))).value();
  EXPECT_FALSE(comparison.passed);
  EXPECT_EQ(comparison.first_wrong, 1);
  const Distance& found = comparison.values[1].found;
  EXPECT_TRUE(found.estimated);
  EXPECT_NEAR(found.rel_l2, 1e-3, 2e-4);
  EXPECT_NEAR(found.cosine, 1 - 5e-7, 2e-7);
  EXPECT_GT(found.max_abs, 3e-3);
  EXPECT_FALSE(compare(pack_of({}), pack_of({})).value().sights.at("kernels").sees) << "the same backend";
}

TEST(Compare, HonestRoundingIsToldFromAFault) {
  const Pack reference = pack_of({});
  const Pack rounded = pack_of(noise(1e-3, 0, 1));
  const Pack honest = pack_of(noise(1e-3, 0, 2), "cpu", "1.6e-3");
  EXPECT_TRUE(compare(reference, honest, &rounded).value().passed);
  const Pack faulty = pack_of(noise(5e-3, 1, 3), "cpu", "1.6e-3");
  EXPECT_TRUE(compare(reference, faulty).value().passed) << "two ways see no more than a bound";
  const auto three = compare(reference, faulty, &rounded).value();
  EXPECT_FALSE(three.passed);
  EXPECT_EQ(three.first_wrong, 1);
}

// A fault that the rounded reference has too, because it is in the spec or the weights of both, is not its rounding.
TEST(Compare, WhatIsWrongInBothIsNotRounding) {
  const Pack vendor = pack_of({});
  const auto of_another_spec = [](Pack pack) {
    pack.spec_hash = "another";
    return pack;
  };
  const auto faulty = [](double rounding, unsigned seed) -> Change {
    return [rounds = noise(rounding, 0, seed)](size_t tap, int64_t row, int64_t column, float value) {
      return rounds(tap, row, column, 1.2f * value);
    };
  };
  const Pack exact = of_another_spec(pack_of(faulty(0, 1)));
  const Pack rounded = of_another_spec(pack_of(faulty(1e-3, 1)));
  const Pack tested = of_another_spec(pack_of(faulty(1e-3, 2), "cpu", "1.6e-3"));
  EXPECT_EQ(compare(vendor, tested, &rounded).status().code(), StatusCode::kInvalidArgument);
  const auto found = compare(vendor, tested, &rounded, &exact).value();
  EXPECT_EQ(found.first_wrong, 0);
  EXPECT_LT(found.values[0].rounding->rel_l2, 1e-2);
  EXPECT_TRUE(compare(exact, tested, &rounded).value().passed);
}

TEST(Compare, NamesTheWorstRow) {
  const auto tail = [](size_t tap, int64_t row, int64_t, float value) {
    return tap == 0 && row == kTokens - 1 ? 1.1f * value : value;
  };
  const auto comparison = compare(pack_of({}), pack_of(tail)).value();
  EXPECT_EQ(comparison.values[0].found.worst_row_id, kTokens - 1);
  EXPECT_NEAR(comparison.values[0].found.worst_row, 0.1, 0.04);
}

TEST(Compare, ValuesThatAreNotFiniteAreWrong) {
  const auto wild = [](size_t tap, int64_t row, int64_t column, float value) {
    return tap == 1 && row == 3 && column == 7 ? std::numeric_limits<float>::quiet_NaN() : value;
  };
  const auto comparison = compare(pack_of({}), pack_of(wild)).value();
  EXPECT_EQ(comparison.first_wrong, 1);
}

TEST(Compare, LogitsThatTurnAreCounted) {
  const auto turned = [](size_t tap, int64_t row, int64_t column, float value) {
    return tap == 2 && row < kTokens / 2 && column == 0 ? 100.0f : value;
  };
  const auto comparison = compare(pack_of({}), pack_of(turned)).value();
  EXPECT_NEAR(comparison.logits.top1, 0.5, 0.05);
  EXPECT_GT(comparison.logits.kl_bound, 1);
  EXPECT_LT(comparison.logits.kl_worst, 1e-6) << "the last row is whole, and right";
}

TEST(Compare, PacksOfOtherPromptsAreRefused) {
  Pack other = pack_of({});
  other.prompts[0].tokens[0] = 6;
  EXPECT_EQ(compare(pack_of({}), other).code(), StatusCode::kInvalidArgument);
}

TEST(Compare, ValuesOfOtherShapesAreNamed) {
  Pack other = pack_of({});
  other.taps[1].width = 100;
  const auto comparison = compare(pack_of({}), other).value();
  ASSERT_EQ(comparison.other_shapes.size(), 1u);
  EXPECT_EQ(comparison.other_shapes[0], "b: 100 numbers per row, 200 in the baseline");
  EXPECT_EQ(comparison.values.size(), 2u);
}

// A router's choice in front of a value: `turned` rows choose otherwise and have another value behind it.
Pack routed(int64_t turned, const char* rounding) {
  Pack pack;
  pack.origin = {{"kind", "firstlight"}, {"backend", "cpu"}, {"rounding", rounding}};
  pack.taps = {{.name = "choice", .layer = "a", .op = "top_k", .is_integer = true, .width = 2},
               {.name = "experts", .layer = "a", .op = "per_expert", .is_layer_output = true, .width = 64}};
  pack.prompts.emplace_back();
  pack.prompts[0].tokens.resize(kTokens, 5);
  auto builder = PackBuilder::create(std::move(pack), {}, size_limit(0)).value();
  std::vector<int32_t> choices;
  std::vector<float> values;
  for (int64_t row = 0; row < kTokens; ++row) {
    const bool other = row < turned;
    choices.insert(choices.end(), {other ? 3 : 1, 2});
    for (int64_t i = 0; i < 64; ++i)
      values.push_back(static_cast<float>(std::sin(static_cast<double>(row * 64 + i))) + (other ? 5.0f : 0.0f));
  }
  const auto type = [](tensor::DType dtype, int64_t width) {
    return tensor::Type::tensor(dtype, {tensor::Dim(kTokens), tensor::Dim(width)});
  };
  builder.add(0, 0, 0, tensor::make_view(choices.data(), type(tensor::DType::kI32, 2)));
  builder.add(1, 0, 0, tensor::make_view(values.data(), type(tensor::DType::kF32, 64)));
  return std::move(builder).finish();
}

TEST(Compare, RoutingThatRoundingTurnsLeavesItsRowsOut) {
  const Pack baseline = routed(0, "3e-08");
  const auto few = compare(baseline, routed(1, "1.6e-3")).value();
  EXPECT_TRUE(few.passed) << "one row of forty, in bf16";
  EXPECT_EQ(few.rows_left_out, 1);
  EXPECT_EQ(few.values[1].found.rel_l2, 0);
  EXPECT_EQ(compare(baseline, routed(1, "3e-08")).value().first_wrong, 0) << "in float32 none may turn";
  EXPECT_EQ(compare(baseline, routed(20, "1.6e-3")).value().first_wrong, 0);
}

TEST(Compare, ReportsSayWhatWasFound) {
  const Pack reference = pack_of({}), tested = pack_of(noise(1e-3, 1, 5), "<cpu>");
  const auto comparison = compare(reference, tested).value();
  const Json json = comparison_json(comparison);
  EXPECT_EQ(json["first_wrong"]["name"], "b");
  EXPECT_EQ(json["layers"].size(), 3u);
  EXPECT_NE(comparison_text(comparison, false).find("first wrong: b"), std::string::npos);
  const std::string html = comparison_html(comparison, reference, tested);
  const Pack rounded = pack_of(noise(1e-3, 0, 1));
  const auto polylines = [&](const Comparison& drawn) {
    const std::string page = comparison_html(drawn, reference, tested);
    size_t count = 0;
    for (size_t at = page.find("<polyline"); at != std::string::npos; at = page.find("<polyline", at + 1)) ++count;
    return count;
  };
  EXPECT_EQ(polylines(comparison), 2u) << "distance and what is allowed";
  EXPECT_EQ(polylines(compare(reference, tested, &rounded).value()), 3u) << "and what rounding does not explain";
  EXPECT_NE(html.find("<svg"), std::string::npos);
  EXPECT_NE(html.find("&lt;cpu&gt;"), std::string::npos);
  EXPECT_EQ(html.find("http"), std::string::npos) << "nothing from outside";
}

TEST(Compare, UlpsCountRepresentableNumbers) {
  EXPECT_EQ(ulp_bin(1.0f, 1.0f), 0u);
  EXPECT_EQ(ulp_bin(0.0f, -0.0f), 0u);
  EXPECT_EQ(ulp_bin(1.0f, std::nextafter(1.0f, 2.0f)), 1u);
  EXPECT_EQ(ulp_bin(-1e-45f, 1e-45f), 2u) << "two apart, across zero";
  EXPECT_EQ(ulp_bin(1.0f, INFINITY), kUlpBins - 1);
}

}  // namespace
}  // namespace firstlight::align
