// SPDX-License-Identifier: Apache-2.0
// The running half of the device executor.
#include "runtime/device_executor.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "runtime/executor_internal.h"

namespace firstlight::runtime {
namespace {

using kernels::DeviceView;
using plan::Buffer;
using plan::BufferId;

template <typename T>
std::span<const std::byte> bytes_of(const T& values) {
  return std::as_bytes(std::span(values));
}

// Appends to `staged` at a multiple of 64 bytes; returns where.
int64_t stage(std::vector<std::byte>& staged, std::span<const std::byte> bytes) {
  const size_t at = (staged.size() + 63) / 64 * 64;
  staged.resize(at + bytes.size());
  if (!bytes.empty()) std::memcpy(staged.data() + at, bytes.data(), bytes.size());
  return static_cast<int64_t>(at);
}

}  // namespace

Status DeviceExecutor::run(const plan::Batch& batch, std::span<const plan::StateView> states) {
  FL_TRY(begin(batch, states));
  FL_TRY(pages_.take_status());
  Run run{.batch = &batch, .tables = {}, .states = {}, .state_views = states, .values = values_, .label = {}};
  next_upload_ = 0;
  upload_bytes_.clear();
  FL_TRY(bring_tables(batch, states, run));
  FL_TRY(run_block(plan_.body, run));
  return fetch_outputs(run);
}

// One copy for everything that the host knows of a run: tokens, which rows are whose, where the pages lie.
Status DeviceExecutor::bring_tables(const plan::Batch& batch, std::span<const plan::StateView> states, Run& run) {
  staged_.clear();
  std::vector<int32_t> row_sequence, spans;
  for (size_t s = 0; s < batch.sequences.size(); ++s) {
    const plan::SequenceSpan& span = batch.sequences[s];
    row_sequence.insert(row_sequence.end(), static_cast<size_t>(span.num_tokens), static_cast<int32_t>(s));
    spans.insert(spans.end(), {static_cast<int32_t>(span.first_row), static_cast<int32_t>(span.num_tokens),
                               static_cast<int32_t>(span.start_position), 0});
  }
  struct Part {
    int64_t at;
    int64_t bytes;
  };
  const auto add = [&](std::span<const std::byte> bytes) {
    return Part{stage(staged_, bytes), static_cast<int64_t>(bytes.size())};
  };
  const Part tokens = add(bytes_of(batch.tokens)), positions = add(bytes_of(batch.positions)),
             rows = add(bytes_of(batch.output_rows)), owners = add(bytes_of(row_sequence)), all = add(bytes_of(spans));
  std::unordered_map<BufferId, Part> given;  // inputs that the caller filled
  for (size_t i = 0; i < plan_.buffers.size(); ++i) {
    if (plan_.buffers[i].kind != Buffer::Kind::kInput || owned_[i] == nullptr) continue;
    const auto bytes = static_cast<size_t>(plan::buffer_bytes(plan_.buffers[i], run.values));
    given[static_cast<BufferId>(i)] = add({static_cast<const std::byte*>(fixed_data_[i]), bytes});
  }
  std::vector<Part> page_tables;
  for (const plan::StateView& state : states) {
    kernels::DeviceState& made = run.states.emplace_back();
    made.page_rows = state.page_rows;
    made.components = state.components;
    for (const auto& pages : state.pages) made.max_pages = std::max(made.max_pages, static_cast<int64_t>(pages.size()));
    std::vector<int64_t> places;
    for (const auto& pages : state.pages) {
      for (const std::byte* page : pages) {
        if (!pages_.owns(page)) return internal_error("a page of state lies elsewhere than on the device");
        places.push_back(DevicePages::place(page));
      }
      places.resize(places.size() + static_cast<size_t>(made.max_pages) - pages.size(), 0);
    }
    for (const plan::SequenceSpan& span : batch.sequences) {
      made.longest = std::max(made.longest, span.start_position + span.num_tokens);
    }
    page_tables.push_back(add(bytes_of(places)));
  }
  const auto size = static_cast<int64_t>(std::max<size_t>(staged_.size(), 64));
  if (tables_.bytes() < size) tables_ = FL_TRY(device_.allocate(2 * size));
  if (!staged_.empty()) {
    FL_TRY(device_.transfer().copy_in(tables_.view(0, static_cast<int64_t>(staged_.size())), staged_));
    FL_TRY(device_.compute().wait_for(FL_TRY(device_.transfer().record())));
  }
  const auto part = [&](const Part& p) { return tables_.view(p.at, p.bytes); };
  for (size_t i = 0; i < plan_.buffers.size(); ++i) {
    const Buffer& buffer = plan_.buffers[i];
    if (buffer.kind != Buffer::Kind::kInput) continue;
    const auto own = given.find(static_cast<BufferId>(i));
    inputs_[static_cast<BufferId>(i)] = part(own != given.end()           ? own->second
                                             : buffer.name == "tokens"    ? tokens
                                             : buffer.name == "positions" ? positions
                                                                          : rows);
  }
  run.tables = {.sequences = batch.sequences, .row_sequence = part(owners), .spans = part(all)};
  for (size_t s = 0; s < run.states.size(); ++s) {
    run.states[s].pool = pages_.pool();
    run.states[s].pages = part(page_tables[s]);
  }
  return ok_status();
}

Status DeviceExecutor::fetch_outputs(const Run& run) {
  FL_TRY(device_.transfer().wait_for(FL_TRY(device_.compute().record())));
  for (size_t i = 0; i < plan_.outputs.size(); ++i) {
    const DeviceView from = view(plan_.outputs[i].buffer, run);
    outputs_[i].resize(static_cast<size_t>(from.data.bytes()));
    if (!outputs_[i].empty()) FL_TRY(device_.transfer().copy_out(outputs_[i], from.data));
  }
  FL_TRY(device_.transfer().finish());
  return device_.compute().finish();
}

tensor::View DeviceExecutor::output(std::string_view name) const {
  FL_CHECK(bucket_ != nullptr);
  for (size_t i = 0; i < plan_.outputs.size(); ++i) {
    if (plan_.outputs[i].name != name) continue;
    auto* data = const_cast<std::byte*>(outputs_[i].data());
    return tensor::make_view(data, plan_.buffer(plan_.outputs[i].buffer).type, values_);
  }
  return {};
}

Result<device::Buffer> DeviceExecutor::upload(std::span<const std::byte> bytes) {
  if (bytes.empty()) return device::Buffer();
  const auto size = static_cast<int64_t>(bytes.size());
  if (next_upload_ == upload_memory_.size()) upload_memory_.emplace_back();
  device::Buffer& memory = upload_memory_[next_upload_++];
  if (memory.bytes() < size) memory = FL_TRY(device_.allocate(std::max<int64_t>(2 * size, 4096)));
  upload_bytes_.emplace_back(bytes.begin(), bytes.end());
  FL_TRY(device_.compute().copy_in(memory.view(0, size), upload_bytes_.back()));
  return memory.view(0, size);
}

Result<device::Buffer> DeviceExecutor::scratch(int64_t bytes) {
  if (scratch_memory_.bytes() < bytes) {
    FL_TRY(device_.compute().finish());  // steps before may still use the old one
    scratch_memory_ = {};
    scratch_memory_ = FL_TRY(device_.allocate(bytes + bytes / 2));
  }
  return scratch_memory_.view(0, bytes);
}

// Waits for what the host has to know.
Status DeviceExecutor::fetch(std::span<std::byte> to, const device::Buffer& from) {
  if (to.empty()) return ok_status();
  FL_TRY(device_.compute().copy_out(to, from));
  return device_.compute().finish();
}

DeviceView DeviceExecutor::view(BufferId id, const Run& run) const {
  if (id < 0) return {};
  const Buffer& buffer = plan_.buffer(id);
  const tensor::View shape = tensor::make_view(nullptr, buffer.type, run.values);
  const int64_t bytes = plan::buffer_bytes(buffer, run.values);
  switch (buffer.kind) {
    case Buffer::Kind::kArena:
      return {shape, device_arena_.view(bucket_->offsets[static_cast<size_t>(id)], bytes)};
    case Buffer::Kind::kAlias:
      return {shape, view(buffer.alias_of, run).data};
    case Buffer::Kind::kSlice:
      FL_DCHECK(run.expert >= 0);
      return {shape, view(buffer.alias_of, run).data.view(run.expert * bytes, bytes)};
    case Buffer::Kind::kInput:
      return {shape, inputs_.at(id)};
    case Buffer::Kind::kFile:
    case Buffer::Kind::kResident:
    case Buffer::Kind::kTemporary:
    case Buffer::Kind::kWorkspace:  // of CPU kernels alone
      break;
  }
  return {shape, fixed_[static_cast<size_t>(id)].view(0, bytes)};
}

// With a trace every step is waited for, so that its time is its own.
Status DeviceExecutor::run_block(const plan::Block& block, Run& run) {
  for (const plan::Step& step : block.steps) {
    StepTimer timer(options_.trace, step.label, step.step_class);
    run.label = step.label;
    FL_TRY(std::visit([&](const auto& body) { return run_step(body, run); }, step.body).with_context(step.label));
    if (options_.trace != nullptr) FL_TRY(device_.compute().finish().with_context(step.label));
  }
  return ok_status();
}

Status DeviceExecutor::run_step(const plan::KernelStep& step, Run& run) {
  const bool probed = probe_ != nullptr && probe_->wants(step, run.values);
  if (probed) FL_TRY(fetch_call(step, run, true));
  FL_TRY(launch(step, run));
  if (probed) FL_TRY(fetch_call(step, run, false));
  return ok_status();
}

Status DeviceExecutor::launch(const plan::KernelStep& step, Run& run) {
  std::vector<DeviceView> inputs, outputs;
  for (const BufferId id : step.inputs) inputs.push_back(view(id, run));
  for (const BufferId id : step.outputs) outputs.push_back(view(id, run));
  std::vector<const kernels::DeviceState*> states;
  for (const int32_t state : step.states) states.push_back(&run.states[static_cast<size_t>(state)]);
  return steps_.at(&step).kernel->launch({.queue = device_.compute(),
                                          .inputs = inputs,
                                          .outputs = outputs,
                                          .batch = &run.tables,
                                          .states = states,
                                          .workspace = device_workspace_,
                                          .upload = uploader_,
                                          .scratch = scratcher_});
}

Status DeviceExecutor::run_step(const plan::PerExpertStep& step, Run& run) {
  const DeviceView x = view(step.x, run), indices = view(step.indices, run), weights = view(step.weights, run),
                   output = view(step.output, run);
  std::vector<int32_t> chosen(static_cast<size_t>(indices.view.num_elements()));
  std::vector<float> gains(chosen.size());
  if (!chosen.empty()) {
    FL_TRY(device_.compute().copy_out(std::as_writable_bytes(std::span(gains)), weights.data));
    FL_TRY(fetch(std::as_writable_bytes(std::span(chosen)), indices.data));
  }
  tensor::View host_indices = indices.view, host_weights = weights.view;
  host_indices.data = chosen.data();
  host_weights.data = gains.data();
  route(step, host_indices, host_weights);
  std::vector<int32_t> tokens;
  gains.clear();
  for (const ExpertRows& group : routing_->groups) {
    for (const auto& row : group.rows) {
      tokens.push_back(row.token);
      gains.push_back(row.weight);
    }
  }
  if (output.view.num_elements() == 0) return ok_status();
  FL_TRY(device_.compute().fill(output.data, 0));
  const device::Buffer all_tokens = FL_TRY(upload(bytes_of(tokens))), all_gains = FL_TRY(upload(bytes_of(gains)));
  const auto launch = [&](const device::Kernel& kernel, const device::Buffer& from, const device::Buffer& to,
                          int64_t first, int64_t rows, int64_t width, bool weighted) {
    const int64_t total = rows * width;
    const device::Argument arguments[] = {
        from,  all_tokens.view(first * 4, rows * 4), all_gains.view(first * 4, rows * 4), to,
        total, static_cast<int32_t>(width),          static_cast<int32_t>(weighted)};
    return device_.compute().launch(kernel,
                                    {.grid = {(total + 63) / 64, 1, 1}, .block = {64, 1, 1}, .arguments = arguments});
  };
  int64_t first = 0;
  for (const ExpertRows& group : routing_->groups) {
    const auto count = static_cast<int64_t>(group.rows.size());
    if (count == 0) continue;
    run.expert = group.expert;
    run.values.rows = count;
    FL_TRY(
        launch(expert_rows_[0], x.data, view(step.rows, run).data, first, count, x.view.dim(-1), step.weight_on_input));
    FL_TRY(run_block(*step.body, run));
    FL_TRY(launch(expert_sums_[0], view(step.result, run).data, output.data, first, count, output.view.dim(-1),
                  !step.weight_on_input));
    first += count;
  }
  run.expert = -1;
  run.values.rows = 0;
  return ok_status();
}

Status DeviceExecutor::run_step(const plan::IfStep& step, Run& run) {
  const DeviceView condition = view(step.condition, run);
  int32_t word = 0;
  const auto size = static_cast<size_t>(std::min<int64_t>(condition.data.bytes(), 4));
  FL_TRY(fetch(std::as_writable_bytes(std::span(&word, 1)).first(size),
               condition.data.view(0, static_cast<int64_t>(size))));
  // Of float32, bool and int32 alike 0 is "no"; minus zero is the one number of another pattern.
  const bool negative_zero = condition.view.dtype == tensor::DType::kF32 && static_cast<uint32_t>(word) == 0x80000000u;
  const bool taken = word != 0 && !negative_zero;
  FL_TRY(run_block(taken ? *step.then_block : *step.else_block, run));
  const auto& results = taken ? step.then_results : step.else_results;
  for (size_t i = 0; i < step.outputs.size(); ++i) {
    const device::Buffer to = view(step.outputs[i], run).data;
    if (to.bytes() > 0) FL_TRY(device_.compute().copy(to, view(results[i], run).data.view(0, to.bytes())));
  }
  return ok_status();
}

}  // namespace firstlight::runtime
