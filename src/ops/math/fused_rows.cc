// SPDX-License-Identifier: Apache-2.0
// fused_rows: formulas and reductions along the last axis in one step: norms, softmax and the like with what stands in
// front of them and behind. Made by compiler passes alone; its decomposition is its meaning.
#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "ops/defs.h"
#include "ops/infer.h"

namespace firstlight::ops {

namespace {

using Reduce = RowStage::Reduce;
constexpr std::array<std::pair<Reduce, std::string_view>, 4> kReduces = {
    {{Reduce::kNone, "none"}, {Reduce::kSum, "sum"}, {Reduce::kMean, "mean"}, {Reduce::kMax, "max"}}};

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    words.push_back(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return words;
}

}  // namespace

std::optional<Reduce> row_reduce_from_name(std::string_view name) {
  for (const auto& [reduce, known] : kReduces) {
    if (known == name) return reduce;
  }
  return std::nullopt;
}

std::string_view row_reduce_name(Reduce reduce) { return kReduces[static_cast<size_t>(reduce)].second; }

std::vector<RowStage> row_stages(const Attributes& attributes) {
  const auto words = words_of(attributes.get_string("reduce"));
  const std::vector<Expression>& formulas = attributes.get_expressions("stages");
  FL_CHECK(words.size() == formulas.size());
  std::vector<RowStage> stages;
  for (size_t i = 0; i < formulas.size(); ++i) stages.push_back({row_reduce_from_name(words[i]).value(), formulas[i]});
  return stages;
}

namespace {

constexpr size_t kMaxStages = 64;

Status check_stages(const InferInput& input) {
  const std::vector<Expression>& formulas = input.attributes.get_expressions("stages");
  const std::string& reduce = input.attributes.get_string("reduce");
  const auto words = words_of(reduce);
  FL_TRY(want_attribute(!formulas.empty() && formulas.size() <= kMaxStages, OpKind::kFusedRows, "stages",
                        std::to_string(formulas.size()) + " formulas", "1 to " + std::to_string(kMaxStages)));
  const bool known = std::all_of(words.begin(), words.end(),
                                 [](std::string_view word) { return row_reduce_from_name(word).has_value(); });
  FL_TRY(want_attribute(known && words.size() == formulas.size(), OpKind::kFusedRows, "reduce", "\"" + reduce + "\"",
                        "one of none, sum, mean and max per stage"));
  for (size_t i = 0; i < formulas.size(); ++i) {
    const auto inputs = static_cast<int>(input.operands.size() + i);
    FL_TRY(want_attribute(!formulas[i].empty() && formulas[i].num_inputs() <= inputs, OpKind::kFusedRows, "stages",
                          formulas[i].to_string(), "formulas in the operands and the stages before"));
  }
  for (const int64_t result : input.attributes.get_ints("results")) {
    FL_TRY(want_attribute(result >= 0 && result < static_cast<int64_t>(formulas.size()), OpKind::kFusedRows, "results",
                          std::to_string(result), "a stage"));
  }
  return want_attribute(!input.attributes.get_ints("results").empty(), OpKind::kFusedRows, "results", "none",
                        "a stage or more");
}

Result<Types> infer(const InferInput& input) {
  FL_TRY(check_stages(input));
  tensor::Shape shape;
  for (size_t i = 0; i < input.operands.size(); ++i) {
    const tensor::Type& x = input.operands[i];
    const std::string name = "x" + std::to_string(i);
    FL_TRY(want(is_plain(x), OpKind::kFusedRows, name, x, "a row-major tensor of a plain type"));
    FL_TRY(want(broadcast_onto(shape, x.shape), OpKind::kFusedRows, name, x,
                "a shape that broadcasts with " + tensor::shape_to_string(shape)));
  }
  const tensor::Type rows = f32(shape);
  FL_TRY(want(!shape.empty() && shape.back().is_static() && shape.back().factor > 0, OpKind::kFusedRows, "x", rows,
              "a constant last axis that is not empty"));
  const auto stages = row_stages(input.attributes);
  Types results;
  for (const int64_t result : input.attributes.get_ints("results")) {
    tensor::Type type = rows;
    if (stages[static_cast<size_t>(result)].reduce != Reduce::kNone) type.shape.back() = tensor::Dim(1);
    results.push_back(std::move(type));
  }
  return results;
}

DecomposeResult decompose(DecomposeBuilder& builder, std::span<const DecomposeBuilder::Value> operands,
                          const Attributes& attributes) {
  std::vector<DecomposeBuilder::Value> values(operands.begin(), operands.end());
  for (const RowStage& stage : row_stages(attributes)) {
    Attributes map;
    map.set("expr", stage.formula);
    DecomposeBuilder::Value value = builder.emit(OpKind::kMap, values, std::move(map));
    if (stage.reduce != Reduce::kNone) value = emit_reduce(builder, value, row_reduce_name(stage.reduce));
    values.push_back(value);
  }
  std::vector<DecomposeBuilder::Value> results;
  for (const int64_t result : attributes.get_ints("results")) {
    results.push_back(values[operands.size() + static_cast<size_t>(result)]);
  }
  return results;
}

std::vector<ShardRule> shard(const InferInput& input) {
  tensor::Shape shape;
  for (const tensor::Type& x : input.operands) broadcast_onto(shape, x.shape);
  const int result_rank = static_cast<int>(shape.size());
  const size_t num_results = input.attributes.get_ints("results").size();
  std::vector<ShardRule> rules;
  for (int axis = 0; axis + 1 < result_rank; ++axis) {
    ShardRule rule{"axis", {}, std::vector<int>(num_results, axis), false};
    for (const tensor::Type& x : input.operands) {
      const int own = axis - (result_rank - rank(x));
      rule.operand_axes.push_back(own >= 0 && x.shape[static_cast<size_t>(own)] != tensor::Dim(1) ? own : -1);
    }
    rules.push_back(std::move(rule));
  }
  return rules;
}

Cost cost(const InferInput& input, std::span<const tensor::Type> results, const tensor::SymbolValues& values) {
  double operations = 0;
  for (const RowStage& stage : row_stages(input.attributes)) {
    operations += static_cast<double>(stage.formula.terms().size());
  }
  return elementwise_cost(input, results, values, operations);
}

}  // namespace

OpDef fused_rows_def() {
  OpDef def;
  def.kind = OpKind::kFusedRows;
  def.name = "fused_rows";
  def.operands = {{"x"}, {"more", OperandDef::Arity::kVariadic}};
  def.attributes = {
      {"stages", AttributeType::kExpressions, true, {}, "formulas in the operands x0.., then the stages before"},
      {"reduce", AttributeType::kString, true, {}, "per stage none, sum, mean or max over the row: \"mean,none\""},
      {"results", AttributeType::kInts, true, {}, "the stages that are results"},
  };
  def.meaning =
      "Operands broadcast to one shape [.., D], as map's do. Each stage in turn: its formula along the row, element by "
      "element; reduced over the last axis to one number of the row where it says so. Results: [.., D], reduced ones "
      "[.., 1].";
  def.rounding = "float32 between stages, sums in float32 or better; the judge in float64, rounded at the results";
  def.elementwise_rows = true;
  def.infer = infer;
  def.decompose = decompose;
  def.shard = shard;
  def.cost = cost;
  def.gradient = "of its decomposition";
  return def;
}

}  // namespace firstlight::ops
