// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/rope_pattern.h"

#include <cmath>

#include "ops/infer.h"

namespace firstlight::compiler {
namespace {

using Kind = Term::Kind;

// Columns [start, stop) of the last axis of a value, every step-th.
struct Columns {
  ir::ValueId of = -1;
  ops::SliceRange range{0, 0, 1};
};

struct Angles {
  ir::ValueId positions = -1;
  std::vector<double> freqs;
};

class Finder {
 public:
  Finder(const ir::Graph& graph, FormulaAlgebra& algebra) : graph_(graph), algebra_(algebra) {}

  std::optional<RopePattern> find(const ir::Node& node) {
    if (node.op == ops::OpKind::kConcat) return find_halves(node);
    if (node.op == ops::OpKind::kReshape) return find_interleaved(node);
    if (node.op == ops::OpKind::kMap) return find_doubled(node);
    return std::nullopt;
  }

 private:
  struct Pair {
    Columns a, b;
    TermId angle = -1;
    double scale = 1;
  };

  const ir::Node* producer(ir::ValueId id) const {
    const ir::NodeId node = id < 0 ? -1 : graph_.value(id).producer;
    return node < 0 ? nullptr : &graph_.node(node);
  }

  bool is_last_axis(const ir::Node& node) const {
    const int rank = ops::rank(graph_.value(node.results[0]).type);
    return ops::resolve_axis(node.attributes.get_int("axis"), rank) == rank - 1;
  }

  std::optional<Columns> columns_of(ir::ValueId id) const {
    const ir::Node* node = producer(id);
    if (node == nullptr || node->op != ops::OpKind::kSlice || !is_last_axis(*node)) return std::nullopt;
    const tensor::Type& x = graph_.value(node->operands[0]).type;
    if (!ops::last_dim(x).is_static()) return std::nullopt;
    return Columns{node->operands[0], ops::slice_range(node->attributes, ops::last_dim(x).factor)};
  }

  // A term that is cos or sin of something: that something; -1.
  TermId angle_of(TermId id, ops::ExprOp op) const {
    const Term& term = algebra_.term(id);
    return term.kind == Kind::kFunction && term.op == op ? term.parts[0].first : -1;
  }

  struct Summand {
    ir::ValueId value = -1;
    TermId angle = -1;
    double factor = 0;
  };

  // The summand value * op(angle) of a sum of two.
  std::optional<Summand> turned(const Term& sum, ops::ExprOp op) const {
    for (const auto& [part, factor] : sum.parts) {
      const Term& product = algebra_.term(part);
      if (product.kind != Kind::kProduct || product.parts.size() != 2) continue;
      for (size_t i = 0; i < 2; ++i) {
        const TermId angle = angle_of(product.parts[i].first, op);
        const auto& [value, exponent] = product.parts[1 - i];
        if (angle < 0 || product.parts[i].second != 1 || exponent != 1) continue;
        return Summand{algebra_.value_of(value), angle, factor};
      }
    }
    return std::nullopt;
  }

  // first = k (a cos - b sin), second = k (b cos + a sin).
  std::optional<Pair> find_pair(ir::ValueId first, ir::ValueId second) {
    const Term upper = algebra_.term(algebra_.of(first));
    const Term lower = algebra_.term(algebra_.of(second));
    for (const Term* sum : {&upper, &lower}) {
      if (sum->kind != Kind::kSum || sum->number != 0 || sum->parts.size() != 2) return std::nullopt;
    }
    const auto a_cos = turned(upper, ops::ExprOp::kCos), b_sin = turned(upper, ops::ExprOp::kSin);
    const auto b_cos = turned(lower, ops::ExprOp::kCos), a_sin = turned(lower, ops::ExprOp::kSin);
    if (!a_cos || !b_sin || !b_cos || !a_sin) return std::nullopt;
    if (a_cos->value != a_sin->value || b_cos->value != b_sin->value) return std::nullopt;
    for (const auto& part : {b_sin, b_cos, a_sin}) {
      if (part->angle != a_cos->angle) return std::nullopt;
    }
    const double k = a_cos->factor;
    if (k <= 0 || b_sin->factor != -k || b_cos->factor != k || a_sin->factor != k) return std::nullopt;
    const auto a = columns_of(a_cos->value), b = columns_of(b_cos->value);
    if (!a || !b || a->of != b->of) return std::nullopt;
    return Pair{*a, *b, a_cos->angle, k};
  }

  // positions * constant, the constant having `count` numbers.
  std::optional<Angles> angles_of(TermId id, int64_t count) const {
    const Term& term = algebra_.term(id);
    if (term.kind != Kind::kProduct || term.parts.size() != 2) return std::nullopt;
    for (size_t i = 0; i < 2; ++i) {
      if (term.parts[i].second != 1 || term.parts[1 - i].second != 1) continue;
      const auto freqs = numbers_of(algebra_.value_of(term.parts[i].first));
      const ir::ValueId positions = positions_of(algebra_.value_of(term.parts[1 - i].first));
      if (static_cast<int64_t>(freqs.size()) != count || positions < 0) continue;
      Angles angles{positions, freqs};
      for (double& f : angles.freqs) f *= term.number;
      return angles;
    }
    return std::nullopt;
  }

  // The values of a constant, perhaps reshaped, that lie along the last axis alone, as the spec wrote them (rope keeps
  // angles in float64, which is nearer to what is meant than a float32 table); empty: it is none.
  std::vector<double> numbers_of(ir::ValueId id) const {
    if (id < 0) return {};
    const tensor::Type& type = graph_.value(id).type;
    if (type.shape.empty() || tensor::dim_product(type.shape) != ops::last_dim(type)) return {};
    const ir::Node* node = producer(id);
    while (node != nullptr && node->op == ops::OpKind::kReshape) node = producer(node->operands[0]);
    if (node == nullptr || node->op != ops::OpKind::kConstant) return {};
    return node->attributes.get_floats("values");
  }

  // i32[T] behind i32[T, 1, ..]; -1: it is no such thing.
  ir::ValueId positions_of(ir::ValueId id) const {
    if (id < 0) return -1;
    const tensor::Shape& shape = graph_.value(id).type.shape;
    for (size_t i = 1; i < shape.size(); ++i) {
      if (shape[i] != tensor::Dim(1)) return -1;
    }
    while (id >= 0 && ops::rank(graph_.value(id).type) != 1) {
      const ir::Node* node = producer(id);
      id = node != nullptr && node->op == ops::OpKind::kReshape ? node->operands[0] : -1;
    }
    return id >= 0 && ops::is_i32(graph_.value(id).type) ? id : -1;
  }

  bool fits(ir::ValueId x, ir::ValueId positions) const {
    const tensor::Type& type = graph_.value(x).type;
    return ops::is_f32(type) && ops::rank(type) == 3 && ops::has_shape(graph_.value(positions).type, {type.shape[0]});
  }

  std::optional<RopePattern> make(ir::ValueId x, const Angles& angles, double scale, int64_t offset,
                                  const char* style) {
    if (!fits(x, angles.positions) || angles.freqs.empty()) return std::nullopt;
    for (const double f : angles.freqs) {
      if (!std::isfinite(f) || f < 0) return std::nullopt;
    }
    RopePattern pattern{x, angles.positions, {}};
    pattern.attributes.set("style", std::string(style));
    pattern.attributes.set("length", 2 * static_cast<int64_t>(angles.freqs.size()));
    pattern.attributes.set("offset", offset);
    pattern.attributes.set("scale", scale);
    pattern.attributes.set("freqs", angles.freqs);
    return pattern;
  }

  // Whether operand `id` is columns [start, stop) of x as they are.
  bool is_rest(ir::ValueId id, ir::ValueId x, int64_t start, int64_t stop) const {
    const auto rest = columns_of(id);
    return rest && rest->of == x && rest->range.start == start && rest->range.stop == stop && rest->range.step == 1;
  }

  std::optional<RopePattern> find_halves(const ir::Node& node) {
    if (!is_last_axis(node) || node.operands.size() < 2 || node.operands.size() > 4) return std::nullopt;
    for (size_t at = 0; at + 1 < node.operands.size(); ++at) {
      const auto pair = find_pair(node.operands[at], node.operands[at + 1]);
      if (!pair) continue;
      const int64_t half = pair->a.range.stop - pair->a.range.start, offset = pair->a.range.start;
      const ir::ValueId x = pair->a.of;
      const int64_t width = ops::last_dim(graph_.value(x).type).factor;
      if (pair->a.range.step != 1 || pair->b.range.step != 1 || pair->b.range.start != offset + half) continue;
      if (pair->b.range.stop != offset + 2 * half || at > 1 || node.operands.size() > at + 3) continue;
      if ((at == 1) != (offset > 0) || (at == 1 && !is_rest(node.operands[0], x, 0, offset))) continue;
      const bool more = offset + 2 * half < width;
      if (more != (node.operands.size() == at + 3)) continue;
      if (more && !is_rest(node.operands[at + 2], x, offset + 2 * half, width)) continue;
      const auto angles = angles_of(pair->angle, half);
      if (angles) return make(x, *angles, pair->scale, offset, "half");
    }
    return std::nullopt;
  }

  std::optional<RopePattern> find_interleaved(const ir::Node& node) {
    const ir::Node* stack = producer(node.operands[0]);
    if (stack == nullptr || stack->op != ops::OpKind::kStack || !is_last_axis(*stack)) return std::nullopt;
    if (stack->operands.size() != 2) return std::nullopt;
    const auto pair = find_pair(stack->operands[0], stack->operands[1]);
    if (!pair || pair->a.range.step != 2 || pair->b.range.step != 2) return std::nullopt;
    const ir::ValueId x = pair->a.of;
    const int64_t width = ops::last_dim(graph_.value(x).type).factor;
    const bool whole = pair->a.range.start == 0 && pair->b.range.start == 1 && pair->a.range.stop + 1 >= width &&
                       pair->b.range.stop == width;
    if (!whole || graph_.value(node.results[0]).type != graph_.value(x).type) return std::nullopt;
    const auto angles = angles_of(pair->angle, width / 2);
    return angles ? make(x, *angles, pair->scale, 0, "interleaved") : std::nullopt;
  }

  // The angle whose cos or sin the value is, made as long as a head: cat(c, c), or of a doubled table.
  TermId doubled_angle(TermId id, ops::ExprOp op) const {
    const TermId plain = angle_of(id, op);
    if (plain >= 0) return plain;
    const ir::Node* cat = producer(algebra_.value_of(id));
    if (cat == nullptr || cat->op != ops::OpKind::kConcat || !is_last_axis(*cat)) return -1;
    if (cat->operands.size() != 2 || cat->operands[0] != cat->operands[1]) return -1;
    return angle_of(algebra_.of(cat->operands[0]), op);
  }

  // Frequencies of the pairs behind a table of `width` or of width / 2 numbers; what is doubled must repeat.
  std::optional<Angles> half_angles(TermId angle, int64_t width) const {
    if (auto half = angles_of(angle, width / 2)) return half;
    if (auto whole = angles_of(angle, width)) {
      const auto middle = whole->freqs.begin() + width / 2;
      if (!std::equal(whole->freqs.begin(), middle, middle, whole->freqs.end())) return std::nullopt;
      whole->freqs.resize(static_cast<size_t>(width / 2));
      return whole;
    }
    return std::nullopt;
  }

  // Whether `id` is cat(-b, a) of the halves of x.
  bool is_half_turned(ir::ValueId id, ir::ValueId x, int64_t width) {
    const ir::Node* cat = producer(id);
    if (cat == nullptr || cat->op != ops::OpKind::kConcat || !is_last_axis(*cat) || cat->operands.size() != 2)
      return false;
    const Term first = algebra_.term(algebra_.of(cat->operands[0]));
    if (first.kind != Kind::kProduct || first.number != -1 || first.parts.size() != 1) return false;
    return is_rest(algebra_.value_of(first.parts[0].first), x, width / 2, width) &&
           is_rest(cat->operands[1], x, 0, width / 2);
  }

  std::optional<RopePattern> find_doubled(const ir::Node& node) {
    const tensor::Type& type = graph_.value(node.results[0]).type;
    if (ops::rank(type) != 3 || !ops::last_dim(type).is_static() || ops::last_dim(type).factor % 2 != 0) {
      return std::nullopt;
    }
    const int64_t width = ops::last_dim(type).factor;
    const Term sum = algebra_.term(algebra_.of(node.results[0]));
    if (sum.kind != Kind::kSum || sum.number != 0 || sum.parts.size() != 2) return std::nullopt;
    Summand cosine, sine;
    for (const auto& [part, factor] : sum.parts) {
      const Term product = algebra_.term(part);
      if (product.kind != Kind::kProduct || product.parts.size() != 2) return std::nullopt;
      for (size_t i = 0; i < 2; ++i) {
        const ir::ValueId value = algebra_.value_of(product.parts[1 - i].first);
        const TermId id = product.parts[i].first;
        if (const TermId angle = doubled_angle(id, ops::ExprOp::kCos); angle >= 0) cosine = {value, angle, factor};
        if (const TermId angle = doubled_angle(id, ops::ExprOp::kSin); angle >= 0) sine = {value, angle, factor};
      }
    }
    if (cosine.value < 0 || sine.value < 0 || cosine.angle != sine.angle) return std::nullopt;
    if (cosine.factor <= 0 || cosine.factor != sine.factor) return std::nullopt;
    if (graph_.value(cosine.value).type != type || !is_half_turned(sine.value, cosine.value, width))
      return std::nullopt;
    const auto angles = half_angles(cosine.angle, width);
    return angles ? make(cosine.value, *angles, cosine.factor, 0, "half") : std::nullopt;
  }

  const ir::Graph& graph_;
  FormulaAlgebra& algebra_;
};

}  // namespace

std::optional<RopePattern> find_rope(const ir::Graph& graph, FormulaAlgebra& algebra, const ir::Node& node) {
  return Finder(graph, algebra).find(node);
}

}  // namespace firstlight::compiler
