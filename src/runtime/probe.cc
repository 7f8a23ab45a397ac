// SPDX-License-Identifier: Apache-2.0
// Steps under the eyes of a probe, on the host and on devices.
#include "runtime/probe.h"

#include "runtime/device_executor.h"
#include "runtime/executor_internal.h"
#include "tensor/dtype.h"
#include "tensor/state_rows.h"

namespace firstlight::runtime {

std::string_view Executor::form_of(const plan::KernelStep& step) const {
  const PreparedKernel& kernel = prepared(step);
  return kernel.forms[kernel.active].name;
}

struct Executor::CallViews {
  std::vector<tensor::View> inputs, outputs;
  std::vector<const plan::StateView*> states;
};

Executor::CallViews Executor::views_of(const plan::Step& step, const Context& context) const {
  const auto& kernel = std::get<plan::KernelStep>(step.body);
  CallViews views;
  for (const plan::BufferId id : kernel.inputs) views.inputs.push_back(view(id, context));
  for (const plan::BufferId id : kernel.outputs) views.outputs.push_back(view(id, context));
  for (const int32_t state : kernel.states) views.states.push_back(&context.states[static_cast<size_t>(state)]);
  return views;
}

StepCall Executor::call_of(const plan::Step& step, const Context& context, const CallViews& views) const {
  const auto& kernel = std::get<plan::KernelStep>(step.body);
  return {.step = kernel,
          .label = step.label,
          .form = form_of(kernel),
          .batch = *context.batch,
          .values = context.values,
          .expert = context.expert,
          .inputs = views.inputs,
          .outputs = views.outputs,
          .states = views.states};
}

// All workers come here together; worker 0 talks to the probe while the others wait.
void Executor::run_probed(const plan::Step& step, Context& context) {
  const auto& kernel = std::get<plan::KernelStep>(step.body);
  Worker& worker = context.worker;
  const bool leads = worker.index() == 0;
  worker.barrier();
  if (leads) probe_wants_ = probe_->wants(kernel, context.values);
  worker.barrier();
  const bool wanted = probe_wants_;
  CallViews views;
  if (wanted && leads) views = views_of(step, context);
  if (wanted && leads) probe_->before(call_of(step, context, views));
  worker.barrier();
  run_plain(step, context);
  worker.barrier();
  if (wanted && leads) probe_->after(call_of(step, context, views));
  worker.barrier();
}

void Executor::spoil(const plan::Step& step, Context& context) {
  context.worker.barrier();
  if (context.worker.index() == 0) {
    const CallViews views = views_of(step, context);
    options_.fault(call_of(step, context, views));
  }
  context.worker.barrier();
}

namespace {

bool is_weight(const plan::Plan& plan, plan::BufferId id) {
  while (plan.buffer(id).alias_of >= 0) id = plan.buffer(id).alias_of;
  const auto kind = plan.buffer(id).kind;
  return kind == plan::Buffer::Kind::kFile || kind == plan::Buffer::Kind::kResident;
}

int64_t page_bytes(const plan::StateView& state) {
  int64_t bytes = 0;
  for (const auto& part : state.components) {
    const int64_t row = tensor::state_row_bytes(part.dtype, part.width);
    bytes = std::max(bytes, part.offset_bytes + part.heads * state.page_rows * row);
  }
  return bytes;
}

// A state's pages in the host's memory.
struct PageCopies {
  std::vector<std::vector<std::byte>> memory;
  std::vector<std::vector<std::byte*>> pages;
  std::vector<std::span<std::byte* const>> spans;
  plan::StateView view;
};

}  // namespace

Status DeviceExecutor::fetch_call(const plan::KernelStep& step, const Run& run, bool is_before) {
  FL_TRY(device_.compute().finish());
  std::vector<std::vector<std::byte>> memory;
  const auto fetched = [&](plan::BufferId id, bool wanted) -> Result<tensor::View> {
    if (id < 0 || !wanted) return tensor::View{};
    const kernels::DeviceView from = view(id, run);
    auto& bytes = memory.emplace_back(static_cast<size_t>(from.data.bytes()));
    FL_TRY(fetch(bytes, from.data));
    tensor::View to = from.view;
    to.data = bytes.data();
    return to;
  };
  std::vector<tensor::View> inputs, outputs;
  for (const plan::BufferId id : step.inputs)
    inputs.push_back(FL_TRY(fetched(id, is_before && id >= 0 && !is_weight(plan_, id))));
  for (const plan::BufferId id : step.outputs) outputs.push_back(FL_TRY(fetched(id, !is_before)));
  std::vector<PageCopies> copies(step.states.size());
  std::vector<const plan::StateView*> views;
  for (size_t s = 0; s < step.states.size(); ++s) {
    const plan::StateView& state = run.state_views[static_cast<size_t>(step.states[s])];
    const int64_t size = page_bytes(state);
    for (const auto& pages : state.pages) {
      auto& own = copies[s].pages.emplace_back();
      for (const std::byte* page : pages) {
        own.push_back(nullptr);
        if (page == nullptr) continue;
        auto& bytes = copies[s].memory.emplace_back(static_cast<size_t>(size));
        FL_TRY(fetch(bytes, pages_.pool().view(DevicePages::place(page), size)));
        own.back() = bytes.data();
      }
    }
    for (const auto& pages : copies[s].pages) copies[s].spans.emplace_back(pages);
    copies[s].view = {.page_rows = state.page_rows, .components = state.components, .pages = copies[s].spans};
    views.push_back(&copies[s].view);
  }
  const StepCall call{.step = step,
                      .label = run.label,
                      .form = step.symbol,
                      .batch = *run.batch,
                      .values = run.values,
                      .expert = run.expert,
                      .inputs = inputs,
                      .outputs = outputs,
                      .states = views};
  is_before ? probe_->before(call) : probe_->after(call);
  return ok_status();
}

}  // namespace firstlight::runtime
