// SPDX-License-Identifier: Apache-2.0
// What printed element-wise kernels stand on (map.cc).
#include "dialect/values.fl.h"

// The remainder with the sign of b; 0 where there is none.
FL_FUNCTION fl_i64 fl_modulo(fl_i64 a, fl_i64 b) {
  if (b == 0 || b == -1) return 0;
  const fl_i64 rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
