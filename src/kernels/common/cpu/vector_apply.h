// SPDX-License-Identifier: Apache-2.0
// VectorOps::apply in the words of simd_*.h; included by vector_ops_<isa>.cc alone.
#pragma once

namespace firstlight::kernels {
namespace {

using ops::ExprOp;

template <typename F>
FL_INLINE void each_1(const float* a, float* out, int64_t count, F f) {
  for (int64_t i = 0; i < count; i += kLanes) store_f(out + i, f(load_f(a + i)));
}
template <typename F>
FL_INLINE void each_2(const float* a, const float* b, float* out, int64_t count, F f) {
  for (int64_t i = 0; i < count; i += kLanes) store_f(out + i, f(load_f(a + i), load_f(b + i)));
}

FL_INLINE Float one_if(Mask m) { return select_f(m, set_f(1.0f), zero_f()); }
// A NaN on either side stays one, as in the float64 form.
FL_INLINE Float nan_min(Float a, Float b) { return select_f(is_nan_f(a), a, min_f(a, b)); }
FL_INLINE Float nan_max(Float a, Float b) { return select_f(is_nan_f(a), a, max_f(a, b)); }
FL_INLINE Float sign_of(Float a) {
  const Float sign = sub_f(one_if(less_f(zero_f(), a)), one_if(less_f(a, zero_f())));
  return select_f(is_nan_f(a), a, sign);
}
FL_INLINE Float abs_of(Float a) { return from_bits(and_i(bits_f(a), set_i(0x7fffffff))); }
FL_INLINE Float negate(Float a) { return from_bits(xor_i(bits_f(a), set_i(static_cast<int32_t>(0x80000000u)))); }

// What is rare enough to be computed element by element.
void apply_scalar(ExprOp op, const float* a, const float* b, float* out, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    switch (op) {
      case ExprOp::kPow:
        out[i] = __builtin_powf(a[i], b[i]);
        break;
      case ExprOp::kExpm1:
        out[i] = __builtin_expm1f(a[i]);
        break;
      case ExprOp::kLog1p:
        out[i] = __builtin_log1pf(a[i]);
        break;
      case ExprOp::kErf:
        out[i] = __builtin_erff(a[i]);
        break;
      case ExprOp::kSin:
        out[i] = __builtin_sinf(a[i]);
        break;
      default:
        out[i] = __builtin_cosf(a[i]);
        break;
    }
  }
}

void apply(ExprOp op, const float* a, const float* b, const float* c, float* out, int64_t count) {
  switch (op) {
    case ExprOp::kAdd:
      return each_2(a, b, out, count, [](Float x, Float y) { return add_f(x, y); });
    case ExprOp::kSub:
      return each_2(a, b, out, count, [](Float x, Float y) { return sub_f(x, y); });
    case ExprOp::kMul:
      return each_2(a, b, out, count, [](Float x, Float y) { return mul_f(x, y); });
    case ExprOp::kDiv:
      return each_2(a, b, out, count, [](Float x, Float y) { return div_f(x, y); });
    case ExprOp::kMin:
      return each_2(a, b, out, count, [](Float x, Float y) { return nan_min(x, y); });
    case ExprOp::kMax:
      return each_2(a, b, out, count, [](Float x, Float y) { return nan_max(x, y); });
    case ExprOp::kLt:
      return each_2(a, b, out, count, [](Float x, Float y) { return one_if(less_f(x, y)); });
    case ExprOp::kLe:
      return each_2(a, b, out, count, [](Float x, Float y) { return one_if(less_equal_f(x, y)); });
    case ExprOp::kEq:
      return each_2(a, b, out, count, [](Float x, Float y) { return one_if(equal_f(x, y)); });
    case ExprOp::kNeg:
      return each_1(a, out, count, [](Float x) { return negate(x); });
    case ExprOp::kAbs:
      return each_1(a, out, count, [](Float x) { return abs_of(x); });
    case ExprOp::kSign:
      return each_1(a, out, count, [](Float x) { return sign_of(x); });
    case ExprOp::kFloor:
      return each_1(a, out, count, [](Float x) { return floor_f(x); });
    case ExprOp::kExp:
      return each_1(a, out, count, [](Float x) { return exp_f(x); });
    case ExprOp::kLog:
      return each_1(a, out, count, [](Float x) { return log_f(x); });
    case ExprOp::kSqrt:
      return each_1(a, out, count, [](Float x) { return sqrt_f(x); });
    case ExprOp::kRsqrt:
      return each_1(a, out, count, [](Float x) { return div_f(set_f(1.0f), sqrt_f(x)); });
    case ExprOp::kTanh:
      return each_1(a, out, count, [](Float x) { return tanh_f(x); });
    case ExprOp::kSigmoid:
      return each_1(a, out, count, [](Float x) { return sigmoid_f(x); });
    case ExprOp::kWhere:
      for (int64_t i = 0; i < count; i += kLanes) {
        const Mask no = equal_f(load_f(a + i), zero_f());
        store_f(out + i, select_f(no, load_f(c + i), load_f(b + i)));
      }
      return;
    case ExprOp::kPow:
    case ExprOp::kExpm1:
    case ExprOp::kLog1p:
    case ExprOp::kErf:
    case ExprOp::kSin:
    case ExprOp::kCos:
      return apply_scalar(op, a, b, out, count);
    case ExprOp::kXor:
    case ExprOp::kMod:
    case ExprOp::kInput:
    case ExprOp::kConstant:
      return;
  }
}

}  // namespace
}  // namespace firstlight::kernels
