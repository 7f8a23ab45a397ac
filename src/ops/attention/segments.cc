// SPDX-License-Identifier: Apache-2.0
#include "ops/attention/segments.h"

#include "ops/infer.h"

namespace firstlight::ops {
namespace {

// The names in "k, latent".
std::vector<std::string> names_of(const std::string& text) {
  std::vector<std::string> names;
  std::string name;
  for (const char c : text + ",") {
    if (c == ',') {
      names.push_back(std::move(name));
      name.clear();
    } else if (c != ' ') {
      name += c;
    }
  }
  return names;
}

// A list with one number per segment, or none at all.
Result<std::vector<int64_t>> per_segment(const Attributes& attributes, std::string_view name, size_t count,
                                         int64_t absent) {
  std::vector<int64_t> list = attributes.get_ints(name);
  if (list.empty()) list.assign(count, absent);
  FL_TRY(want_attribute(list.size() == count, OpKind::kAttendSegments, name, std::to_string(list.size()) + " numbers",
                        std::to_string(count) + ", one per segment, or none"));
  for (const int64_t value : list) {
    FL_TRY(want_attribute(value >= 0, OpKind::kAttendSegments, name, std::to_string(value), "0 or more"));
  }
  return list;
}

Result<KeySegments> several(const Attributes& attributes) {
  const std::vector<std::string> keys = names_of(attributes.get_string("keys"));
  const std::vector<std::string> values = names_of(attributes.get_string("values"));
  const size_t count = keys.size();
  FL_TRY(want_attribute(values.size() == count, OpKind::kAttendSegments, "values",
                        std::to_string(values.size()) + " names", std::to_string(count) + ", one per segment"));
  const auto causal = FL_TRY(per_segment(attributes, "causal", count, 1));
  const auto windows = FL_TRY(per_segment(attributes, "windows", count, 0));
  const auto chunks = FL_TRY(per_segment(attributes, "chunks", count, 0));
  const auto from = FL_TRY(per_segment(attributes, "from", count, 0));
  const auto until = FL_TRY(per_segment(attributes, "until", count, 0));
  const auto select = FL_TRY(per_segment(attributes, "select", count, 0));
  const std::vector<Expression>& masks = attributes.get_expressions("masks");
  FL_TRY(want_attribute(masks.empty() || masks.size() == count, OpKind::kAttendSegments, "masks",
                        std::to_string(masks.size()) + " formulas", "one per segment, or none"));
  KeySegments out;
  out.num_operands = 1;
  for (size_t i = 0; i < count; ++i) {
    KeySegment segment;
    segment.state_operand = out.num_operands++;
    if (select[i] > 0) segment.select_operand = out.num_operands++;
    segment.key = keys[i];
    segment.value = values[i];
    segment.causal = causal[i] != 0;
    segment.window = windows[i];
    segment.chunk = chunks[i];
    segment.from = from[i];
    segment.until = until[i];
    segment.select_block = std::max<int64_t>(select[i], 1);
    if (!masks.empty()) segment.mask = masks[i];
    out.segments.push_back(std::move(segment));
  }
  if (attributes.get_bool("sinks")) out.sinks_operand = out.num_operands++;
  return out;
}

}  // namespace

Result<KeySegments> key_segments(OpKind kind, const Attributes& attributes, size_t num_operands) {
  if (kind == OpKind::kAttendSegments) return several(attributes);
  KeySegment segment;
  segment.key = attributes.get_string("key");
  segment.value = attributes.get_string("value");
  segment.causal = attributes.get_bool("causal");
  segment.window = attributes.get_int("window");
  segment.chunk = attributes.get_int("chunk");
  segment.mask = attributes.get_expression("mask");
  FL_TRY(want_attribute(segment.window >= 0, kind, "window", std::to_string(segment.window), "0 or more"));
  FL_TRY(want_attribute(segment.chunk >= 0, kind, "chunk", std::to_string(segment.chunk), "0 or more"));
  KeySegments out;
  out.segments.push_back(std::move(segment));
  out.num_operands = num_operands > 2 ? 3 : 2;
  if (num_operands > 2) out.sinks_operand = 2;
  return out;
}

}  // namespace firstlight::ops
