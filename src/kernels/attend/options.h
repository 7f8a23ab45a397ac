// SPDX-License-Identifier: Apache-2.0
// attend's attributes decoded, and which positions a query sees; shared by all its bodies.
#pragma once

#include <algorithm>

#include "kernels/kernel.h"

namespace firstlight::kernels {

struct AttendOptions final : Prepared {
  double scale = 1;
  int key = 0;  // component indices
  int value = 0;
  int64_t value_width = 0;
  bool causal = true;
  int64_t window = 0;
  ops::Expression score;
};

inline Result<std::unique_ptr<Prepared>> prepare_attend(const PrepareInput& input) {
  const ops::Attributes& attributes = input.signature.attributes;
  auto options = std::make_unique<AttendOptions>();
  options->scale = attributes.get_float("scale");
  options->key = input.state->component_index(attributes.get_string("key"));
  options->value = input.state->component_index(attributes.get_string("value"));
  FL_CHECK(options->key >= 0 && options->value >= 0);
  options->value_width = attributes.get_int("value_width");
  if (options->value_width == 0)
    options->value_width = input.state->components[static_cast<size_t>(options->value)].width;
  options->causal = attributes.get_bool("causal");
  options->window = attributes.get_int("window");
  options->score = attributes.get_expression("score");
  return std::unique_ptr<Prepared>(std::move(options));
}

// Half-open range of positions that the query at `position` sees in a sequence of `length` rows.
struct VisibleRange {
  int64_t begin;
  int64_t end;
};
inline VisibleRange visible_range(const AttendOptions& options, int64_t position, int64_t length) {
  const int64_t begin = options.window > 0 ? std::max<int64_t>(0, position - options.window + 1) : 0;
  return {begin, options.causal ? position + 1 : length};
}

}  // namespace firstlight::kernels
