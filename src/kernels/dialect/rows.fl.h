// A block of threads on one row: sums and maxima of what each has, and the order of top_k. Every thread adds up all
// partial results in the same order, which saves a barrier and gives each the same value.
#include "dialect/values.fl.h"

#define FL_THREADS 64
#define FL_EACH(i, n) for (fl_i32 i = fl_local_id(0); i < (n); i += FL_THREADS)

// The sum over the block of a thread's value.
FL_FUNCTION float fl_block_sum(FL_LOCAL_POINTER(float) parts, float value) {
  FL_BARRIER();
  parts[fl_local_id(0)] = value;
  FL_BARRIER();
  float sum = 0.0f;
  for (int i = 0; i < FL_THREADS; ++i) sum += parts[i];
  return sum;
}

FL_FUNCTION float fl_block_most(FL_LOCAL_POINTER(float) parts, float value) {
  FL_BARRIER();
  parts[fl_local_id(0)] = value;
  FL_BARRIER();
  float most = parts[0];
  for (int i = 1; i < FL_THREADS; ++i) most = fl_max(most, parts[i]);
  return most;
}

// Squares are summed at a scale at which neither the largest nor the smallest of them is lost: a power of two.
FL_FUNCTION float fl_power_below(float x) {
  const fl_u32 exponent = fl_as_u32(x) & 0x7f800000u;
  if (exponent == 0u || exponent == 0x7f800000u) return 1.0f;
  return exponent < (65u << 23) ? fl_as_f32(65u << 23) : fl_as_f32(exponent);
}

// Whether (a, i) stands before (b, j): larger first, NaN last, then the lower index.
FL_FUNCTION int fl_stands_before(float a, fl_i32 i, float b, fl_i32 j) {
  const int a_nan = fl_is_nan(a);
  const int b_nan = fl_is_nan(b);
  if (a_nan != b_nan) return b_nan;
  if (!a_nan && a != b) return a > b;
  return i < j;
}
