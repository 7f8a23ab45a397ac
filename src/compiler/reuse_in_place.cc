// SPDX-License-Identifier: Apache-2.0
// Results in the place of operands. Which operators allow it is a property of all their kernels: each worker reads an
// element, or a row, and then writes it; nobody else reads it later in the step. Generated code of reductions
// promises its compiler that nothing overlaps: such steps are left out.
#include "compiler/liveness.h"
#include "compiler/lower.h"

namespace firstlight::compiler {
namespace {

using plan::Buffer;
using plan::BufferId;
using plan::KernelStep;

bool is_same_size(const tensor::Type& a, const tensor::Type& b) {
  return a.dtype == b.dtype && a.layout == b.layout && tensor::dim_product(a.shape) == tensor::dim_product(b.shape);
}

bool promises_no_overlap(ops::OpKind op) { return op != ops::OpKind::kMap && op != ops::OpKind::kFusedRows; }

class Reuser {
 public:
  Reuser(plan::Plan& plan, bool device) : plan_(plan), device_(device), live_(find_liveness(plan)) {}

  std::vector<BufferId> run() {
    visit(plan_.body);
    return std::move(reused_);
  }

 private:
  void visit(plan::Block& block) {
    for (plan::Step& step : block.steps) {
      if (auto* kernel = std::get_if<KernelStep>(&step.body)) visit(*kernel);
      if (auto* experts = std::get_if<plan::PerExpertStep>(&step.body)) visit(*experts->body);
      if (auto* branch = std::get_if<plan::IfStep>(&step.body)) {
        visit(*branch->then_block);
        visit(*branch->else_block);
      }
    }
  }

  void visit(const KernelStep& step) {
    if (step.outputs.size() != 1 || (!step.generated.empty() && promises_no_overlap(step.op))) return;
    const BufferId result = step.outputs[0];
    if (plan_.buffer(result).kind != Buffer::Kind::kArena) return;
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      if (!may_take_place_of(step, i)) continue;
      const BufferId below = buffer_below(plan_, step.inputs[i]);
      Lifetime& given = live_.lifetimes[static_cast<size_t>(below)];
      const Lifetime taken = live_.lifetimes[static_cast<size_t>(result)];
      Buffer& buffer = plan_.buffer(result);
      buffer.kind = Buffer::Kind::kAlias;
      buffer.alias_of = below;
      given.end = taken.end;
      reused_.push_back(result);
      return;
    }
  }

  // Whether operand i may be overwritten by the step's result.
  bool may_take_place_of(const KernelStep& step, size_t i) const {
    if (step.inputs[i] < 0) return false;
    const BufferId below = buffer_below(plan_, step.inputs[i]);
    const Buffer& operand = plan_.buffer(step.inputs[i]);
    const Buffer& result = plan_.buffer(step.outputs[0]);
    if (plan_.buffer(below).kind != Buffer::Kind::kArena || below == step.outputs[0]) return false;
    if (live_.lifetimes[static_cast<size_t>(below)].end != live_.time_of.at(&step)) return false;
    if (live_.lifetimes[static_cast<size_t>(step.outputs[0])].begin != live_.time_of.at(&step)) return false;
    if (!is_same_size(plan_.buffer(below).type, result.type) || operand.type != result.type) return false;
    if (!is_read_first(step, i)) return false;
    // Who else reads those bytes must read the same element at the same time.
    for (const BufferId other : step.inputs) {
      if (other >= 0 && buffer_below(plan_, other) == below && plan_.buffer(other).type != result.type) return false;
    }
    return true;
  }

  // The threads of a device share out the elements of a row: there only maps read what they alone write.
  bool is_read_first(const KernelStep& step, size_t i) const {
    if (device_) return step.op == ops::OpKind::kMap;
    switch (step.op) {
      case ops::OpKind::kMap:
        return true;
      case ops::OpKind::kRmsNorm:
      case ops::OpKind::kLayerNorm:
      case ops::OpKind::kSoftmax:
      case ops::OpKind::kRope:
        return i == 0;
      case ops::OpKind::kRopeAppend:
        return i == 2;
      case ops::OpKind::kFusedRows: {  // the last stage alone may write over what earlier ones read
        const auto last = static_cast<int64_t>(step.attributes.get_expressions("stages").size()) - 1;
        return step.attributes.get_ints("results") == std::vector<int64_t>{last};
      }
      default:
        return false;
    }
  }

  plan::Plan& plan_;
  bool device_;
  Liveness live_;
  std::vector<BufferId> reused_;
};

}  // namespace

std::vector<BufferId> reuse_in_place(plan::Plan& plan, bool device) { return Reuser(plan, device).run(); }

}  // namespace firstlight::compiler
