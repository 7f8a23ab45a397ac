// SPDX-License-Identifier: Apache-2.0
#include "formulas.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace firstlight::conformance {
namespace {

using ops::OpKind;
using Row = std::vector<double>;

int64_t last(const Tensor& t) { return t.type.shape.empty() ? 1 : t.type.shape.back().factor; }
int64_t dim(const Tensor& t, size_t axis) { return t.type.shape[axis].factor; }
size_t at(int64_t i) { return static_cast<size_t>(i); }

Row row_of(const Row& values, int64_t row, int64_t width) {
  return Row(values.begin() + row * width, values.begin() + (row + 1) * width);
}

// Applies `f` to each row of the first operand.
template <typename F>
Values by_rows(const Case& c, F&& f) {
  const Row x = c.operands[0].values();
  const int64_t width = last(c.operands[0]);
  Values out(1);
  for (int64_t r = 0; r * width < static_cast<int64_t>(x.size()); ++r) {
    const Row y = f(row_of(x, r, width));
    out[0].insert(out[0].end(), y.begin(), y.end());
  }
  return out;
}

Values map(const Case& c) {
  tensor::Shape shape;
  for (const Tensor& t : c.operands) FL_CHECK(ops::broadcast_onto(shape, t.type.shape));
  std::vector<Row> operands;
  for (const Tensor& t : c.operands) operands.push_back(t.values());
  Values out(1);
  const int64_t count = tensor::num_elements(shape);
  for (int64_t i = 0; i < count; ++i) {
    Row inputs;
    for (size_t k = 0; k < operands.size(); ++k) {
      const tensor::Shape& own = c.operands[k].type.shape;
      int64_t rest = i;
      int64_t index = 0;
      int64_t stride = 1;
      for (size_t a = 0; a < shape.size(); ++a) {
        const int64_t place = rest % shape[shape.size() - 1 - a].factor;
        rest /= shape[shape.size() - 1 - a].factor;
        if (a >= own.size()) continue;
        const int64_t size = own[own.size() - 1 - a].factor;
        if (size != 1) index += place * stride;
        stride *= size;
      }
      inputs.push_back(operands[k][at(index)]);
    }
    out[0].push_back(c.attributes.get_expression("expr").evaluate(inputs));
  }
  return out;
}

Values reduce(const Case& c) {
  const Row x = c.operands[0].values();
  const tensor::Shape& shape = c.operands[0].type.shape;
  const auto axis = at(ops::resolve_axis(c.attributes.get_int("axis"), static_cast<int>(shape.size())));
  int64_t inner = 1;
  for (size_t i = axis + 1; i < shape.size(); ++i) inner *= shape[i].factor;
  int64_t outer = 1;
  for (size_t i = 0; i < axis; ++i) outer *= shape[i].factor;
  const int64_t n = shape[axis].factor;
  const std::string& op = c.attributes.get_string("op");
  Values out(1);
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t i = 0; i < inner; ++i) {
      Row line;
      for (int64_t j = 0; j < n; ++j) line.push_back(x[at((o * n + j) * inner + i)]);
      const bool has_nan = std::any_of(line.begin(), line.end(), [](double v) { return std::isnan(v); });
      const double sum = std::accumulate(line.begin(), line.end(), 0.0);
      if (op == "sum") out[0].push_back(sum);
      if (op == "mean") out[0].push_back(sum / static_cast<double>(n));
      if (op == "min") out[0].push_back(has_nan ? std::nan("") : *std::min_element(line.begin(), line.end()));
      if (op == "max") out[0].push_back(has_nan ? std::nan("") : *std::max_element(line.begin(), line.end()));
    }
  }
  return out;
}

Row softmax_row(const Row& x) {
  const bool has_nan = std::any_of(x.begin(), x.end(), [](double v) { return std::isnan(v); });
  const double top = has_nan ? std::nan("") : *std::max_element(x.begin(), x.end());
  Row y;
  for (const double v : x) y.push_back(std::exp(v - top));
  const double sum = std::accumulate(y.begin(), y.end(), 0.0);
  for (double& v : y) v /= sum;
  return y;
}

Values top_k(const Case& c) {
  const int64_t k = c.attributes.get_int("k");
  Values out(2);
  by_rows(c, [&](Row row) {
    for (int64_t j = 0; j < k; ++j) {  // k times the first of the largest that is left
      int64_t best = -1;
      for (int64_t i = 0; i < static_cast<int64_t>(row.size()); ++i) {
        const bool taken = std::find(out[1].end() - j, out[1].end(), static_cast<double>(i)) != out[1].end();
        if (taken) continue;
        if (best < 0 || row[at(i)] > row[at(best)] || (std::isnan(row[at(best)]) && !std::isnan(row[at(i)]))) best = i;
      }
      out[0].push_back(row[at(best)]);
      out[1].push_back(static_cast<double>(best));
    }
    return Row{};
  });
  return out;
}

Values index_mask(const Case& c) {
  return by_rows(c, [&](const Row& idx) {
    Row y(at(c.attributes.get_int("size")), 0.0);
    for (size_t i = 0; i < y.size(); ++i) {
      if (std::find(idx.begin(), idx.end(), static_cast<double>(i)) != idx.end()) y[i] = 1;
    }
    return y;
  });
}

// The elements of operand 0 along an axis: [outer][n][inner].
struct Lines {
  int64_t outer = 1, n = 1, inner = 1;
};
Lines lines_of(const Case& c) {
  const tensor::Shape& shape = c.operands[0].type.shape;
  const auto axis = at(ops::resolve_axis(c.attributes.get_int("axis"), static_cast<int>(shape.size())));
  Lines lines;
  for (size_t i = 0; i < shape.size(); ++i) {
    (i < axis ? lines.outer : i == axis ? lines.n : lines.inner) *= shape[i].factor;
  }
  return lines;
}

Values cumsum(const Case& c) {
  const Row x = c.operands[0].values();
  const Lines l = lines_of(c);
  Values out(1, Row(x.size()));
  for (size_t i = 0; i < x.size(); ++i) {
    const auto place = static_cast<int64_t>(i) / l.inner % l.n;
    const bool exclusive = c.attributes.get_bool("exclusive");
    for (int64_t j = 0; j < l.n; ++j) {
      const bool counts = c.attributes.get_bool("reverse") ? j >= place : j <= place;
      if (!counts || (exclusive && j == place)) continue;
      out[0][i] += x[at(static_cast<int64_t>(i) + (j - place) * l.inner)];
    }
  }
  return out;
}

Values take(const Case& c) {
  const Row x = c.operands[0].values();
  const Lines l = lines_of(c);
  Values out(1);
  for (int64_t o = 0; o < l.outer; ++o) {
    for (const int64_t index : c.attributes.get_ints("indices")) {
      for (int64_t i = 0; i < l.inner; ++i) out[0].push_back(x[at((o * l.n + index) * l.inner + i)]);
    }
  }
  return out;
}

Values pad(const Case& c) {
  const Row x = c.operands[0].values();
  const Lines l = lines_of(c);
  Values out(1);
  for (int64_t o = 0; o < l.outer; ++o) {
    for (int64_t j = -c.attributes.get_int("before"); j < l.n + c.attributes.get_int("after"); ++j) {
      for (int64_t i = 0; i < l.inner; ++i) {
        const bool inside = j >= 0 && j < l.n;
        out[0].push_back(inside ? x[at((o * l.n + j) * l.inner + i)] : c.attributes.get_float("value"));
      }
    }
  }
  return out;
}

Values scatter_rows(const Case& c) {
  Values out = {c.operands[0].values()};
  const Row ids = c.operands[1].values();
  const Row rows = c.operands[2].values();
  const int64_t width = static_cast<int64_t>(out[0].size()) / dim(c.operands[0], 0);
  for (size_t n = 0; n < ids.size(); ++n) {
    if (ids[n] < 0 || ids[n] >= static_cast<double>(dim(c.operands[0], 0))) continue;
    for (int64_t i = 0; i < width; ++i) {
      double& to = out[0][at(static_cast<int64_t>(ids[n]) * width + i)];
      const double from = rows[at(static_cast<int64_t>(n) * width + i)];
      to = c.attributes.get_string("mode") == "set" ? from : static_cast<double>(static_cast<float>(to + from));
    }
  }
  return out;
}

// Every combination of all letters, one product each.
Values einsum(const Case& c) {
  const std::string& text = c.attributes.get_string("equation");
  const std::string names[] = {text.substr(0, text.find(',')),
                               text.substr(text.find(',') + 1, text.find('-') - text.find(',') - 1),
                               text.substr(text.find('>') + 1)};
  std::string letters;
  std::vector<int64_t> sizes;
  for (size_t k = 0; k < 2; ++k) {
    for (size_t i = 0; i < names[k].size(); ++i) {
      if (letters.find(names[k][i]) != std::string::npos) continue;
      letters += names[k][i];
      sizes.push_back(dim(c.operands[k], i));
    }
  }
  const int64_t all = std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
  const auto place = [&](const std::string& axes, int64_t index) {
    int64_t flat = 0;
    for (const char axis : axes) {
      const size_t which = letters.find(axis);
      int64_t rest = index;
      for (size_t i = letters.size() - 1; i > which; --i) rest /= sizes[i];
      flat = flat * sizes[which] + rest % sizes[which];
    }
    return at(flat);
  };
  int64_t results = 1;
  for (const char axis : names[2]) results *= sizes[letters.find(axis)];
  Values out(1, Row(at(results), 0.0));
  const Row a = c.operands[0].values();
  const Row b = c.operands[1].values();
  for (int64_t i = 0; i < all; ++i) out[0][place(names[2], i)] += a[place(names[0], i)] * b[place(names[1], i)];
  return out;
}

Row rms_norm_row(const Row& x, const Row& weight, double eps, double offset) {
  double squares = 0;
  for (const double v : x) squares += v * v;
  const double r = std::sqrt(squares / static_cast<double>(x.size()) + eps);
  Row y;
  for (size_t i = 0; i < x.size(); ++i) y.push_back(x[i] / r * (weight.empty() ? 1 : weight[i] + offset));
  return y;
}

Values rms_norm(const Case& c) {
  const Row weight = c.operands.size() > 1 ? c.operands[1].values() : Row{};
  return by_rows(c, [&](const Row& x) {
    return rms_norm_row(x, weight, c.attributes.get_float("eps"), c.attributes.get_float("offset"));
  });
}

Values layer_norm(const Case& c) {
  const Row weight = c.operands.size() > 1 ? c.operands[1].values() : Row{};
  const Row bias = c.operands.size() > 2 ? c.operands[2].values() : Row{};
  return by_rows(c, [&](Row x) {
    const auto n = static_cast<double>(x.size());
    const double mean = std::accumulate(x.begin(), x.end(), 0.0) / n;
    double squares = 0;
    for (const double v : x) squares += (v - mean) * (v - mean);
    const double r = std::sqrt(squares / n + c.attributes.get_float("eps"));
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] = (x[i] - mean) / r * (weight.empty() ? 1 : weight[i]) + (bias.empty() ? 0 : bias[i]);
    }
    return x;
  });
}

Values rope(const Case& c) {
  const ops::Attributes& a = c.attributes;
  Row x = c.operands[0].values();
  const Row positions = c.operands[1].values();
  const int64_t heads = dim(c.operands[0], 1);
  const int64_t width = dim(c.operands[0], 2);
  const int64_t length = a.get_int("length");
  const bool halves = a.get_string("style") == "half";
  for (int64_t t = 0; t < static_cast<int64_t>(positions.size()); ++t) {
    std::vector<double> freqs = a.get_floats("freqs");
    double scale = a.get_float("scale");
    int64_t first = 0;
    for (const Sequence& s : c.state.empty() ? std::vector<Sequence>{} : c.state[0].sequences) {
      if (t >= first && t < first + s.num_tokens) {
        const auto planned = static_cast<double>(s.planned_length);
        if (a.get_int("switch_length") > 0 && s.planned_length > a.get_int("switch_length")) {
          freqs = a.get_floats("long_freqs");
          scale = a.get_float("long_scale");
        }
        if (a.get_float("dynamic_base") > 0 && planned > a.get_float("dynamic_max")) {
          const double f = a.get_float("dynamic_factor");
          const auto d = static_cast<double>(length);
          const double base =
              a.get_float("dynamic_base") * std::pow(f * planned / a.get_float("dynamic_max") - f + 1, d / (d - 2));
          for (size_t i = 0; i < freqs.size(); ++i) freqs[i] = 1 / std::pow(base, 2 * static_cast<double>(i) / d);
        }
      }
      first += s.num_tokens;
    }
    for (int64_t h = 0; h < heads; ++h) {
      double* head = x.data() + (t * heads + h) * width + a.get_int("offset");
      for (int64_t i = 0; i < length / 2; ++i) {
        double& u = head[halves ? i : 2 * i];
        double& v = head[halves ? i + length / 2 : 2 * i + 1];
        const double angle = (a.get_bool("inverse") ? -1 : 1) * positions[at(t)] * freqs[at(i)];
        const double x0 = u;
        const double x1 = v;
        u = scale * (x0 * std::cos(angle) - x1 * std::sin(angle));
        v = scale * (x1 * std::cos(angle) + x0 * std::sin(angle));
      }
    }
  }
  return {x};
}

Values gather_rows(const Case& c) {
  const Row table = c.operands[0].values();
  const Row ids = c.operands[1].values();
  const int64_t rows = dim(c.operands[0], 0);
  const int64_t width = static_cast<int64_t>(table.size()) / rows;
  Values out(1);
  for (const double id : ids) {
    for (int64_t i = 0; i < width; ++i) {
      const auto row = static_cast<int64_t>(id);
      out[0].push_back(row < 0 || row >= rows ? 0 : table[at(row * width + i)]);
    }
  }
  return out;
}

Values dequantize(const Case& c) {
  Row w = c.operands[0].values();
  const Row scale = c.operands[1].values();
  const std::vector<int64_t>& block = c.attributes.get_ints("block");
  const tensor::Shape& shape = c.operands[0].type.shape;
  const int64_t rows = shape[shape.size() - 2].factor;
  const int64_t columns = shape.back().factor;
  const int64_t scale_rows = (rows + block[0] - 1) / block[0];
  const int64_t scale_columns = (columns + block[1] - 1) / block[1];
  for (int64_t i = 0; i < static_cast<int64_t>(w.size()); ++i) {
    const int64_t matrix = i / (rows * columns);
    const int64_t r = i / columns % rows;
    w[at(i)] *= scale[at((matrix * scale_rows + r / block[0]) * scale_columns + i % columns / block[1])];
  }
  return {w};
}

// The values that mxfp4 blocks built from neighbouring nibbles must decode to.
Values pack_mxfp4(const Case& c) {
  constexpr double kCodes[16] = {0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6};
  Values out(1);
  for (size_t b = 0; b < c.operands[1].data.size(); ++b) {
    const double scale = std::ldexp(1.0, std::to_integer<int>(c.operands[1].data[b]) - 127);
    for (size_t e = 0; e < 32; ++e) {
      const int byte = std::to_integer<int>(c.operands[0].data[b * 16 + e / 2]);
      out[0].push_back(kCodes[e % 2 == 0 ? byte & 15 : byte >> 4] * scale);
    }
  }
  return out;
}

}  // namespace

Values formula(const Case& c) {
  switch (c.op) {
    case OpKind::kMap:
      return map(c);
    case OpKind::kReduce:
      return reduce(c);
    case OpKind::kSoftmax:
      return by_rows(c, softmax_row);
    case OpKind::kTopK:
      return top_k(c);
    case OpKind::kIndexMask:
      return index_mask(c);
    case OpKind::kCumsum:
      return cumsum(c);
    case OpKind::kTake:
      return take(c);
    case OpKind::kPad:
      return pad(c);
    case OpKind::kScatterRows:
      return scatter_rows(c);
    case OpKind::kEinsum:
      return einsum(c);
    case OpKind::kRmsNorm:
      return rms_norm(c);
    case OpKind::kLayerNorm:
      return layer_norm(c);
    case OpKind::kRope:
      return rope(c);
    case OpKind::kAttend:
    case OpKind::kAttendSegments:
      return attend_formula(c);
    case OpKind::kIndexScores:
      return index_scores_formula(c);
    case OpKind::kWindowEmit:
      return window_emit_formula(c);
    case OpKind::kGatherRows:
      return gather_rows(c);
    case OpKind::kDequantize:
      return dequantize(c);
    case OpKind::kFakeQuant:
      return fake_quant_formula(c);
    case OpKind::kAssembleWeight:
      return assemble_weight_formula(c);
    case OpKind::kPackMxfp4:
      return pack_mxfp4(c);
    case OpKind::kLinear:
    case OpKind::kBatchedLinear:
    case OpKind::kFusedLinear:
      return products(c, catalog::ComputeMode::kF32).first;
    default:
      return is_recurrence(c.op) || c.op == OpKind::kRecentTokens ? recurrence_formula(c) : Values{};
  }
}

}  // namespace firstlight::conformance
