// SPDX-License-Identifier: Apache-2.0
// What assemble_weight and fake_quant mean, a second time: every code by its place, every rounding by a search among
// the format's values.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "formulas.h"
#include "tensor/codec.h"

namespace firstlight::conformance {
namespace {

using tensor::DType;

uint32_t word(const Tensor& t, int64_t index) {
  uint32_t value = 0;
  std::memcpy(&value, t.data.data() + 4 * index, 4);
  return value;
}
int byte_at(const Tensor& t, int64_t index) { return std::to_integer<int>(t.data[static_cast<size_t>(index)]); }

// Bits [bits * i, bits * (i + 1)) of a run of words that lie `stride` apart from `start` on.
int field(const Tensor& t, int64_t start, int64_t stride, int64_t i, int bits) {
  const int64_t bit = i * bits;
  return static_cast<int>((word(t, start + bit / 32 * stride) >> (bit % 32)) & ((uint64_t{1} << bits) - 1));
}

int awq_place(int64_t row) {
  constexpr int kOrder[8] = {0, 4, 1, 5, 2, 6, 3, 7};  // of the nibbles of a word
  return kOrder[row % 8];
}

double e2m1(int code) {
  constexpr double kValues[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  return (code & 8) != 0 ? -kValues[code & 7] : kValues[code & 7];
}

// One element at a time.
class Weight {
 public:
  explicit Weight(const Case& c) : c_(c), attributes_(c.attributes) {
    FL_CHECK(ops::check_attributes(ops::op_def(c.op), attributes_).ok());
    kind_ = attributes_.get_string("codes");
    zero_kind_ = attributes_.get_string("zero");
    bits_ = static_cast<int>(attributes_.get_int("bits"));
    block_ = attributes_.get_ints("block");
    const auto& shape = c.operands[0].type.shape;
    first_ = shape[shape.size() - 2].factor;
    last_ = shape.back().factor;
    rows_ = kind_ == "gptq" ? last_ : kind_ == "awq" ? last_ * 8 : first_;
    columns_ = kind_ == "e2m1" ? 2 * last_ : kind_ == "gptq" ? first_ * 32 / bits_ : kind_ == "awq" ? first_ : last_;
    if (kind_ == "packed") columns_ = last_ * 32 / bits_;
    if (attributes_.get_int("columns") > 0) columns_ = attributes_.get_int("columns");
    matrices_ = tensor::num_elements(shape) / (first_ * last_);
    size_t next = 2;
    if (zero_kind_.starts_with("stored")) zeros_ = &c.operands[next++];
    if (attributes_.get_string("global") != "none") global_ = c.operands[next++].values();
    if (attributes_.get_bool("ordered")) order_ = c.operands[next].values();
    Tensor scale = c.operands[1];
    if (scale.type.dtype == DType::kU8) scale.type.dtype = DType::kF8E8M0;
    scales_ = scale.values();
  }

  Values all() const {
    Values out(1);
    for (int64_t m = 0; m < matrices_; ++m) {
      for (int64_t r = 0; r < rows_; ++r) {
        for (int64_t k = 0; k < columns_; ++k) out[0].push_back(value(m, r, k));
      }
    }
    return out;
  }

 private:
  double value(int64_t m, int64_t r, int64_t k) const {
    const int64_t groups = (columns_ + block_[1] - 1) / block_[1];
    const int64_t group =
        order_.empty() ? k / block_[1] : static_cast<int64_t>(order_[static_cast<size_t>(m * columns_ + k)]);
    const bool flipped = kind_ == "gptq" || kind_ == "awq";
    const int64_t scale_rows = (rows_ + block_[0] - 1) / block_[0];
    const int64_t place = flipped ? group * scale_rows + r / block_[0] : r / block_[0] * groups + group;
    double scale = scales_[static_cast<size_t>(m * scale_rows * groups + place)];
    if (!global_.empty()) {
      const auto global = static_cast<float>(global_[static_cast<size_t>(m)]);
      scale *= static_cast<double>(attributes_.get_string("global") == "divides" ? 1.0f / global : global);
    }
    return scale * (code(m, r, k) - zero(m, r, group, groups));
  }

  double code(int64_t m, int64_t r, int64_t k) const {
    const Tensor& codes = c_.operands[0];
    const int64_t base = m * first_ * last_;
    if (kind_ == "e4m3")
      return static_cast<double>(tensor::f8e4m3_to_f32(static_cast<uint8_t>(byte_at(codes, base + r * last_ + k))));
    if (kind_ == "e5m2")
      return static_cast<double>(tensor::f8e5m2_to_f32(static_cast<uint8_t>(byte_at(codes, base + r * last_ + k))));
    if (kind_ == "i8") return static_cast<int8_t>(byte_at(codes, base + r * last_ + k));
    if (kind_ == "e2m1") return e2m1((byte_at(codes, base + r * last_ + k / 2) >> (k % 2 * 4)) & 15);
    if (kind_ == "packed") return field(codes, base + r * last_, 1, k, bits_);
    if (kind_ == "gptq") return field(codes, base + r, last_, k, bits_);
    return field(codes, base + k * last_ + r / 8, 1, awq_place(r), 4);
  }

  double zero(int64_t m, int64_t r, int64_t group, int64_t groups) const {
    if (zero_kind_ == "middle") return 1 << (bits_ - 1);
    if (zeros_ == nullptr) return 0;
    if (kind_ == "i8") return static_cast<int8_t>(byte_at(*zeros_, (m * rows_ + r) * groups + group));
    const int64_t words = (rows_ * bits_ + 31) / 32;
    const int64_t base = m * words * groups;
    int stored = 0;
    if (kind_ == "packed") stored = field(*zeros_, base + group, groups, r, bits_);
    if (kind_ == "gptq") stored = field(*zeros_, base + group * words, 1, r, bits_);
    if (kind_ == "awq") stored = field(*zeros_, base + group * words + r / 8, 1, awq_place(r), 4);
    return zero_kind_ == "stored" ? stored : (stored + 1) % (1 << bits_);
  }

  const Case& c_;
  ops::Attributes attributes_;
  std::string kind_, zero_kind_;
  int bits_ = 8;
  std::vector<int64_t> block_;
  int64_t first_ = 0, last_ = 0, rows_ = 0, columns_ = 0, matrices_ = 0;
  const Tensor* zeros_ = nullptr;
  std::vector<double> scales_, global_, order_;
};

// The values a format has, ascending; of two neighbours the one at an even place has the even code.
std::vector<double> values_of(const std::string& format) {
  std::vector<double> values;
  for (int code = 0; code < 128; ++code) {
    double value = code;
    if (format == "e4m3") value = static_cast<double>(tensor::f8e4m3_to_f32(static_cast<uint8_t>(code)));
    if (format == "e5m2") value = static_cast<double>(tensor::f8e5m2_to_f32(static_cast<uint8_t>(code)));
    if (format == "e2m1" && code < 8) value = e2m1(code);
    if ((format == "e2m1" && code >= 8) || (format == "int4" && code >= 8)) continue;
    if (std::isfinite(value)) values.push_back(value);
  }
  return values;
}

double nearest(double x, const std::string& format) {
  if (std::isnan(x)) return x;
  std::vector<double> values = values_of(format);
  if (x < 0 && format == "int8") values.push_back(128);
  if (x < 0 && format == "int4") values.push_back(8);
  const double magnitude = std::min(std::fabs(x), values.back());
  size_t best = 0;
  for (size_t i = 1; i < values.size(); ++i) {
    const double now = std::fabs(values[i] - magnitude);
    const double before = std::fabs(values[best] - magnitude);
    if (now < before || (now == before && i % 2 == 0)) best = i;
  }
  return std::copysign(values[best], x);
}

// The scale by the rule in the operator's row; quotients rounded to float32 as it says.
float scale_of(const std::vector<float>& x, const ops::Attributes& attributes, float given) {
  double largest = attributes.get_float("least");
  for (const float v : x) {
    if (!std::isfinite(v)) return std::numeric_limits<float>::quiet_NaN();
    largest = std::max(largest, std::fabs(static_cast<double>(v)));
  }
  const std::string& format = attributes.get_string("format");
  const float top = static_cast<float>(values_of(format).back());
  const float scale = static_cast<float>(largest) / top;
  if (attributes.get_string("scale_format") == "f32" || scale == 0) return scale;
  if (attributes.get_string("scale_format") == "e4m3") {
    const float global = given == 0 ? 1.0f : given;
    return global * static_cast<float>(nearest(static_cast<double>(scale / global), "e4m3"));
  }
  int power = -127;
  while (std::ldexp(1.0, power) < static_cast<double>(scale)) ++power;
  return static_cast<float>(std::ldexp(1.0, power));
}

}  // namespace

Values assemble_weight_formula(const Case& c) { return Weight(c).all(); }

Values fake_quant_formula(const Case& c) {
  ops::Attributes attributes = c.attributes;
  FL_CHECK(ops::check_attributes(ops::op_def(c.op), attributes).ok());
  const std::vector<double> x = c.operands[0].values();
  const int64_t columns = c.operands[0].type.shape.back().factor;
  const int64_t block = attributes.get_int("block") == 0 ? columns : attributes.get_int("block");
  const auto given =
      static_cast<float>(c.operands.size() > 1 ? c.operands[1].values()[0] : attributes.get_float("scale"));
  const bool fixed = given != 0 && attributes.get_string("scale_format") != "e4m3";
  const std::string& format = attributes.get_string("format");
  Values out(1);
  for (size_t row = 0; row < x.size(); row += static_cast<size_t>(columns)) {
    for (int64_t first = 0; first < columns; first += block) {
      std::vector<float> part;
      for (int64_t i = first; i < std::min(columns, first + block); ++i) {
        part.push_back(static_cast<float>(x[row + static_cast<size_t>(i)]));
      }
      const float scale = fixed ? given : scale_of(part, attributes, given);
      for (const float v : part) {
        out[0].push_back(scale == 0 ? 0 : static_cast<double>(scale) * nearest(static_cast<double>(v / scale), format));
      }
    }
  }
  return out;
}

}  // namespace firstlight::conformance
