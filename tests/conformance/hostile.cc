// SPDX-License-Identifier: Apache-2.0
#include "hostile.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "case.h"
#include "judge/run_case.h"
#include "tensor/codec.h"

namespace firstlight::conformance {
namespace {

using ops::OpKind;
using tensor::DType;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr int64_t kTails[] = {1, 7, 8, 9, 15, 16, 17, 31, 33, 63, 65, 127, 129};
constexpr size_t kMostBytes = 400'000;        // of a case whose values are changed
constexpr int64_t kMostElements = 1'100'000;  // of an operand or a state of a long case

bool encodes(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16 || dtype == DType::kF64;
}

float rounded_to(DType dtype, float value) {
  if (dtype == DType::kF16) return tensor::f16_to_f32(tensor::f32_to_f16(value));
  if (dtype == DType::kBF16) return tensor::bf16_to_f32(tensor::f32_to_bf16(value));
  return value;
}

// One way to change all values, given the old one and its index.
struct Change {
  const char* name;
  std::function<float(DType, float, size_t)> to;
  uint8_t e4m3 = 0, e5m2 = 0;  // codes that stand for it
};

float subnormal(DType dtype, float value) { return value * (dtype == DType::kF16 ? 1e-5f : 1e-39f); }

const std::vector<Change>& changes() {
  static const std::vector<Change> all = {
      {"subnormal", [](DType dtype, float v, size_t) { return subnormal(dtype, v); }, 0x01, 0x01},
      {"zeros of both signs", [](DType, float, size_t i) { return i % 2 == 0 ? 0.0f : -0.0f; }, 0x80, 0x80},
      {"ties", [](DType, float v, size_t) { return std::clamp(std::round(v), -1.0f, 1.0f); }, 0x38, 0x3c},
      {"large", [](DType dtype, float v, size_t) { return v * (dtype == DType::kF16 ? 1e3f : 1e15f); }, 0x7e, 0x7b},
      {"negated", [](DType, float v, size_t) { return -v; }, 0xb8, 0xbc},
  };
  return all;
}

Tensor changed(const Tensor& t, const Change& change) {
  Tensor out = t;
  if (!encodes(t.type.dtype)) {
    const auto code = static_cast<std::byte>(t.type.dtype == DType::kF8E4M3 ? change.e4m3 : change.e5m2);
    for (size_t i = 0; i < out.data.size(); i += 2) out.data[i] = code;
    return out;
  }
  std::vector<float> values;
  for (const double v : t.values()) values.push_back(change.to(t.type.dtype, static_cast<float>(v), values.size()));
  FL_CHECK(tensor::encode_from_f32(t.type.dtype, values, out.data).ok());
  return out;
}

// One element set; false where the type has no such number.
bool set_element(Tensor& t, size_t element, float value) {
  const DType dtype = t.type.dtype;
  if (dtype == DType::kF8E4M3 || dtype == DType::kF8E5M2) {
    if (std::isinf(value) && dtype == DType::kF8E4M3) return false;
    const int sign = value < 0 ? 0x80 : 0;
    t.data[element] = static_cast<std::byte>(std::isnan(value) ? 0x7f : 0x7c + sign);
    return true;
  }
  const auto size = static_cast<size_t>(tensor::dtype_info(dtype).block_bytes);
  return tensor::encode_from_f32(dtype, std::span(&value, 1), std::span(t.data).subspan(element * size, size)).ok();
}

void put_scale(DType dtype, std::byte* block, float value) {
  const auto put_half = [&](size_t offset) {
    const uint16_t bits = tensor::f32_to_f16(value);
    std::memcpy(block + offset, &bits, 2);
  };
  switch (dtype) {
    case DType::kMXFP4:
      block[0] = static_cast<std::byte>(std::isfinite(value) ? 0 : 0xff);  // 0: the smallest power
      return;
    case DType::kInt4G:
    case DType::kInt8G:
    case DType::kFP8G:
    case DType::kNVFP4:
      std::memcpy(block, &value, 4);
      return;
    case DType::kQ6_K:
      return put_half(208);
    default:
      return put_half(0);
  }
}

void add(std::vector<Variant>& out, Case c, const std::string& what, int operand, int64_t row) {
  c.name += ", " + what;
  out.push_back({std::move(c), operand, row});
}

void add_block_variants(std::vector<Variant>& out, const Case& c, size_t k) {
  const Tensor& t = c.operands[k];
  const tensor::DTypeInfo& info = tensor::dtype_info(t.type.dtype);
  const auto size = static_cast<size_t>(info.block_bytes);
  const size_t blocks = t.data.size() / size;
  const std::string name = "operand " + std::to_string(k);
  const auto with = [&](const std::string& what, const std::function<void(std::byte*, size_t)>& change) {
    Case changed = c;
    for (size_t i = 0; i < blocks; ++i) change(changed.operands[k].data.data() + i * size, i);
    add(out, std::move(changed), name + " " + what, static_cast<int>(k), -1);
  };
  for (const float scale : {kNan, kInf, 0.0f, 1e-7f}) {
    if (t.type.dtype == DType::kMXFP4 && std::isinf(scale)) continue;
    const bool all = std::isfinite(scale);
    with(all                 ? (scale == 0 ? "scales of zero" : "tiny scales")
         : std::isnan(scale) ? "scale NaN"
                             : "scale inf",
         [&](std::byte* block, size_t i) {
           if (all || i == blocks / 2) put_scale(t.type.dtype, block, scale);
         });
  }
  for (const int code : {0x00, 0xff}) {
    if (t.type.dtype == DType::kFP8G && code == 0xff) continue;  // is NaN
    with(code == 0 ? "lowest codes" : "highest codes", [&](std::byte* block, size_t) {
      const size_t first = t.type.dtype == DType::kMXFP4 ? 1 : t.type.dtype == DType::kNVFP4 ? 8 : 5;
      const size_t end = t.type.dtype == DType::kQ6_K ? 192 : size;
      if (t.type.dtype == DType::kQ8_0 || t.type.dtype == DType::kQ4_0) block[2] = static_cast<std::byte>(code);
      for (size_t i = first; i < end; ++i) block[i] = static_cast<std::byte>(code);
    });
  }
}

bool takes_indices(OpKind op) {
  return op == OpKind::kGatherRows || op == OpKind::kGatherLast || op == OpKind::kScatterRows ||
         op == OpKind::kIndexMask || op == OpKind::kCast || op == OpKind::kAttendSegments;
}

void add_integer_variants(std::vector<Variant>& out, const Case& c, size_t k) {
  if (!takes_indices(c.op) || c.operands[k].data.empty()) return;
  for (const int32_t index : {-1, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()}) {
    Case changed = c;
    std::memcpy(changed.operands[k].data.data() + c.operands[k].data.size() / 8 * 4, &index, 4);
    add(out, std::move(changed), "operand " + std::to_string(k) + " index " + std::to_string(index),
        static_cast<int>(k), -1);
  }
}

void add_operand_variants(std::vector<Variant>& out, const Case& c, size_t k) {
  const Tensor& t = c.operands[k];
  if (t.type.is_state() || t.data.empty()) return;
  if (tensor::dtype_info(t.type.dtype).is_quantised) return add_block_variants(out, c, k);
  if (t.type.dtype == DType::kI32) return add_integer_variants(out, c, k);
  const bool is_f8 = t.type.dtype == DType::kF8E4M3 || t.type.dtype == DType::kF8E5M2;
  if (!encodes(t.type.dtype) && !is_f8) return;
  const std::string name = "operand " + std::to_string(k) + " ";
  const auto count = static_cast<size_t>(tensor::num_elements(t.type.shape));
  const size_t width = t.type.shape.empty() ? 1 : static_cast<size_t>(t.type.shape.back().factor);
  const size_t rows = t.type.shape.empty() ? 1 : static_cast<size_t>(t.type.shape[0].factor);
  for (const auto& [what, value] : {std::pair{"NaN", kNan}, {"inf", kInf}, {"-inf", -kInf}}) {
    for (const bool last : {false, true}) {  // the first and the last element of a row in the middle
      if (last && width == 1) continue;
      const size_t line = count / width / 2;
      Case changed = c;
      if (!set_element(changed.operands[k], line * width + (last ? width - 1 : 0), value)) continue;
      add(out, std::move(changed), name + what + (last ? " at the end" : ""), static_cast<int>(k),
          static_cast<int64_t>(line * width / std::max<size_t>(1, count / rows)));
    }
  }
  for (const Change& change : changes()) {
    Case other = c;
    other.operands[k] = changed(t, change);
    add(out, std::move(other), name + change.name, static_cast<int>(k), -1);
  }
}

void add_state_variants(std::vector<Variant>& out, const Case& c) {
  for (size_t s = 0; s < c.state.size(); ++s) {
    for (size_t part = 0; part < c.state[s].rows.size(); ++part) {
      const ops::StateComponent& component = c.state[s].decl.components[part];
      if (component.dtype == DType::kI32) continue;
      const std::string name = "state " + std::to_string(s) + " " + component.name + " ";
      for (const auto& [what, value] : {std::pair{"NaN", kNan}, {"inf", kInf}, {"-inf", -kInf}}) {
        Case changed = c;
        for (auto& values : changed.state[s].rows[part]) {
          if (!values.empty()) values[values.size() / 2] = value;
        }
        add(out, std::move(changed), name + what, -1, -1);
      }
      for (const Change& change : changes()) {
        Case changed = c;
        for (auto& values : changed.state[s].rows[part]) {
          for (size_t i = 0; i < values.size(); ++i) {
            values[i] = rounded_to(component.dtype, change.to(component.dtype, values[i], i));
          }
        }
        add(out, std::move(changed), name + change.name, -1, -1);
      }
    }
  }
}

// The tensor with other sizes: values from the same places, counted round where it has become larger.
Result<Tensor> resized(const Tensor& t, const tensor::Shape& shape) {
  const tensor::DTypeInfo& info = tensor::dtype_info(t.type.dtype);
  Tensor out{tensor::Type::tensor(t.type.dtype, shape), {}};
  const int64_t old_count = tensor::num_elements(t.type.shape), count = tensor::num_elements(shape);
  if (count > kMostElements || (count > 0 && old_count == 0)) return unsupported("nothing to take values from");
  if (!shape.empty() && shape.back().factor % info.block_elements != 0) return unsupported("parts of blocks");
  out.data.resize(static_cast<size_t>(tensor::size_bytes(out.type)));
  const auto size = static_cast<size_t>(info.block_bytes);
  const int64_t block = info.block_elements;
  for (size_t to = 0; to * size < out.data.size(); ++to) {
    int64_t rest = static_cast<int64_t>(to), from = 0, stride = 1;
    for (size_t axis = shape.size(); axis-- > 0;) {
      const int64_t unit = axis + 1 == shape.size() ? block : 1;
      const int64_t wide = shape[axis].factor / unit, old = t.type.shape[axis].factor / unit;
      from += rest % wide % old * stride;
      rest /= wide;
      stride *= old;
    }
    std::memcpy(out.data.data() + to * size, t.data.data() + static_cast<size_t>(from) * size, size);
  }
  return out;
}

// The rows of a state for other sequences and widths, from the old ones, counted round.
Result<State> resized(const State& state, std::vector<Sequence> sequences, int64_t from, int64_t to) {
  State out = state;
  out.sequences = std::move(sequences);
  for (size_t part = 0; part < state.rows.size(); ++part) {
    ops::StateComponent& c = out.decl.components[part];
    if (c.width == from) c.width = to;
    if (c.heads == from) c.heads = to;
    std::vector<float> all;
    for (const auto& values : state.rows[part]) all.insert(all.end(), values.begin(), values.end());
    if (all.empty()) return unsupported("no values");
    out.rows[part].clear();
    size_t next = 0;
    int64_t total = 0;
    for (const Sequence& s : out.sequences) {
      total += rows_of(out.decl, s) * c.heads * c.width;
      if (total > kMostElements) return unsupported("too long");
      auto& values = out.rows[part].emplace_back(static_cast<size_t>(rows_of(out.decl, s) * c.heads * c.width));
      const bool begins = out.decl.kind == ops::StateKind::kFixed && s.start_position == 0;
      for (float& v : values) v = begins ? 0.0f : all[next++ % all.size()];
    }
  }
  return out;
}

int64_t tokens_of(const std::vector<Sequence>& sequences) {
  int64_t total = 0;
  for (const Sequence& s : sequences) total += s.num_tokens;
  return total;
}

// Whether the operator and the judge take it.
bool stands(const Case& c) {
  const auto results = try_result_types(c);
  if (!results.ok()) return false;
  for (const tensor::Type& type : *results) {
    if (!type.is_state() && tensor::num_elements(type.shape) > kMostElements) return false;
  }
  const auto operands = operand_types(c);
  return catalog::select_kernel(catalog::Backend::kReference, {}, {c.op, operands, *results, c.attributes}) != nullptr;
}

// Every axis and every width that was `from` becomes `to`.
void add_size(std::vector<Variant>& out, const Case& c, int64_t from, int64_t to) {
  Case changed = c;
  for (Tensor& t : changed.operands) {
    if (t.type.is_state()) continue;
    tensor::Shape shape = t.type.shape;
    for (tensor::Dim& dim : shape) {
      if (dim.factor == from) dim = tensor::Dim(to);
    }
    auto other = resized(t, shape);
    if (!other.ok()) return;
    t = *std::move(other);
  }
  for (State& state : changed.state) {
    auto other = resized(state, state.sequences, from, to);
    if (!other.ok()) return;
    state = *std::move(other);
  }
  if (stands(changed)) add(out, std::move(changed), std::to_string(from) + " become " + std::to_string(to), -1, -1);
}

// Another batch, with the rows of operands that go with its tokens.
void add_batch(std::vector<Variant>& out, const Case& c, const std::string& what, std::vector<Sequence> sequences) {
  Case changed = c;
  const int64_t old = tokens_of(c.state[0].sequences), tokens = tokens_of(sequences);
  for (Tensor& t : changed.operands) {
    if (t.type.is_state() || t.type.shape.empty() || t.type.shape[0].factor != old) continue;
    tensor::Shape shape = t.type.shape;
    shape[0] = tensor::Dim(tokens);
    auto other = resized(t, shape);
    if (!other.ok()) return;
    t = *std::move(other);
  }
  for (State& state : changed.state) {
    auto other = resized(state, sequences, -1, -1);
    if (!other.ok()) return;
    state = *std::move(other);
  }
  if (stands(changed)) add(out, std::move(changed), what, -1, -1);
}

void add_batches(std::vector<Variant>& out, const Case& c) {
  const bool counts_groups = c.op == OpKind::kAppend && c.state[0].decl.kind == ops::StateKind::kRateLog;
  if (counts_groups) return;  // its rows go with groups, not with tokens
  std::vector<Sequence> many;
  for (int64_t i = 0; i < 256; ++i) many.push_back({i * 7 % 41, 1, 50});
  add_batch(out, c, "256 sequences", many);
  add_batch(out, c, "nothing", {{5, 0, 0}});
  add_batch(out, c, "a sequence of 64k", {{65535, 1, 65536}});
  add_batch(out, c, "the end of a sequence of 64k", {{65520, 16, 65536}});
  const bool grows_with_length =
      c.op == OpKind::kAttend || c.op == OpKind::kAttendSegments || c.op == OpKind::kIndexScores;
  if (!grows_with_length) add_batch(out, c, "64k tokens at once", {{0, 65536, 65536}});
}

void add_sizes(std::vector<Variant>& out, const Case& c) {
  std::set<int64_t> widths;
  for (const Tensor& t : c.operands) {
    if (!t.type.is_state() && !t.type.shape.empty()) widths.insert(t.type.shape.back().factor);
  }
  const bool batched = !c.state.empty();
  const int64_t tokens = batched ? tokens_of(c.state[0].sequences) : -1;
  for (const int64_t width : widths) {
    if (width == tokens || width == 0) continue;
    for (const int64_t tail : kTails) {
      if (tail != width) add_size(out, c, width, tail);
    }
  }
  if (batched) return add_batches(out, c);
  if (c.operands.empty() || c.operands[0].type.shape.size() < 2) return;
  const int64_t rows = c.operands[0].type.shape[0].factor;
  for (const int64_t count : {0, 1, 2, 31, 256, 65536}) {
    if (count != rows && rows != 0) add_size(out, c, rows, count);
  }
}

std::string kind_of(const Case& c) {
  std::string text(ops::op_name(c.op));
  for (const Tensor& t : c.operands) {
    text += t.type.is_state() ? " state" : " " + std::string(tensor::dtype_name(t.type.dtype));
  }
  for (const State& state : c.state) {
    for (const auto& part : state.decl.components) text += " " + std::string(tensor::dtype_name(part.dtype));
  }
  return text + ops::attributes_to_string(c.attributes);
}

}  // namespace

std::vector<Variant> hostile_variants(const Case& c, std::set<std::string>& seen) {
  std::vector<Variant> out;
  if (seen.insert(kind_of(c)).second) add_sizes(out, c);
  size_t bytes = 0;
  for (const Tensor& t : c.operands) bytes += t.data.size();
  for (const State& state : c.state) {
    for (const auto& part : state.rows) {
      for (const auto& values : part) bytes += values.size() * sizeof(float);
    }
  }
  if (bytes > kMostBytes) return out;
  for (size_t k = 0; k < c.operands.size(); ++k) add_operand_variants(out, c, k);
  add_state_variants(out, c);
  return out;
}

std::vector<Variant> hostile_cases(OpKind op) {
  std::vector<Variant> all;
  std::set<std::string> seen;
  for (const Case& c : all_cases()) {
    if (c.op != op) continue;
    for (Variant& v : hostile_variants(c, seen)) all.push_back(std::move(v));
  }
  return all;
}

}  // namespace firstlight::conformance
