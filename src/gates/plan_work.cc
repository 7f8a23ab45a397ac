// SPDX-License-Identifier: Apache-2.0
#include "gates/plan_work.h"

#include <algorithm>
#include <map>
#include <set>

#include "ops/attention/segments.h"
#include "tensor/state_rows.h"

namespace firstlight::gates {
namespace {

using plan::BufferId;

class Counter {
 public:
  Counter(const plan::Plan& plan, const RunShape& shape) : plan_(plan), shape_(shape) {}

  PlanWork run() {
    visit(plan_.body, 1);
    return work_;
  }

 private:
  // `share`: of its stacked weights that a body inside experts reads; of its rows it computes all.
  void visit(const plan::Block& block, double share) {
    for (const plan::Step& step : block.steps) {
      ++work_.steps;
      if (const auto* kernel = std::get_if<plan::KernelStep>(&step.body)) {
        visit(*kernel, share);
      } else if (const auto* experts = std::get_if<plan::PerExpertStep>(&step.body)) {
        visit(*experts);
      } else {
        visit(*std::get<plan::IfStep>(step.body).then_block, share);
      }
    }
  }

  void visit(const plan::PerExpertStep& step) {
    const auto& chosen = plan_.buffer(step.indices).type.shape;
    const auto per_token = static_cast<double>(chosen.empty() ? 1 : chosen.back().factor);
    const auto all = static_cast<double>(std::max<int64_t>(step.num_experts, 1));
    const double routed = static_cast<double>(shape_.tokens) * per_token;
    expert_rows_ = routed;
    visit(*step.body, std::min(1.0, routed / all) * all);
    expert_rows_ = 0;
  }

  double rows_of(BufferId id) const {
    const auto& shape = plan_.buffer(id).type.shape;
    if (expert_rows_ > 0) return expert_rows_;
    if (shape.empty()) return 1;
    switch (shape[0].symbol) {
      case tensor::Symbol::kOutputs:
        return static_cast<double>(shape_.outputs);
      case tensor::Symbol::kSequences:
        return static_cast<double>(shape_.sequences);
      case tensor::Symbol::kGroups:
        return static_cast<double>(shape_.tokens) / static_cast<double>(std::max<int64_t>(shape[0].rate, 1));
      default:
        return static_cast<double>(shape_.tokens);
    }
  }

  // The buffer whose bytes these are, where they are weights; -1: they are not.
  BufferId weight_of(BufferId id) const {
    while (id >= 0 && plan_.buffer(id).kind == plan::Buffer::Kind::kAlias) id = plan_.buffer(id).alias_of;
    if (id < 0) return -1;
    const auto kind = plan_.buffer(id).kind;
    const bool is_weight = kind == plan::Buffer::Kind::kFile || kind == plan::Buffer::Kind::kResident ||
                           kind == plan::Buffer::Kind::kSlice;
    return is_weight ? id : -1;
  }

  static double elements(const tensor::Type& type) {
    double count = 1;
    for (const tensor::Dim& dim : type.shape) count *= static_cast<double>(dim.factor);
    return count;
  }

  void visit(const plan::KernelStep& step, double share) {
    double multiplied = 0;  // weights that a row is multiplied with
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      const BufferId weight = weight_of(step.inputs[i]);
      if (weight < 0) continue;
      const plan::Buffer& buffer = plan_.buffer(weight);
      if (step.op == ops::OpKind::kGatherRows && i == 0) continue;  // single rows of a table
      const bool is_slice = buffer.kind == plan::Buffer::Kind::kSlice;
      if (is_slice || counted_.insert(weight).second)
        work_.weight_bytes += static_cast<double>(plan::buffer_bytes(buffer)) * (is_slice ? share : 1);
      const bool in_product = step.attributes.has("compute") && buffer.type.shape.size() >= 2;
      if (in_product) multiplied += elements(plan_.buffer(step.inputs[i]).type);
    }
    if (multiplied > 0 && !step.outputs.empty()) {
      const double operations = 2 * multiplied * rows_of(step.outputs[0]);
      const std::string& mode = step.attributes.get_string("compute");
      (mode == "w8a8"   ? work_.int8_operations
       : mode == "bf16" ? work_.bf16_operations
                        : work_.f32_operations) += operations;
    }
    if (step.op == ops::OpKind::kAttend || step.op == ops::OpKind::kAttendSegments) attention(step);
  }

  void attention(const plan::KernelStep& step) {
    const auto all = ops::key_segments(step.op, step.attributes, step.inputs.size());
    if (!all.ok()) return;
    const double per_sequence = static_cast<double>(shape_.tokens) / static_cast<double>(shape_.sequences);
    const double q = elements(plan_.buffer(step.inputs[0]).type);
    const double out = step.outputs.empty() ? q : elements(plan_.buffer(step.outputs[0]).type);
    for (size_t i = 0; i < all->segments.size() && i < step.states.size(); ++i) {
      const ops::KeySegment& segment = all->segments[i];
      const ops::StateDecl& state = plan_.states[static_cast<size_t>(step.states[i])];
      const double length = static_cast<double>(shape_.depth) + per_sequence;
      double keys = static_cast<double>(shape_.depth) + (per_sequence + 1) / 2;
      double held = length;
      for (const int64_t limit : {segment.window, segment.chunk, segment.until}) {
        if (limit <= 0) continue;
        keys = std::min(keys, static_cast<double>(limit));
        held = std::min(held, static_cast<double>(limit) + per_sequence);
      }
      const auto rate = static_cast<double>(std::max<int64_t>(state.rate, 1));
      double row = 0;
      for (const ops::StateComponent& part : state.components) {
        if (part.name != segment.key && part.name != segment.value) continue;
        row += static_cast<double>(part.heads * tensor::state_row_bytes(part.dtype, part.width));
      }
      work_.state_bytes += row * held / rate * static_cast<double>(shape_.sequences);
      work_.f32_operations += 2 * (q + out) * keys / rate * static_cast<double>(shape_.tokens);
    }
  }

  const plan::Plan& plan_;
  const RunShape& shape_;
  PlanWork work_;
  double expert_rows_ = 0;
  std::set<BufferId> counted_;
};

}  // namespace

PlanWork work_of(const plan::Plan& plan, const RunShape& shape) { return Counter(plan, shape).run(); }

Floor floor_of(const PlanWork& work, const target::CpuRoof& roof, double step_s) {
  const auto time = [](double amount, double rate) { return rate > 0 ? amount / rate : 0; };
  const double reading = time(work.weight_bytes + work.state_bytes, roof.read_gbps * 1e9);
  const double computing = time(work.f32_operations, roof.f32_tflops * 1e12) +
                           time(work.bf16_operations, roof.bf16_tflops * 1e12) +
                           time(work.int8_operations, roof.int8_tops * 1e12);
  Floor floor;
  floor.step_seconds = static_cast<double>(work.steps) * step_s;
  floor.seconds = std::max(reading, computing) + floor.step_seconds;
  floor.bound = reading >= computing ? "memory" : "arithmetic";
  if (floor.step_seconds > std::max(reading, computing)) floor.bound = "steps";
  return floor;
}

}  // namespace firstlight::gates
