// SPDX-License-Identifier: Apache-2.0
// The attributes of attend and attend_segments decoded, and which rows a query sees; shared by all their bodies.
#pragma once

#include <algorithm>

#include "kernels/kernel.h"
#include "ops/attention/segments.h"

namespace firstlight::kernels {

// Where the rows of one segment lie, beside the rules of which of them are visible.
struct SegmentOptions {
  ops::KeySegment rules;
  int key = 0;  // component indices
  int value = 0;
  int64_t rate = 1;    // tokens per row
  int64_t places = 0;  // rows that each query's selection names, if there is one
};

struct AttendOptions final : Prepared {
  double scale = 1;
  int64_t value_width = 0;
  int sinks = -1;  // operand
  std::vector<SegmentOptions> segments;
  ops::Expression score;
};

inline Result<std::unique_ptr<Prepared>> prepare_attend(const PrepareInput& input) {
  const ops::Attributes& attributes = input.signature.attributes;
  auto options = std::make_unique<AttendOptions>();
  auto all = FL_TRY(ops::key_segments(input.signature.op, attributes, input.signature.operands.size()));
  FL_CHECK(input.states.size() == all.segments.size());
  options->scale = attributes.get_float("scale");
  options->value_width = attributes.get_int("value_width");
  options->sinks = all.sinks_operand;
  options->score = attributes.get_expression("score");
  for (size_t i = 0; i < all.segments.size(); ++i) {
    const ops::StateDecl& state = *input.states[i];
    SegmentOptions segment;
    segment.key = state.component_index(all.segments[i].key);
    segment.value = state.component_index(all.segments[i].value);
    FL_CHECK(segment.key >= 0 && segment.value >= 0);
    segment.rate = state.kind == ops::StateKind::kRateLog ? state.rate : 1;
    segment.rules = std::move(all.segments[i]);
    if (segment.rules.select_operand >= 0) {
      const auto& numbers = input.signature.operands[static_cast<size_t>(segment.rules.select_operand)].shape;
      segment.places = numbers.back().factor * segment.rules.select_block;
    }
    if (options->value_width == 0) options->value_width = state.components[static_cast<size_t>(segment.value)].width;
    options->segments.push_back(std::move(segment));
  }
  return std::unique_ptr<Prepared>(std::move(options));
}

inline ops::RowRange visible_rows(const SegmentOptions& segment, int64_t position, int64_t length) {
  return ops::visible_rows(segment.rules, segment.rate, position, length);
}

// The numbers that a segment's select operand has for one query and key/value head; empty where it has none.
inline std::span<const int32_t> selected(const KernelCall& call, const SegmentOptions& segment, int64_t token,
                                         int64_t kv_head) {
  if (segment.rules.select_operand < 0) return {};
  const tensor::View& view = call.inputs[static_cast<size_t>(segment.rules.select_operand)];
  const int64_t list = token * view.dim(1) + (view.dim(1) == 1 ? 0 : kv_head);
  return {view.as<const int32_t>() + list * view.dim(2), static_cast<size_t>(view.dim(2))};
}

}  // namespace firstlight::kernels
