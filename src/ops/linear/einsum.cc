// SPDX-License-Identifier: Apache-2.0
// einsum: a contraction of two small tensors, named axis by axis.
#include "ops/linear/einsum.h"

#include <algorithm>

#include "ops/defs.h"
#include "ops/infer.h"

namespace firstlight::ops {
namespace {

constexpr size_t kMaxAxes = 6;
constexpr double kMostProducts = 1 << 28;  // per element of the axis that grows with the batch

bool is_axis_list(std::string_view letters) {
  if (letters.empty() || letters.size() > kMaxAxes) return false;
  for (size_t i = 0; i < letters.size(); ++i) {
    if (letters[i] < 'a' || letters[i] > 'z' || letters.find(letters[i], i + 1) != std::string_view::npos) return false;
  }
  return true;
}

// The size of each axis of both operands, told to `sizes`; an error where they disagree.
Status collect(std::string_view letters, const tensor::Type& x, std::string_view operand,
               std::vector<std::pair<char, tensor::Dim>>& sizes) {
  FL_TRY(want(is_plain_float(x) && static_cast<size_t>(rank(x)) == letters.size(), OpKind::kEinsum, operand, x,
              "a plain float tensor of axes " + std::string(letters)));
  for (size_t i = 0; i < letters.size(); ++i) {
    const auto known = std::find_if(sizes.begin(), sizes.end(), [&](const auto& s) { return s.first == letters[i]; });
    if (known == sizes.end()) {
      sizes.emplace_back(letters[i], x.shape[i]);
    } else {
      FL_TRY(want(known->second == x.shape[i], OpKind::kEinsum, operand, x,
                  "size " + known->second.to_string() + " of axis " + std::string(1, letters[i])));
    }
  }
  return ok_status();
}

Result<Types> infer(const InferInput& input) {
  const std::string& text = input.attributes.get_string("equation");
  const auto equation = parse_einsum(text);
  FL_TRY(want_attribute(equation.has_value(), OpKind::kEinsum, "equation", "\"" + text + "\"",
                        "\"ab,bc->ac\": axes as distinct letters, at most six an operand, those of the result from "
                        "either operand"));
  std::vector<std::pair<char, tensor::Dim>> sizes;
  FL_TRY(collect(equation->a, input.operands[0], "a", sizes));
  FL_TRY(collect(equation->b, input.operands[1], "b", sizes));
  tensor::Shape shape;
  for (const auto& [letter, dim] : sizes) {
    FL_TRY(want_attribute(equation->out.find(letter) != std::string::npos || dim.is_static(), OpKind::kEinsum,
                          "equation", "\"" + text + "\"", "constant sizes of the axes that are summed"));
  }
  double products = 1;
  int growing = 0;
  for (const auto& [letter, dim] : sizes) {
    products *= std::max(1.0, static_cast<double>(dim.factor));
    growing += dim.is_static() ? 0 : 1;
  }
  FL_TRY(want_attribute(growing <= 1, OpKind::kEinsum, "equation", "\"" + text + "\"",
                        "at most one axis that grows with the batch"));
  FL_TRY(want_attribute(products <= kMostProducts, OpKind::kEinsum, "equation", "\"" + text + "\"",
                        "at most 2^28 multiplications (for a token), and these sizes make more"));
  for (const char letter : equation->out) {
    shape.push_back(std::find_if(sizes.begin(), sizes.end(), [&](const auto& s) { return s.first == letter; })->second);
  }
  return Types{f32(std::move(shape))};
}

std::vector<ShardRule> shard(const InferInput& input) {
  const auto equation = parse_einsum(input.attributes.get_string("equation"));
  if (!equation) return {};
  const auto place = [](const std::string& letters, char letter) {
    const size_t at = letters.find(letter);
    return at == std::string::npos ? -1 : static_cast<int>(at);
  };
  std::vector<ShardRule> rules;
  for (const char letter : equation->out) {
    rules.push_back(
        {"axis", {place(equation->a, letter), place(equation->b, letter)}, {place(equation->out, letter)}, false});
  }
  for (const char letter : equation->a) {
    const bool summed = place(equation->out, letter) < 0 && place(equation->b, letter) >= 0;
    if (summed) rules.push_back({"summed", {place(equation->a, letter), place(equation->b, letter)}, {-1}, true});
  }
  return rules;
}

Cost cost(const InferInput& input, std::span<const tensor::Type> results, const tensor::SymbolValues& values) {
  Cost cost = elementwise_cost(input, results, values, 0);
  const auto equation = parse_einsum(input.attributes.get_string("equation"));
  double products = static_cast<double>(tensor::num_elements(results[0].shape, values));
  if (equation) {
    for (size_t i = 0; i < equation->summed.size(); ++i) {
      const char letter = equation->summed[i];
      const size_t in_a = equation->a.find(letter);
      const tensor::Dim dim =
          in_a != std::string::npos ? input.operands[0].shape[in_a] : input.operands[1].shape[equation->b.find(letter)];
      products *= static_cast<double>(dim.at(values));
    }
  }
  cost.operations = 2 * products;
  return cost;
}

}  // namespace

std::optional<EinsumEquation> parse_einsum(std::string_view text) {
  const size_t comma = text.find(',');
  const size_t arrow = text.find("->");
  if (comma == std::string_view::npos || arrow == std::string_view::npos || arrow < comma) return std::nullopt;
  EinsumEquation equation;
  equation.a = text.substr(0, comma);
  equation.b = text.substr(comma + 1, arrow - comma - 1);
  equation.out = text.substr(arrow + 2);
  if (!is_axis_list(equation.a) || !is_axis_list(equation.b)) return std::nullopt;
  if (!equation.out.empty() && !is_axis_list(equation.out)) return std::nullopt;
  for (const char letter : equation.out) {
    if (equation.a.find(letter) == std::string::npos && equation.b.find(letter) == std::string::npos) {
      return std::nullopt;
    }
  }
  for (const char letter : equation.a + equation.b) {
    const bool seen =
        equation.out.find(letter) != std::string::npos || equation.summed.find(letter) != std::string::npos;
    if (!seen) equation.summed += letter;
  }
  return equation;
}

OpDef einsum_def() {
  OpDef def;
  def.kind = OpKind::kEinsum;
  def.name = "einsum";
  def.operands = {{"a"}, {"b"}};
  def.attributes = {{"equation", AttributeType::kString, true, {}, "\"ab,bc->ac\""}};
  def.meaning =
      "The product of a and b, axes matched by letter, summed over the letters that the result does not have, in "
      "float32. For small axes (stream mixing, index scores); weights belong into linear.";
  def.rounding = "products and sums in float64, rounded once";
  def.infer = infer;
  def.shard = shard;
  def.cost = cost;
  def.gradient = "da = einsum(dy, b), db = einsum(a, dy) with the letters rearranged";
  return def;
}

}  // namespace firstlight::ops
