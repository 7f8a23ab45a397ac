// SPDX-License-Identifier: Apache-2.0
#include "planner/memory.h"

#include <gtest/gtest.h>

namespace firstlight::planner {
namespace {

using plan::Buffer;
using tensor::DType;

constexpr int64_t kPage = 128 * 8 * 2;  // 128 rows of 8 halves

// A table read in place, a weight made through a temporary, an activation, a work space; a log, a window, a fixed
// state.
plan::Plan small_plan() {
  plan::Plan plan;
  plan.buffers = {
      {.kind = Buffer::Kind::kFile, .type = tensor::Type::tensor(DType::kF32, {64, 32}), .name = "table"},
      {.kind = Buffer::Kind::kFile, .type = tensor::Type::tensor(DType::kF32, {32, 16}), .name = "raw"},
      {.kind = Buffer::Kind::kTemporary, .type = tensor::Type::tensor(DType::kF32, {32, 16})},
      {.kind = Buffer::Kind::kResident, .type = tensor::Type::tensor(DType::kF32, {32, 16}), .packed_bytes = 1000},
      {.kind = Buffer::Kind::kArena, .type = tensor::Type::tensor(DType::kF32, {8, 100}), .name = "logits"},
      {.kind = Buffer::Kind::kWorkspace, .type = {}}};
  plan.load_steps.push_back({.body = plan::KernelStep{.symbol = "a", .inputs = {1}, .outputs = {2}}});
  plan.load_steps.push_back({.body = plan::KernelStep{.symbol = "b", .inputs = {2}, .outputs = {3}}});
  plan.body.steps.push_back(
      {.body = plan::KernelStep{.symbol = "c", .inputs = {0, 3}, .outputs = {4}, .workspace = 5}});
  plan.outputs = {{"logits", 4}};
  plan.buckets.push_back({.max_tokens = 64, .max_outputs = 8, .bytes = {0, 0, 0, 0, 3200, 700}, .arena_bytes = 3904});
  const std::vector<ops::StateComponent> rows = {{"k", 1, 8, DType::kF16}};
  plan.states = {{.name = "a", .kind = ops::StateKind::kAppendLog, .components = rows},
                 {.name = "w", .kind = ops::StateKind::kWindowLog, .window = 200, .components = rows},
                 {.name = "f", .kind = ops::StateKind::kFixed, .components = {{"s", 1, 16, DType::kF32}}}};
  return plan;
}

MemoryModel model_of(const plan::Plan& plan, MemoryModelOptions options = {}) {
  return MemoryModel::create(plan, nullptr, options).value();
}

TEST(MemoryModel, CountsWhatThePlanNames) {
  const MemoryNeeds needs = model_of(small_plan(), {.program_bytes = 5000}).needs({.context = 1000, .sequences = 2});
  EXPECT_EQ(needs.weights, 64 * 32 * 4 + 1000) << "the file that nothing reads when running is not counted";
  EXPECT_EQ(needs.loading, 32 * 16 * 4) << "the temporary beside the weight made of it";
  EXPECT_EQ(needs.workspace, 700);
  EXPECT_EQ(needs.activations, 3904 - 700);
  EXPECT_EQ(needs.state_by_kind.at("append"), 2 * 8 * kPage);
  EXPECT_EQ(needs.state_by_kind.at("window"), 2 * 4 * kPage) << "199 rows and a step of 64 lie in 4 pages at most";
  EXPECT_EQ(needs.state_by_kind.at("fixed"), 2 * 64);
  EXPECT_EQ(needs.state, 2 * (12 * kPage + 64));
  EXPECT_EQ(needs.total(),
            needs.program + needs.weights + needs.state + needs.activations + needs.workspace + needs.sampling);
  const MemoryNeeds device = model_of(small_plan(), {.is_device = true}).needs({});
  EXPECT_EQ(device.loading, 0);
}

TEST(MemoryModel, GrowsWithContextAndSequences) {
  const MemoryModel model = model_of(small_plan());
  for (int64_t context = 1; context < 3000; context += 37) {
    for (const int64_t sequences : {1, 2, 7}) {
      const int64_t here = model.needs({context, sequences}).total();
      EXPECT_LE(here, model.needs({context + 37, sequences}).total());
      EXPECT_LT(here, model.needs({context, sequences + 1}).total());
    }
  }
}

TEST(MemoryModel, TheLongestContextIsTheLongest) {
  const MemoryModel model = model_of(small_plan());
  int64_t before = 0;
  for (int64_t usable = 0; usable < 200'000; usable += 1111) {
    const int64_t longest = model.largest_context(usable, 2, 1 << 20);
    EXPECT_GE(longest, before) << "more memory, no shorter context";
    before = longest;
    EXPECT_TRUE(longest == 0 || model.needs({longest, 2}).total() <= usable);
    EXPECT_GT(model.needs({longest + 1, 2}).total(), usable);
    EXPECT_LE(model.largest_context(usable, 3, 1 << 20), longest);
  }
  EXPECT_GT(before, 0);
  EXPECT_EQ(model.largest_context(1 << 30, 1, 77), 77) << "never beyond what was asked";
  EXPECT_EQ(model.largest_context(10, 1), 0) << "the weights alone are too much";
}

TEST(MemoryModel, RoomForStatesAlone) {
  const std::vector<plan::StatePages> states = {plan::pages_of(small_plan().states[0], 128).value()};
  EXPECT_EQ(largest_context(states, 3 * kPage, 1, 64), 3 * 128);
  EXPECT_EQ(largest_context(states, 3 * kPage - 1, 1, 64), 2 * 128);
  EXPECT_EQ(largest_context(states, 3 * kPage, 3, 64), 128);
  EXPECT_EQ(largest_context({}, 0, 1, 64, 99), 99) << "without state nothing grows";
}

TEST(MemoryLimit, TheHeadroomStaysFree) {
  EXPECT_EQ((MemoryLimit{.memory = 1000, .available = 950}.usable()), 800);
  EXPECT_EQ((MemoryLimit{.memory = 1000, .available = 300}.usable()), 300) << "what others have taken is gone";
}

}  // namespace
}  // namespace firstlight::planner
