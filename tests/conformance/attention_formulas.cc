// SPDX-License-Identifier: Apache-2.0
// What the operators that read and fill logs mean, written a second time: every row is looked at, and each rule of what
// is visible asked on its own.
#include <algorithm>
#include <cmath>
#include <limits>

#include "formulas.h"

namespace firstlight::conformance {
namespace {

using ops::OpKind;
using Row = std::vector<double>;

size_t at(int64_t i) { return static_cast<size_t>(i); }
int64_t dim(const Tensor& t, size_t axis) { return t.type.shape[axis].factor; }
int64_t rate_of(const State& state) { return state.decl.kind == ops::StateKind::kRateLog ? state.decl.rate : 1; }

// Element i of a head in row j of sequence s.
double stored(const State& state, size_t component, size_t s, int64_t j, int64_t head, int64_t i) {
  const ops::StateComponent& c = state.decl.components[component];
  return static_cast<double>(state.rows[component][s][at((j * c.heads + head) * c.width + i)]);
}

// One segment as attend and attend_segments both say it.
struct Segment {
  const State* state;
  size_t key, value;
  bool causal;
  int64_t window, chunk;
  ops::Expression mask;
  int64_t from, until;
  const Tensor* select = nullptr;
  int64_t block = 1;

  bool shows(int64_t j, int64_t position, int64_t length, int64_t token, int64_t group) const {
    const int64_t r = rate_of(*state);
    const int64_t last_token = (j + 1) * r - 1;
    if (last_token >= length || (causal && last_token > position)) return false;
    if (window > 0 && j <= position - window) return false;
    if (chunk > 0 && j / chunk != position / chunk) return false;
    if (j < from || (until > 0 && j >= until)) return false;
    const Row places = {static_cast<double>(position), static_cast<double>(j * r)};
    if (!mask.empty() && mask.evaluate(places) == 0) return false;
    if (select == nullptr) return true;
    const Row names = select->values();
    const int64_t groups = dim(*select, 1);
    const int64_t top = dim(*select, 2);
    for (int64_t k = 0; k < top; ++k) {
      const double name = names[at((token * groups + (groups == 1 ? 0 : group)) * top + k)];
      if (name == static_cast<double>(j / block)) return true;
    }
    return false;
  }
};

std::vector<std::string> words(const std::string& text) {
  std::vector<std::string> out;
  size_t start = 0;
  while (start <= text.size()) {
    const size_t comma = std::min(text.find(", ", start), text.size());
    out.push_back(text.substr(start, comma - start));
    start = comma + 2;
  }
  return out;
}

struct Attention {
  std::vector<Segment> segments;
  Row sinks;
};

Attention attention_of(const Case& c) {
  const ops::Attributes& a = c.attributes;
  const auto index = [&](size_t state, const std::string& name) {
    return at(c.state[state].decl.component_index(name));
  };
  Attention out;
  if (c.op == OpKind::kAttend) {
    out.segments.push_back({&c.state[0], index(0, a.get_string("key")), index(0, a.get_string("value")),
                            a.get_bool("causal"), a.get_int("window"), a.get_int("chunk"), a.get_expression("mask"), 0,
                            0});
    if (c.operands.size() > 2) out.sinks = c.operands[2].values();
    return out;
  }
  const auto keys = words(a.get_string("keys"));
  const auto values = words(a.get_string("values"));
  const auto number = [&](const char* name, size_t i, int64_t absent) {
    const auto& list = a.get_ints(name);
    return list.empty() ? absent : list[i];
  };
  size_t operand = 1;
  for (size_t i = 0; i < keys.size(); ++i) {
    Segment s{&c.state[i],
              index(i, keys[i]),
              index(i, values[i]),
              number("causal", i, 1) != 0,
              number("windows", i, 0),
              number("chunks", i, 0),
              a.get_expressions("masks").empty() ? ops::Expression{} : a.get_expressions("masks")[i],
              number("from", i, 0),
              number("until", i, 0)};
    ++operand;
    s.block = number("select", i, 0);
    if (s.block > 0) s.select = &c.operands[operand++];
    out.segments.push_back(std::move(s));
  }
  if (a.get_bool("sinks")) out.sinks = c.operands[operand].values();
  return out;
}

// One query's row: its scores, then exp(score - top) / sum.
Row attend_row(const Case& c, const Attention& attention, size_t s, int64_t token, int64_t position, int64_t head) {
  const ops::Attributes& a = c.attributes;
  const Row q = c.operands[0].values();
  const int64_t heads = dim(c.operands[0], 1);
  const Sequence& sequence = c.state[0].sequences[s];
  const int64_t length = sequence.start_position + sequence.num_tokens;
  Row scores;
  std::vector<Row> values;
  for (const Segment& segment : attention.segments) {
    const ops::StateComponent& kc = segment.state->decl.components[segment.key];
    const ops::StateComponent& vc = segment.state->decl.components[segment.value];
    const int64_t group = head * kc.heads / heads;
    for (int64_t j = 0; j < length; ++j) {
      if (!segment.shows(j, position, length, token, group)) continue;
      double dot = 0;
      for (int64_t i = 0; i < kc.width; ++i) {
        dot += q[at((token * heads + head) * kc.width + i)] * stored(*segment.state, segment.key, s, j, group, i);
      }
      const Row inputs = {dot * a.get_float("scale"), static_cast<double>(position),
                          static_cast<double>(j * rate_of(*segment.state)), static_cast<double>(head)};
      scores.push_back(a.get_expression("score").empty() ? inputs[0] : a.get_expression("score").evaluate(inputs));
      values.emplace_back();
      const int64_t width = a.get_int("value_width") > 0 ? a.get_int("value_width") : vc.width;
      for (int64_t i = 0; i < width; ++i)
        values.back().push_back(stored(*segment.state, segment.value, s, j, group, i));
    }
  }
  if (!attention.sinks.empty()) scores.push_back(attention.sinks[at(head)]);
  const ops::StateComponent& vc = c.state[0].decl.components[attention.segments[0].value];
  Row y(at(a.get_int("value_width") > 0 ? a.get_int("value_width") : vc.width), 0.0);
  if (scores.empty()) return y;
  const double top = *std::max_element(scores.begin(), scores.end());
  double total = 0;
  for (double& score : scores) total += score = std::exp(score - top);
  for (size_t j = 0; j < values.size(); ++j) {
    for (size_t i = 0; i < y.size(); ++i) y[i] += scores[j] / total * values[j][i];
  }
  return y;
}

// Calls visit(sequence, row of the batch, position) for each token.
template <typename Visit>
void for_tokens(const Case& c, Visit&& visit) {
  int64_t token = 0;
  for (size_t s = 0; s < c.state[0].sequences.size(); ++s) {
    const Sequence& sequence = c.state[0].sequences[s];
    for (int64_t i = 0; i < sequence.num_tokens; ++i) visit(s, token++, sequence.start_position + i);
  }
}

}  // namespace

Values attend_formula(const Case& c) {
  const Attention attention = attention_of(c);
  Values out(1);
  for_tokens(c, [&](size_t s, int64_t token, int64_t position) {
    for (int64_t h = 0; h < dim(c.operands[0], 1); ++h) {
      const Row y = attend_row(c, attention, s, token, position, h);
      out[0].insert(out[0].end(), y.begin(), y.end());
    }
  });
  return out;
}

Values index_scores_formula(const Case& c) {
  const ops::Attributes& a = c.attributes;
  const State& state = c.state[0];
  const Row q = c.operands[0].values();
  const int64_t candidate = a.get_int("within_block");
  const size_t num_weights = c.operands.size() - (candidate > 0 ? 1 : 0) - 2;
  const Row weights = num_weights > 0 ? c.operands[2].values() : Row{};
  const auto may_name = [&](int64_t token, int64_t group, int64_t b) {
    if (candidate == 0) return true;
    const Tensor& within = c.operands.back();
    const Row names = within.values();
    const int64_t groups = dim(within, 1), count = dim(within, 2);
    for (int64_t k = 0; k < count; ++k) {
      const double name = names[at((token * groups + (groups == 1 ? 0 : group)) * count + k)];
      if (name >= 0 && static_cast<int64_t>(name) == b * a.get_int("block") / candidate) return true;
    }
    return false;
  };
  const int64_t heads = dim(c.operands[0], 1);
  const int64_t width = dim(c.operands[0], 2);
  const auto key = at(state.decl.component_index(a.get_string("key")));
  const int64_t top = a.get_int("top");
  const int64_t block = a.get_int("block");
  Values out(1);
  for_tokens(c, [&](size_t s, int64_t token, int64_t position) {
    const int64_t rows = (position + 1) / rate_of(state);
    const int64_t blocks = (rows + block - 1) / block;
    for (int64_t group = 0; group < (a.get_bool("per_head") ? heads : 1); ++group) {
      Row best(at(blocks), -std::numeric_limits<double>::infinity());
      for (int64_t j = 0; j < rows; ++j) {
        double score = 0;
        for (int64_t h = 0; h < heads; ++h) {
          if (a.get_bool("per_head") && h != group) continue;
          double dot = 0;
          for (int64_t i = 0; i < width; ++i)
            dot += q[at((token * heads + h) * width + i)] * stored(state, key, s, j, 0, i);
          if (a.get_bool("relu") && dot < 0) dot = 0;
          score += dot * (weights.empty() ? 1 : weights[at(token * heads + h)]);
        }
        if (std::isnan(score)) score = std::numeric_limits<double>::infinity();
        best[at(j / block)] = std::max(best[at(j / block)], score);
      }
      std::vector<bool> is_out(at(blocks), false);
      for (int64_t b = 0; b < blocks; ++b) {
        const bool always = b < a.get_int("first") || b >= blocks - a.get_int("recent");
        if (always) best[at(b)] = std::numeric_limits<double>::infinity();
        is_out[at(b)] = !always && !may_name(token, group, b);
      }
      // A block is named when fewer than `top` others come before it.
      Row named;
      for (int64_t b = 0; b < blocks; ++b) {
        if (is_out[at(b)]) continue;
        int64_t before = 0;
        for (int64_t o = 0; o < blocks; ++o) {
          if (is_out[at(o)]) continue;
          before += best[at(o)] > best[at(b)] || (best[at(o)] == best[at(b)] && o < b) ? 1 : 0;
        }
        if (before < top) named.push_back(static_cast<double>(b));
      }
      named.resize(at(top), -1);
      out[0].insert(out[0].end(), named.begin(), named.end());
    }
  });
  return out;
}

// Groups and their positions (the state after it has no values); the rows of earlier tokens are where the state's rule
// puts them.
Values window_emit_formula(const Case& c) {
  const State& state = c.state[0];
  const Row x = c.operands[0].values();
  const int64_t width = dim(c.operands[0], 1);
  const int64_t rate = c.attributes.get_int("rate");
  const int64_t rows = c.attributes.get_bool("overlap") ? 2 * rate : rate;
  const auto component = at(state.decl.component_index(c.attributes.get_string("component")));
  Values out(3);
  for_tokens(c, [&](size_t s, int64_t token, int64_t position) {
    if ((position + 1) % rate != 0) return;
    out[1].push_back(static_cast<double>(position + 1 - rate));
    for (int64_t p = position + 1 - rows; p <= position; ++p) {
      for (int64_t i = 0; i < width; ++i) {
        const bool is_own = p >= state.sequences[s].start_position;
        out[0].push_back(p < 0    ? c.attributes.get_float("fill")
                         : is_own ? x[at((token - (position - p)) * width + i)]
                                  : stored(state, component, s, 0, p % rows, i));
      }
    }
  });
  return out;
}

}  // namespace firstlight::conformance
