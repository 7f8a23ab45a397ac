// SPDX-License-Identifier: Apache-2.0
// The formulas, and the recurrences of their errors.
#include "recurrences.h"

#include <algorithm>
#include <cmath>

namespace firstlight::long_tests {
namespace {

using ops::OpKind;
using Problem = RecurrenceProblem;
using Row = std::vector<double>;

constexpr int64_t kTokens = kRecurrenceTokens;
constexpr double kTiny = 0x1p-140;

size_t at(int64_t i) { return static_cast<size_t>(i); }
const float* floats(const Tensor& t) { return reinterpret_cast<const float*>(t.data.data()); }

// Collects what the judge says row by row; `sample` is the number of the row among the sampled ones, or -1.
class Samples {
 public:
  explicit Samples(RecurrenceAnswer& out, int64_t width) : out_(out), width_(width) {}
  bool wants(int64_t token) {
    if (next_ == sampled_tokens().size() || sampled_tokens()[next_] != token) return false;
    ++next_;
    out_.y.emplace_back(at(width_), 0.0);
    out_.y_bound.emplace_back(at(width_), kTiny);
    return true;
  }

 private:
  RecurrenceAnswer& out_;
  int64_t width_;
  size_t next_ = 0;
};

void clear(std::initializer_list<Row*> rows) {
  for (Row* row : rows) std::fill(row->begin(), row->end(), 0.0);
}

bool ends(const Problem& p, int64_t t) { return (t + 1) % p.length == 0; }

// docs/numerics.md, "Long recurrences".
RecurrenceAnswer judge_gla(const Problem& p) {
  const int64_t heads = p.operands[2].type.shape[1].factor, value = p.operands[2].type.shape[2].factor,
                key = p.operands[0].type.shape[2].factor;
  const bool by_key = p.operands[3].type.shape.size() == 3, has_bonus = p.operands.size() > 5;
  const float *q = floats(p.operands[0]), *k = floats(p.operands[1]), *v = floats(p.operands[2]),
              *decay = floats(p.operands[3]), *bonus = has_bonus ? floats(p.operands[5]) : nullptr;
  const auto size = at(heads * key * value);
  RecurrenceAnswer out;
  Row s(size, 0.0), m(size, 0.0), e(size, 0.0);
  Samples samples(out, heads * value);
  const double dot = (static_cast<double>(key) + 50) * kUnit;
  for (int64_t t = 0; t < kTokens; ++t) {
    const bool sampled = samples.wants(t);
    if (t % p.length == 0) clear({&s, &m, &e});
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t i = 0; i < key; ++i) {
        const int64_t place = (t * heads + h) * key + i;
        const double factor = std::exp(static_cast<double>(by_key ? decay[place] : decay[t * heads + h]));
        const auto key_here = static_cast<double>(k[place]), query = static_cast<double>(q[place]);
        const double now = has_bonus ? static_cast<double>(bonus[h * key + i]) : 0;
        for (int64_t j = 0; j < value; ++j) {
          const size_t cell = at((h * key + i) * value + j);
          const double added = key_here * static_cast<double>(v[(t * heads + h) * value + j]);
          const double before = s[cell], before_m = m[cell], before_e = e[cell];
          s[cell] = factor * before + added;
          m[cell] = factor * before_m + std::fabs(added);
          e[cell] = factor * before_e + 12 * kUnit * m[cell];
          if (!sampled) continue;
          const double read = has_bonus ? before + now * added : s[cell];
          const double size_of = has_bonus ? before_m + std::fabs(now * added) : m[cell];
          out.y.back()[at(h * value + j)] += query * read;
          out.y_bound.back()[at(h * value + j)] +=
              std::fabs(query) * ((has_bonus ? before_e : e[cell]) + dot * size_of);
        }
      }
    }
    if (!ends(p, t)) continue;
    out.state.insert(out.state.end(), s.begin(), s.end());
    for (size_t i = 0; i < size; ++i) out.state_bound.push_back(e[i] + 34 * kUnit * m[i] + kTiny);
  }
  return out;
}

double norm(const double* x, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += x[i] * x[i];
  return std::sqrt(sum);
}

// The error of a matrix state by norms, and the largest norm of the last 32 tokens (a chunk begins with one of them).
struct NormBound {
  double error = 0, largest = 0;
  std::vector<double> recent = std::vector<double>(32, 0.0);

  void step(int64_t t, double factor, double state_norm, double added, double units) {
    recent[at(t % 32)] = state_norm + added;
    largest = *std::max_element(recent.begin(), recent.end());
    error = factor * error + units * largest;
  }
};

void store_norm_bounds(RecurrenceAnswer& out, const std::vector<NormBound>& bounds, int64_t cells, double units) {
  for (const NormBound& b : bounds)
    out.state_bound.insert(out.state_bound.end(), at(cells), b.error + units * b.largest);
}

RecurrenceAnswer judge_delta(const Problem& p) {
  const int64_t heads = p.operands[2].type.shape[1].factor, value = p.operands[2].type.shape[2].factor,
                key = p.operands[0].type.shape[2].factor;
  const bool by_key = p.operands[3].type.shape.size() == 3;
  const double units = (static_cast<double>(key) + 50) * kUnit;
  RecurrenceAnswer out;
  Row s(at(heads * key * value), 0.0), k(at(key)), q(at(key)), v(at(value)), seen(at(value));
  std::vector<NormBound> bounds(at(heads));
  Samples samples(out, heads * value);
  for (int64_t t = 0; t < kTokens; ++t) {
    const bool sampled = samples.wants(t);
    if (t % p.length == 0) {
      clear({&s});
      bounds.assign(at(heads), {});
    }
    for (int64_t h = 0; h < heads; ++h) {
      double* own = s.data() + h * key * value;
      double most = 0;
      std::fill(seen.begin(), seen.end(), 0.0);
      std::copy_n(floats(p.operands[2]) + (t * heads + h) * value, value, v.begin());
      for (int64_t i = 0; i < key; ++i) {
        const int64_t place = (t * heads + h) * key + i;
        const double factor = std::exp(static_cast<double>(floats(p.operands[3])[by_key ? place : t * heads + h]));
        most = std::max(most, factor);
        k[at(i)] = static_cast<double>(floats(p.operands[1])[place]);
        q[at(i)] = static_cast<double>(floats(p.operands[0])[place]);
        for (int64_t j = 0; j < value; ++j) {
          own[i * value + j] *= factor;
          seen[at(j)] += k[at(i)] * own[i * value + j];
        }
      }
      const auto beta = static_cast<double>(floats(p.operands[4])[t * heads + h]);
      for (int64_t i = 0; i < key; ++i) {
        for (int64_t j = 0; j < value; ++j) own[i * value + j] += beta * k[at(i)] * (v[at(j)] - seen[at(j)]);
      }
      NormBound& bound = bounds[at(h)];
      bound.step(t, most, norm(own, key * value), norm(k.data(), key) * norm(v.data(), value), units);
      if (!sampled) continue;
      for (int64_t j = 0; j < value; ++j) {
        double& y = out.y.back()[at(h * value + j)];
        for (int64_t i = 0; i < key; ++i) y += q[at(i)] * own[i * value + j];
        out.y_bound.back()[at(h * value + j)] += norm(q.data(), key) * (bound.error + units * bound.largest);
      }
    }
    if (!ends(p, t)) continue;
    out.state.insert(out.state.end(), s.begin(), s.end());
    store_norm_bounds(out, bounds, key * value, units);
  }
  return out;
}

RecurrenceAnswer judge_dplr(const Problem& p) {
  const int64_t heads = p.operands[3].type.shape[1].factor, value = p.operands[3].type.shape[2].factor,
                key = p.operands[0].type.shape[2].factor;
  const double units = (static_cast<double>(key) + 50) * kUnit;
  RecurrenceAnswer out;
  Row s(at(heads * value * key), 0.0), factor(at(key)), v(at(value)), k(at(key)), r(at(key)), b(at(key));
  std::vector<NormBound> bounds(at(heads));
  Samples samples(out, heads * value);
  for (int64_t t = 0; t < kTokens; ++t) {
    const bool sampled = samples.wants(t);
    if (t % p.length == 0) {
      clear({&s});
      bounds.assign(at(heads), {});
    }
    for (int64_t h = 0; h < heads; ++h) {
      const int64_t first = (t * heads + h) * key;
      double* own = s.data() + h * key * value;
      std::copy_n(floats(p.operands[0]) + first, key, r.begin());
      std::copy_n(floats(p.operands[2]) + first, key, k.begin());
      std::copy_n(floats(p.operands[3]) + (t * heads + h) * value, value, v.begin());
      std::copy_n(floats(p.operands[5]) + first, key, b.begin());
      double least = 1, most = 0;
      for (int64_t i = 0; i < key; ++i) {
        factor[at(i)] = std::exp(static_cast<double>(floats(p.operands[1])[first + i]));
        least = std::min(least, factor[at(i)]);
        most = std::max(most, factor[at(i)]);
      }
      for (int64_t j = 0; j < value; ++j) {
        double seen = 0, y = 0;
        for (int64_t i = 0; i < key; ++i) {
          seen += own[j * key + i] * static_cast<double>(floats(p.operands[4])[first + i]);
        }
        for (int64_t i = 0; i < key; ++i) {
          double& cell = own[j * key + i];
          cell = cell * factor[at(i)] + seen * b[at(i)] + v[at(j)] * k[at(i)];
          y += cell * r[at(i)];
        }
        if (sampled) out.y.back()[at(h * value + j)] = y;
      }
      // diag(e) - share k k^T is symmetric: its norm is the largest of |eigenvalues|, between least - share and most.
      NormBound& bound = bounds[at(h)];
      bound.step(t, std::max(most, norm(b.data(), key) - least), norm(own, key * value),
                 norm(k.data(), key) * norm(v.data(), value), units);
      for (int64_t j = 0; sampled && j < value; ++j) {
        out.y_bound.back()[at(h * value + j)] += norm(r.data(), key) * (bound.error + units * bound.largest);
      }
    }
    if (!ends(p, t)) continue;
    out.state.insert(out.state.end(), s.begin(), s.end());
    store_norm_bounds(out, bounds, key * value, units);
  }
  return out;
}

RecurrenceAnswer judge_selective(const Problem& p) {
  const int64_t channels = p.operands[0].type.shape[1].factor, states = p.operands[3].type.shape[1].factor;
  RecurrenceAnswer out;
  const auto size = at(channels * states);
  Row s(size, 0.0), m(size, 0.0), e(size, 0.0);
  Samples samples(out, channels);
  for (int64_t t = 0; t < kTokens; ++t) {
    const bool sampled = samples.wants(t);
    if (t % p.length == 0) clear({&s, &m, &e});
    for (int64_t c = 0; c < channels; ++c) {
      const auto x = static_cast<double>(floats(p.operands[0])[t * channels + c]);
      const auto dt = static_cast<double>(floats(p.operands[1])[t * channels + c]);
      for (int64_t n = 0; n < states; ++n) {
        const size_t cell = at(c * states + n);
        const double power = dt * static_cast<double>(floats(p.operands[2])[c * states + n]);
        const double factor = std::exp(power);
        const double added = dt * static_cast<double>(floats(p.operands[3])[t * states + n]) * x;
        const auto read = static_cast<double>(floats(p.operands[4])[t * states + n]);
        s[cell] = factor * s[cell] + added;
        m[cell] = factor * m[cell] + std::fabs(added);
        e[cell] = factor * e[cell] + (12 + std::fabs(power)) * kUnit * m[cell];
        if (!sampled) continue;
        out.y.back()[at(c)] += read * s[cell];
        out.y_bound.back()[at(c)] += std::fabs(read) * (e[cell] + (static_cast<double>(states) + 1) * kUnit * m[cell]);
      }
    }
    if (!ends(p, t)) continue;
    out.state.insert(out.state.end(), s.begin(), s.end());
    for (size_t i = 0; i < size; ++i) out.state_bound.push_back(e[i] + kTiny);
  }
  return out;
}

RecurrenceAnswer judge_elementwise(const Problem& p) {
  const int64_t channels = p.operands[0].type.shape[1].factor;
  RecurrenceAnswer out;
  Row s(at(channels), 0.0), m = s, e = s;
  Samples samples(out, channels);
  for (int64_t t = 0; t < kTokens; ++t) {
    const bool sampled = samples.wants(t);
    if (t % p.length == 0) clear({&s, &m, &e});
    for (int64_t c = 0; c < channels; ++c) {
      const auto a = static_cast<double>(floats(p.operands[0])[t * channels + c]);
      const auto b = static_cast<double>(floats(p.operands[1])[t * channels + c]);
      s[at(c)] = a * s[at(c)] + b;
      m[at(c)] = std::fabs(a) * m[at(c)] + std::fabs(b);
      e[at(c)] = std::fabs(a) * e[at(c)] + 2 * kUnit * m[at(c)];
      if (!sampled) continue;
      out.y.back()[at(c)] = s[at(c)];
      out.y_bound.back()[at(c)] += e[at(c)];
    }
    if (!ends(p, t)) continue;
    out.state.insert(out.state.end(), s.begin(), s.end());
    for (const double v : e) out.state_bound.push_back(v + kTiny);
  }
  return out;
}

RecurrenceAnswer judge_conv(const Problem& p) {
  const int64_t channels = p.operands[0].type.shape[1].factor, taps = p.operands[1].type.shape[1].factor;
  const int64_t dilation = p.attributes.get_int("dilation"), kept = (taps - 1) * dilation;
  const float *x = floats(p.operands[0]), *w = floats(p.operands[1]), *bias = floats(p.operands[3]);
  RecurrenceAnswer out;
  Samples samples(out, channels);
  for (int64_t t = 0; t < kTokens; ++t) {
    if (ends(p, t)) out.state.insert(out.state.end(), x + (t + 1 - kept) * channels, x + (t + 1) * channels);
    if (!samples.wants(t)) continue;
    for (int64_t c = 0; c < channels; ++c) {
      double y = static_cast<double>(bias[c]), m = std::fabs(y);
      for (int64_t j = 0; j < taps; ++j) {
        const int64_t row = t - (taps - 1 - j) * dilation;
        const double term = row < t / p.length * p.length
                                ? 0
                                : static_cast<double>(w[c * taps + j]) * static_cast<double>(x[row * channels + c]);
        y += term;
        m += std::fabs(term);
      }
      out.y.back()[at(c)] = y;
      out.y_bound.back()[at(c)] += static_cast<double>(taps + 1) * kUnit * m;
    }
  }
  out.state_bound.assign(out.state.size(), 0.0);
  return out;
}

RecurrenceAnswer judge_shift(const Problem& p) {
  const int64_t channels = p.operands[0].type.shape[1].factor;
  const float* x = floats(p.operands[0]);
  RecurrenceAnswer out;
  Samples samples(out, channels);
  for (int64_t t = 0; t < kTokens; ++t) {
    if (samples.wants(t) && t % p.length > 0) out.y.back().assign(x + (t - 1) * channels, x + t * channels);
    if (ends(p, t)) out.state.insert(out.state.end(), x + t * channels, x + (t + 1) * channels);
  }
  out.state_bound.assign(out.state.size(), 0.0);
  return out;
}

}  // namespace

RecurrenceAnswer judge_recurrence(const Problem& p) {
  switch (p.op) {
    case OpKind::kRecurGla:
      return judge_gla(p);
    case OpKind::kRecurDelta:
      return judge_delta(p);
    case OpKind::kRecurDplr:
      return judge_dplr(p);
    case OpKind::kRecurSelective:
      return judge_selective(p);
    case OpKind::kRecurElementwise:
      return judge_elementwise(p);
    case OpKind::kConv1d:
      return judge_conv(p);
    default:
      return judge_shift(p);
  }
}

}  // namespace firstlight::long_tests
