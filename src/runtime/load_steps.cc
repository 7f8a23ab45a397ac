// SPDX-License-Identifier: Apache-2.0
// Runs a plan's load steps: each makes weights out of the checkpoint's; what no later step reads is given back at once.
#include "plan/load_memory.h"
#include "runtime/executor_internal.h"

namespace firstlight::runtime {

using plan::Buffer;
using plan::BufferId;

int64_t Executor::peak_load_bytes() const { return plan::peak_load_bytes(plan_, misplaced_); }

namespace {

struct Place {
  BufferId id;
  int64_t offset;
};

// What load steps make and runs read, one behind the other; its bytes.
int64_t place_weights(const plan::Plan& plan, std::vector<Place>& places) {
  const auto read_later = plan::read_when_running(plan);
  int64_t total = 0;
  for (const plan::Step& step : plan.load_steps) {
    for (const BufferId id : std::get<plan::KernelStep>(step.body).outputs) {
      if (plan.buffer(id).kind != Buffer::Kind::kResident || !read_later[static_cast<size_t>(id)]) continue;
      places.push_back({id, total});
      total += (plan::buffer_bytes(plan.buffer(id)) + 63) / 64 * 64;
    }
  }
  return total;
}

}  // namespace

// Weights lie in one piece, on huge pages whatever the size of each; the first of them owns it.
Status Executor::run_load_steps() {
  std::vector<Place> places;
  const int64_t weights = place_weights(plan_, places);
  if (!places.empty()) {
    auto& memory = owned_[static_cast<size_t>(places[0].id)] = allocate(weights);
    if (memory == nullptr) {
      return out_of_memory("weights made at load: " + std::to_string(weights) + " bytes needed");
    }
    for (const Place& place : places) fixed_data_[static_cast<size_t>(place.id)] = memory.get() + place.offset;
  }
  const auto ends = plan::last_read_by(plan_);
  const auto read_later = plan::read_when_running(plan_);
  uint64_t total = 0, done = 0;
  for (const auto& list : ends) {
    for (const BufferId id : list) {
      const plan::Buffer& buffer = plan_.buffer(id);
      if (buffer.kind == Buffer::Kind::kFile) total += static_cast<uint64_t>(plan::buffer_bytes(buffer));
    }
  }
  if (options_.load_progress) options_.load_progress(0, total);
  for (size_t i = 0; i < plan_.load_steps.size(); ++i) {
    FL_TRY(run_load_step(i));
    for (const BufferId id : ends[i]) {
      const plan::Buffer& buffer = plan_.buffer(id);
      if (!read_later[static_cast<size_t>(id)]) give_back(id);
      if (buffer.kind != Buffer::Kind::kFile) continue;
      done += static_cast<uint64_t>(plan::buffer_bytes(buffer));
      if (options_.load_progress) options_.load_progress(done, total);
    }
  }
  return ok_status();
}

Status Executor::run_load_step(size_t index) {
  const auto& step = std::get<plan::KernelStep>(plan_.load_steps[index].body);
  for (const BufferId id : step.outputs) {
    const plan::Buffer& buffer = plan_.buffer(id);
    const int64_t bytes = plan::buffer_bytes(buffer);
    if (buffer.kind == Buffer::Kind::kResident) memory_.resident_bytes += bytes;
    if (fixed_data_[static_cast<size_t>(id)] != nullptr) continue;
    auto& memory = owned_[static_cast<size_t>(id)] = allocate(bytes);
    if (memory == nullptr) {
      return out_of_memory(plan_.load_steps[index].label + ": " + std::to_string(bytes) + " bytes needed, after " +
                           std::to_string(memory_.resident_bytes) + " of weights");
    }
    fixed_data_[static_cast<size_t>(id)] = memory.get();
  }
  StepTimer timer(options_.trace, plan_.load_steps[index].label, plan_.load_steps[index].step_class);
  pool_.run([&](Worker& worker) {
    Context context{.worker = worker,
                    .batch = nullptr,
                    .states = {},
                    .bucket = nullptr,
                    .values = {},
                    .expert = -1,
                    .inputs = {},
                    .outputs = {},
                    .operands = {},
                    .step_states = {}};
    run_step(step, context);
  });
  return ok_status();
}

void Executor::give_back(BufferId id) {
  const plan::Buffer& buffer = plan_.buffer(id);
  auto& memory = owned_[static_cast<size_t>(id)];
  const int64_t bytes = plan::buffer_bytes(buffer);
  if (buffer.kind == Buffer::Kind::kFile) {
    (memory != nullptr ? memory_.resident_bytes : memory_.mapped_bytes) -= bytes;
    if (const auto* record = checkpoint_.find(buffer.name)) checkpoint_.done_with(*record);
  }
  memory.reset();
  fixed_data_[static_cast<size_t>(id)] = nullptr;
}

}  // namespace firstlight::runtime
