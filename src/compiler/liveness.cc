// SPDX-License-Identifier: Apache-2.0
#include "compiler/liveness.h"

namespace firstlight::compiler {
namespace {

class Walk {
 public:
  explicit Walk(const plan::Plan& plan) : plan_(plan) { found_.lifetimes.resize(plan.buffers.size()); }

  Liveness run() {
    visit(plan_.body);
    for (const auto& output : plan_.outputs) touch(output.buffer);
    return std::move(found_);
  }

 private:
  void touch(plan::BufferId id) {
    id = buffer_below(plan_, id);
    if (id < 0) return;
    Lifetime& life = found_.lifetimes[static_cast<size_t>(id)];
    if (life.begin < 0) life.begin = time_;
    life.end = time_;
  }

  void visit(const plan::Block& block) {
    for (const plan::Step& step : block.steps) {
      std::visit([&](const auto& body) { visit(body); }, step.body);
      ++time_;
    }
  }

  void visit(const plan::KernelStep& step) {
    found_.time_of[&step] = time_;
    for (const auto id : step.inputs) touch(id);
    for (const auto id : step.outputs) touch(id);
    touch(step.workspace);
  }

  // Whatever was alive before a repeated block and is read inside stays alive to its end.
  void visit_inner(const plan::Block& block) {
    const int64_t start = time_++;
    visit(block);
    for (Lifetime& life : found_.lifetimes) {
      if (life.begin >= 0 && life.begin <= start && life.end > start) life.end = time_;
    }
  }

  void visit(const plan::PerExpertStep& step) {
    for (const auto id : {step.x, step.indices, step.weights, step.rows, step.output}) touch(id);
    visit_inner(*step.body);
    for (const auto id : {step.x, step.indices, step.weights, step.rows, step.result, step.output}) touch(id);
  }

  // The condition lives to the end: a worker may still read it when another is in the block already.
  void visit(const plan::IfStep& step) {
    touch(step.condition);
    for (const auto id : step.outputs) touch(id);
    visit_inner(*step.then_block);
    for (const auto id : step.then_results) touch(id);
    visit_inner(*step.else_block);
    for (const auto id : step.else_results) touch(id);
    for (const auto id : step.outputs) touch(id);
    touch(step.condition);
  }

  const plan::Plan& plan_;
  Liveness found_;
  int64_t time_ = 0;
};

}  // namespace

plan::BufferId buffer_below(const plan::Plan& plan, plan::BufferId id) {
  while (id >= 0 && plan.buffer(id).alias_of >= 0) id = plan.buffer(id).alias_of;
  return id;
}

Liveness find_liveness(const plan::Plan& plan) { return Walk(plan).run(); }

}  // namespace firstlight::compiler
