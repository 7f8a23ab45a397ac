// SPDX-License-Identifier: Apache-2.0
// reshape: the same elements under another shape; moves nothing.
#include "ops/defs.h"
#include "ops/infer.h"

namespace firstlight::ops {
namespace {

using tensor::Dim;
using tensor::Shape;

struct Target {
  Shape shape;
  int open = -1;  // the axis written -1
};

Result<Target> parse_target(const std::string& text) {
  Target target;
  size_t start = 0;
  while (!text.empty() && start <= text.size()) {
    const size_t comma = std::min(text.find(',', start), text.size());
    std::string_view part(text.data() + start, comma - start);
    while (!part.empty() && part.front() == ' ') part.remove_prefix(1);
    while (!part.empty() && part.back() == ' ') part.remove_suffix(1);
    if (part == "-1") {
      FL_TRY(want_attribute(target.open < 0, OpKind::kReshape, "shape", "\"" + text + "\"", "one -1 at most"));
      target.open = static_cast<int>(target.shape.size());
      target.shape.emplace_back(1);
    } else {
      const auto dim = Dim::parse(part);
      FL_TRY(want_attribute(dim.has_value(), OpKind::kReshape, "shape", "\"" + text + "\"",
                            "dimensions like \"T,8,-1\" in place of '" + std::string(part) + "'"));
      target.shape.push_back(*dim);
    }
    start = comma + 1;
  }
  return target;
}

// total / rest as one dimension.
std::optional<Dim> divide(const Dim& total, const Dim& rest) {
  if (rest.factor == 0 || total.factor % rest.factor != 0) return std::nullopt;
  if (!rest.is_static() && (rest.symbol != total.symbol || rest.rate != total.rate)) return std::nullopt;
  Dim quotient = rest.is_static() ? total : Dim(1);
  quotient.factor = total.factor / rest.factor;
  return quotient;
}

Result<Types> infer(const InferInput& input) {
  const tensor::Type& x = input.operands[0];
  const std::string& text = input.attributes.get_string("shape");
  FL_TRY(want(x.layout == tensor::Layout::kRowMajor, OpKind::kReshape, "x", x, "a row-major tensor"));
  Target target = FL_TRY(parse_target(text));
  const auto total = tensor::dim_product(x.shape);
  const auto rest = tensor::dim_product(target.shape);
  const std::string found = "\"" + text + "\"";
  FL_TRY(want(total.has_value(), OpKind::kReshape, "x", x, "one symbolic axis at most"));
  FL_TRY(want_attribute(rest.has_value(), OpKind::kReshape, "shape", found, "one symbolic axis at most"));
  if (target.open >= 0) {
    const auto open = divide(*total, *rest);
    FL_TRY(want_attribute(open.has_value(), OpKind::kReshape, "shape", found, "a divisor of " + x.to_string()));
    target.shape[static_cast<size_t>(target.open)] = *open;
  }
  FL_TRY(want_attribute(tensor::dim_product(target.shape) == total, OpKind::kReshape, "shape", found,
                        "as many elements as " + x.to_string()));
  FL_TRY(want_attribute(target.shape.size() <= 6, OpKind::kReshape, "shape", found, "at most 6 axes"));
  const bool keeps_last = !x.shape.empty() && !target.shape.empty() && target.shape.back() == x.shape.back();
  FL_TRY(want_attribute(!is_block_format(x.dtype) || keeps_last, OpKind::kReshape, "shape", found,
                        "the last axis of " + x.to_string() + " left whole (its rows are stored in blocks)"));
  return Types{tensor::Type::tensor(x.dtype, std::move(target.shape))};
}

std::vector<ShardRule> shard(const InferInput& input) {
  // The leading axis survives when both shapes start with the same size.
  const auto target = parse_target(input.attributes.get_string("shape"));
  const Shape& shape = input.operands[0].shape;
  if (!target.ok() || shape.empty() || target->shape.empty() || target->open == 0) return {};
  if (target->shape[0] != shape[0]) return {};
  return {{"tokens", {0}, {0}, false}};
}

Cost cost(const InferInput&, std::span<const tensor::Type>, const tensor::SymbolValues&) { return {}; }

}  // namespace

OpDef reshape_def() {
  OpDef def;
  def.kind = OpKind::kReshape;
  def.name = "reshape";
  def.operands = {{"x"}};
  def.attributes = {{"shape", AttributeType::kString, true, {}, "dimensions, \"T,8,-1\"; one may be -1"}};
  def.meaning = "y has x's elements in row-major order under the new shape. Block formats keep their last axis.";
  def.rounding = "none";
  def.infer = infer;
  def.shard = shard;
  def.cost = cost;
  def.gradient = "dx = reshape(dy, shape of x)";
  return def;
}

}  // namespace firstlight::ops
