// SPDX-License-Identifier: Apache-2.0
// What attend means, in float64 over every key, and how far off a float32 result may be (docs/numerics.md, "Long rows
// of keys").
#pragma once

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "paged_log.h"

namespace firstlight::long_tests {

struct AttendRules {
  int64_t heads = 4, kv_heads = 2, key_width = 32, value_width = 32;
  bool is_latent = false;  // values are the first columns of the keys
  int64_t window = 0, chunk = 0;
  double cap = 0;
  double scale = 1;
};

struct AttendAnswer {
  std::vector<double> y;
  double bound = 0;
  double bound_on_device = 0;
};

// Of the query `q` of `head` at `position`; row j of the sequence is row first + j of the log. `sink`: -inf for none.
AttendAnswer judge_attend(const AttendRules& rules, const PagedLog& log, int64_t first, const float* q,
                          int64_t position, int64_t head, double sink = -std::numeric_limits<double>::infinity());

// As attend's attributes.
std::string attend_attributes(const AttendRules& rules);

}  // namespace firstlight::long_tests
