// SPDX-License-Identifier: Apache-2.0
// Rotary tables (std/rope.lua) against values worked out by hand from the formulas, and its refusals. The goldens check
// the rest against the reference code.
#include <gtest/gtest.h>

#include <cmath>

#include "intake/test/spec_fixture.h"

namespace firstlight::intake {
namespace {

// The rope node of a spec that turns a head of 8 columns by this config.
Result<ops::Attributes> rope_of(const std::string& keys, const std::string& options = "dim = 8") {
  const std::string body = "local r = require('std.rope').from_config(c, { " + options + " })\n" +
                           "x = reshape(rope(reshape(linear(x, w('u', { 8, 4 })), 'O', 1, 8), w2, r), 'O', 8)\n" +
                           "x = linear(x, w('d', { 4, 8 }))";
  std::string spec = spec_around(body);
  // positions of output rows do not exist: tokens stand in for them.
  spec.replace(spec.find("batch.output_rows"), 17, "batch.tokens");
  spec.replace(spec.find("local y ="), 9, "x = gather_rows(x, batch.output_rows) local y =");
  for (size_t at; (at = spec.find("'O'")) != std::string::npos;) spec.replace(at, 3, "'T'");
  spec.replace(spec.find("w2"), 2, "batch.positions");
  SpecRun run{.spec = spec, .config = R"({"model_type": "t", )" + keys + "}"};
  const Trace trace = FL_TRY(run.run());
  for (const ir::Node& node : trace.graph.nodes) {
    if (node.op == ops::OpKind::kRope) return node.attributes;
  }
  return not_found("no rope");
}

std::vector<double> freqs_of(const std::string& keys, const std::string& options = "dim = 8") {
  const auto attributes = rope_of(keys, options);
  EXPECT_TRUE(attributes.ok()) << attributes.status().to_string();
  return attributes.ok() ? attributes->get_floats("freqs") : std::vector<double>(8, 0.0);
}

TEST(Rope, BothSpellingsAreEqual) {
  const auto plain = freqs_of(R"("rope_theta": 10000)");
  EXPECT_EQ(plain, freqs_of(R"("rope_parameters": {"rope_theta": 1e4, "rope_type": "default"})"));
  EXPECT_EQ(plain, freqs_of(R"("rope_theta": 1e4, "rope_scaling": null)"));
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(plain[static_cast<size_t>(i)], std::pow(10.0, -i), 1e-15);
}

TEST(Rope, ContradictionAndAbsenceAreErrors) {
  EXPECT_FALSE(rope_of(R"("rope_theta": 1e4, "rope_parameters": {"rope_theta": 2e4})").ok());
  EXPECT_FALSE(
      rope_of(R"("rope_scaling": {"type": "linear", "rope_type": "yarn", "factor": 2.0}, "rope_theta": 1e4)").ok());
  EXPECT_NE(rope_of(R"("x": 1)").status().message().find("rope_theta is missing"), std::string::npos);
  EXPECT_EQ(rope_of(R"("rope_theta": 1e4, "rope_scaling": {"type": "spiral"})").code(), StatusCode::kUnsupported);
  EXPECT_FALSE(rope_of(R"("rope_theta": 1e4, "rope_scaling": {"type": "linear"})").ok());
}

TEST(Rope, LinearDividesAndPartialShortens) {
  EXPECT_NEAR(freqs_of(R"("rope_theta": 1e4, "rope_scaling": {"type": "linear", "factor": 4})")[1], 0.025, 1e-15);
  const auto partial = rope_of(R"("rope_theta": 1e4, "partial_rotary_factor": 0.5)");
  ASSERT_TRUE(partial.ok()) << partial.status().to_string();
  EXPECT_EQ(partial->get_int("length"), 4);
  EXPECT_NEAR(partial->get_floats("freqs")[1], 0.01, 1e-15);
  const std::string within = R"("rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.5})";
  EXPECT_EQ(rope_of(within + R"(, "partial_rotary_factor": 0.5)").value().get_int("length"), 4);
  EXPECT_NE(rope_of(within + R"(, "partial_rotary_factor": 0.25)").status().message().find("contradict: 0.25 and 0.5"),
            std::string::npos);
  const auto proportional =
      freqs_of(R"("rope_parameters": {"rope_theta": 1e4, "rope_type": "proportional", "partial_rotary_factor": 0.5})");
  EXPECT_EQ(proportional.size(), 4u);
  EXPECT_NEAR(proportional[1], 0.1, 1e-15);
  EXPECT_EQ(proportional[2], 0.0);
}

TEST(Rope, Llama3KeepsBlendsAndDivides) {
  // Turns over 64 positions: 10.2, 1.02, 0.102, 0.0102; low 1, high 4.
  const auto freqs =
      freqs_of(R"("rope_theta": 1e4, "rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1,
                                 "high_freq_factor": 4, "original_max_position_embeddings": 64})");
  EXPECT_NEAR(freqs[0], 1.0, 1e-15);
  const double smooth = (64 * 0.1 / (2 * M_PI) - 1) / 3;
  EXPECT_NEAR(freqs[1], (1 - smooth) * 0.1 / 8 + smooth * 0.1, 1e-15);
  EXPECT_NEAR(freqs[2], 0.01 / 8, 1e-15);
}

TEST(Rope, YarnScales) {
  const std::string yarn =
      R"("rope_theta": 1e4, "rope_scaling": {"type": "yarn", "factor": 4, "original_max_position_embeddings": 64)";
  EXPECT_NEAR(rope_of(yarn + "}")->get_float("scale"), 0.1 * std::log(4.0) + 1, 1e-15);
  EXPECT_NEAR(rope_of(yarn + R"(, "attention_factor": 1.5})")->get_float("scale"), 1.5, 1e-15);
  EXPECT_NEAR(rope_of(yarn + R"(, "mscale": 0.5, "mscale_all_dim": 1.5})")->get_float("scale"),
              (0.05 * std::log(4.0) + 1) / (0.15 * std::log(4.0) + 1), 1e-15);
  // Beyond the ramp every frequency is divided, before it none is.
  const auto freqs = rope_of(yarn + "}")->get_floats("freqs");
  EXPECT_NEAR(freqs[3], 0.001 / 4, 1e-15);
}

TEST(Rope, AbsurdNumbersAreRefused) {
  for (const char* keys : {R"("rope_theta": 0)", R"("rope_theta": -1e4)",
                           R"("rope_theta": 1e4, "rope_scaling": {"type": "linear", "factor": 0})",
                           R"("rope_theta": 1e4, "rope_scaling": {"type": "linear", "factor": -2})",
                           R"("rope_theta": 1e4, "rope_scaling": {"type": "yarn", "factor": 0,
                              "original_max_position_embeddings": 64})"}) {
    EXPECT_FALSE(rope_of(keys).ok()) << keys;
  }
}

TEST(Rope, DynamicAndLongSetsAreLeftToTheRun) {
  const auto dynamic =
      rope_of(R"("rope_theta": 1e4, "max_position_embeddings": 32, "rope_scaling": {"type": "dynamic", "factor": 2})");
  ASSERT_TRUE(dynamic.ok());
  EXPECT_EQ(dynamic->get_float("dynamic_base"), 1e4);
  EXPECT_EQ(dynamic->get_float("dynamic_max"), 32);
  const auto sets =
      rope_of(R"("rope_theta": 1e4, "max_position_embeddings": 64, "rope_scaling": {"rope_type": "longrope",
      "original_max_position_embeddings": 16, "short_factor": [1, 1, 1, 1], "long_factor": [1, 2, 4, 8]})");
  ASSERT_TRUE(sets.ok()) << sets.status().to_string();
  EXPECT_EQ(sets->get_int("switch_length"), 16);
  EXPECT_NEAR(sets->get_floats("long_freqs")[3], 0.001 / 8, 1e-15);
  EXPECT_NEAR(sets->get_float("scale"), std::sqrt(1 + std::log(4.0) / std::log(16.0)), 1e-15);
}

}  // namespace
}  // namespace firstlight::intake
