// SPDX-License-Identifier: Apache-2.0
#include "planner/memory.h"

#include <algorithm>
#include <functional>

#include "plan/load_memory.h"

namespace firstlight::planner {
namespace {

// Largest n of 0 .. most for which `fits`, which does not become true again once it is false.
int64_t largest(int64_t most, const std::function<bool(int64_t)>& fits) {
  int64_t good = 0, bad = most + 1;
  while (bad - good > 1) {
    const int64_t middle = good + (bad - good) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  return good;
}

// Files whose bytes lie where a kernel cannot read an element in one go: the runtime copies them. Maps of files begin
// at whole pages, so the offset says it.
std::vector<plan::BufferId> misplaced(const plan::Plan& plan, const formats::Checkpoint* checkpoint) {
  std::vector<plan::BufferId> ids;
  for (size_t i = 0; checkpoint != nullptr && i < plan.buffers.size(); ++i) {
    const plan::Buffer& buffer = plan.buffers[i];
    if (buffer.kind != plan::Buffer::Kind::kFile) continue;
    const formats::TensorRecord* record = checkpoint->find(buffer.name);
    const auto& info = tensor::dtype_info(buffer.type.dtype);
    const auto alignment = static_cast<uint64_t>(info.is_quantised ? 2 : std::max<int64_t>(info.block_bytes, 1));
    if (record != nullptr && record->offset % alignment != 0) ids.push_back(static_cast<plan::BufferId>(i));
  }
  return ids;
}

int64_t largest_workspace(const plan::Plan& plan, const plan::Bucket& bucket) {
  int64_t most = 0;
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    if (plan.buffers[i].kind == plan::Buffer::Kind::kWorkspace) most = std::max(most, bucket.bytes[i]);
  }
  return most;
}

// Bytes per token of a sequence beside its state: its id with the request and with the engine, and its pages' places.
constexpr int64_t kTokenBytes = 24;
// Bytes per row of logits and entry of the vocabulary: the logits, counts of penalties, candidates in order.
constexpr int64_t kVocabularyBytes = 24;

}  // namespace

int64_t MemoryNeeds::total() const {
  return program + weights + std::max(loading, state + activations + workspace + sampling);
}

Result<MemoryModel> MemoryModel::create(const plan::Plan& plan, const formats::Checkpoint* checkpoint,
                                        const MemoryModelOptions& options) {
  MemoryModel model;
  const plan::WeightBytes weights = plan::weight_bytes(plan);
  model.fixed_.weights = weights.total();
  model.fixed_.program = options.program_bytes;
  const int64_t peak = plan::peak_load_bytes(plan, misplaced(plan, checkpoint));
  if (!options.is_device) model.fixed_.loading = std::max<int64_t>(0, peak - weights.resident);
  for (const plan::Bucket& bucket : plan.buckets) {
    const int64_t space = largest_workspace(plan, bucket);
    if (bucket.arena_bytes > model.fixed_.activations + model.fixed_.workspace) {
      model.fixed_.workspace = space;
      model.fixed_.activations = bucket.arena_bytes - space;
    }
    model.step_tokens_ = std::max(model.step_tokens_, bucket.max_tokens);
  }
  if (options.step_tokens > 0) model.step_tokens_ = std::min(model.step_tokens_, options.step_tokens);
  for (const auto& output : plan.outputs) {
    if (output.name == "logits") model.vocabulary_ = plan.buffer(output.buffer).type.shape.back().factor;
  }
  for (const ops::StateDecl& decl : plan.states) {
    model.states_.push_back(
        {std::string(ops::state_kind_name(decl.kind)), FL_TRY(plan::pages_of(decl, options.page_rows))});
  }
  return model;
}

MemoryNeeds MemoryModel::needs(const Demand& demand) const {
  MemoryNeeds needs = fixed_;
  for (const State& state : states_) {
    const int64_t bytes = demand.sequences * state.pages.bytes_for(demand.context, step_tokens_);
    needs.state += bytes;
    needs.state_by_kind[state.kind] += bytes;
  }
  needs.sampling = demand.sequences * (demand.context * kTokenBytes + vocabulary_ * kVocabularyBytes);
  return needs;
}

int64_t MemoryModel::largest_context(int64_t usable, int64_t sequences, int64_t most) const {
  return largest(
      most, [&](int64_t context) { return needs({.context = context, .sequences = sequences}).total() <= usable; });
}

int64_t largest_context(const std::vector<plan::StatePages>& states, int64_t room, int64_t sequences,
                        int64_t step_tokens, int64_t most) {
  return largest(most, [&](int64_t context) {
    int64_t bytes = 0;
    for (const plan::StatePages& state : states) bytes += sequences * state.bytes_for(context, step_tokens);
    return bytes <= room;
  });
}

int64_t MemoryLimit::usable() const { return std::max<int64_t>(0, std::min(memory - headroom_bytes(), available)); }

}  // namespace firstlight::planner
