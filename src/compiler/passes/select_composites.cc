// SPDX-License-Identifier: Apache-2.0
// What a spec wrote out in primitives becomes the operator that has kernels: x * rsqrt(mean(x^2) + eps) * w a rms_norm
// (w + c and no w too), the same of x - mean(x) a layer_norm, exp(x - max) / sum a softmax, pairs turned by cos and sin
// of positions times a table of constants a rope, x / (1 + exp(-x)) a product with sigmoid. Formulas are compared in
// normal form (formula_algebra.h), so the order and the spelling in the spec do not matter.
#include <array>
#include <cmath>

#include "compiler/formula_algebra.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/rope_pattern.h"
#include "ir/rewrite.h"
#include "ops/infer.h"

namespace firstlight::compiler {
namespace {

using Kind = Term::Kind;
using Parts = std::vector<std::pair<TermId, double>>;

bool is_close(double a, double b) { return std::fabs(a - b) <= 1e-9 * std::fabs(b); }

struct Norm {
  ir::ValueId x = -1;
  bool centred = false;
  double eps = 0;
  double offset = 0;
  ir::ValueId weight = -1;
  ir::ValueId bias = -1;
};

class Selector {
 public:
  Selector(ir::Graph& graph, ir::Region& region) : graph_(graph), region_(region), algebra_(graph) {}

  Status run() {
    std::vector<ir::NodeId> order;
    std::vector<ir::ValueId> replacement(graph_.values.size(), -1);
    for (const ir::NodeId id : std::vector<ir::NodeId>(region_.nodes)) {
      algebra_.add(graph_.node(id));
      const ir::NodeId made = FL_TRY(select(id));
      if (made >= 0) {
        order.push_back(made);
        replacement[static_cast<size_t>(graph_.node(id).results[0])] = graph_.node(made).results[0];
      }
      order.push_back(id);
    }
    region_.nodes = std::move(order);
    ir::replace_uses(graph_, replacement);
    return ok_status();
  }

 private:
  // The node that stands for `id`, made and not yet placed; -1: none.
  Result<ir::NodeId> select(ir::NodeId id) {
    const ir::Node& node = graph_.node(id);
    if (node.results.size() != 1 || !node.regions.empty()) return ir::NodeId{-1};
    const ir::ValueId result = node.results[0];
    const std::string scope = node.scope;
    if (node.op == ops::OpKind::kMap) {
      const TermId term = algebra_.of(result);
      if (const auto norm = find_norm(term, result)) return make_norm(*norm, scope);
      if (const ir::ValueId x = find_softmax(term, result); x >= 0) {
        return ir::create_node(graph_, ops::OpKind::kSoftmax, std::array{x}, {}, {}, scope);
      }
      if (find_sigmoid(term)) return make_sigmoid(term, result, scope);
    }
    if (const auto rope = find_rope(graph_, algebra_, node)) {
      ops::Attributes attributes = rope->attributes;
      return ir::create_node(graph_, ops::OpKind::kRope, std::array{rope->x, rope->positions}, std::move(attributes),
                             {}, scope);
    }
    return ir::NodeId{-1};
  }

  Result<ir::NodeId> make_norm(const Norm& norm, const std::string& scope) {
    ops::Attributes attributes;
    attributes.set("eps", norm.eps);
    if (!norm.centred) attributes.set("offset", norm.offset);
    std::vector<ir::ValueId> operands = {norm.x};
    if (norm.weight >= 0) operands.push_back(norm.weight);
    if (norm.bias >= 0) operands.push_back(norm.bias);
    return ir::create_node(graph_, norm.centred ? ops::OpKind::kLayerNorm : ops::OpKind::kRmsNorm, operands,
                           std::move(attributes), {}, scope);
  }

  bool is_vector(ir::ValueId id, const tensor::Dim& width) const {
    return id >= 0 && ops::is_plain_float(graph_.value(id).type) && ops::has_shape(graph_.value(id).type, {width});
  }

  // A norm, or a layer_norm with a bias behind it.
  std::optional<Norm> find_norm(TermId id, ir::ValueId result) {
    const tensor::Type& type = graph_.value(result).type;
    if (type.shape.empty() || !ops::last_dim(type).is_static()) return std::nullopt;
    const Term term = algebra_.term(id);
    if (term.kind == Kind::kProduct) return find_scaled_norm(id, type);
    if (term.kind != Kind::kSum || term.number != 0 || term.parts.size() != 2) return std::nullopt;
    for (size_t i = 0; i < 2; ++i) {
      const auto& [bias, factor] = term.parts[1 - i];
      if (factor != 1 || term.parts[i].second != 1 || !is_vector(algebra_.value_of(bias), ops::last_dim(type)))
        continue;
      auto norm = find_scaled_norm(term.parts[i].first, type);
      if (!norm || !norm->centred || norm->weight < 0) continue;
      norm->bias = algebra_.value_of(bias);
      return norm;
    }
    return std::nullopt;
  }

  // x^1 * (mean(x^2) + eps)^-0.5 * weight^1, x itself perhaps a product.
  std::optional<Norm> find_scaled_norm(TermId id, const tensor::Type& type) {
    const Term term = algebra_.term(id);
    if (term.kind != Kind::kProduct) return std::nullopt;
    for (const auto& [root, exponent] : term.parts) {
      if (exponent != -0.5) continue;
      if (auto norm = norm_by_root(term, root, type)) return norm;
    }
    return std::nullopt;
  }

  std::optional<Norm> norm_by_root(const Term& whole, TermId root, const tensor::Type& type) {
    const Term below = algebra_.term(root);
    const auto width = static_cast<double>(ops::last_dim(type).factor);
    if (below.kind != Kind::kSum || below.number < 0 || below.parts.size() > 2) return std::nullopt;
    for (const auto& [sum, factor] : below.parts) {
      if (algebra_.term(sum).kind != Kind::kRowSum || !is_close(factor * width, 1)) continue;
      const TermId squares = algebra_.term(sum).parts[0].first;
      // sum(x^2) / n - (sum(x) / n)^2: the variance in one pass.
      if (below.parts.size() == 2) {
        const auto& other = below.parts[below.parts[0].first == sum ? 1 : 0];
        if (!is_close(other.second * width * width, -1)) continue;
        auto norm = norm_of_moments(whole, root, squares, other.first, below.number, type);
        if (norm) return norm;
        continue;
      }
      if (auto norm = norm_of_squares(whole, root, squares, below.number, type)) return norm;
    }
    return std::nullopt;
  }

  // The term whose square is `squares`; -1: it is none.
  TermId square_root(TermId squares) {
    const Term term = algebra_.term(squares);
    if (term.kind != Kind::kProduct || term.number < 0) return -1;
    Parts halves;
    for (const auto& [part, exponent] : term.parts) halves.emplace_back(part, exponent / 2);
    const TermId root = algebra_.product(std::sqrt(term.number), std::move(halves));
    return algebra_.product(1, {{root, 2.0}}) == squares ? root : -1;
  }

  std::optional<Norm> norm_of_squares(const Term& whole, TermId root, TermId squares, double eps,
                                      const tensor::Type& type) {
    const TermId x = square_root(squares);
    if (x < 0) return std::nullopt;
    Norm norm;
    norm.eps = eps;
    if (!take_weight(whole, root, x, ops::last_dim(type), norm)) return std::nullopt;
    if (const ir::ValueId raw = uncentred(x, type); raw >= 0 && norm.offset == 0) {
      norm.x = raw;
      norm.centred = true;
      return norm;
    }
    norm.x = algebra_.value_of(x);
    return is_rows(norm.x, type) ? std::optional(norm) : std::nullopt;
  }

  std::optional<Norm> norm_of_moments(const Term& whole, TermId root, TermId squares, TermId mean_square, double eps,
                                      const tensor::Type& type) {
    const TermId x = square_root(squares);
    const TermId mean = square_root(mean_square);
    if (x < 0 || mean < 0) return std::nullopt;
    const Term& total = algebra_.term(mean);
    if (total.kind != Kind::kRowSum || total.parts[0].first != x) return std::nullopt;
    const double width = static_cast<double>(ops::last_dim(type).factor);
    const TermId centred = algebra_.sum(0, {{x, 1.0}, {mean, -1 / width}});
    Norm norm;
    norm.eps = eps;
    norm.centred = true;
    norm.x = algebra_.value_of(x);
    const bool fits = take_weight(whole, root, centred, ops::last_dim(type), norm) && norm.offset == 0;
    return fits && is_rows(norm.x, type) ? std::optional(norm) : std::nullopt;
  }

  bool is_rows(ir::ValueId id, const tensor::Type& type) const {
    return id >= 0 && graph_.value(id).type.shape == type.shape && ops::is_plain_float(graph_.value(id).type);
  }

  // The value v where x is v - mean(v); -1: it is none.
  ir::ValueId uncentred(TermId x, const tensor::Type& type) {
    const Term term = algebra_.term(x);
    if (term.kind != Kind::kSum) return -1;
    const double width = static_cast<double>(ops::last_dim(type).factor);
    for (const auto& [part, factor] : term.parts) {
      if (algebra_.term(part).kind != Kind::kRowSum || !is_close(factor * width, -1)) continue;
      const TermId total = algebra_.term(part).parts[0].first;
      const TermId rest = algebra_.sum(0, {{x, 1.0}, {part, -factor}});
      const ir::ValueId value = algebra_.value_of(rest);
      if (rest == total && is_rows(value, type)) return value;
    }
    return -1;
  }

  // What the product holds beside x and the root: nothing, a vector w, or w + offset.
  bool take_weight(const Term& whole, TermId root, TermId x, const tensor::Dim& width, Norm& norm) {
    const TermId product = algebra_.product(whole.number, Parts(whole.parts));
    const TermId rest = algebra_.product(1, {{product, 1.0}, {x, -1.0}, {root, 0.5}});
    const Term term = algebra_.term(rest);
    if (term.kind == Kind::kConstant) return is_close(term.number, 1);
    if (term.kind == Kind::kSum && term.parts.size() == 1 && term.parts[0].second == 1 &&
        is_vector(algebra_.value_of(term.parts[0].first), width)) {
      norm.weight = algebra_.value_of(term.parts[0].first);
      norm.offset = term.number;
      return true;
    }
    norm.weight = algebra_.value_of(rest);
    return is_vector(norm.weight, width);
  }

  // exp(x) / sum(exp(x)), or the same of x - max(x).
  ir::ValueId find_softmax(TermId id, ir::ValueId result) {
    const Term term = algebra_.term(id);
    if (term.kind != Kind::kProduct || term.number != 1 || term.parts.size() != 2) return -1;
    for (const auto& [sum, exponent] : term.parts) {
      if (exponent != -1 || algebra_.term(sum).kind != Kind::kRowSum) continue;
      const TermId exponential = algebra_.term(sum).parts[0].first;
      const double* own = term.part(exponential);
      const Term inner = algebra_.term(exponential);
      if (own == nullptr || *own != 1 || inner.kind != Kind::kFunction || inner.op != ops::ExprOp::kExp) continue;
      const ir::ValueId x = algebra_.value_of(without_max(inner.parts[0].first));
      if (is_rows(x, graph_.value(result).type) && graph_.value(x).type.shape.back().is_static()) return x;
    }
    return -1;
  }

  // Which factor of a product is 1 / (1 + exp(-b)); nullopt: none.
  std::optional<TermId> find_sigmoid(TermId id) const {
    const Term& term = algebra_.term(id);
    if (term.kind != Kind::kProduct) return std::nullopt;
    for (const auto& [part, exponent] : term.parts) {
      const Term& below = algebra_.term(part);
      if (exponent != -1 || below.kind != Kind::kSum || below.number != 1 || below.parts.size() != 1) continue;
      const Term& exponential = algebra_.term(below.parts[0].first);
      if (below.parts[0].second == 1 && exponential.kind == Kind::kFunction && exponential.op == ops::ExprOp::kExp) {
        return part;
      }
    }
    return std::nullopt;
  }

  // A product with such a factor, written with sigmoid; -1 where its factors are no values.
  Result<ir::NodeId> make_sigmoid(TermId id, ir::ValueId result, const std::string& scope) {
    const TermId below = *find_sigmoid(id);
    const TermId exponential = algebra_.term(below).parts[0].first;
    const TermId b = algebra_.product(-1, {{algebra_.term(exponential).parts[0].first, 1.0}});
    const TermId factors = algebra_.product(1, {{id, 1.0}, {below, 1.0}});
    const TermId others = algebra_.product(1, {{factors, 1.0}, {b, -1.0}});
    for (const bool gated : {true, false}) {  // b * sigmoid(b) * others, else sigmoid(b) * factors
      auto formula = gate_formula(b, gated, gated ? others : factors);
      if (!formula) continue;
      ops::Attributes attributes;
      attributes.set("expr", std::move(formula->first));
      const ir::NodeId made =
          FL_TRY(ir::create_node(graph_, ops::OpKind::kMap, formula->second, std::move(attributes), {}, scope));
      if (graph_.value(graph_.node(made).results[0]).type == graph_.value(result).type) return made;
    }
    return ir::NodeId{-1};
  }

  std::optional<std::pair<ops::Expression, std::vector<ir::ValueId>>> gate_formula(TermId b, bool gated,
                                                                                   TermId others) {
    std::vector<ir::ValueId> operands = {algebra_.value_of(b)};
    ops::Expression formula;
    int32_t whole = formula.input(0);
    const int32_t sigmoid = formula.apply(ops::ExprOp::kSigmoid, whole);
    whole = gated ? formula.apply(ops::ExprOp::kMul, whole, sigmoid) : sigmoid;
    const Term rest = algebra_.term(others);
    Parts parts = rest.parts;
    if (rest.kind != Kind::kProduct) parts = rest.kind == Kind::kConstant ? Parts{} : Parts{{others, 1.0}};
    for (const auto& [part, exponent] : parts) {
      if (exponent != 1) return std::nullopt;
      operands.push_back(algebra_.value_of(part));
      whole = formula.apply(ops::ExprOp::kMul, whole, formula.input(static_cast<int32_t>(operands.size()) - 1));
    }
    const bool scaled = rest.kind == Kind::kProduct || rest.kind == Kind::kConstant;
    if (scaled && rest.number != 1) whole = formula.apply(ops::ExprOp::kMul, whole, formula.constant(rest.number));
    formula.set_result(whole);
    for (const ir::ValueId operand : operands) {
      if (operand < 0) return std::nullopt;
    }
    return std::pair(std::move(formula), std::move(operands));
  }

  TermId without_max(TermId id) {
    const Term term = algebra_.term(id);
    if (term.kind != Kind::kSum) return id;
    for (const auto& [part, factor] : term.parts) {
      if (factor != -1 || algebra_.term(part).kind != Kind::kRowMax) continue;
      const TermId rest = algebra_.sum(0, {{id, 1.0}, {part, 1.0}});
      if (algebra_.term(part).parts[0].first == rest) return rest;
    }
    return id;
  }

  ir::Graph& graph_;
  ir::Region& region_;
  FormulaAlgebra algebra_;
};

}  // namespace

Status select_composites(ir::Graph& graph, const CompileOptions&) {
  Status status;
  ir::for_each_region(graph, [&](ir::Region& region) {
    if (status.ok()) status = Selector(graph, region).run();
  });
  FL_TRY(std::move(status));
  ir::eliminate_dead_code(graph);
  return ok_status();
}

}  // namespace firstlight::compiler
