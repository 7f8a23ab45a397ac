// SPDX-License-Identifier: Apache-2.0
// What printed element-wise kernels stand on (map.cc).
#include "dialect/values.fl.h"
