// SPDX-License-Identifier: Apache-2.0
// assign_arena over random plans, judged by playing them: every step writes its mark into the places of its outputs and
// must find in those of its inputs the marks that were put there. Blocks of experts are played several times, branches
// either way.
#include <gtest/gtest.h>

#include <random>

#include "compiler/lower.h"

namespace firstlight::compiler {
namespace {

using plan::BufferId;

class RandomPlan {
 public:
  explicit RandomPlan(uint32_t seed) : random_(seed) {}

  plan::Plan make() {
    std::vector<BufferId> known = {new_buffer()};
    plan_.body.steps.push_back(kernel({}, {known[0]}));
    fill(plan_.body, known, 12, 0);
    plan_.outputs.push_back({"a", known.back()});
    plan_.outputs.push_back({"b", any_of(known)});
    return std::move(plan_);
  }

 private:
  int below(int count) { return std::uniform_int_distribution<int>(0, count - 1)(random_); }
  BufferId any_of(const std::vector<BufferId>& known) {
    return known[static_cast<size_t>(below(static_cast<int>(known.size())))];
  }

  BufferId add(plan::Buffer buffer) {
    plan_.buffers.push_back(std::move(buffer));
    return static_cast<BufferId>(plan_.buffers.size()) - 1;
  }
  BufferId new_buffer() {
    const bool per_token = below(4) > 0;
    tensor::Shape shape = {per_token ? tensor::Dim(1, tensor::Symbol::kTokens) : tensor::Dim(1), 1 + below(200)};
    return add({.kind = plan::Buffer::Kind::kArena, .type = tensor::Type::tensor(tensor::DType::kF32, shape)});
  }
  BufferId alias(BufferId of) {
    return add({.kind = plan::Buffer::Kind::kAlias, .type = plan_.buffer(of).type, .alias_of = of});
  }

  static plan::Step kernel(std::vector<BufferId> inputs, std::vector<BufferId> outputs) {
    return {.body =
                plan::KernelStep{.op = ops::OpKind::kMap, .inputs = std::move(inputs), .outputs = std::move(outputs)}};
  }

  void fill(plan::Block& block, std::vector<BufferId>& known, int num_steps, int depth) {
    for (int i = 0; i < num_steps; ++i) {
      const int kind = depth < 2 ? below(8) : 7;
      if (kind == 0) {
        known.push_back(add_experts(block, known, depth));
      } else if (kind == 1) {
        known.push_back(add_branch(block, known, depth));
      } else if (kind == 2) {
        known.push_back(alias(any_of(known)));
      } else {
        std::vector<BufferId> inputs;
        for (int n = below(3); n >= 0; --n) inputs.push_back(any_of(known));
        std::vector<BufferId> outputs = {new_buffer()};
        if (below(4) == 0) outputs.push_back(new_buffer());
        block.steps.push_back(kernel(inputs, outputs));
        known.insert(known.end(), outputs.begin(), outputs.end());
      }
    }
  }

  BufferId add_experts(plan::Block& block, const std::vector<BufferId>& known, int depth) {
    plan::PerExpertStep step;
    step.num_experts = 3;
    step.x = any_of(known);
    step.indices = any_of(known);
    step.weights = any_of(known);
    step.rows = new_buffer();
    const BufferId stack = any_of(known);
    step.slices = {add({.kind = plan::Buffer::Kind::kSlice, .type = plan_.buffer(stack).type, .alias_of = stack})};
    std::vector<BufferId> inner = known;
    inner.push_back(step.rows);
    inner.push_back(step.slices[0]);
    step.body = std::make_unique<plan::Block>();
    fill(*step.body, inner, 3, depth + 1);
    step.result = inner.back();
    step.output = new_buffer();
    const BufferId output = step.output;
    block.steps.push_back({.body = std::move(step)});
    return output;
  }

  BufferId add_branch(plan::Block& block, const std::vector<BufferId>& known, int depth) {
    plan::IfStep step;
    step.condition = any_of(known);
    step.then_block = std::make_unique<plan::Block>();
    step.else_block = std::make_unique<plan::Block>();
    std::vector<BufferId> yes = known, no = known;
    fill(*step.then_block, yes, 3, depth + 1);
    fill(*step.else_block, no, below(3), depth + 1);
    step.then_results = {yes.back()};
    step.else_results = {no.back()};
    step.outputs = {new_buffer()};
    const BufferId output = step.outputs[0];
    block.steps.push_back({.body = std::move(step)});
    return output;
  }

  std::mt19937 random_;
  plan::Plan plan_;
};

// Plays a plan on an arena of marks, 64 bytes a mark.
class Player {
 public:
  Player(const plan::Plan& plan, const plan::Bucket& bucket, uint32_t seed)
      : plan_(plan),
        bucket_(bucket),
        random_(seed),
        arena_(static_cast<size_t>(bucket.arena_bytes / 64), 0),
        mark_of_(plan.buffers.size(), 0) {}

  void play() {
    play(plan_.body);
    for (const auto& output : plan_.outputs) read(output.buffer);
  }

 private:
  BufferId below(BufferId id) const {
    while (plan_.buffer(id).alias_of >= 0) id = plan_.buffer(id).alias_of;
    return id;
  }
  std::pair<size_t, size_t> place(BufferId id) const {
    const int64_t bytes = plan::buffer_bytes(plan_.buffer(id), bucket_.largest_values());
    const int64_t offset = bucket_.offsets[static_cast<size_t>(id)];
    EXPECT_EQ(offset % 64, 0);
    EXPECT_GE(offset, 0);
    EXPECT_LE(offset + bytes, bucket_.arena_bytes);
    return {static_cast<size_t>(offset / 64), static_cast<size_t>((offset + bytes + 63) / 64)};
  }
  void write(BufferId id) {
    id = below(id);
    mark_of_[static_cast<size_t>(id)] = ++last_mark_;
    const auto [begin, end] = place(id);
    for (size_t i = begin; i < end; ++i) arena_.at(i) = last_mark_;
  }
  void read(BufferId id) {
    id = below(id);
    const auto [begin, end] = place(id);
    for (size_t i = begin; i < end; ++i) ASSERT_EQ(arena_.at(i), mark_of_[static_cast<size_t>(id)]) << "b" << id;
  }

  void play(const plan::Block& block) {
    for (const plan::Step& step : block.steps) std::visit([&](const auto& body) { play(body); }, step.body);
  }
  // Inputs are looked at after the writing too: a kernel may read them to its end.
  void play(const plan::KernelStep& step) {
    for (const BufferId id : step.inputs) read(id);
    for (const BufferId id : step.outputs) write(id);
    for (const BufferId id : step.inputs) read(id);
    for (const BufferId id : step.outputs) read(id);
  }
  void play(const plan::PerExpertStep& step) {
    write(step.output);
    for (int turn = 0; turn < 3; ++turn) {
      for (const BufferId id : {step.x, step.indices, step.weights}) read(id);
      write(step.rows);
      play(*step.body);
      for (const BufferId id : {step.x, step.indices, step.weights, step.result, step.output}) read(id);
    }
  }
  void play(const plan::IfStep& step) {
    const bool taken = random_() % 2 == 0;
    read(step.condition);
    play(taken ? *step.then_block : *step.else_block);
    read(step.condition);
    const auto& results = taken ? step.then_results : step.else_results;
    for (size_t i = 0; i < results.size(); ++i) {
      read(results[i]);
      write(step.outputs[i]);
      read(results[i]);
    }
  }

  const plan::Plan& plan_;
  const plan::Bucket& bucket_;
  std::mt19937 random_;
  std::vector<int64_t> arena_;
  std::vector<int64_t> mark_of_;
  int64_t last_mark_ = 0;
};

TEST(Arena, NothingIsOverwrittenWhileItIsNeeded) {
  int64_t arena = 0, least = 0;
  for (uint32_t seed = 0; seed < 300 && !testing::Test::HasFailure(); ++seed) {
    const plan::Plan plan = RandomPlan(seed).make();
    plan::Bucket bucket{.max_tokens = 5, .max_outputs = 5};
    assign_arena(plan, true, bucket);
    EXPECT_GE(bucket.arena_bytes, bucket.lower_bound_bytes);
    EXPECT_LE(bucket.arena_bytes, bucket.sum_bytes);
    arena += bucket.arena_bytes;
    least += bucket.lower_bound_bytes;
    for (uint32_t way = 0; way < 4; ++way) Player(plan, bucket, way).play();
    EXPECT_FALSE(testing::Test::HasFailure()) << "seed " << seed << "\n" << plan::print(plan);
  }
  EXPECT_LE(arena, least * 11 / 10);  // the layout is good as well as right
}

TEST(Arena, WithoutReuseAllPlacesDiffer) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    const plan::Plan plan = RandomPlan(seed).make();
    plan::Bucket bucket{.max_tokens = 5, .max_outputs = 5};
    assign_arena(plan, false, bucket);
    EXPECT_EQ(bucket.arena_bytes, bucket.sum_bytes);
    Player(plan, bucket, seed).play();
  }
}

TEST(Arena, AskedTwiceItAnswersTheSame) {
  const plan::Plan plan = RandomPlan(3).make();
  plan::Bucket once{.max_tokens = 5, .max_outputs = 2};
  assign_arena(plan, true, once);
  plan::Bucket twice = once;
  assign_arena(plan, true, twice);
  EXPECT_EQ(once.offsets, twice.offsets);
  EXPECT_EQ(once.arena_bytes, twice.arena_bytes);
  EXPECT_EQ(once.sum_bytes, twice.sum_bytes);
}

}  // namespace
}  // namespace firstlight::compiler
