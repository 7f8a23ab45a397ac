// SPDX-License-Identifier: Apache-2.0
// rope: rotary position embedding of a slice of each head.
#include <cmath>

#include "ops/defs.h"
#include "ops/infer.h"

namespace firstlight::ops {
namespace {

Status check_slice(const Attributes& a, const tensor::Type& x) {
  const int64_t offset = a.get_int("offset");
  const int64_t length = a.get_int("length");
  const tensor::Dim width = last_dim(x);
  const bool fits = offset >= 0 && length >= 2 && length % 2 == 0 && width.is_static() && length <= width.factor &&
                    offset <= width.factor - length;
  return want_attribute(fits, OpKind::kRope, "offset, length", std::to_string(offset) + ", " + std::to_string(length),
                        "an even slice of the last axis of " + x.to_string());
}

// A scaling that was divided by nothing, or by less, shows here.
Status check_finite(const Attributes& a) {
  for (const char* name : {"freqs", "long_freqs"}) {
    for (const double f : a.get_floats(name)) {
      FL_TRY(want_attribute(std::isfinite(f) && f >= 0, OpKind::kRope, name, exact_decimal(f),
                            "finite numbers, none below 0"));
    }
  }
  for (const char* name : {"scale", "long_scale"}) {
    const double scale = a.get_float(name);
    FL_TRY(want_attribute(std::isfinite(scale) && scale > 0, OpKind::kRope, name, exact_decimal(scale),
                          "a finite number above 0"));
  }
  return ok_status();
}

Status check_frequencies(const Attributes& a) {
  const auto half = static_cast<size_t>(a.get_int("length") / 2);
  const std::string wanted = std::to_string(half) + " frequencies";
  const size_t count = a.get_floats("freqs").size();
  FL_TRY(want_attribute(count == half, OpKind::kRope, "freqs", std::to_string(count) + " numbers", wanted));
  const size_t long_count = a.get_floats("long_freqs").size();
  const int64_t switch_length = a.get_int("switch_length");
  FL_TRY(want_attribute(long_count == (switch_length > 0 ? half : 0), OpKind::kRope, "long_freqs",
                        std::to_string(long_count) + " numbers",
                        switch_length > 0 ? wanted : "none without a switch_length"));
  return want_attribute(a.get_float("dynamic_base") <= 0 || (a.get_float("dynamic_max") > 0 && a.get_int("length") > 2),
                        OpKind::kRope, "dynamic_max", exact_decimal(a.get_float("dynamic_max")),
                        "above 0 (and length above 2) with a dynamic_base");
}

Result<Types> infer(const InferInput& input) {
  const tensor::Type& x = input.operands[0];
  const tensor::Type& positions = input.operands[1];
  FL_TRY(want(is_f32(x) && rank(x) == 3, OpKind::kRope, "x", x, "f32[T, H, D]"));
  FL_TRY(want(is_i32(positions) && has_shape(positions, {x.shape[0]}), OpKind::kRope, "positions", positions,
              "i32[" + x.shape[0].to_string() + "]"));
  const std::string& style = input.attributes.get_string("style");
  FL_TRY(want_attribute(style == "half" || style == "interleaved", OpKind::kRope, "style", style,
                        "\"half\" or \"interleaved\""));
  FL_TRY(check_slice(input.attributes, x));
  FL_TRY(check_frequencies(input.attributes));
  FL_TRY(check_finite(input.attributes));
  const bool by_sequence =
      input.attributes.get_int("switch_length") > 0 || input.attributes.get_float("dynamic_base") > 0;
  FL_TRY(want(!by_sequence || x.shape[0].symbol != tensor::Symbol::kGroups, OpKind::kRope, "x", x,
              "a row per token, for frequencies that depend on the sequence"));
  return Types{x};
}

std::vector<ShardRule> shard(const InferInput&) {
  return {{"heads", {1, -1}, {1}, false}, {"tokens", {0, 0}, {0}, false}};
}

Cost cost(const InferInput& input, std::span<const tensor::Type> results, const tensor::SymbolValues& values) {
  return elementwise_cost(input, results, values, 3);
}

}  // namespace

OpDef rope_def() {
  OpDef def;
  def.kind = OpKind::kRope;
  def.name = "rope";
  def.operands = {{"x"}, {"positions"}};
  def.attributes = {
      {"style", AttributeType::kString, false, std::string("half"),
       "pairs: \"half\" (i, i + length/2), \"interleaved\" (2i, 2i + 1)"},
      {"offset", AttributeType::kInt, false, int64_t{0}, "first rotated element of each head"},
      {"length", AttributeType::kInt, true, {}, "rotated elements, even"},
      {"freqs", AttributeType::kFloats, true, {}, "radians per position, length/2 of them"},
      {"scale", AttributeType::kFloat, false, 1.0, "multiplies sine and cosine"},
      {"inverse", AttributeType::kBool, false, false, "rotates by the negative angle"},
      {"long_freqs", AttributeType::kFloats, false, std::vector<double>{},
       "freqs of sequences planned beyond switch_length"},
      {"switch_length", AttributeType::kInt, false, int64_t{0}, "tokens; 0: never"},
      {"long_scale", AttributeType::kFloat, false, 1.0, "scale of those sequences"},
      {"dynamic_base", AttributeType::kFloat, false, 0.0, "rope base of dynamic scaling; 0: off"},
      {"dynamic_factor", AttributeType::kFloat, false, 1.0, "its factor"},
      {"dynamic_max", AttributeType::kFloat, false, 0.0, "tokens beyond which it applies"},
  };
  def.meaning =
      "For each pair (a, b) of the slice [offset, offset + length) of a head: (a c - b s, b c + a s), c = scale cos(p "
      "f), "
      "s = scale sin(p f), p the position, f the pair's frequency; the rest is copied. One set of frequencies holds "
      "for a "
      "sequence's whole life: it is chosen by the sequence's planned_length (long_freqs beyond switch_length; with "
      "dynamic_base b and planned length L > dynamic_max: f_i = b'^(-2i/d), b' = b (factor L / max - (factor - "
      "1))^(d/(d-2)), d = length).";
  def.rounding =
      "angles to better than 1e-6 at every position up to 2^24 (float64 in the judge); the rotation in float32";
  def.elementwise_rows = true;
  def.infer = infer;
  def.shard = shard;
  def.cost = cost;
  def.gradient = "dx = the inverse rotation of dy";
  return def;
}

}  // namespace firstlight::ops
