// SPDX-License-Identifier: Apache-2.0
// Memory planning. Every step, inner blocks included, gets a time; a buffer is alive from the step that writes it to
// the last that reads it (a buffer from outside a repeated block: to the block's end). Places are given largest first,
// each at the lowest offset where it meets no other that is alive at the same time (the greedy-by-size method of
// Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020).
#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "compiler/lower.h"

namespace firstlight::compiler {
namespace {

constexpr int64_t kAlignment = 64;

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

struct Lifetime {
  int64_t begin = -1;
  int64_t end = -1;
};

class Liveness {
 public:
  explicit Liveness(const plan::Plan& plan) : plan_(plan), lifetimes_(plan.buffers.size()) {}

  std::vector<Lifetime> run() {
    visit(plan_.body);
    for (const auto& output : plan_.outputs) touch(output.buffer);
    return std::move(lifetimes_);
  }

 private:
  // The buffer whose bytes an alias, or a part of a stack, stands for.
  plan::BufferId below(plan::BufferId id) const {
    while (id >= 0 && plan_.buffer(id).alias_of >= 0) id = plan_.buffer(id).alias_of;
    return id;
  }

  void touch(plan::BufferId id) {
    id = below(id);
    if (id < 0) return;
    Lifetime& life = lifetimes_[static_cast<size_t>(id)];
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
    for (const auto id : step.inputs) touch(id);
    for (const auto id : step.outputs) touch(id);
  }

  // Whatever was alive before a repeated block and is read inside stays alive to its end.
  void visit_inner(const plan::Block& block) {
    const int64_t start = time_++;
    visit(block);
    for (Lifetime& life : lifetimes_) {
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
  std::vector<Lifetime> lifetimes_;
  int64_t time_ = 0;
};

}  // namespace

void assign_arena(const plan::Plan& plan, bool reuse, plan::Bucket& bucket) {
  const auto lifetimes = Liveness(plan).run();
  const tensor::SymbolValues values = bucket.largest_values();
  bucket.arena_bytes = bucket.lower_bound_bytes = bucket.sum_bytes = 0;
  std::vector<plan::BufferId> order;
  std::vector<int64_t> bytes(plan.buffers.size(), 0);
  bucket.offsets.assign(plan.buffers.size(), -1);
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    if (plan.buffers[i].kind != plan::Buffer::Kind::kArena || lifetimes[i].begin < 0) continue;
    bytes[i] = aligned(std::max<int64_t>(plan::buffer_bytes(plan.buffers[i], values), 1));
    order.push_back(static_cast<plan::BufferId>(i));
    bucket.sum_bytes += bytes[i];
  }
  std::stable_sort(order.begin(), order.end(), [&](plan::BufferId a, plan::BufferId b) {
    return bytes[static_cast<size_t>(a)] > bytes[static_cast<size_t>(b)];
  });

  std::vector<size_t> placed;  // by ascending offset
  for (const plan::BufferId id : order) {
    const auto i = static_cast<size_t>(id);
    int64_t offset = 0;
    for (const size_t other : placed) {
      const bool meet =
          !reuse || (lifetimes[i].begin <= lifetimes[other].end && lifetimes[other].begin <= lifetimes[i].end);
      if (!meet) continue;
      if (offset + bytes[i] <= bucket.offsets[other]) break;
      offset = std::max(offset, bucket.offsets[other] + bytes[other]);
    }
    bucket.offsets[i] = offset;
    bucket.arena_bytes = std::max(bucket.arena_bytes, offset + bytes[i]);
    const auto place =
        std::find_if(placed.begin(), placed.end(), [&](size_t other) { return bucket.offsets[other] > offset; });
    placed.insert(place, i);
  }

  // The most bytes alive at any one time.
  std::vector<std::pair<int64_t, int64_t>> events;
  for (const plan::BufferId id : order) {
    const auto i = static_cast<size_t>(id);
    events.emplace_back(lifetimes[i].begin, bytes[i]);
    events.emplace_back(lifetimes[i].end + 1, -bytes[i]);
  }
  std::sort(events.begin(), events.end());
  int64_t alive = 0;
  for (const auto& [time, change] : events) {
    alive += change;
    bucket.lower_bound_bytes = std::max(bucket.lower_bound_bytes, alive);
  }
}

}  // namespace firstlight::compiler
