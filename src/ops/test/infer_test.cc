// SPDX-License-Identifier: Apache-2.0
// Shape and type rules as data: operator, attributes, operand types, and the result types or the error.
#include "ops/infer.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace firstlight::ops {
namespace {

using tensor::DType;
using tensor::Type;

// "f32[T, 4]", "q8_0[8, 64]", "state".
Type type(std::string_view text) {
  if (text == "state") return Type::state();
  const size_t open = text.find('[');
  tensor::Shape shape;
  std::string_view dims = text.substr(open + 1, text.size() - open - 2);
  while (!dims.empty()) {
    const size_t comma = std::min(dims.find(", "), dims.size());
    shape.push_back(tensor::Dim::parse(dims.substr(0, comma)).value());
    dims.remove_prefix(std::min(comma + 2, dims.size()));
  }
  return Type::tensor(tensor::dtype_from_name(text.substr(0, open)).value(), std::move(shape));
}

struct Case {
  std::string_view op;
  std::string_view attributes;
  std::vector<std::string_view> operands;
  std::string_view expected;  // result types joined by "; ", or "!" and a part of the error
  std::vector<std::vector<std::string_view>> yields = {};
};

StateDecl kv_state() {
  StateDecl decl;
  decl.name = "kv.0";
  decl.components = {{"k", 2, 16, DType::kF32}, {"v", 2, 8, DType::kF32}};
  return decl;
}
StateDecl latent_state() {
  StateDecl decl;
  decl.name = "latent";
  decl.components = {{"c", 1, 24, DType::kF32}};
  return decl;
}

std::string outcome(const Case& c, const StateDecl& state) {
  const OpDef& def = op_def(op_from_name(c.op).value());
  auto attributes = parse_attributes(c.attributes);
  if (!attributes.ok()) return attributes.status().message();
  if (Status s = check_attributes(def, *attributes); !s.ok()) return "!" + s.message();
  std::vector<Type> operands;
  for (const auto text : c.operands) operands.push_back(type(text));
  if (Status s = check_operands(def, operands); !s.ok()) return "!" + s.message();
  std::vector<std::vector<Type>> regions;
  for (const auto& yields : c.yields) {
    regions.emplace_back();
    for (const auto text : yields) regions.back().push_back(type(text));
  }
  const std::vector<const StateDecl*> states(
      static_cast<size_t>(std::count(c.operands.begin(), c.operands.end(), "state")), &state);
  const InferInput input{operands, *attributes, &state, regions, states};
  auto results = def.infer(input);
  if (!results.ok()) return "!" + results.status().message();
  tensor::SymbolValues values{7, 3, 2, 5};
  const Cost cost = def.cost(input, *results, values);
  EXPECT_GE(cost.operations, 0);
  EXPECT_GE(cost.bytes_read, 0);
  if (def.shard != nullptr) {
    for (const ShardRule& rule : def.shard(input)) {
      EXPECT_EQ(rule.operand_axes.size(), operands.size()) << c.op << " " << rule.name;
      EXPECT_EQ(rule.result_axes.size(), results->size()) << c.op << " " << rule.name;
      for (size_t i = 0; i < operands.size(); ++i) {
        EXPECT_TRUE(operands[i].is_state() || rule.operand_axes[i] < rank(operands[i])) << c.op << " " << rule.name;
      }
    }
  }
  std::string text;
  for (const Type& t : *results) text += (text.empty() ? "" : "; ") + t.to_string();
  return text;
}

void expect_all(const std::vector<Case>& cases, const StateDecl& state = kv_state()) {
  for (const Case& c : cases) {
    const std::string found = outcome(c, state);
    if (c.expected.starts_with('!')) {
      EXPECT_TRUE(found.starts_with('!') && found.find(c.expected.substr(1)) != std::string::npos)
          << c.op << " " << c.attributes << "\n found: " << found << "\n wanted: " << c.expected;
    } else {
      EXPECT_EQ(found, c.expected) << c.op << " " << c.attributes;
    }
  }
}

StateDecl fixed_state(std::string_view name, int64_t heads, int64_t width) {
  StateDecl decl;
  decl.name = "s.0";
  decl.kind = StateKind::kFixed;
  decl.components = {{"other", 1, 3, DType::kF32}, {std::string(name), heads, width, DType::kF32}};
  return decl;
}

TEST(Infer, MatrixRecurrences) {
  const std::string_view at = "{component = \"s\"}";
  const std::vector<Case> cases = {
      {"recur_gla", at, {"f32[T, 2, 8]", "f32[T, 2, 8]", "f32[T, 4, 6]", "f32[T, 4]", "state"}, "f32[T, 4, 6]; state"},
      {"recur_gla", at, {"f32[T, 2, 8]", "f32[T, 2, 8]", "f32[T, 4, 6]", "bf16[4]", "state"}, "f32[T, 4, 6]; state"},
      {"recur_gla",
       at,
       {"f32[T, 4, 8]", "f32[T, 4, 8]", "f32[T, 4, 6]", "f32[T, 4, 8]", "state", "f32[4, 8]"},
       "f32[T, 4, 6]; state"},
      {"recur_gla",
       at,
       {"f32[T, 3, 8]", "f32[T, 3, 8]", "f32[T, 4, 6]", "f32[T, 4]", "state"},
       "!operand v is f32[T, 4, 6], wanted a multiple of 3 heads"},
      {"recur_gla",
       at,
       {"f32[T, 2, 8]", "f32[T, 2, 9]", "f32[T, 4, 6]", "f32[T, 4]", "state"},
       "!operand k is f32[T, 2, 9], wanted f32[T, 2, 8]"},
      {"recur_gla",
       at,
       {"f32[T, 2, 8]", "f32[T, 2, 8]", "f32[T, 4, 6]", "f32[T, 4, 7]", "state"},
       "!operand decay is f32[T, 4, 7], wanted float[H]"},
      {"recur_gla",
       at,
       {"f32[T, 2, 8]", "f32[T, 2, 8]", "f32[T, 4, 5]", "f32[T, 4]", "state"},
       "!component 's' of state 's.0' is f32[32 x 6], wanted f32[32 x 5]"},
      {"recur_gla",
       "{component = \"z\"}",
       {"f32[T, 2, 8]", "f32[T, 2, 8]", "f32[T, 4, 6]", "f32[T, 4]", "state"},
       "!attribute component is \"z\""},
      {"recur_gla",
       at,
       {"f32[T, 2, 8]", "f32[T, 2, 8]", "f32[T, 4, 6]", "f32[T, 4]", "state", "f32[4, 7]"},
       "!operand bonus is f32[4, 7]"},
      {"recur_delta",
       at,
       {"f32[T, 2, 8]", "f32[T, 2, 8]", "f32[T, 4, 6]", "f32[T, 4]", "f32[T, 4]", "state"},
       "f32[T, 4, 6]; state"},
      {"recur_delta",
       at,
       {"f32[T, 2, 8]", "f32[T, 2, 8]", "f32[T, 4, 6]", "f32[4]", "f32[T, 4]", "state"},
       "!operand decay is f32[4]"},
      {"recur_delta",
       at,
       {"f32[T, 2, 8]", "f32[T, 2, 8]", "f32[T, 4, 6]", "f32[T, 4, 8]", "f32[T, 2]", "state"},
       "!operand beta is f32[T, 2], wanted f32[T, 4]"},
      {"recur_dplr",
       at,
       {"f32[T, 4, 6]", "f32[T, 4, 6]", "f32[T, 4, 6]", "f32[T, 4, 8]", "f32[T, 4, 6]", "f32[T, 4, 6]", "state"},
       "f32[T, 4, 8]; state"},
      {"recur_dplr",
       at,
       {"f32[T, 4, 6]", "f32[T, 4, 6]", "f32[T, 4, 5]", "f32[T, 4, 8]", "f32[T, 4, 6]", "f32[T, 4, 6]", "state"},
       "!operand k is f32[T, 4, 5]"},
  };
  expect_all(cases, fixed_state("s", 32, 6));
  expect_all({{"recur_gla",
               "{component = \"k\"}",
               {"f32[T, 2, 8]", "f32[T, 2, 8]", "f32[T, 4, 6]", "f32[T, 4]", "state"},
               "!state 'kv.0' is of kind append, a fixed one wanted"}});
}

TEST(Infer, ChannelRecurrences) {
  const std::string_view at = "{component = \"s\"}";
  expect_all({{"recur_selective",
               at,
               {"f32[T, 12]", "f32[T, 12]", "bf16[12, 4]", "f32[T, 4]", "f32[T, 4]", "state"},
               "f32[T, 12]; state"},
              {"recur_selective",
               at,
               {"f32[T, 12]", "f32[T, 12]", "f32[12, 5]", "f32[T, 4]", "f32[T, 4]", "state"},
               "!operand a is f32[12, 5], wanted a float matrix [12, 4]"}},
             fixed_state("s", 12, 4));
  expect_all({{"recur_elementwise", at, {"f32[T, 12]", "f32[T, 12]", "state"}, "f32[T, 12]; state"},
              {"recur_elementwise", at, {"f32[T, 12]", "f32[T, 11]", "state"}, "!operand b is f32[T, 11]"},
              {"shift", at, {"f32[T, 12]", "state"}, "f32[T, 12]; state"},
              {"shift", at, {"f32[T, 11]", "state"}, "!wanted f32[1 x 11]"}},
             fixed_state("s", 1, 12));
  expect_all(
      {{"conv1d", at, {"f32[T, 12]", "bf16[12, 4]", "state", "bf16[12]"}, "f32[T, 12]; state"},
       {"conv1d", at, {"f32[T, 12]", "bf16[12, 3]", "state"}, "!is f32[3 x 12], wanted f32[2 x 12]"},
       {"conv1d", at, {"f32[T, 12]", "bf16[12, 1, 4]", "state"}, "!operand weight is bf16[12, 1, 4]"},
       {"conv1d", at, {"f32[T, 12]", "bf16[12, 4]", "state", "bf16[13]"}, "!operand bias is bf16[13]"},
       {"conv1d", "{component = \"s\", dilation = 3}", {"f32[T, 12]", "f32[12, 2]", "state"}, "f32[T, 12]; state"}},
      fixed_state("s", 3, 12));
  StateDecl history;
  history.name = "ids.0";
  history.kind = StateKind::kTokenHistory;
  history.window = 3;
  history.components = {{"ids", 1, 1, DType::kI32}};
  expect_all({{"recent_tokens", "{count = 3}", {"i32[T]", "state"}, "i32[T, 3]; state"},
              {"recent_tokens", "{count = 4}", {"i32[T]", "state"}, "!attribute count is 4, wanted 1 to 3"},
              {"recent_tokens", "{count = 2}", {"f32[T]", "state"}, "!operand tokens is f32[T], wanted i32[T]"}},
             history);
}

TEST(Infer, DataMovement) {
  expect_all({
      {"gather_rows", "", {"bf16[100, 8]", "i32[T]"}, "f32[T, 8]"},
      {"gather_rows", "", {"q8_0[100, 64]", "i32[T]"}, "f32[T, 64]"},
      {"gather_rows", "", {"i32[100]", "i32[T]"}, "i32[T]"},
      {"gather_rows", "", {"q8_0[64]", "i32[T]"}, "!operand table is q8_0[64], wanted rank 2 or more"},
      {"gather_rows", "", {"f32[4, 4]", "f32[T]"}, "!operand ids is f32[T], wanted i32[N]"},
      {"gather_last", "", {"f32[T, 64]", "i32[T, 6]"}, "f32[T, 6]"},
      {"gather_last", "", {"f32[T, 64]", "i32[S, 6]"}, "!operand idx is i32[S, 6]"},
      {"reshape", "{shape = \"T,8,-1\"}", {"f32[T, 512]"}, "f32[T, 8, 64]"},
      {"reshape", "{shape = \"-1,64\"}", {"f32[T, 8, 64]"}, "f32[8T, 64]"},
      {"reshape", "{shape = \"T, -1\"}", {"f32[8T, 64]"}, "f32[T, 512]"},
      {"reshape", "{shape = \"\"}", {"f32[1, 1]"}, "f32[]"},
      {"reshape", "{shape = \"4,2,32\"}", {"q4_0[8, 32]"}, "q4_0[4, 2, 32]"},
      {"reshape", "{shape = \"4,64\"}", {"q4_0[8, 32]"}, "!the last axis of q4_0[8, 32] left whole"},
      {"reshape", "{shape = \"-1,-1\"}", {"f32[4, 4]"}, "!one -1 at most"},
      {"reshape", "{shape = \"3,-1\"}", {"f32[4, 4]"}, "!a divisor of f32[4, 4]"},
      {"reshape", "{shape = \"0,-1\"}", {"f32[4, 4]"}, "!a divisor of f32[4, 4]"},
      {"reshape", "{shape = \"4,q\"}", {"f32[4, 4]"}, "!in place of 'q'"},
      {"reshape", "{shape = \"4,5\"}", {"f32[4, 4]"}, "!as many elements as f32[4, 4]"},
      {"transpose", "{perm = [1, 0]}", {"bf16[3, 4]"}, "bf16[4, 3]"},
      {"transpose", "{perm = [1, 0, 2]}", {"q4_0[3, 4, 32]"}, "q4_0[4, 3, 32]"},
      {"transpose", "{perm = [1, 0]}", {"q4_0[32, 32]"}, "!left in place"},
      {"transpose", "{perm = [0, 0]}", {"f32[3, 4]"}, "!each axis once"},
      {"transpose", "{perm = [0]}", {"f32[3, 4]"}, "!one entry per axis"},
      {"slice", "{axis = -1, start = 8, stop = 16}", {"f32[T, 64]"}, "f32[T, 8]"},
      {"slice", "{axis = 1, step = 2}", {"f32[T, 7]"}, "f32[T, 4]"},
      {"slice", "{axis = 1, start = -3, stop = -1}", {"f32[T, 7]"}, "f32[T, 2]"},
      {"slice", "{axis = 0}", {"f32[T, 7]"}, "f32[T, 7]"},
      {"slice", "{axis = 0, stop = 3}", {"f32[T, 7]"}, "!a constant size of axis 0"},
      {"slice", "{axis = 2}", {"f32[T, 7]"}, "!an axis of f32[T, 7]"},
      {"slice", "{axis = 1, stop = 9}", {"f32[T, 7]"}, "!a place between start and 7"},
      {"slice", "{axis = 1, step = 0}", {"f32[T, 7]"}, "!attribute step is 0"},
      {"slice", "{axis = 1, start = 32}", {"q8_0[4, 96]"}, "q8_0[4, 64]"},
      {"slice", "{axis = 1, start = 16}", {"q8_0[4, 96]"}, "!borders of blocks of 32"},
      {"concat", "{axis = -1}", {"f32[T, 3]", "f32[T, 4]"}, "f32[T, 7]"},
      {"concat", "{axis = 0}", {"f32[T, 3]", "f32[2T, 3]"}, "f32[3T, 3]"},
      {"concat", "{axis = 0}", {"f32[T, 3]", "f32[2, 3]"}, "!sizes of one symbol"},
      {"concat", "{axis = 0}", {"f32[4, 3]", "f32[2, 4]"}, "!operand x 1 is f32[2, 4]"},
      {"concat", "{axis = 0}", {"f32[4, 3]", "bf16[2, 3]"}, "!operand x 1 is bf16[2, 3]"},
      {"stack", "", {"q8_0[4, 32]", "q8_0[4, 32]"}, "q8_0[2, 4, 32]"},
      {"stack", "{axis = -1}", {"f32[4]", "f32[4]", "f32[4]"}, "f32[4, 3]"},
      {"stack", "{axis = 2}", {"q8_0[4, 32]"}, "!not the last one of a block format"},
      {"stack", "", {"f32[4]", "f32[5]"}, "!operand x 1 is f32[5], wanted f32[4]"},
      {"cast", "{to = \"f32\"}", {"q4_k[4, 256]"}, "f32[4, 256]"},
      {"cast", "{to = \"q4_0\"}", {"f32[4, 32]"}, "!attribute to is \"q4_0\""},
      {"cast", "{to = \"nope\"}", {"f32[4, 32]"}, "!attribute to is \"nope\""},
  });
}

TEST(Infer, Arithmetic) {
  expect_all({
      {"map", "{expr = mul(x0, x1)}", {"f32[T, 8]", "f32[8]"}, "f32[T, 8]"},
      {"map", "{expr = add(x0, x1)}", {"f32[T, 1, 8]", "i32[4, 1]"}, "f32[T, 4, 8]"},
      {"map", "{expr = x0}", {"f32[]"}, "f32[]"},
      {"map", "{expr = mul(x0, x1)}", {"f32[T, 8]", "f32[7]"}, "!operand x1 is f32[7], wanted a shape that broadcasts"},
      {"map", "{expr = mul(x0, x1)}", {"f32[T, 8]", "f32[4, 8]"}, "!operand x1 is f32[4, 8]"},
      {"map", "{expr = mul(x0, x1)}", {"f32[T, 8]"}, "!a formula in at most 1 inputs"},
      {"map", "{expr = ()}", {"f32[T, 8]"}, "!attribute expr is ()"},
      {"map", "{expr = x0}", {"q8_0[4, 32]"}, "!operand x0 is q8_0[4, 32]"},
      {"reduce", "{op = \"sum\"}", {"f32[T, 8]"}, "f32[T, 1]"},
      {"reduce", "{op = \"max\", axis = 1, keep = false}", {"f32[T, 8, 3]"}, "f32[T, 3]"},
      {"reduce", "{op = \"min\"}", {"f32[T, 8]"}, "f32[T, 1]"},
      {"reduce", "{op = \"prod\"}", {"f32[T, 8]"}, "!attribute op is \"prod\""},
      {"take", "{axis = 1, indices = [2, 0, 2]}", {"i32[T, 3]"}, "i32[T, 3]"},
      {"take", "{axis = 1, indices = [3]}", {"i32[T, 3]"}, "!attribute indices is 3"},
      {"take", "{axis = 0, indices = [0]}", {"f32[T, 3]"}, "!a constant size of axis 0"},
      {"take", "{axis = 1, indices = [0]}", {"q8_0[4, 32]"}, "!another axis than that of the blocks"},
      {"pad", "{axis = -1, before = 2, after = 1}", {"bf16[T, 8]"}, "f32[T, 11]"},
      {"pad", "{axis = -1, before = -1}", {"f32[T, 8]"}, "!attribute before is -1"},
      {"scatter_rows", "", {"f32[T, 8]", "i32[3]", "f32[3, 8]"}, "f32[T, 8]"},
      {"scatter_rows", "", {"f32[T, 8]", "i32[3]", "f32[4, 8]"}, "!operand rows is f32[4, 8], wanted f32[3, 8]"},
      {"scatter_rows", "{mode = \"max\"}", {"f32[T, 8]", "i32[3]", "f32[3, 8]"}, "!attribute mode"},
      {"cumsum", "", {"f32[T, 8]"}, "f32[T, 8]"},
      {"cumsum", "{axis = 0}", {"f32[T, 8]"}, "!a constant size of axis 0"},
      {"imap", "{expr = mod(xor(x0, mul(x1, 31.0)), 101.0)}", {"i32[T]", "i32[T]"}, "i64[T]"},
      {"imap", "{expr = x0, to = \"i32\"}", {"i64[T, 3]"}, "i32[T, 3]"},
      {"imap", "{expr = add(x0, 0.5)}", {"i32[T]"}, "!attribute expr is 0.5"},
      {"imap", "{expr = exp(x0)}", {"i32[T]"}, "!attribute expr is exp"},
      {"imap", "{expr = x0}", {"f32[T]"}, "!operand x0 is f32[T]"},
      {"map", "{expr = mod(x0, 3.0)}", {"f32[T]"}, "!wanted imap for xor and mod"},
      {"einsum", "{equation = \"tij,tjd->tid\"}", {"f32[T, 4, 4]", "f32[T, 4, 64]"}, "f32[T, 4, 64]"},
      {"einsum", "{equation = \"ab,bc->ac\"}", {"f32[T, 4]", "bf16[4, 2]"}, "f32[T, 2]"},
      {"einsum", "{equation = \"ab,ab->\"}", {"f32[3, 4]", "f32[3, 4]"}, "f32[]"},
      {"einsum", "{equation = \"ab,bc->ad\"}", {"f32[T, 4]", "f32[4, 2]"}, "!attribute equation is \"ab,bc->ad\""},
      {"einsum", "{equation = \"aa,bc->ac\"}", {"f32[4, 4]", "f32[4, 2]"}, "!attribute equation"},
      {"einsum", "{equation = \"ab,bc->ac\"}", {"f32[T, 4]", "f32[5, 2]"}, "!operand b is f32[5, 2], wanted size 4"},
      {"einsum", "{equation = \"ab,ac->bc\"}", {"f32[T, 4]", "f32[T, 2]"}, "!constant sizes of the axes"},
      {"conv2d", "{stride = [2]}", {"f32[T, 3, 8, 9]", "bf16[5, 3, 2, 3]"}, "f32[T, 5, 4, 4]"},
      {"conv2d", "{groups = 2}", {"f32[1, 3, 8, 9]", "bf16[5, 3, 2, 3]"}, "!attribute groups is 2"},
      {"conv2d", "", {"f32[1, 3, 8, 9]", "bf16[5, 3, 9, 3]"}, "!an image that holds the window"},
      {"conv2d", "{stride = [0]}", {"f32[1, 3, 8, 9]", "bf16[5, 3, 2, 3]"}, "!attribute stride is [0]"},
      {"pool2d", "{op = \"max\", kernel = [2], stride = [2]}", {"f32[T, 3, 8, 9]"}, "f32[T, 3, 4, 4]"},
      {"pool2d", "{op = \"max\", kernel = [2], stride = [2], padding = [2]}", {"f32[T, 3, 8, 9]"}, "!half the window"},
      {"interp2d", "{size = [4, 5], mode = \"bicubic\"}", {"f32[T, 3, 8, 9]"}, "f32[T, 3, 4, 5]"},
      {"interp2d", "{size = [4, 5], mode = \"area\"}", {"f32[T, 3, 8, 9]"}, "!attribute mode is \"area\""},
      {"reduce", "{op = \"mean\", axis = 0}", {"f32[T, 8]"}, "!a constant axis"},
      {"linear", "", {"f32[T, 8]", "i32[4, 8]"}, "!operand w is i32[4, 8]"},
      {"batched_linear", "", {"f32[T, 2, 8]", "u8[2, 4, 8]"}, "!operand w is u8[2, 4, 8]"},
      {"einsum", "{equation = \"ab,cd->ac\"}", {"f32[4096, 4096]", "f32[4096, 4096]"}, "!multiplications"},
      {"einsum", "{equation = \"ta,sa->ts\"}", {"f32[T, 4]", "f32[T, 4]"}, "!one axis that grows"},
      {"einsum", "{equation = \"ta,ab->tb\"}", {"f32[T, 4096]", "f32[4096, 4096]"}, "f32[T, 4096]"},
      {"softmax", "", {"f32[T, 8]"}, "f32[T, 8]"},
      {"softmax", "", {"f32[8, T]"}, "!operand x is f32[8, T]"},
      {"top_k", "{k = 2}", {"f32[T, 8]"}, "f32[T, 2]; i32[T, 2]"},
      {"top_k", "{k = 9}", {"f32[T, 8]"}, "!attribute k is 9"},
      {"index_mask", "{size = 8}", {"i32[T, 2]"}, "f32[T, 8]"},
      {"index_mask", "{size = 8}", {"f32[T, 2]"}, "!operand idx is f32[T, 2]"},
      {"rms_norm", "{eps = 1e-05}", {"f32[T, 8]", "bf16[8]"}, "f32[T, 8]"},
      {"rms_norm", "{eps = -1.0}", {"f32[T, 8]"}, "!attribute eps is -1.0, wanted 0 or more, less than 1e30"},
      {"layer_norm", "{eps = 1e+30}", {"f32[T, 8]"}, "!attribute eps is 1e+30, wanted 0 or more, less than 1e30"},
      {"rms_norm", "{eps = 1e-05}", {"f32[T, 8]", "bf16[7]"}, "!operand weight is bf16[7], wanted a float vector of 8"},
      {"layer_norm", "{eps = 1e-05}", {"f32[T, 8]", "f32[8]", "f32[8]"}, "f32[T, 8]"},
      {"layer_norm", "{eps = 1e-05}", {"f32[T, 8]", "f32[8]", "f32[9]"}, "!operand bias is f32[9]"},
  });
}

TEST(Infer, MatrixProducts) {
  expect_all({
      {"linear", "", {"f32[T, 64]", "q8_0[10, 64]"}, "f32[T, 10]"},
      {"linear", "", {"f32[T, 4, 64]", "bf16[10, 64]", "f32[10]"}, "f32[T, 4, 10]"},
      {"linear", "", {"f32[T, 64]", "bf16[10, 63]"}, "!operand w is bf16[10, 63], wanted [R, 64]"},
      {"linear", "", {"f32[T, 64]", "bf16[10, 64]", "f32[9]"}, "!operand bias is f32[9]"},
      {"linear", "", {"bf16[T, 64]", "bf16[10, 64]"}, "!operand x is bf16[T, 64]"},
      {"batched_linear", "", {"f32[T, 4, 16]", "bf16[4, 8, 16]"}, "f32[T, 4, 8]"},
      {"batched_linear", "", {"f32[T, 4, 16]", "bf16[3, 8, 16]"}, "!operand w is bf16[3, 8, 16]"},
      {"fused_linear",
       "{num_weights = 2, bias = [0, 1]}",
       {"f32[T, 64]", "bf16[8, 64]", "q8_0[4, 64]", "f32[4]"},
       "f32[T, 8]; f32[T, 4]"},
      {"fused_linear",
       "{num_weights = 2, bias = [0, 0], norm = \"rms\", norm_weighted = true, num_extras = 1, epilogue = "
       "[add(mul(x0, x1), x2)]}",
       {"f32[T, 64]", "f32[64]", "bf16[8, 64]", "bf16[8, 64]", "f32[T, 8]"},
       "f32[T, 8]"},
      {"fused_linear", "{num_weights = 2, bias = [0]}", {"f32[T, 64]", "bf16[8, 64]"}, "!attribute bias is [0]"},
      {"fused_linear", "{num_weights = 2, bias = [0, 0]}", {"f32[T, 64]", "bf16[8, 64]"}, "!2 operands, wanted 3"},
      {"fused_linear",
       "{num_weights = 2, bias = [0, 0], epilogue = [x0]}",
       {"f32[T, 64]", "bf16[8, 64]", "bf16[4, 64]"},
       "!as many rows as w_0"},
  });
}

TEST(Infer, AttentionAndState) {
  expect_all({
      {"rope", "{length = 4, freqs = [1.0, 0.5]}", {"f32[T, 2, 8]", "i32[T]"}, "f32[T, 2, 8]"},
      {"rope", "{length = 4, freqs = [1.0, -0.5]}", {"f32[T, 2, 8]", "i32[T]"}, "!attribute freqs is -0.5"},
      {"rope", "{length = 4, freqs = [1.0, 0.5], scale = 0.0}", {"f32[T, 2, 8]", "i32[T]"}, "!attribute scale is 0.0"},
      {"rope", "{length = 4, freqs = [1.0]}", {"f32[T, 2, 8]", "i32[T]"}, "!wanted 2 frequencies"},
      {"rope", "{length = 4, offset = 6, freqs = [1.0, 0.5]}", {"f32[T, 2, 8]", "i32[T]"}, "!an even slice"},
      {"rope", "{length = 4, freqs = [1.0, 0.5], style = \"odd\"}", {"f32[T, 2, 8]", "i32[T]"}, "!attribute style"},
      {"rope", "{length = 4, freqs = [1.0, 0.5], switch_length = 9}", {"f32[T, 2, 8]", "i32[T]"}, "!long_freqs"},
      {"append", "", {"state", "f32[T, 2, 16]", "f32[T, 2, 8]"}, "state"},
      {"append", "", {"state", "f32[T, 2, 16]"}, "!1 rows operands, wanted 2"},
      {"append", "", {"state", "f32[T, 2, 16]", "f32[T, 16]"}, "!operand rows (component 'v') is f32[T, 16]"},
      {"attend", "{scale = 0.25, key = \"k\", value = \"v\"}", {"f32[T, 4, 16]", "state"}, "f32[T, 4, 8]"},
      {"attend", "{scale = 0.25, key = \"k\", value = \"v\"}", {"f32[T, 4, 16]", "state", "bf16[4]"}, "f32[T, 4, 8]"},
      {"attend", "{scale = 0.25, key = \"k\", value = \"w\"}", {"f32[T, 4, 16]", "state"}, "!attribute value is \"w\""},
      {"attend", "{scale = 0.25, key = \"k\", value = \"v\"}", {"f32[T, 3, 16]", "state"}, "!a multiple of 2 heads"},
      {"attend", "{scale = 0.25, key = \"k\", value = \"v\", window = -1}", {"f32[T, 4, 16]", "state"}, "!window"},
      {"attend", "{scale = 0.25, key = \"k\", value = \"v\", score = x4}", {"f32[T, 4, 16]", "state"}, "!score"},
      {"attend", "{scale = 0.25, key = \"k\", value = \"v\", mask = x2}", {"f32[T, 4, 16]", "state"}, "!mask"},
      {"attend", "{scale = 0.25, key = \"k\", value = \"v\", chunk = -2}", {"f32[T, 4, 16]", "state"}, "!chunk"},
      {"attend_segments",
       "{scale = 0.25, keys = \"k, k\", values = \"v, v\", select = [0, 8], sinks = true}",
       {"f32[T, 4, 16]", "state", "state", "i32[T, 2, 5]", "f32[4]"},
       "f32[T, 4, 8]"},
      {"attend_segments",
       "{scale = 0.25, keys = \"k, k\", values = \"v, v\", select = [0, 8]}",
       {"f32[T, 4, 16]", "state", "state", "i32[T, 3, 5]"},
       "!operand select is i32[T, 3, 5]"},
      {"attend_segments",
       "{scale = 0.25, keys = \"k, k\", values = \"v\"}",
       {"f32[T, 4, 16]", "state", "state"},
       "!attribute values is 1 names"},
      {"attend_segments",
       "{scale = 0.25, keys = \"k\", values = \"v\", windows = [1, 2]}",
       {"f32[T, 4, 16]", "state"},
       "!attribute windows is 2 numbers"},
      {"attend_segments",
       "{scale = 0.25, keys = \"k, k\", values = \"v, k\"}",
       {"f32[T, 4, 16]", "state", "state"},
       "!as many heads and value columns"},
      {"attend_segments",
       "{scale = 0.25, keys = \"k\", values = \"v\"}",
       {"f32[T, 4, 16]", "state", "state"},
       "!3 operands with 2 states, wanted 2 with 1"},
      {"index_scores", "{key = \"k\", top = 4}", {"f32[T, 4, 16]", "state"}, "!a component with one head"},
  });
  expect_all(
      {
          {"append", "", {"state", "f32[T, 24]"}, "state"},
          {"attend",
           "{scale = 0.25, key = \"c\", value = \"c\", value_width = 16}",
           {"f32[T, 4, 24]", "state"},
           "f32[T, 4, 16]"},
          {"index_scores", "{key = \"c\", top = 7}", {"f32[T, 4, 24]", "state", "f32[T, 4]"}, "i32[T, 1, 7]"},
          {"index_scores",
           "{key = \"c\", top = 7, per_head = true, block = 128, recent = 1}",
           {"f32[T, 4, 24]", "state"},
           "i32[T, 4, 7]"},
          {"index_scores",
           "{key = \"c\", top = 7, block = 2, within_block = 8}",
           {"f32[T, 4, 24]", "state", "i32[T, 1, 5]"},
           "i32[T, 1, 7]"},
          {"index_scores",
           "{key = \"c\", top = 7, per_head = true, within_block = 1}",
           {"f32[T, 4, 24]", "state", "f32[T, 4]", "i32[T, 4, 5]"},
           "i32[T, 4, 7]"},
          {"index_scores",
           "{key = \"c\", top = 7, within_block = 1}",
           {"f32[T, 4, 24]", "state", "i32[T, 4, 5]"},
           "!operand within"},
          {"index_scores",
           "{key = \"c\", top = 7, within_block = 1}",
           {"f32[T, 4, 24]", "state"},
           "!attribute within_block"},
          {"index_scores",
           "{key = \"c\", top = 7, block = 4, within_block = 6}",
           {"f32[T, 4, 24]", "state"},
           "!a multiple of block"},
          {"index_scores",
           "{key = \"c\", top = 4, recent = 2, first = 3}",
           {"f32[T, 4, 24]", "state"},
           "!attribute first"},
          {"index_scores", "{key = \"c\", top = 0}", {"f32[T, 4, 24]", "state"}, "!attribute top"},
          {"index_scores", "{key = \"d\", top = 1}", {"f32[T, 4, 24]", "state"}, "!attribute key"},
          {"index_scores", "{key = \"c\", top = 1}", {"f32[T, 4, 24]", "state", "f32[T, 3]"}, "!operand weights"},
          {"window_emit", "{component = \"c\", rate = 4}", {"f32[T, 24]", "state"}, "!of a fixed state"},
      },
      latent_state());
}

TEST(Infer, LogsWithARowPerGroup) {
  StateDecl compressed = latent_state();
  compressed.kind = StateKind::kRateLog;
  compressed.rate = 4;
  expect_all(
      {
          {"append", "", {"state", "f32[G4, 24]"}, "state"},
          {"append", "", {"state", "f32[T, 24]"}, "!wanted f32[G4, 1, 24]"},
          {"append", "", {"state", "f32[G8, 24]"}, "!wanted f32[G4, 1, 24]"},
          {"attend", "{scale = 0.25, key = \"c\", value = \"c\"}", {"f32[T, 4, 24]", "state"}, "f32[T, 4, 24]"},
          {"attend", "{scale = 0.25, key = \"c\", value = \"c\", window = 3}", {"f32[T, 4, 24]", "state"}, "!window"},
          {"index_scores", "{key = \"c\", top = 7}", {"f32[T, 4, 24]", "state"}, "i32[T, 1, 7]"},
          {"rope", "{length = 4, freqs = [1.0, 0.5]}", {"f32[G4, 2, 8]", "i32[G4]"}, "f32[G4, 2, 8]"},
          {"rope",
           "{length = 4, freqs = [1.0, 0.5], long_freqs = [1.0, 0.5], switch_length = 9}",
           {"f32[G4, 2, 8]", "i32[G4]"},
           "!a row per token"},
          {"reshape", "{shape = \"G4,2,-1\"}", {"f32[G4, 24]"}, "f32[G4, 2, 12]"},
          {"reshape", "{shape = \"-1,12\"}", {"f32[G4, 24]"}, "f32[2G4, 12]"},
          {"reshape", "{shape = \"G8,24\"}", {"f32[G4, 24]"}, "!as many elements"},
      },
      compressed);
  StateDecl waiting = latent_state();
  waiting.kind = StateKind::kFixed;
  waiting.components[0].heads = 8;
  expect_all(
      {
          {"window_emit", "{component = \"c\", rate = 8}", {"f32[T, 24]", "state"}, "f32[G8, 8, 24]; i32[G8]; state"},
          {"window_emit",
           "{component = \"c\", rate = 4, overlap = true}",
           {"f32[T, 24]", "state"},
           "f32[G4, 8, 24]; i32[G4]; state"},
          {"window_emit", "{component = \"c\", rate = 4}", {"f32[T, 24]", "state"}, "!an f32 component {4, 24}"},
          {"window_emit", "{component = \"c\", rate = 0}", {"f32[T, 24]", "state"}, "!attribute rate"},
          {"attend", "{scale = 0.25, key = \"c\", value = \"c\"}", {"f32[T, 8, 24]", "state"}, "!wanted a log"},
      },
      waiting);
}

TEST(Infer, Weights) {
  expect_all({
      {"dequantize", "{block = [128, 128]}", {"f8e4m3[200, 300]", "f32[2, 3]"}, "f32[200, 300]"},
      {"dequantize", "{block = [128, 128]}", {"f8e4m3[4, 200, 300]", "f32[4, 2, 3]"}, "f32[4, 200, 300]"},
      {"dequantize", "{block = [128, 128]}", {"f8e4m3[200, 300]", "f32[1, 3]"}, "!operand scale is f32[1, 3]"},
      {"dequantize", "{block = [128]}", {"f8e4m3[200, 300]", "f32[2, 3]"}, "!attribute block is [128]"},
      {"pack_mxfp4", "", {"u8[8, 90, 16]", "u8[8, 90]"}, "mxfp4[8, 2880]"},
      {"pack_mxfp4", "", {"u8[8, 90, 16]", "u8[8, 91]"}, "!operand scales is u8[8, 91]"},
      {"pack_mxfp4", "", {"u8[8, 90, 32]", "u8[8, 90]"}, "!operand blocks is u8[8, 90, 32]"},
      {"assemble_weight",
       "{format = \"fp8g\", codes = \"e4m3\", block = [128, 128]}",
       {"f8e4m3[200, 320]", "f32[2, 3]"},
       "fp8g[200, 320]"},
      {"assemble_weight",
       "{format = \"fp8g\", codes = \"e4m3\", block = [128, 128]}",
       {"f8e4m3[200, 320]", "f32[2, 2]"},
       "!operand scale is f32[2, 2]"},
      {"assemble_weight",
       "{format = \"fp8g\", codes = \"e4m3\", block = [128, 16]}",
       {"f8e4m3[200, 320]", "f32[2, 20]"},
       "!attribute format"},
      {"assemble_weight",
       "{format = \"fp8g\", codes = \"e4m3\", block = [1, 33]}",
       {"f8e4m3[200, 33]", "f32[200]"},
       "!attribute format"},
      {"assemble_weight",
       "{format = \"f32\", codes = \"gptq\", bits = 4, block = [1, 16], zero = \"stored\"}",
       {"i32[4, 24]", "f16[2, 24]", "i32[2, 3]"},
       "f32[24, 32]"},
      {"assemble_weight",
       "{format = \"f32\", codes = \"gptq\", bits = 4, block = [1, 16], zero = \"stored\"}",
       {"i32[4, 24]", "f16[2, 24]", "i32[2, 4]"},
       "!operand zero is i32[2, 4]"},
      {"assemble_weight",
       "{format = \"f32\", codes = \"gptq\", bits = 3, block = [1, 16]}",
       {"i32[3, 24]", "f16[2, 24]"},
       "!attribute bits is 3"},
      {"assemble_weight",
       "{format = \"nvfp4\", codes = \"e2m1\", bits = 4, block = [1, 16], global = \"multiplies\"}",
       {"u8[2, 7, 32]", "f8e4m3[2, 7, 4]", "f32[2, 1]"},
       "nvfp4[2, 7, 64]"},
      {"assemble_weight",
       "{format = \"nvfp4\", codes = \"e2m1\", bits = 4, block = [1, 16], global = \"multiplies\"}",
       {"u8[2, 7, 32]", "f8e4m3[2, 7, 4]"},
       "!operands is 2"},
      {"fake_quant", "{format = \"e4m3\"}", {"f32[T, 64]"}, "f32[T, 64]"},
      {"fake_quant", "{format = \"e4m3\"}", {"f32[T, 64]", "f32[1]"}, "f32[T, 64]"},
      {"fake_quant", "{format = \"e4m3\", scale = 0.5}", {"f32[T, 64]", "f32[1]"}, "!attribute scale"},
      {"fake_quant", "{format = \"e3m4\"}", {"f32[T, 64]"}, "!attribute format"},
      {"fake_quant", "{format = \"int8\", block = -1}", {"f32[T, 64]"}, "!attribute block"},
      {"pack_weight", "", {"q4_0[8, 64]"}, "q4_0[8, 64] packed"},
      {"pack_weight", "", {"q4_0[64]"}, "!operand w is q4_0[64]"},
  });
}

TEST(Infer, ControlFlow) {
  const std::vector<std::string_view> routed = {"f32[T, 16]", "i32[T, 2]", "f32[T, 2]", "bf16[8, 4, 16]"};
  expect_all({
      {"per_expert", "{num_experts = 8}", routed, "f32[T, 12]", {{"f32[N, 12]"}}},
      {"per_expert", "{num_experts = 7}", routed, "!a leading axis of 7", {{"f32[N, 12]"}}},
      {"per_expert", "{num_experts = 8}", routed, "!wanted f32[N, D']", {{"f32[T, 12]"}}},
      {"per_expert", "{num_experts = 8}", routed, "!yields 0 values, wanted 1", {{}}},
      {"per_expert", "{num_experts = 8, weight_on = \"both\"}", routed, "!weight_on", {{"f32[N, 12]"}}},
      {"if", "", {"i32[]", "f32[T]"}, "f32[T]", {{"f32[T]"}, {"f32[T]"}}},
      {"if", "", {"i32[]", "f32[T]"}, "!wanted f32[T]", {{"f32[T]"}, {"f32[S]"}}},
      {"if", "", {"f32[]"}, "!operand condition is f32[]", {{}, {}}},
      {"repeat", "{count = 3}", {"f32[T]", "f32[4]"}, "f32[T]", {{"f32[T]"}}},
      {"repeat", "{count = 3}", {"f32[T]", "f32[4]"}, "!as carried operand 0", {{"f32[4]"}}},
  });
}

// What decompositions emit must have the type the rule gives.
class Recorder final : public DecomposeBuilder {
 public:
  explicit Recorder(std::vector<Type> inputs) : types_(std::move(inputs)) {}
  Value emit(OpKind op, std::span<const Value> operands, Attributes attributes) override {
    std::vector<Type> types;
    for (const Value v : operands) types.push_back(types_[static_cast<size_t>(v)]);
    const OpDef& def = op_def(op);
    EXPECT_TRUE(check_attributes(def, attributes).ok());
    EXPECT_TRUE(check_operands(def, types).ok());
    auto results = def.infer({types, attributes, nullptr, {}});
    EXPECT_TRUE(results.ok()) << results.status().message();
    types_.push_back((*results)[0]);
    return static_cast<Value>(types_.size()) - 1;
  }
  const Type& type_of(Value value) const override { return types_[static_cast<size_t>(value)]; }

 private:
  std::vector<Type> types_;
};

TEST(Infer, DecompositionsHaveTheResultTypes) {
  const std::vector<Case> cases = {
      {"softmax", "", {"f32[T, 8]"}, ""},
      {"rms_norm", "{eps = 1e-05, offset = 1.0}", {"f32[T, 8]", "f32[8]"}, ""},
      {"rms_norm", "{eps = 1e-05}", {"f32[T, 8]"}, ""},
      {"layer_norm", "{eps = 1e-05}", {"f32[T, 8]", "f32[8]", "f32[8]"}, ""},
      {"layer_norm", "{eps = 1e-05}", {"f32[T, 8]", "f32[8]"}, ""},
      {"layer_norm", "{eps = 1e-05}", {"f32[T, 8]"}, ""},
      {"fused_linear",
       "{num_weights = 2, bias = [0, 1], norm = \"rms\", norm_weighted = true, num_extras = 1, epilogue = "
       "[add(mul(x0, x1), x2)]}",
       {"f32[T, 64]", "f32[64]", "bf16[8, 64]", "bf16[8, 64]", "f32[8]", "f32[T, 8]"},
       ""},
  };
  for (const Case& c : cases) {
    const OpDef& def = op_def(op_from_name(c.op).value());
    Attributes attributes = parse_attributes(c.attributes).value();
    ASSERT_TRUE(check_attributes(def, attributes).ok());
    std::vector<Type> operands;
    std::vector<DecomposeBuilder::Value> values;
    for (const auto text : c.operands) {
      values.push_back(static_cast<DecomposeBuilder::Value>(operands.size()));
      operands.push_back(type(text));
    }
    const auto wanted = def.infer({operands, attributes, nullptr, {}});
    ASSERT_TRUE(wanted.ok()) << wanted.status().message();
    Recorder recorder(operands);
    const auto results = def.decompose(recorder, values, attributes);
    ASSERT_TRUE(results.ok());
    ASSERT_EQ(results->size(), wanted->size());
    for (size_t i = 0; i < results->size(); ++i) EXPECT_EQ(recorder.type_of((*results)[i]), (*wanted)[i]) << c.op;
  }
}

}  // namespace
}  // namespace firstlight::ops
