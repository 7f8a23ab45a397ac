// SPDX-License-Identifier: Apache-2.0
// What the recurrences mean, written a second time and another way: linear attention as sums over all pairs of tokens,
// the delta rule and dplr with their whole transition matrices, the others written out from the first token on.
#include <cmath>

#include "formulas.h"

namespace firstlight::conformance {
namespace {

using ops::OpKind;
using Row = std::vector<double>;

size_t at(int64_t i) { return static_cast<size_t>(i); }
int64_t dim(const Tensor& t, size_t axis) { return t.type.shape[axis].factor; }

// One sequence: its operands' rows (operand[i] is the whole operand's values), its state before.
struct Part {
  const Case& c;
  const std::vector<Row>& operand;
  int64_t first = 0;
  int64_t count = 0;
  Row before;
};
struct PartAnswer {
  Row y;
  Row after;
};

// Sum of logarithms that stays -inf and never NaN: nothing is ever subtracted.
double log_factor(const Part& p, size_t operand, int64_t t, int64_t h, int64_t i) {
  const Tensor& decay = p.c.operands[operand];
  const Row& values = p.operand[operand];
  if (decay.type.shape.size() == 1) return values[at(h)];
  const int64_t place = (p.first + t) * dim(decay, 1) + h;
  return decay.type.shape.size() == 2 ? values[at(place)] : values[at(place * dim(decay, 2) + i)];
}

PartAnswer gla(const Part& p) {
  const int64_t groups = dim(p.c.operands[0], 1), heads = dim(p.c.operands[2], 1), key = dim(p.c.operands[0], 2),
                value = dim(p.c.operands[2], 2);
  const bool bonus = p.c.operands.size() > 5;
  PartAnswer answer{Row(at(p.count * heads * value), 0.0), Row(p.before.size(), 0.0)};
  for (int64_t h = 0; h < heads; ++h) {
    const int64_t g = h / (heads / groups);
    const auto q = [&](int64_t t, int64_t i) { return p.operand[0][at(((p.first + t) * groups + g) * key + i)]; };
    const auto k = [&](int64_t t, int64_t i) { return p.operand[1][at(((p.first + t) * groups + g) * key + i)]; };
    const auto v = [&](int64_t t, int64_t j) { return p.operand[2][at(((p.first + t) * heads + h) * value + j)]; };
    const double* before = p.before.data() + h * key * value;
    // Adds x times row i of the state as it is after token t (t = -1: before the batch), summed from the newest token
    // back: what token s put in has been decayed by the tokens behind it.
    const auto add_state_row = [&](int64_t t, int64_t i, double x, double* to) {
      double log_sum = 0;
      for (int64_t s = t; s >= 0; --s) {
        for (int64_t j = 0; j < value; ++j) to[j] += x * std::exp(log_sum) * k(s, i) * v(s, j);
        log_sum += log_factor(p, 3, s, h, i);
      }
      for (int64_t j = 0; j < value; ++j) to[j] += x * std::exp(log_sum) * before[i * value + j];
    };
    for (int64_t i = 0; i < key; ++i) {
      for (int64_t t = 0; t < p.count; ++t) {
        double* y = answer.y.data() + (t * heads + h) * value;
        add_state_row(bonus ? t - 1 : t, i, q(t, i), y);
        for (int64_t j = 0; bonus && j < value; ++j)
          y[j] += q(t, i) * p.operand[5][at(h * key + i)] * k(t, i) * v(t, j);
      }
      add_state_row(p.count - 1, i, 1, answer.after.data() + (h * key + i) * value);
    }
  }
  return answer;
}

// a [n x m] times b [m x l].
Row product(const Row& a, const Row& b, int64_t n, int64_t m, int64_t l) {
  Row out(at(n * l), 0.0);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t k = 0; k < m; ++k) {
      for (int64_t j = 0; j < l; ++j) out[at(i * l + j)] += a[at(i * m + k)] * b[at(k * l + j)];
    }
  }
  return out;
}

PartAnswer delta(const Part& p) {
  const int64_t groups = dim(p.c.operands[0], 1), heads = dim(p.c.operands[2], 1), key = dim(p.c.operands[0], 2),
                value = dim(p.c.operands[2], 2);
  PartAnswer answer{Row(at(p.count * heads * value)), p.before};
  for (int64_t h = 0; h < heads; ++h) {
    const int64_t g = h / (heads / groups);
    Row state(p.before.begin() + h * key * value, p.before.begin() + (h + 1) * key * value);
    for (int64_t t = 0; t < p.count; ++t) {
      const double* q = p.operand[0].data() + ((p.first + t) * groups + g) * key;
      const double* k = p.operand[1].data() + ((p.first + t) * groups + g) * key;
      const double* v = p.operand[2].data() + ((p.first + t) * heads + h) * value;
      const double beta = p.operand[4][at((p.first + t) * heads + h)];
      Row transition(at(key * key));
      for (int64_t i = 0; i < key; ++i) {
        for (int64_t j = 0; j < key; ++j) {
          transition[at(i * key + j)] = ((i == j ? 1 : 0) - beta * k[i] * k[j]) * std::exp(log_factor(p, 3, t, h, j));
        }
      }
      state = product(transition, state, key, key, value);
      for (int64_t i = 0; i < key; ++i) {
        for (int64_t j = 0; j < value; ++j) state[at(i * value + j)] += beta * k[i] * v[j];
      }
      const Row y = product(Row(q, q + key), state, 1, key, value);
      std::copy(y.begin(), y.end(), answer.y.begin() + (t * heads + h) * value);
    }
    std::copy(state.begin(), state.end(), answer.after.begin() + h * key * value);
  }
  return answer;
}

PartAnswer dplr(const Part& p) {
  const int64_t heads = dim(p.c.operands[0], 1), key = dim(p.c.operands[0], 2), value = dim(p.c.operands[3], 2);
  PartAnswer answer{Row(at(p.count * heads * value)), p.before};
  for (int64_t h = 0; h < heads; ++h) {
    Row state(p.before.begin() + h * key * value, p.before.begin() + (h + 1) * key * value);
    for (int64_t t = 0; t < p.count; ++t) {
      const auto row = [&](size_t operand, int64_t width) {
        return p.operand[operand].data() + ((p.first + t) * heads + h) * width;
      };
      Row transition(at(key * key));
      for (int64_t i = 0; i < key; ++i) {
        for (int64_t j = 0; j < key; ++j) {
          transition[at(i * key + j)] = (i == j ? std::exp(row(1, key)[i]) : 0) + row(4, key)[i] * row(5, key)[j];
        }
      }
      state = product(state, transition, value, key, key);
      for (int64_t j = 0; j < value; ++j) {
        for (int64_t i = 0; i < key; ++i) state[at(j * key + i)] += row(3, value)[j] * row(2, key)[i];
      }
      const Row y = product(state, Row(row(0, key), row(0, key) + key), value, key, 1);
      std::copy(y.begin(), y.end(), answer.y.begin() + (t * heads + h) * value);
    }
    std::copy(state.begin(), state.end(), answer.after.begin() + h * key * value);
  }
  return answer;
}

PartAnswer selective(const Part& p) {
  const int64_t channels = dim(p.c.operands[0], 1), states = dim(p.c.operands[3], 1);
  PartAnswer answer{Row(at(p.count * channels)), p.before};
  for (int64_t c = 0; c < channels; ++c) {
    const auto x = [&](int64_t t) { return p.operand[0][at((p.first + t) * channels + c)]; };
    const auto dt = [&](int64_t t) { return p.operand[1][at((p.first + t) * channels + c)]; };
    const auto state_after = [&](int64_t t, int64_t n) {
      const double rate = p.operand[2][at(c * states + n)];
      double elapsed = 0, sum = 0;
      for (int64_t s = t; s >= 0; --s) {
        sum += std::exp(rate * elapsed) * dt(s) * p.operand[3][at((p.first + s) * states + n)] * x(s);
        elapsed += dt(s);
      }
      return sum + std::exp(rate * elapsed) * p.before[at(c * states + n)];
    };
    for (int64_t n = 0; n < states; ++n) {
      for (int64_t t = 0; t < p.count; ++t) {
        answer.y[at(t * channels + c)] += p.operand[4][at((p.first + t) * states + n)] * state_after(t, n);
      }
      answer.after[at(c * states + n)] = state_after(p.count - 1, n);
    }
  }
  return answer;
}

PartAnswer elementwise(const Part& p) {
  const int64_t channels = dim(p.c.operands[0], 1);
  PartAnswer answer{Row(at(p.count * channels)), p.before};
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t t = 0; t < p.count; ++t) {
      double sum = 0, factor = 1;
      for (int64_t s = t; s >= 0; --s) {
        sum += factor * p.operand[1][at((p.first + s) * channels + c)];
        factor *= p.operand[0][at((p.first + s) * channels + c)];
      }
      answer.y[at(t * channels + c)] = answer.after[at(c)] = sum + factor * p.before[at(c)];
    }
  }
  return answer;
}

// The rows that the state keeps, then the batch's.
Row extended(const Part& p, int64_t channels) {
  Row rows = p.before;
  const auto* x = p.operand[0].data() + p.first * channels;
  rows.insert(rows.end(), x, x + p.count * channels);
  return rows;
}

PartAnswer conv1d(const Part& p) {
  const int64_t channels = dim(p.c.operands[0], 1), taps = dim(p.c.operands[1], 1);
  const int64_t dilation = p.c.attributes.get_int("dilation");
  const Row rows = extended(p, channels);
  PartAnswer answer{Row(at(p.count * channels)), Row(rows.end() - static_cast<int64_t>(p.before.size()), rows.end())};
  for (int64_t t = 0; t < p.count; ++t) {
    for (int64_t c = 0; c < channels; ++c) {
      double sum = p.operand.size() > 3 ? p.operand[3][at(c)] : 0;
      for (int64_t j = 0; j < taps; ++j) {
        sum += p.operand[1][at(c * taps + j)] * rows[at((t + j * dilation) * channels + c)];
      }
      answer.y[at(t * channels + c)] = sum;
    }
  }
  return answer;
}

PartAnswer shift(const Part& p) {
  const int64_t channels = dim(p.c.operands[0], 1);
  const Row rows = extended(p, channels);
  return {Row(rows.begin(), rows.begin() + p.count * channels), Row(rows.end() - channels, rows.end())};
}

PartAnswer one_sequence(const Part& p) {
  switch (p.c.op) {
    case OpKind::kRecurGla:
      return gla(p);
    case OpKind::kRecurDelta:
      return delta(p);
    case OpKind::kRecurSelective:
      return selective(p);
    case OpKind::kRecurElementwise:
      return elementwise(p);
    case OpKind::kRecurDplr:
      return dplr(p);
    case OpKind::kConv1d:
      return conv1d(p);
    case OpKind::kShift:
      return shift(p);
    default:
      FL_CHECK(false);
  }
}

Values recent_tokens(const Case& c) {
  const int64_t count = c.attributes.get_int("count");
  Values out(2);
  const State& state = c.state[0];
  for (size_t s = 0; s < state.sequences.size(); ++s) {
    const Sequence& sequence = state.sequences[s];
    for (int64_t t = 0; t < sequence.num_tokens; ++t) {
      for (int64_t j = 0; j < count; ++j) {
        const int64_t position = sequence.start_position + t - j;
        out[0].push_back(position < 0 ? -1 : static_cast<double>(state.rows[0][s][at(position)]));
      }
    }
  }
  return out;
}

}  // namespace

RecurrenceAnswer recurrence(const Case& c) {
  RecurrenceAnswer answer{Values(2), {}};
  std::vector<Row> operands;
  for (const Tensor& t : c.operands) operands.push_back(t.values());
  const State& state = c.state[0];
  const auto component = at(state.decl.component_index(c.attributes.get_string("component")));
  int64_t first = 0;
  for (size_t s = 0; s < state.sequences.size(); ++s) {
    const std::vector<float>& before = state.rows[component][s];
    Part part{c, operands, first, state.sequences[s].num_tokens, Row(before.begin(), before.end())};
    PartAnswer own = part.count > 0 ? one_sequence(part) : PartAnswer{{}, part.before};
    answer.results[0].insert(answer.results[0].end(), own.y.begin(), own.y.end());
    answer.state.push_back(std::move(own.after));
    first += part.count;
  }
  return answer;
}

Values recurrence_formula(const Case& c) {
  return c.op == OpKind::kRecentTokens ? recent_tokens(c) : recurrence(c).results;
}

}  // namespace firstlight::conformance
