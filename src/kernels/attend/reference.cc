// SPDX-License-Identifier: Apache-2.0
// The reference attend and attend_segments: per query and head, all scores, then one softmax, in float64.
#include <cmath>
#include <limits>

#include "kernels/attend/options.h"
#include "kernels/common/dot.h"
#include "kernels/common/pages.h"

#include "kernels/bodies.h"
#include "kernels/common/rows.h"

namespace firstlight::kernels {
namespace {

struct VisibleKey {
  size_t segment;
  int64_t row;
  double score;
};

struct Scratch {
  std::vector<VisibleKey> keys;
  std::vector<double> sums;
  std::vector<float> row;
};

// One query: a token of a sequence, a head.
struct Query {
  size_t sequence;
  int64_t token;  // of the sequence's tokens in the batch
  int64_t head;
};

const float* decoded(const plan::StateComponentView& component, const std::byte* at, std::vector<float>& row) {
  if (component.dtype == tensor::DType::kF32) return reinterpret_cast<const float*>(at);
  const auto bytes = static_cast<size_t>(state_row_bytes(component));
  row.resize(std::max(row.size(), static_cast<size_t>(component.width)));
  FL_CHECK(tensor::decode_row(component.dtype, {at, bytes}, {row.data(), static_cast<size_t>(component.width)}).ok());
  return row.data();
}

const plan::StateComponentView& component_of(const KernelCall& call, size_t segment, int index) {
  return call.states[segment]->components[static_cast<size_t>(index)];
}

// Row `row` of a segment joins `keys`, if the mask lets it.
void add_key(const KernelCall& call, const AttendOptions& options, const Query& query, size_t s, int64_t row,
             Scratch& scratch) {
  const SegmentOptions& segment = options.segments[s];
  const plan::SequenceSpan& sequence = call.batch->sequences[query.sequence];
  const plan::StateComponentView& component = component_of(call, s, segment.key);
  const int64_t heads = call.inputs[0].dim(1);
  const auto position = static_cast<double>(sequence.start_position + query.token);
  const auto key_position = static_cast<double>(row * segment.rate);
  if (!segment.rules.mask.empty()) {
    const double places[2] = {position, key_position};
    if (segment.rules.mask.evaluate(places) == 0) return;
  }
  const float* q =
      call.inputs[0].as<const float>() + ((sequence.first_row + query.token) * heads + query.head) * component.width;
  const int64_t kv_head = query.head / (heads / component.heads);
  const float* k = decoded(component, state_row(*call.states[s], component, query.sequence, row, kv_head), scratch.row);
  double score = dot_f64(q, k, component.width) * options.scale;
  if (!options.score.empty()) {
    const double inputs[4] = {score, position, key_position, static_cast<double>(query.head)};
    score = options.score.evaluate(inputs);
  }
  scratch.keys.push_back({s, row, score});
}

void collect_keys(const KernelCall& call, const AttendOptions& options, const Query& query, Scratch& scratch) {
  const plan::SequenceSpan& sequence = call.batch->sequences[query.sequence];
  const int64_t length = sequence.start_position + sequence.num_tokens;
  const int64_t heads = call.inputs[0].dim(1);
  scratch.keys.clear();
  for (size_t s = 0; s < options.segments.size(); ++s) {
    const SegmentOptions& segment = options.segments[s];
    const ops::RowRange range = visible_rows(segment, sequence.start_position + query.token, length);
    if (segment.rules.select_operand < 0) {
      for (int64_t row = range.begin; row < range.end; ++row) add_key(call, options, query, s, row, scratch);
      continue;
    }
    const int64_t kv_head = query.head / (heads / component_of(call, s, segment.key).heads);
    for (const int32_t number : selected(call, segment, sequence.first_row + query.token, kv_head)) {
      if (number < 0) continue;
      const int64_t first = number * segment.rules.select_block;
      for (int64_t row = std::max(first, range.begin); row < std::min(first + segment.rules.select_block, range.end);
           ++row)
        add_key(call, options, query, s, row, scratch);
    }
  }
}

void attend_one(const KernelCall& call, const AttendOptions& options, const Query& query,
                const std::vector<float>& sinks, Scratch& scratch) {
  collect_keys(call, options, query, scratch);
  constexpr double kNothing = -std::numeric_limits<double>::infinity();
  const double sink = sinks.empty() ? kNothing : static_cast<double>(sinks[static_cast<size_t>(query.head)]);
  double top = sink;
  for (const VisibleKey& key : scratch.keys) top = std::max(top, key.score);
  if (top == kNothing) top = 0;  // exp(-inf) is 0 against any reference

  const int64_t width = options.value_width;
  const int64_t heads = call.inputs[0].dim(1);
  scratch.sums.assign(static_cast<size_t>(width), 0.0);
  double total = std::exp(sink - top);
  for (const VisibleKey& key : scratch.keys) {
    const plan::StateComponentView& values = component_of(call, key.segment, options.segments[key.segment].value);
    const double p = std::exp(key.score - top);
    total += p;
    const int64_t kv_head = query.head / (heads / values.heads);
    const std::byte* at = state_row(*call.states[key.segment], values, query.sequence, key.row, kv_head);
    const float* v = decoded(values, at, scratch.row);
    for (int64_t i = 0; i < width; ++i) scratch.sums[static_cast<size_t>(i)] += p * static_cast<double>(v[i]);
  }
  const int64_t row = call.batch->sequences[query.sequence].first_row + query.token;
  float* out = call.outputs[0].as<float>() + (row * heads + query.head) * width;
  for (int64_t i = 0; i < width; ++i) {
    out[i] = total == 0 ? 0.0f : static_cast<float>(scratch.sums[static_cast<size_t>(i)] / total);
  }
}

void run(const KernelCall& call, Worker& worker) {
  const auto& options = static_cast<const AttendOptions&>(*call.prepared);
  const std::vector<float> sinks =
      options.sinks < 0 ? std::vector<float>{} : decode_vector(call.inputs[static_cast<size_t>(options.sinks)]);
  const int64_t heads = call.inputs[0].dim(1);
  Scratch scratch;
  for (size_t s = 0; s < call.batch->sequences.size(); ++s) {
    const int64_t total = call.batch->sequences[s].num_tokens * heads;
    // Dealt out one by one, so that late tokens, which see more, are spread over the workers.
    for (int64_t i = worker.index(); i < total; i += worker.count()) {
      attend_one(call, options, {s, i / heads, i % heads}, sinks, scratch);
    }
  }
}

Result<std::unique_ptr<Prepared>> prepare(const PrepareInput& input) { return prepare_attend(input); }

}  // namespace

KernelBody attend_reference() {
  KernelBody body;
  body.symbol = "attend_any_f32_ref";
  body.prepare = prepare;
  body.run = run;
  return body;
}

KernelBody attend_segments_reference() {
  KernelBody body = attend_reference();
  body.symbol = "attend_segments_any_f32_ref";
  return body;
}

}  // namespace firstlight::kernels
