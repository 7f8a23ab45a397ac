// SPDX-License-Identifier: Apache-2.0
#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace firstlight {

void check_failed(const char* file, int line, const char* what) {
  std::fprintf(stderr, "%s:%d: check failed: %s (a fault of firstlight's own; please report it)\n", file, line, what);
  std::abort();
}

}  // namespace firstlight
