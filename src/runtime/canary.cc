// SPDX-License-Identifier: Apache-2.0
// The canary: now and then a step is run in its active form and in its plainest one on the same real inputs. Where the
// two disagree beyond what their arithmetic explains, the plainer one runs from the next step on, for every step of
// that signature, and the right result is kept.
#include <cmath>
#include <cstring>
#include <limits>

#include "catalog/attend_forms.h"
#include "runtime/executor_internal.h"
#include "tensor/codec.h"
#include "tolerance/tolerances.h"

namespace firstlight::runtime {
namespace {

bool overlaps(const tensor::View& a, const tensor::View& b, int64_t a_bytes, int64_t b_bytes) {
  const auto* first = a.as<const std::byte>();
  const auto* second = b.as<const std::byte>();
  return first < second + b_bytes && second < first + a_bytes;
}

int64_t bytes_of(const tensor::View& view) {
  if (view.layout != tensor::Layout::kRowMajor || view.rank == 0) return view.rank == 0 ? 8 : 0;
  return tensor::row_bytes(view.dtype, view.dim(-1)).value_or(0) * view.num_rows();
}

void keep(const tensor::View& view, std::vector<std::byte>& copy) {
  const auto* data = view.as<const std::byte>();
  copy.assign(data, data + bytes_of(view));
}

std::vector<float> floats_of(const tensor::View& view, const std::byte* data) {
  std::vector<float> values(static_cast<size_t>(view.num_elements()));
  const std::span bytes(data, static_cast<size_t>(bytes_of(view)));
  if (!values.empty() && !tensor::decode_to_f32(view.dtype, bytes, values).ok()) values.clear();
  return values;
}

// Relative L2 distance; infinite where one has NaN and the other has none there.
double distance(const std::vector<float>& found, const std::vector<float>& wanted) {
  double error = 0, norm = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const bool same = found[i] == wanted[i] || (std::isnan(found[i]) && std::isnan(wanted[i]));
    if (!std::isfinite(found[i]) || !std::isfinite(wanted[i])) {
      if (!same) return std::numeric_limits<double>::infinity();
      continue;
    }
    const double difference = static_cast<double>(found[i]) - static_cast<double>(wanted[i]);
    error += difference * difference;
    norm += static_cast<double>(wanted[i]) * static_cast<double>(wanted[i]);
  }
  return error == 0 ? 0 : std::sqrt(error / std::max(norm, 1e-30));
}

// A step may run twice when it has results and changes no state. (Choices of an indexer are not compared: near a tie
// both forms are right.)
bool may_repeat(const plan::KernelStep& step) {
  const bool reads = step.op == ops::OpKind::kAttend || step.op == ops::OpKind::kAttendSegments;
  return !step.outputs.empty() && (step.states.empty() || reads);
}

}  // namespace

void Executor::run_with_canary(const plan::Step& step, Context& context) {
  const auto& kernel_step = std::get<plan::KernelStep>(step.body);
  PreparedKernel& kernel = prepared(kernel_step);
  const size_t plainest = kernel.forms.size() - 1;
  if (kernel.active == plainest || !may_repeat(kernel_step)) return run_step(kernel_step, context);
  Worker& worker = context.worker;
  const bool leads = worker.index() == 0;
  context.inputs.clear();
  context.outputs.clear();
  for (const plan::BufferId id : kernel_step.inputs) context.inputs.push_back(view(id, context));
  for (const plan::BufferId id : kernel_step.outputs) context.outputs.push_back(view(id, context));
  if (leads) {
    canary_->inputs.assign(context.inputs.size(), {});
    canary_->outputs.assign(context.outputs.size(), {});
    for (size_t i = 0; i < context.inputs.size(); ++i) {
      const tensor::View& input = context.inputs[i];
      for (const tensor::View& output : context.outputs) {
        const bool shared = input.present() && overlaps(input, output, bytes_of(input), bytes_of(output));
        if (shared) keep(input, canary_->inputs[i]);
      }
    }
  }
  worker.barrier();
  run_form(kernel.forms[kernel.active], kernel_step, context);
  worker.barrier();
  if (leads) {
    for (size_t i = 0; i < context.outputs.size(); ++i) keep(context.outputs[i], canary_->outputs[i]);
    for (size_t i = 0; i < context.inputs.size(); ++i) {
      const auto& copy = canary_->inputs[i];
      if (!copy.empty()) std::memcpy(context.inputs[i].data, copy.data(), copy.size());
    }
  }
  worker.barrier();
  run_form(kernel.forms[plainest], kernel_step, context);
  worker.barrier();
  if (leads) {
    double error = 0;
    for (size_t i = 0; i < context.outputs.size(); ++i) {
      const tensor::View& output = context.outputs[i];
      error = std::max(error, distance(floats_of(output, canary_->outputs[i].data()),
                                       floats_of(output, output.as<const std::byte>())));
    }
    // A form of attention that rounds stands beside one that does not: two roundings of a product, of queries and
    // weights.
    const bool rounds = catalog::attends_in_bf16(kernel.forms[kernel.active].name);
    const double rounding = tolerance::kSpread * 2 * tolerance::product_rounding(catalog::ComputeMode::kBf16);
    if (error > (rounds ? rounding : tolerance::kTwoForms)) {
      demote(step, kernel, error);
    } else {  // the better form's result counts, so that a canary changes nothing
      for (size_t i = 0; i < context.outputs.size(); ++i) {
        std::memcpy(context.outputs[i].data, canary_->outputs[i].data(), canary_->outputs[i].size());
      }
    }
  }
}

void Executor::demote(const plan::Step& step, PreparedKernel& kernel, double error) {
  const auto& shown = std::get<plan::KernelStep>(step.body);
  const std::string from = kernel.forms[kernel.active].name;
  std::string types;
  for (const tensor::Type& type : kernel.operand_types) types += (types.empty() ? "" : ", ") + type.to_string();
  demotions_.push_back({.kernel = from,
                        .to = kernel.forms.back().name,
                        .label = step.label,
                        .signature = "(" + types + ") " + ops::attributes_to_string(shown.attributes),
                        .error = error});
  for (auto& [other_step, other] : kernels_) {
    const bool same = other->forms[other->active].name == from && other_step->op == shown.op &&
                      other->operand_types == kernel.operand_types && other_step->attributes == shown.attributes;
    if (same) other->active = other->forms.size() - 1;
  }
  if (options_.on_demotion) options_.on_demotion(demotions_.back());
}

}  // namespace firstlight::runtime
