// SPDX-License-Identifier: Apache-2.0
// The list of all operators, and the checks of a node against its row.
#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "ops/defs.h"
#include "ops/infer.h"

namespace firstlight::ops {
namespace {

std::vector<OpDef> make_table() {
  std::vector<OpDef> table = {
      gather_rows_def(),
      gather_last_def(),
      reshape_def(),
      transpose_def(),
      slice_def(),
      concat_def(),
      stack_def(),
      cast_def(),
      take_def(),
      pad_def(),
      scatter_rows_def(),
      constant_def(),
      map_def(),
      reduce_def(),
      softmax_def(),
      top_k_def(),
      index_mask_def(),
      fake_quant_def(),
      cumsum_def(),
      imap_def(),
      fused_rows_def(),
      rms_norm_def(),
      layer_norm_def(),
      linear_def(),
      batched_linear_def(),
      fused_linear_def(),
      einsum_def(),
      route_def(),
      rope_def(),
      append_def(),
      attend_def(),
      attend_segments_def(),
      index_scores_def(),
      window_emit_def(),
      conv2d_def(),
      pool2d_def(),
      interp2d_def(),
      recent_tokens_def(),
      shift_def(),
      conv1d_def(),
      recur_gla_def(),
      recur_delta_def(),
      recur_selective_def(),
      recur_elementwise_def(),
      recur_dplr_def(),
      rope_append_def(),
      dequantize_def(),
      pack_mxfp4_def(),
      assemble_weight_def(),
      pack_weight_def(),
      per_expert_def(),
      if_def(),
      repeat_def(),
  };
  for (size_t i = 0; i < table.size(); ++i) FL_CHECK(static_cast<size_t>(table[i].kind) == i);
  return table;
}

const std::vector<OpDef>& table() {
  static const std::vector<OpDef> rows = make_table();
  return rows;
}

std::string op_text(const OpDef& def) { return std::string(def.name) + ": "; }

// The first number that float32 does not hold, which would be another number for each kernel; 0 where there is none.
double beyond_float32(const Attribute& value) {
  const auto is_beyond = [](double v) { return std::isfinite(v) && std::isinf(static_cast<float>(v)); };
  const auto of_formula = [&](const Expression& formula) {
    for (const ExprTerm& term : formula.terms()) {
      if (term.op == ExprOp::kConstant && is_beyond(term.constant)) return term.constant;
    }
    return 0.0;
  };
  if (const auto* number = std::get_if<double>(&value)) return is_beyond(*number) ? *number : 0;
  if (const auto* formula = std::get_if<Expression>(&value)) return of_formula(*formula);
  if (const auto* numbers = std::get_if<std::vector<double>>(&value)) {
    const auto found = std::find_if(numbers->begin(), numbers->end(), is_beyond);
    return found == numbers->end() ? 0 : *found;
  }
  if (const auto* formulas = std::get_if<std::vector<Expression>>(&value)) {
    for (const Expression& formula : *formulas) {
      if (const double found = of_formula(formula); found != 0) return found;
    }
  }
  return 0;
}

}  // namespace

const OpDef& op_def(OpKind kind) { return table()[static_cast<size_t>(kind)]; }
std::span<const OpDef> all_ops() { return table(); }

std::optional<OpKind> op_from_name(std::string_view name) {
  for (const OpDef& def : table()) {
    if (def.name == name) return def.kind;
  }
  return std::nullopt;
}

Status check_attributes(const OpDef& def, Attributes& attributes) {
  const auto row_of = [&](std::string_view name) {
    return std::find_if(def.attributes.begin(), def.attributes.end(),
                        [&](const AttributeDef& a) { return a.name == name; });
  };
  for (const auto& [name, value] : attributes.all()) {
    const auto row = row_of(name);
    if (row == def.attributes.end()) return invalid_argument(op_text(def) + "it has no attribute '" + name + "'");
    if (attribute_type(value) != row->type) {
      return invalid_argument(op_text(def) + "attribute " + name + " is " + attribute_to_string(value) + " (" +
                              std::string(attribute_type_name(attribute_type(value))) + "), wanted a value of type " +
                              std::string(attribute_type_name(row->type)));
    }
    if (const double beyond = beyond_float32(value); beyond != 0) {
      return invalid_argument(op_text(def) + "attribute " + name + " holds " + exact_decimal(beyond) +
                              ", wanted numbers of float32");
    }
  }
  for (const AttributeDef& row : def.attributes) {
    if (attributes.has(row.name)) continue;
    if (row.required) return invalid_argument(op_text(def) + "attribute " + std::string(row.name) + " is missing");
    attributes.set(std::string(row.name), row.fallback);
  }
  return ok_status();
}

Status check_operands(const OpDef& def, std::span<const tensor::Type> operands) {
  size_t least = 0;
  size_t most = 0;
  for (const OperandDef& row : def.operands) {
    if (row.arity == OperandDef::Arity::kOne) ++least;
    most = row.arity == OperandDef::Arity::kVariadic ? std::max(most, size_t{1} << 20) : most + 1;
  }
  if (operands.size() < least || operands.size() > most) {
    const std::string wanted = least == most               ? std::to_string(least)
                               : most >= (size_t{1} << 20) ? std::to_string(least) + " or more"
                                                           : std::to_string(least) + " to " + std::to_string(most);
    return invalid_argument(op_text(def) + "it has " + std::to_string(operands.size()) + " operands, wanted " + wanted);
  }
  for (size_t i = 0; i < operands.size(); ++i) {
    const OperandDef& row = def.operands[std::min(i, def.operands.size() - 1)];
    const bool may_capture_state =
        (def.num_regions > 0 || row.may_be_state) && row.arity == OperandDef::Arity::kVariadic;
    if (may_capture_state) continue;
    FL_TRY(want(operands[i].is_state() == row.is_state, def.kind, row.name, operands[i],
                row.is_state ? "a state" : "a tensor"));
  }
  return ok_status();
}

}  // namespace firstlight::ops
