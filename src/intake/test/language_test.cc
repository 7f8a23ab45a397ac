// SPDX-License-Identifier: Apache-2.0
// The builtins of the language: operators, attention and state, experts and control flow, scopes and stacks of weights.
#include <gtest/gtest.h>

#include "intake/spec_store.h"
#include "intake/test/spec_fixture.h"
#include "ir/text.h"
#include "ir/verify.h"

namespace firstlight::intake {
namespace {

std::string text_of(const std::string& body) {
  const auto trace = SpecRun{.spec = spec_around(body)}.run();
  if (!trace.ok()) return trace.status().to_string();
  const Status legal = ir::verify(trace->graph);
  return legal.ok() ? ir::print(trace->graph) : legal.to_string();
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Operators, TakeOperandsThenAttributes) {
  EXPECT_TRUE(has(text_of("x = rms_norm(x, w('n', { 4 }), { eps = 0.5, offset = 1 })"), "eps = 0.5"));
  EXPECT_TRUE(has(text_of("x = x + softmax(x)"), "softmax"));
  EXPECT_TRUE(has(text_of("local v, i = top_k(x, { k = 4 }) x = x + gather_last(x, i) * v"), "gather_last"));
  EXPECT_TRUE(has(text_of("x = reshape(transpose(reshape(x, 'O', 2, 2), 0, 2, 1), 'O', 4)"), "perm = [0, 2, 1]"));
  EXPECT_TRUE(has(text_of("x = concat(slice(x, { axis = 1, start = 2, stop = 4 }), slice(x, { axis = 1, start = 0, "
                          "stop = 2 }), { axis = 1 })"),
                  "concat"));
  EXPECT_TRUE(has(text_of("local r = x x = -(r * 2 + 1) / r ^ 2 - r"), "map"));
}

TEST(Operators, MistakesNameTheThing) {
  EXPECT_TRUE(has(failure_of("x = rms_norm(x, { epsilon = 1 })"), "no attribute 'epsilon'"));
  EXPECT_TRUE(has(failure_of("x = rms_norm(x, { eps = 'a' })"), "wanted a number"));
  EXPECT_TRUE(has(failure_of("x = linear(x, 3)"), "operand 2 is 3, wanted a graph value"));
  EXPECT_TRUE(has(failure_of("x = linear(x, w('u', { 3, 5 }))"), "test.lua:6: linear"));
  EXPECT_TRUE(has(failure_of("x = x + 'a'"), "arithmetic on \"a\""));
  EXPECT_TRUE(has(failure_of("x = x.shape"), "no field 'shape'"));
  EXPECT_TRUE(has(failure_of("x = x:dim(7)"), "axis 7"));
  EXPECT_TRUE(has(failure_of("w.foo()"), "no method 'foo'"));
  EXPECT_TRUE(has(failure_of("x = w('u')"), "gives no shape"));
  EXPECT_TRUE(has(failure_of("for i = 1, 1e6 do x = x + i end"), "more than"));
}

TEST(Attention, AppendsAndAttends) {
  const std::string text = text_of(
      "local h = gather_rows(w('e', { 8, 4 }), batch.tokens)\n"
      "local q = reshape(h, 'T', 1, 4)\n"
      "local s = batch.state.kv[0]:append { k = q, v = q }\n"
      "local y = attend { q = q, state = s, scale = 0.5, window = 3, sinks = w('s', { 1 }),\n"
      "  score = function(s, qpos, kpos, head) return 5 * tanh(s / 5) - 0.5 * (qpos - kpos) end }\n"
      "x = x + gather_rows(reshape(y, 'T', 4), batch.output_rows)");
  EXPECT_TRUE(has(text, "state kv.0")) << text;
  EXPECT_TRUE(has(text, "append $kv.0")) << text;
  EXPECT_TRUE(has(text, "window = 3")) << text;
  EXPECT_TRUE(has(text, "tanh(div(x0, 5.0))")) << text;
  EXPECT_TRUE(has(failure_of("batch.state.kv[0]:append { k = x }"), "component 'v' is nil"));
  EXPECT_TRUE(has(failure_of("batch.state.kv[0]:append { k = x, v = x, z = x }"), "no component 'z'"));
  EXPECT_TRUE(has(failure_of("attend { q = x, state = x, scale = 1.0 }"), "wanted a state"));
  EXPECT_TRUE(has(failure_of("batch.state.kv[1]:append { k = x, v = x }"), "test.lua:6"));
}

TEST(Control, RegionsAreFilledOnce) {
  const std::string experts = text_of(
      "local h = gather_rows(w('e', { 8, 4 }), batch.tokens)\n"
      "local weight, idx = top_k(linear(h, w('r', { 3, 4 })), { k = 2 })\n"
      "local y = experts { x = h, idx = idx, weight = weight, num_experts = 3, stacked = { w:stack('u.{}', 3, { 4, 4 "
      "}) },\n"
      "  body = function(rows, u) return linear(rows, u) end }\n"
      "x = x + gather_rows(y, batch.output_rows)");
  EXPECT_TRUE(has(experts, "per_expert")) << experts;
  EXPECT_TRUE(has(experts, "@u.2")) << experts;
  EXPECT_TRUE(has(text_of("x = loop(3, function(a) return a * 0.5 end, x)"), "count = 3"));
  EXPECT_TRUE(has(text_of("x = cond(w('flag', { 1 }) , function(a) return a end, function(a) return -a end, x)"), "if"))
      << "bf16 flag";
  EXPECT_TRUE(has(failure_of("x = loop(2, function(a) error 'inside' end, x)"), "inside"));
  EXPECT_TRUE(has(failure_of("w:stack('u.{}', 1e9, { 4 })"), "wanted"));
}

TEST(SpecStore, ShippedSpecsAreEmbeddedAndDirectoriesTakeTheirPlace) {
  const auto embedded = list_specs();
  ASSERT_TRUE(embedded.ok()) << embedded.status().to_string();
  std::set<std::string> types;
  for (const SpecInfo& spec : *embedded) types.insert(spec.model_types.begin(), spec.model_types.end());
  for (const char* type :
       {"llama",          "mistral", "qwen2",   "qwen3",      "qwen3_moe", "gemma3",       "gemma3_text",
        "deepseek_v3",    "kimi_k2", "gpt_oss", "gemma2",     "olmo2",     "olmo3",        "granite",
        "granitemoe",     "smollm3", "phi3",    "exaone4",    "ernie4_5",  "ernie4_5_moe", "hunyuan_v1_dense",
        "hunyuan_v1_moe", "hunyuan", "mixtral", "minimax_m2", "glm4_moe"}) {
    EXPECT_TRUE(types.contains(type)) << type;
  }
  const auto from_tree = list_specs({.architectures_dir = std::string(FL_SOURCE_DIR) + "/architectures"});
  ASSERT_TRUE(from_tree.ok()) << from_tree.status().to_string();
  EXPECT_EQ(from_tree->size(), embedded->size());
  EXPECT_EQ(SpecStore::open("/nonexistent/specs").status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace firstlight::intake
