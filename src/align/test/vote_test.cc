// SPDX-License-Identifier: Apache-2.0
#include "align/vote.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "align/pack_builder.h"
#include "base/json.h"

namespace firstlight::align {
namespace {

constexpr int64_t kTokens = 24, kWidth = 96, kVocab = 40;
constexpr size_t kLayers = 4;

struct Making {
  double noise = 0;  // relative, on every value: honest rounding
  double fault = 0;  // relative, on every value from `from` on
  size_t from = SIZE_MAX;
  double second = 0;  // added from `second_from` on
  size_t second_from = SIZE_MAX;
  unsigned seed = 1;
  unsigned fault_seed = 99;
  const char* rounding = "3e-08";
  std::vector<size_t> taps;  // those recorded; empty: all
  uint64_t sketch_seed = PackLayout{}.seed;
  int32_t first_token = 5;
  float wild = 0;  // put into value 2 where it is not 0
};

std::string layer_name(size_t i) { return i == kLayers ? "logits" : "layers." + std::to_string(i); }

Voter voter(const std::string& name, const Making& making) {
  Pack pack;
  pack.origin = {{"kind", name}, {"rounding", making.rounding}};
  pack.layout.seed = making.sketch_seed;
  std::vector<size_t> taps = making.taps;
  for (size_t t = 0; making.taps.empty() && t <= kLayers; ++t) taps.push_back(t);
  for (const size_t t : taps) {
    pack.taps.push_back({.name = layer_name(t),
                         .layer = t == kLayers ? "head" : layer_name(t),
                         .op = "map",
                         .is_layer_output = true,
                         .width = t == kLayers ? kVocab : kWidth});
  }
  pack.prompts.emplace_back();
  pack.prompts[0].tokens.resize(kTokens, 7);
  pack.prompts[0].tokens[0] = making.first_token;
  auto builder = PackBuilder::create(std::move(pack), {}, size_limit(0)).value();
  for (size_t i = 0; i < taps.size(); ++i) {
    const size_t t = taps[i];
    std::mt19937 values(static_cast<unsigned>(t)), noise(making.seed * 100 + static_cast<unsigned>(t)),
        fault(making.fault_seed * 1000 + static_cast<unsigned>(t)), second(7777 + static_cast<unsigned>(t));
    std::normal_distribution<double> of_values, of_noise, of_fault, of_second;  // each keeps a number for the next call
    const int64_t width = t == kLayers ? kVocab : kWidth;
    std::vector<float> rows;
    for (int64_t k = 0; k < kTokens * width; ++k) {
      double value = of_values(values);
      value += making.noise * of_noise(noise);
      if (t >= making.from) value += making.fault * of_fault(fault);
      if (t >= making.second_from) value += making.second * of_second(second);
      rows.push_back(static_cast<float>(value));
    }
    if (making.wild != 0 && t == 2) rows[3] = making.wild;
    const auto type = tensor::Type::tensor(tensor::DType::kF32, {tensor::Dim(kTokens), tensor::Dim(width)});
    builder.add(i, 0, 0, tensor::make_view(rows.data(), type));
  }
  return {.name = name, .pack = std::move(builder).finish()};
}

constexpr const char* kBf16 = "2e-3";

std::vector<Voter> healthy() {
  return {voter("ours", {}), voter("library", {.noise = 1e-6, .seed = 2}),
          voter("bf16", {.noise = 3e-3, .seed = 3, .rounding = kBf16}),
          voter("engine", {.noise = 4e-3, .seed = 4, .rounding = kBf16, .taps = {kLayers}})};
}

TEST(Vote, RoundingIsNoDisagreement) {
  const auto result = vote(healthy()).value();
  EXPECT_TRUE(result.agreed());
  EXPECT_EQ(result.values.size(), kLayers + 1);
  EXPECT_EQ(result.values[0].group.size(), 3u);
  EXPECT_EQ(result.values[kLayers].group.size(), 4u);
  EXPECT_EQ(result.logits.size(), 6u);
  EXPECT_LT(result.values[0].pair(0, 1)->allowed, 1e-4);
  EXPECT_GT(result.values[0].pair(0, 2)->allowed, 1e-2);
  EXPECT_NE(vote_text(result, false).find("all voters agree"), std::string::npos);
}

TEST(Vote, NamesTheOutlierAndWhereItLeaves) {
  auto voters = healthy();
  voters[1] = voter("library", {.noise = 1e-6, .fault = 0.1, .from = 2, .seed = 2});
  const auto result = vote(voters).value();
  ASSERT_EQ(result.outliers.size(), 1u);
  const Outlier& outlier = result.outliers[0];
  EXPECT_EQ(outlier.voter, 1u);
  EXPECT_EQ(result.values[outlier.first].info.name, "layers.2");
  EXPECT_EQ(outlier.last_agreed, 1u);
  EXPECT_NEAR(outlier.distance, 0.1, 0.03);
  EXPECT_EQ(outlier.later.size(), 2u);
  EXPECT_TRUE(outlier.only_inherits());
  EXPECT_FALSE(result.agreed());
  const std::string text = vote_text(result, false);
  EXPECT_NE(text.find("library is the outlier from layers.2"), std::string::npos) << text;
  EXPECT_NE(text.find("2 later results (layers and logits) only inherit it"), std::string::npos) << text;
}

TEST(Vote, ASecondFaultIsNotInherited) {
  const std::vector<Voter> voters = {voter("ours", {.fault = 1e-3, .from = 0, .second = 0.3, .second_from = 2}),
                                     voter("library", {.noise = 1e-6, .seed = 2}), voter("other", {}),
                                     voter("third", {.noise = 1e-6, .seed = 9})};
  const auto sharp = vote(voters).value();
  ASSERT_EQ(sharp.outliers.size(), 1u);
  EXPECT_EQ(sharp.outliers[0].first, 0u);
  EXPECT_FALSE(sharp.outliers[0].only_inherits());
  EXPECT_FALSE(sharp.outliers[0].later[1].inherits) << "layers.2";
  EXPECT_TRUE(sharp.outliers[0].later[2].inherits);
}

TEST(Vote, OutliersThatAgreeShareTheFault) {
  std::vector<Voter> voters = {voter("a", {}), voter("b", {.noise = 1e-6, .seed = 2}),
                               voter("c", {.noise = 1e-6, .seed = 3}),
                               voter("d", {.noise = 1e-6, .fault = 0.2, .from = 1, .seed = 4}),
                               voter("e", {.noise = 1e-6, .fault = 0.2, .from = 1, .seed = 5})};
  auto result = vote(voters).value();
  ASSERT_EQ(result.outliers.size(), 2u);
  EXPECT_EQ(result.outliers[0].together, std::vector<size_t>{4});
  voters[4] = voter("e", {.noise = 1e-6, .fault = 0.2, .from = 1, .seed = 5, .fault_seed = 55});
  result = vote(voters).value();
  ASSERT_EQ(result.outliers.size(), 2u);
  EXPECT_TRUE(result.outliers[0].together.empty());
}

TEST(Vote, TwoVotersAreNoMajority) {
  const std::vector<Voter> apart = {voter("a", {}), voter("b", {.fault = 0.1, .from = 2})};
  const auto result = vote(apart).value();
  EXPECT_TRUE(result.outliers.empty());
  EXPECT_EQ(result.first_open, 2u);
  EXPECT_NE(vote_text(result, false).find("of two voters neither is a majority"), std::string::npos);
  EXPECT_TRUE(vote({apart[0], voter("b", {.noise = 1e-6, .seed = 8})}).value().agreed());
}

TEST(Vote, ACoarseVoterDoesNotDecide) {
  const auto result = vote({voter("a", {}), voter("b", {.fault = 1e-3, .from = 1}),
                            voter("coarse", {.noise = 3e-3, .seed = 3, .rounding = kBf16})})
                          .value();
  EXPECT_TRUE(result.outliers.empty());
  EXPECT_EQ(result.first_open, 1u);
  EXPECT_NE(vote_text(result, false).find("coarse rounds too much"), std::string::npos) << vote_text(result, false);
}

TEST(Vote, AListOfLogitsIsNotToldWhereItsFaultBegins) {
  auto voters = healthy();
  voters[3] = voter("engine", {.fault = 0.5, .from = kLayers, .rounding = kBf16, .taps = {kLayers}});
  const auto result = vote(voters).value();
  ASSERT_EQ(result.outliers.size(), 1u);
  EXPECT_EQ(result.outliers[0].voter, 3u);
  EXPECT_FALSE(result.outliers[0].last_agreed.has_value());
  EXPECT_NE(vote_text(result, false).find("where the fault begins is not told"), std::string::npos);
}

TEST(Vote, ValuesThatAreNotFiniteAreOutside) {
  auto voters = healthy();
  voters[2] =
      voter("bf16", {.noise = 3e-3, .seed = 3, .rounding = kBf16, .wild = std::numeric_limits<float>::infinity()});
  const auto result = vote(voters).value();
  ASSERT_EQ(result.outliers.size(), 1u);
  EXPECT_EQ(result.outliers[0].voter, 2u);
  EXPECT_EQ(result.values[result.outliers[0].first].info.name, "layers.2");
  EXPECT_NE(vote_text(result, false).find("not finite"), std::string::npos);
}

TEST(Vote, SketchesOfAnotherSeedLeaveTheWholeRows) {
  Voter other = voter("c", {.fault = 0.1, .from = 2, .sketch_seed = 4711});
  for (size_t t = 0; t < other.pack.taps.size(); ++t) {  // of which it kept one
    TapRecord& record = other.pack.prompts[0].taps[t];
    record.row_ids.resize(1);
    record.rows.resize(static_cast<size_t>(other.pack.taps[t].width));
  }
  const auto result = vote({voter("a", {}), voter("b", {.noise = 1e-6, .seed = 2}), other}).value();
  ASSERT_EQ(result.outliers.size(), 1u);
  EXPECT_EQ(result.outliers[0].voter, 2u);
  EXPECT_EQ(result.outliers[0].first, 2u);
  EXPECT_EQ(result.values[2].pair(0, 2)->found.rows, 1);
  EXPECT_GT(result.values[2].pair(0, 1)->found.rows, 1);
}

TEST(Vote, ValuesThatSomeLackAreVotedOnByTheOthers) {
  const auto result =
      vote({voter("a", {}), voter("b", {.taps = {0, 2, kLayers}}), voter("c", {.taps = {1, 2, 3, kLayers}})}).value();
  ASSERT_EQ(result.values.size(), kLayers + 1);
  EXPECT_EQ(result.values[1].voters, (std::vector<size_t>{0, 2}));
  EXPECT_EQ(vote({voter("a", {.taps = {0, 1}}), voter("b", {.taps = {0}})}).value().not_voted, 1);
}

TEST(Vote, OtherShapesAreNamed) {
  auto voters = healthy();
  voters[1].pack.taps[1].width = 64;
  const auto result = vote(voters).value();
  EXPECT_TRUE(result.agreed());
  EXPECT_NE(vote_text(result, false).find("layers.1, 64 numbers per row, others have 96"), std::string::npos);
}

TEST(Vote, WhatCanNotVoteIsRefusedByName) {
  const auto message = [](const std::vector<Voter>& voters) {
    const auto result = vote(voters);
    EXPECT_EQ(result.code(), StatusCode::kInvalidArgument);
    return result.ok() ? "" : result.status().message();
  };
  const Voter a = voter("a", {}), b = voter("b", {});
  EXPECT_NE(message({a}).find("1 recordings"), std::string::npos);
  EXPECT_NE(message({a, b, a}).find("two voters are called a"), std::string::npos);
  EXPECT_NE(message({a, b, voter("late", {.first_token = 6})}).find("late has none of the prompts"), std::string::npos);
  EXPECT_NE(message({voter("x", {.taps = {0}}), voter("y", {.taps = {0}}), voter("z", {.taps = {1}})})
                .find("z has no value in common"),
            std::string::npos);
}

TEST(Vote, ReportsSayTheSame) {
  auto voters = healthy();
  voters[1] = voter("<library>", {.noise = 1e-6, .fault = 0.1, .from = 2, .seed = 2});
  const auto result = vote(voters).value();
  const Json json = vote_json(result);
  EXPECT_EQ(json["outliers"][0]["voter"], "<library>");
  EXPECT_EQ(json["outliers"][0]["first"]["name"], "layers.2");
  EXPECT_TRUE(json["outliers"][0]["only_inherits"].get<bool>());
  EXPECT_EQ(json["values"][2]["verdict"], "majority");
  const std::string html = vote_html(result);
  EXPECT_NE(html.find("&lt;library&gt; is the outlier"), std::string::npos);
  EXPECT_NE(html.find("<polyline"), std::string::npos);
  EXPECT_EQ(html.find("http"), std::string::npos) << "nothing from outside";
}

}  // namespace
}  // namespace firstlight::align
