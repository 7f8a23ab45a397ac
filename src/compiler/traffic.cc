// SPDX-License-Identifier: Apache-2.0
#include "compiler/traffic.h"

#include <algorithm>
#include <charconv>

namespace firstlight::compiler {
namespace {

using plan::Buffer;
using plan::BufferId;

int layer_of(std::string_view label) {
  constexpr std::string_view kWord = "layers.";
  const size_t at = label.find(kWord);
  if (at == std::string_view::npos) return -1;
  int layer = -1;
  const std::string_view digits = label.substr(at + kWord.size());
  std::from_chars(digits.data(), digits.data() + digits.size(), layer);
  return layer;
}

class Counter {
 public:
  Counter(const plan::Plan& plan, const tensor::SymbolValues& values) : plan_(plan), values_(values) {}

  std::map<int, Traffic> run() {
    visit(plan_.body, -1);
    return std::move(found_);
  }

 private:
  void visit(const plan::Block& block, int outer) {
    for (const plan::Step& step : block.steps) {
      const int own = layer_of(step.label);
      layer_ = own < 0 ? outer : own;
      std::visit([&](const auto& body) { visit(body); }, step.body);
    }
  }

  int64_t bytes(BufferId id) const { return plan::buffer_bytes(plan_.buffer(id), values_); }

  bool is_weight(BufferId id) const {
    while (plan_.buffer(id).kind == Buffer::Kind::kAlias) id = plan_.buffer(id).alias_of;
    const auto kind = plan_.buffer(id).kind;
    return kind == Buffer::Kind::kFile || kind == Buffer::Kind::kResident || kind == Buffer::Kind::kSlice;
  }

  void visit(const plan::KernelStep& step) {
    Traffic traffic{.launches = 1};
    for (const BufferId id : step.outputs) traffic.activation_bytes += bytes(id);
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      const BufferId id = step.inputs[i];
      if (id < 0) continue;
      const bool table = step.op == ops::OpKind::kGatherRows && i == 0;
      int64_t& counted = is_weight(id) ? traffic.weight_bytes : traffic.activation_bytes;
      counted += table ? bytes(step.outputs[0]) : bytes(id);
    }
    add(traffic);
  }

  void visit(const plan::PerExpertStep& step) {
    const int layer = layer_;
    const auto chosen = tensor::num_elements(plan_.buffer(step.indices).type.shape, values_);
    const int64_t experts = std::min(step.num_experts, chosen);
    Traffic traffic{.launches = 2};
    for (const BufferId id : {step.x, step.indices, step.weights, step.output}) traffic.activation_bytes += bytes(id);
    const tensor::SymbolValues outer = values_;
    values_.rows = experts == 0 ? 0 : (chosen + experts - 1) / experts;
    const int64_t outer_times = times_;
    add(traffic);
    times_ *= experts;
    add({.activation_bytes = bytes(step.rows) + bytes(step.result)});
    visit(*step.body, layer);
    times_ = outer_times;
    values_ = outer;
  }

  // The costlier branch is not known: the first counts.
  void visit(const plan::IfStep& step) {
    const int layer = layer_;
    add({.launches = 1});
    visit(*step.then_block, layer);
  }

  void add(Traffic traffic) {
    traffic.activation_bytes *= times_;
    traffic.weight_bytes *= times_;
    found_[layer_] += traffic;
  }

  const plan::Plan& plan_;
  tensor::SymbolValues values_;
  std::map<int, Traffic> found_;
  int layer_ = -1;
  int64_t times_ = 1;  // experts that a step of theirs runs for
};

}  // namespace

Traffic& Traffic::operator+=(const Traffic& other) {
  launches += other.launches;
  activation_bytes += other.activation_bytes;
  weight_bytes += other.weight_bytes;
  return *this;
}

std::map<int, Traffic> traffic_by_layer(const plan::Plan& plan, const tensor::SymbolValues& values) {
  return Counter(plan, values).run();
}

}  // namespace firstlight::compiler
