// SPDX-License-Identifier: Apache-2.0
// A decode step takes no memory from the heap: neither the executor nor the kernels on any worker, nor the cache's
// views of its pages, nor the engine around them with its schedule and its greedy choice. New pages of state, which
// come once in many steps, lie outside of what is counted.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <limits>
#include <new>

#include "adapt/bring_up.h"
#include "engine/engine.h"
#include "kv/state_cache.h"

namespace {

std::atomic<bool> counting{false};
std::atomic<int64_t> allocations{0};

void* take(std::size_t bytes, std::size_t alignment) {
  if (counting.load(std::memory_order_relaxed)) ++allocations;
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* memory = alignment <= alignof(std::max_align_t) ? std::malloc(bytes) : std::aligned_alloc(alignment, rounded);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t bytes) { return take(bytes, alignof(std::max_align_t)); }
void* operator new[](std::size_t bytes) { return take(bytes, alignof(std::max_align_t)); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return take(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace firstlight {
namespace {

// The fewest allocations of six decode steps in a row, of 32, by so many sequences: a thread of the pool that was left
// out at first, as others took its core, warms up later; what each step took would be in all of them.
int64_t count_steps(const std::string& model, int num_sequences, catalog::ComputeMode mode) {
  adapt::BringUpOptions options;
  options.backend = catalog::Backend::kCpu;
  options.num_threads = 2;
  options.compute = mode;
  options.generated = runtime::GeneratedMode::kOff;
  options.buckets = {{16, 16}};
  auto loaded = adapt::bring_up(std::string(FL_SOURCE_DIR) + "/tests/golden/data/" + model, options);
  EXPECT_TRUE(loaded.ok()) << loaded.status().message();
  if (!loaded.ok()) return -1;
  runtime::Executor& executor = *(*loaded)->executor;
  auto cache = kv::StateCache::create(executor.plan().states, {});
  EXPECT_TRUE(cache.ok());
  std::vector<kv::SequenceId> ids;
  for (int i = 0; i < num_sequences; ++i) ids.push_back(cache->add_sequence());
  std::vector<int32_t> tokens(ids.size(), 3), positions(ids.size()), rows(ids.size());
  std::vector<plan::SequenceSpan> spans(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) rows[i] = static_cast<int32_t>(i);
  int64_t fewest = std::numeric_limits<int64_t>::max();
  for (int step = 0; step < 32; ++step) {
    if (step % 6 == 2) {
      const int64_t found = allocations.exchange(0);
      if (step > 8) fewest = std::min(fewest, found);
    }
    for (size_t i = 0; i < ids.size(); ++i) {
      EXPECT_TRUE(cache->extend(ids[i], step + 1).ok());
      positions[i] = step;
      spans[i] = {.first_row = static_cast<int64_t>(i), .num_tokens = 1, .start_position = step, .planned_length = 40};
    }
    counting = true;
    const Status status = executor.run(
        {.tokens = tokens, .positions = positions, .output_rows = rows, .sequences = spans}, cache->views(ids));
    counting = false;
    EXPECT_TRUE(status.ok()) << status.message();
  }
  return fewest;
}

TEST(Allocations, ADecodeStepTakesNoMemory) {
  for (const char* model : {"llama", "qwen3", "gemma3", "gpt_neox_japanese"}) {
    for (const auto mode : {catalog::ComputeMode::kF32, catalog::ComputeMode::kBf16}) {
      EXPECT_EQ(count_steps(model, 1, mode), 0) << model;
      EXPECT_EQ(count_steps(model, 4, mode), 0) << model;
    }
  }
}

// The fewest allocations of eight steps of the engine in a row, with so many greedy requests under way.
int64_t count_engine_steps(int num_requests) {
  adapt::BringUpOptions options;
  options.backend = catalog::Backend::kCpu;
  options.num_threads = 2;
  options.generated = runtime::GeneratedMode::kOff;
  options.buckets = {{16, 16}, {64, 16}};
  auto loaded = adapt::bring_up(std::string(FL_SOURCE_DIR) + "/tests/golden/data/qwen3", options);
  EXPECT_TRUE(loaded.ok()) << loaded.status().message();
  if (!loaded.ok()) return -1;
  Metrics metrics;
  auto engine = engine::Engine::create(*(*loaded)->executor, {.max_context = 128}, engine::EngineMetrics::in(metrics));
  EXPECT_TRUE(engine.ok());
  int64_t tokens = 0;
  for (int i = 0; i < num_requests; ++i) {
    request::Request request;
    for (int t = 0; t < 20; ++t) request.prompt.push_back(1 + (t * 7 + i) % 50);
    request.max_tokens = 100;
    request.ignore_model_stops = true;
    request.sampling.temperature = 0;
    EXPECT_TRUE((*engine)->submit(std::move(request), [&](const request::TokenEvent&) { ++tokens; }).ok());
  }
  int64_t fewest = std::numeric_limits<int64_t>::max();
  for (int step = 0; step < 90; ++step) {
    if (step % 8 == 0) {
      const int64_t found = allocations.exchange(0);
      if (step > 16) fewest = std::min(fewest, found);
    }
    counting = true;
    (*engine)->step();
    counting = false;
  }
  (*engine)->run_until_idle();
  EXPECT_EQ(tokens, 100 * num_requests);
  return fewest;
}

TEST(Allocations, AStepOfTheEngineTakesNoMemory) {
  EXPECT_EQ(count_engine_steps(1), 0);
  EXPECT_EQ(count_engine_steps(4), 0);
}

}  // namespace
}  // namespace firstlight
