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

TEST(Operators, NodesKnowTheLinesThatMadeThem) {
  const auto trace = SpecRun{.spec = spec_around("local function twice(y)\n return y + y end\nx = twice(x)")}.run();
  ASSERT_TRUE(trace.ok()) << trace.status().to_string();
  std::string lines;
  for (const ir::Node& node : trace->graph.nodes)
    lines += std::string(ops::op_name(node.op)) + " " + node.made_at + "; ";
  EXPECT_TRUE(has(lines, "map test.lua:7, test.lua:8; linear test.lua:9;")) << lines;
  EXPECT_FALSE(has(ir::print(trace->graph), "test.lua"));
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

// A spec whose states are `states`, with three layers; the body is a forward function's.
SpecRun spec_with_states(const std::string& states, const std::string& body) {
  return {.spec =
              "return architecture {\nmatches = { model_type = { 't' } },\n"
              "parameters = function(c) return { layers = 3 } end,\nstate = function(p) return { " +
              states +
              " } end,\nforward = function(p, w, batch)\n"
              "local x = gather_rows(w('e', { 8, 4 }), batch.tokens)\n" +
              body + "\nreturn { logits = linear(gather_rows(x, batch.output_rows), w('e', { 8, 4 })) } end }\n"};
}

TEST(States, LayersThatOwnOneAndKinds) {
  const auto trace =
      spec_with_states(
          "kv = append { layers = function(i) return i == 1 end, k = { 1, 4 }, v = { 1, 4 } },\n"
          "s = fixed { layers = function(i) return i ~= 1 end, conv = { 2, 4 }, s = { 2, 3, 5 } },\n"
          "ids = history { layers = 1, window = 3 }",
          "for _, i in ipairs { 0, 2 } do x = conv1d { x = x, weight = w('c' .. i, { 4, 3 }), state = "
          "batch.state.s[i] } end\n"
          "local a = recent_tokens(batch.state.ids[0], { count = 3 })\n"
          "x = x + gather_rows(w('f', { 8, 4 }), reshape(slice(a, { axis = 1, start = 1, stop = 2 }), 'T'))\n"
          "local q = reshape(x, 'T', 1, 4)\n"
          "x = x + reshape(attend { q = q, state = batch.state.kv[1]:append { k = q, v = q }, scale = 1.0 }, "
          "'T', 4)")
          .run();
  ASSERT_TRUE(trace.ok()) << trace.status().to_string();
  EXPECT_TRUE(ir::verify(trace->graph).ok()) << ir::verify(trace->graph).to_string();
  const std::string text = ir::print(trace->graph);
  for (const char* line : {"state kv.1 = append",
                           "state s.0 = fixed {owner = \"layer\", rewind = \"snapshot\"} (conv: "
                           "f32[2 x 4], s: f32[6 x 5])",
                           "state s.2 = fixed",
                           "state ids.0 = token_history {owner = \"layer\", rewind = \"truncate\", "
                           "window = 3} (ids: i32[1 x 1])"}) {
    EXPECT_TRUE(has(text, line)) << line << " in\n" << text;
  }
  EXPECT_FALSE(has(text, "state s.1")) << text;
  const auto read = ir::parse(text);
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_EQ(ir::print(*read), text);
}

TEST(States, MistakesNameTheState) {
  const auto failure = [](const std::string& states, const std::string& body = "") {
    return spec_with_states(states, body).failure();
  };
  const std::string some = "s = fixed { layers = function(i) return i == 0 end, s = { 4 } }";
  EXPECT_TRUE(has(failure(some, "shift { x = x, state = batch.state.s[1] }"), "state 's' has no layer 1"));
  EXPECT_TRUE(has(failure("s = fixed { layers = function(i) return i end, s = { 4 } }"), "layers(0): found 0"));
  EXPECT_TRUE(has(failure("s = fixed { s = {} }"), "wanted the sizes of a tensor"));
  EXPECT_TRUE(has(failure("s = fixed { s = { 4, 0 } }"), "wanted the sizes of a tensor"));
  EXPECT_TRUE(has(failure("s = fixed { s = { 3e9, 3e9, 3e9 } }"), "is too large"));
  EXPECT_TRUE(has(failure("s = fixed { window = 3, s = { 4 } }"), "fixed has no window"));
  EXPECT_TRUE(has(failure("s = fixed {}"), "has no components"));
  EXPECT_TRUE(has(failure("s = history {}"), "history wants window"));
  EXPECT_TRUE(has(failure("s = history { window = 3, k = { 1, 4 } }"), "history has no components"));
  EXPECT_TRUE(has(failure("s = { kind = 'ring', k = { 1, 4 } }"), "kind 'ring'"));
}

TEST(Limits, OfSizesAxesAndNumbers) {
  const auto failure = [](const std::string& body) {
    return spec_with_states("s = fixed { layers = 1, s = { 4 } }", body).failure();
  };
  const std::string axes = failure("x = reshape(x, 'T', 1, 1, 1, 1, 1, 4)");
  EXPECT_TRUE(has(axes, "wanted at most 6 axes")) << axes;
  const std::string of_weight = failure("x = x + w('i', { 1, 1, 1, 1, 1, 1, 4 })");
  EXPECT_TRUE(has(of_weight, "7 axes, at most 6 wanted")) << of_weight;
  EXPECT_TRUE(has(failure("x = pad(x, { axis = 1, before = 1 << 40 })"), "attribute before is 1099511627776"));
  EXPECT_TRUE(has(failure("x = pad(x, { axis = 1, before = 1, value = 0 / 0 })"), "attribute value: found NaN"));
  EXPECT_TRUE(has(failure("local i = reshape(w('i', { 4 }), 1, 1, 2, 2)\n"
                          "x = x + interp2d(i, { size = { 1 << 40, 1 << 40 }, mode = 'nearest' })"),
                  "attribute size"));
  EXPECT_TRUE(has(failure("x = loop(1000000, function(y) return y + 1 end, x)"), "attribute count is 1000000"));
}

TEST(Recurrences, TakeTheirOperandsByNameAndMoveTheHandleOn) {
  const auto trace =
      spec_with_states(
          "s = fixed { layers = 1, a = { 2, 4 }, b = { 1, 4 }, s = { 2, 2, 2 }, t = { 2, 2, 2 }, u = { 2, 2, 2 }, h = "
          "{ 4 }, m = { 4, 2 } }",
          "local s = batch.state.s[0]\n"
          "local y = conv1d { x = x, weight = w('c', { 4, 3 }), bias = w('d', { 4 }), state = s, component = 'a' }\n"
          "y = y + shift { x = y, state = s, component = 'b' }\n"
          "local q, g = reshape(y, 'T', 2, 2), slice(y, { axis = 1, start = 0, stop = 2 })\n"
          "local o = recur { form = 'gla', q = q, k = q, v = q, decay = g, bonus = w('u', { 2, 2 }), state = s }\n"
          "o = recur { form = 'delta', q = q, k = q, v = o, decay = g, beta = g, state = s, component = 't' }\n"
          "o = recur { form = 'dplr', r = q, w = q, k = q, v = o, a = q, b = q, state = s, component = 'u' }\n"
          "y = recur { form = 'elementwise', a = y, b = reshape(o, 'T', 4), state = s, component = 'h' }\n"
          "x = recur { form = 'selective', x = y, dt = y, a = w('a', { 4, 2 }), b = g, c = g, state = s, "
          "component = 'm' }")
          .run();
  ASSERT_TRUE(trace.ok()) << trace.status().to_string();
  EXPECT_TRUE(ir::verify(trace->graph).ok());
  const std::string text = ir::print(trace->graph);
  for (const char* op :
       {"conv1d", "shift", "recur_gla", "recur_delta", "recur_dplr", "recur_elementwise", "recur_selective"}) {
    EXPECT_TRUE(has(text, std::string(" = ") + op + " %")) << op << " in\n" << text;
  }
  // Each takes the state that the one before left: the state as the run finds it is read once.
  EXPECT_EQ(text.find("$s.0"), text.rfind("$s.0")) << text;
}

// Else the numbers would depend on how a prompt is cut into pieces.
TEST(Recurrences, AStateIsWrittenOnceAndAlways) {
  const auto failure = [](const std::string& body) {
    return spec_with_states(
               "s = fixed { layers = 1, s = { 4 } }, kv = append { layers = 1, k = { 1, 4 }, v = { 1, 4 } }", body)
        .failure();
  };
  const std::string shift = "x = x + shift { x = x, state = batch.state.s[0], component = 's' }\n";
  EXPECT_EQ(failure(shift), "(it worked)");
  EXPECT_TRUE(has(failure(shift + shift), "shift: state 's.0.s' is written a second time"));
  const std::string append = "batch.state.kv[0]:append { k = reshape(x, 'T', 1, 4), v = reshape(x, 'T', 1, 4) }\n";
  EXPECT_TRUE(has(failure(append + append), "append: state 'kv.0' is written a second time"));
  EXPECT_TRUE(
      has(failure("x = loop(2, function(y) return y + shift { x = y, state = batch.state.s[0], component = 's' } "
                  "end, x)"),
          "written inside cond, loop or experts"));
}

TEST(Recurrences, MistakesNameTheThing) {
  const auto failure = [](const std::string& body) {
    return spec_with_states("s = fixed { layers = 1, s = { 4 } }, ids = history { layers = 1, window = 2 }", body)
        .failure();
  };
  EXPECT_TRUE(has(failure("recur { form = 'lru' }"), "form 'lru', wanted gla, delta"));
  EXPECT_TRUE(has(failure("shift { state = batch.state.s[0], component = 's' }"), "shift, x: found nil"));
  EXPECT_TRUE(has(failure("shift { x = x, component = 's' }"), "shift, state: found nil, wanted a state"));
  EXPECT_TRUE(has(failure("shift { x = x, state = batch.state.s[0], component = 'z' }"), "a component of state 's.0'"));
  EXPECT_TRUE(has(failure("shift { x = x, y = x, state = batch.state.s[0] }"), "no attribute 'y'"));
  EXPECT_TRUE(has(failure("shift { x = gather_rows(x, batch.output_rows), state = batch.state.s[0], component = 's' }"),
                  "f32[O, 4], wanted one row per token"));
  EXPECT_TRUE(has(failure("recent_tokens(batch.state.ids[0], { count = 3 })"), "count is 3, wanted 1 to 2"));
  EXPECT_TRUE(has(failure("recent_tokens(batch.state.s[0], { count = 1 })"), "a token history wanted"));
}

// One layer of attention with a state per line of `body`.
std::string attention_text(const std::string& call) {
  return "local std = require 'std'\n"
         "local h = gather_rows(w('e', { 8, 4 }), batch.tokens)\n"
         "local q = reshape(h, 'T', 1, 4)\n"
         "local s = batch.state.kv[0]:append { k = q, v = q }\n" +
         call + "\nx = x + gather_rows(reshape(y, 'T', 4), batch.output_rows)";
}

TEST(Attention, GroupsFillALogAtARate) {
  const std::string states =
      "kv = append { layers = 1, k = { 1, 4 }, v = { 1, 4 } }, few = rate_log { layers = 1, rate = 2, k = { 1, 4 } },"
      "waiting = fixed { layers = 1, kv = { 4, 4 } }";
  const auto trace =
      spec_with_states(states,
                       "local groups, at = window_emit { x = x, state = batch.state.waiting[0], component = 'kv', rate "
                       "= 2, overlap = true, fill = -1 }\n"
                       "local row = reduce(groups, { op = 'sum', axis = 1, keep = false })\n"
                       "row = rope(reshape(row, row:dim(0), 1, 4), at, { length = 4, freqs = { 1.0, 0.5 } })\n"
                       "local few = batch.state.few[0]:append { k = row }\n"
                       "local q = reshape(x, 'T', 1, 4)\n"
                       "local kv = batch.state.kv[0]:append { k = q, v = q }\n"
                       "local y = attend_segments { q = q, scale = 1.0, segments = { { state = kv, window = 2 },\n"
                       "  { state = few, value = 'k', select = index_scores { q = q, state = few, top = 3 } } } }\n"
                       "x = x + reshape(y, 'T', 4)")
          .run();
  ASSERT_TRUE(trace.ok()) << trace.status().to_string();
  EXPECT_TRUE(ir::verify(trace->graph).ok()) << ir::verify(trace->graph).to_string();
  const std::string text = ir::print(trace->graph);
  for (const char* line : {"state few.0 = rate {", "rate = 2", "f32[G2, 4, 4]", "i32[G2]", "f32[G2, 1, 4]"}) {
    EXPECT_TRUE(has(text, line)) << line << " in\n" << text;
  }
  const auto read = ir::parse(text);
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_EQ(ir::print(*read), text);
  EXPECT_TRUE(has(spec_with_states("few = rate_log { k = { 1, 4 } }", "").failure(), "few', rate"));
  EXPECT_TRUE(has(spec_with_states("few = rate_log { rate = 0, k = { 1, 4 } }", "").failure(), "rate = 1 to"));
}

TEST(Attention, WholeGroupsAreChosenAndTheirTailIsSeen) {
  const std::string states =
      "kv = append { layers = 1, k = { 1, 4 }, v = { 1, 4 } }, few = rate_log { layers = 1, rate = 2, k = { 1, 4 } },"
      "waiting = fixed { layers = 1, k = { 2, 4 } }";
  const auto trace =
      spec_with_states(
          states,
          "local std = require 'std'\n"
          "local groups = window_emit { x = x, state = batch.state.waiting[0], component = 'k', rate = 2 }\n"
          "local row = reduce(groups, { op = 'mean', axis = 1, keep = false })\n"
          "local few = batch.state.few[0]:append { k = reshape(row, row:dim(0), 1, 4) }\n"
          "local q = reshape(x, 'T', 1, 4)\n"
          "local chosen = index_scores { q = q, state = few, top = 3 }\n"
          "local kv = batch.state.kv[0]:append { k = q, v = q }\n"
          "local segments = std.indexer.groups_and_tail({ state = kv }, chosen, 2)\n"
          "x = x + reshape(attend_segments { q = q, scale = 1.0, segments = segments }, 'T', 4)")
          .run();
  ASSERT_TRUE(trace.ok()) << trace.status().to_string();
  const std::string text = ir::print(trace->graph);
  EXPECT_TRUE(has(text, "select = [2, 0]")) << text;
  EXPECT_TRUE(has(text, "windows = [0, 2]")) << text;
  EXPECT_TRUE(has(text, "le(mul(floor(div(add(x0, 1.0), 2.0)), 2.0), x1)")) << text;
}

TEST(Attention, MasksAreComposed) {
  const std::string text = text_of(attention_text(
      "local y = attend { q = q, state = s, scale = 0.5, causal = false, chunk = 8,\n"
      "  mask = std.mask.any(std.mask.prefix(6), std.mask.all(std.mask.causal, std.mask.sliding(3))) }"));
  EXPECT_TRUE(has(text, "mask = max(lt(x1, 6.0), min(le(x1, x0), lt(sub(x0, x1), 3.0)))")) << text;
  EXPECT_TRUE(has(text, "chunk = 8")) << text;
}

TEST(Attention, SegmentsShareOneSoftmax) {
  const std::string text =
      text_of(attention_text("local rows = index_scores { q = q, state = s, top = 5, block = 2, recent = 1 }\n"
                             "local y = attend_segments { q = q, scale = 0.5, sinks = w('s', { 1 }), segments = {\n"
                             "  { state = s, window = 3 }, { state = s, select = rows, block = 2 } } }"));
  EXPECT_TRUE(has(text, "index_scores")) << text;
  EXPECT_TRUE(has(text, "keys = \"k, k\"")) << text;
  EXPECT_TRUE(has(text, "select = [0, 2]")) << text;
  EXPECT_TRUE(has(text, "windows = [3, 0]")) << text;
  EXPECT_TRUE(has(failure_of(attention_text("local y = attend_segments { q = q, scale = 0.5, segments = {} }")),
                  "no segments"));
  EXPECT_TRUE(has(failure_of(attention_text(
                      "local y = attend_segments { q = q, scale = 0.5, segments = { { state = s, widow = 3 } } }")),
                  "segment 1 has no field 'widow'"));
  EXPECT_TRUE(has(failure_of(attention_text("local y = index_scores { q = q, top = 3 }")), "wanted a state"));
  const std::string two_levels = text_of(
      attention_text("local some = index_scores { q = q, state = s, top = 4, block = 8, recent = 1 }\n"
                     "local rows = index_scores { q = q, state = s, top = 6, within = some, within_block = 8 }\n"
                     "local y = attend_segments { q = q, scale = 0.5, segments = { { state = s, select = rows } } }"));
  EXPECT_TRUE(has(two_levels, "within_block = 8")) << two_levels;
  EXPECT_TRUE(has(failure_of(attention_text("local y = index_scores { q = q, state = s, top = 6, within_block = 8 }")),
                  "within_block without within"));
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
  for (const char* type : {"llama",
                           "mistral",
                           "qwen2",
                           "qwen3",
                           "qwen3_moe",
                           "gemma3",
                           "gemma3_text",
                           "deepseek_v3",
                           "kimi_k2",
                           "gpt_oss",
                           "gemma2",
                           "olmo2",
                           "olmo3",
                           "granite",
                           "granitemoe",
                           "smollm3",
                           "phi3",
                           "exaone4",
                           "ernie4_5",
                           "ernie4_5_moe",
                           "hunyuan_v1_dense",
                           "hunyuan_v1_moe",
                           "hunyuan",
                           "mixtral",
                           "minimax_m2",
                           "glm4_moe",
                           "gemma4",
                           "gemma4_text",
                           "llama4",
                           "llama4_text",
                           "mimo_v2_flash",
                           "mimo_v2",
                           "deepseek_v32",
                           "glm_moe_dsa",
                           "deepseek_v4",
                           "minimax_m3_vl",
                           "minimax_m3_vl_text"}) {
    EXPECT_TRUE(types.contains(type)) << type;
  }
  for (const char* recurrent : {"qwen3_next", "qwen3_5", "qwen3_5_moe", "lfm2", "jamba", "mamba2", "nemotron_h",
                                "kimi_linear", "kimi_k3", "rwkv.cpp", "minimax", "minimax_m1"}) {
    EXPECT_TRUE(types.contains(recurrent)) << recurrent;
  }
  const auto from_tree = list_specs({.architectures_dir = std::string(FL_SOURCE_DIR) + "/architectures"});
  ASSERT_TRUE(from_tree.ok()) << from_tree.status().to_string();
  EXPECT_EQ(from_tree->size(), embedded->size());
  EXPECT_EQ(SpecStore::open("/nonexistent/specs").status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace firstlight::intake
