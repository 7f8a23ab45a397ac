// SPDX-License-Identifier: Apache-2.0
// The forms of a step: its kernel, the plainer one to fall back on, the generated function that takes its place when it
// has been built.
#include <algorithm>

#include "runtime/executor_internal.h"

namespace firstlight::runtime {
namespace {

catalog::ComputeMode mode_of(const ops::Attributes& attributes) {
  if (!attributes.has("compute")) return catalog::ComputeMode::kF32;
  const std::string& name = attributes.get_string("compute");
  return name == "w8a8"   ? catalog::ComputeMode::kInt8
         : name == "bf16" ? catalog::ComputeMode::kBf16
                          : catalog::ComputeMode::kF32;
}

}  // namespace

catalog::Signature Executor::PreparedKernel::signature(const plan::KernelStep& step) const {
  return {.op = step.op,
          .operands = operand_types,
          .results = result_types,
          .attributes = step.attributes,
          .mode = mode_of(step.attributes)};
}

Executor::PreparedKernel& Executor::prepared(const plan::KernelStep& step) const {
  const auto found = std::lower_bound(kernels_.begin(), kernels_.end(), &step,
                                      [](const auto& entry, const plan::KernelStep* key) { return entry.first < key; });
  return *found->second;
}

Status Executor::add_form(const plan::KernelStep& step, const std::string& symbol, PreparedKernel& kernel) {
  Form form{.name = symbol, .body = kernels::find_kernel(symbol), .prepared = nullptr};
  if (form.body == nullptr) return internal_error("kernel " + symbol + " has no body in this build");
  const catalog::Signature signature = kernel.signature(step);
  if (form.body->prepare != nullptr) {
    std::vector<const ops::StateDecl*> states;
    for (const int32_t state : step.states) states.push_back(&plan_.states[static_cast<size_t>(state)]);
    form.prepared = FL_TRY(
        form.body->prepare({.signature = signature, .state = states.empty() ? nullptr : states[0], .states = states}));
  }
  if (form.body->workspace_bytes != nullptr) {
    for (const plan::Bucket& bucket : plan_.buckets) {
      const int64_t bytes = form.body->workspace_bytes(signature, bucket.largest_values(), pool_.num_threads());
      if (step.workspace < 0) {
        memory_.workspace_bytes = std::max(memory_.workspace_bytes, bytes);
      } else if (bytes > bucket.bytes[static_cast<size_t>(step.workspace)]) {
        return internal_error("kernel " + symbol + " needs " + std::to_string(bytes) + " bytes of workspace on " +
                              std::to_string(pool_.num_threads()) + " threads, the plan has " +
                              std::to_string(bucket.bytes[static_cast<size_t>(step.workspace)]));
      }
    }
  }
  kernel.forms.push_back(std::move(form));
  return ok_status();
}

// Between two runs: every step that waits for its function gets it. A step that was demoted stays where it is.
void Executor::install_generated() {
  auto code = generated_->take();
  if (code == nullptr) return;
  for (auto& [step, kernel] : kernels_) {
    if (step->generated.empty()) continue;
    const auto function = reinterpret_cast<plan::GeneratedFunction>(code->symbol(step->generated.c_str()));
    if (function == nullptr) continue;
    kernel->forms.insert(kernel->forms.begin(), Form{.name = step->generated, .generated = function});
    if (kernel->active > 0) ++kernel->active;
  }
  native_code_ = std::move(code);
}

int64_t Executor::num_generated_steps() const {
  return std::count_if(kernels_.begin(), kernels_.end(), [](const auto& entry) {
    return entry.second->forms[entry.second->active].generated != nullptr;
  });
}

std::span<std::byte> Executor::workspace(const plan::KernelStep& step, const Context& context) const {
  if (step.workspace < 0) return {workspace_.get(), static_cast<size_t>(memory_.workspace_bytes)};
  const auto at = static_cast<size_t>(step.workspace);
  return {arena_.get() + context.bucket->offsets[at], static_cast<size_t>(context.bucket->bytes[at])};
}

// Whether the step's active form uses scratch that all workers share, at the sizes of now.
bool Executor::needs_workspace(const plan::KernelStep& step, const Context& context) const {
  const PreparedKernel& kernel = prepared(step);
  const Form& form = kernel.forms[kernel.active];
  if (form.body == nullptr || form.body->workspace_bytes == nullptr) return false;
  return form.body->workspace_bytes(kernel.signature(step), context.values, context.worker.count()) > 0;
}

void Executor::run_form(const Form& form, const plan::KernelStep& step, Context& context) {
  if (form.generated == nullptr) {
    context.step_states.clear();
    for (const int32_t state : step.states) context.step_states.push_back(&context.states[static_cast<size_t>(state)]);
    const kernels::KernelCall call{.prepared = form.prepared.get(),
                                   .inputs = context.inputs,
                                   .outputs = context.outputs,
                                   .batch = context.batch,
                                   .state = context.step_states.empty() ? nullptr : context.step_states[0],
                                   .workspace = workspace(step, context),
                                   .states = context.step_states};
    return form.body->run(call, context.worker);
  }
  const tensor::View& out = context.outputs[0];
  const bool by_result = step.op == ops::OpKind::kMap || step.op == ops::OpKind::kFusedRows;
  const tensor::View& counted = by_result ? out : context.inputs[0];
  const int64_t total = step.generated_rows ? counted.num_rows() : out.num_elements();
  const Worker::Range range = context.worker.share(total, step.generated_rows ? 1 : 16);
  if (range.begin >= range.end) return;
  context.operands.clear();
  for (const tensor::View& input : context.inputs) context.operands.push_back(input.as<const float>());
  form.generated(context.operands.data(), out.as<float>(), out.dims.data(), range.begin, range.end);
}

}  // namespace firstlight::runtime
