// SPDX-License-Identifier: Apache-2.0
#include "device/simt/block.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace firstlight::device {
namespace {

std::string place(const fl_simt_block& block) {
  const auto triple = [](const int32_t* v) {
    return std::to_string(v[0]) + "," + std::to_string(v[1]) + "," + std::to_string(v[2]);
  };
  return "block " + triple(block.group) + " thread " + triple(block.local);
}

}  // namespace

BlockRunner& BlockRunner::of(fl_simt_block* block) { return *reinterpret_cast<Header*>(block)->runner; }

void BlockRunner::barrier(fl_simt_block* block, int line) { of(block).stop(Stop::kBarrier, 0, line); }

uint32_t BlockRunner::exchange(fl_simt_block* block, int line, uint32_t value, int lane) {
  BlockRunner& self = of(block);
  const int32_t thread = block->thread;
  const int side = self.side_;
  self.slots_[side][thread] = value;
  self.stop(Stop::kExchange, 0, line);
  const int32_t source = (thread & ~(block->warp - 1)) + (lane & (block->warp - 1));
  return self.slots_[side][source];
}

float BlockRunner::reduce(fl_simt_block* block, int line, int operation, float value) {
  BlockRunner& self = of(block);
  const int32_t thread = block->thread;
  self.slots_[self.side_][thread] = std::bit_cast<uint32_t>(value);
  self.stop(Stop::kReduce, operation, line);
  return self.reduced_[thread / block->warp];
}

void BlockRunner::fault(fl_simt_block* block, const char* what, int64_t at, int64_t limit) {
  BlockRunner& self = of(block);
  if (self.fault_.ok()) {
    std::string message = "kernel '" + std::string(self.kernel_->name) + "': " + what + ": " + std::to_string(at);
    if (limit > 0) message += " of " + std::to_string(limit) + " bytes";
    self.fault_ = invalid_argument(message + " (" + place(*block) + ")");
  }
  switch_fiber(self.threads_[block->thread].fiber, self.host_, true);
  __builtin_unreachable();
}

void BlockRunner::enter(void* packed) {
  auto& self = *static_cast<BlockRunner*>(packed);
  self.kernel_->run(&self.header_.block, self.arguments_);
  Thread& thread = self.threads_[self.header_.block.thread];
  thread.ended = true;
  thread.stop = Stop::kEnd;
  switch_fiber(thread.fiber, self.host_, true);
  __builtin_unreachable();
}

void BlockRunner::stop(Stop kind, int operation, int line) {
  Thread& thread = threads_[header_.block.thread];
  thread.stop = kind;
  thread.operation = operation;
  thread.line = line;
  switch_fiber(thread.fiber, host_);
}

Status BlockRunner::start(int32_t index) {
  Thread& thread = threads_[index];
  if (free_stacks_.empty()) {
    auto stack = FiberStack::make();
    if (stack == nullptr) {
      return out_of_memory("a stack of " + std::to_string(FiberStack::kStackBytes) + " bytes for a thread of kernel '" +
                           kernel_->name + "' (as many as " + std::to_string(threads_.size()) +
                           " are needed on each thread of the host) could not be had: a limit of this process");
    }
    stacks_.push_back(std::move(stack));
    free_stacks_.push_back(static_cast<int>(stacks_.size()) - 1);
  }
  thread.stack = free_stacks_.back();
  free_stacks_.pop_back();
  start_fiber(thread.fiber, *stacks_[thread.stack], enter, this);
  thread.started = true;
  return ok_status();
}

void BlockRunner::resume(int32_t index) {
  fl_simt_block& block = header_.block;
  Thread& thread = threads_[index];
  if (!thread.started) fault_ = start(index);
  if (!fault_.ok()) return;
  block.thread = index;
  block.local[0] = index % block.block[0];
  block.local[1] = index / block.block[0] % block.block[1];
  block.local[2] = index / block.block[0] / block.block[1];
  block.local_used = &thread.local_used;
  switch_fiber(host_, thread.fiber);
  if (thread.ended || !fault_.ok()) {
    free_stacks_.push_back(thread.stack);
    thread.stack = -1;
  }
}

Status BlockRunner::check_meeting(int32_t num_ended) const {
  const Thread* first = nullptr;
  for (const Thread& thread : threads_) {
    if (thread.ended) continue;
    if (first == nullptr) first = &thread;
    if (thread.line != first->line || thread.stop != first->stop) {
      return invalid_argument("kernel '" + std::string(kernel_->name) + "': threads of one block wait in line " +
                              std::to_string(first->line) + " and in line " + std::to_string(thread.line) +
                              "; every thread must reach the same barrier or warp operation");
    }
  }
  if (num_ended > 0) {
    return invalid_argument("kernel '" + std::string(kernel_->name) + "': " + std::to_string(num_ended) + " of " +
                            std::to_string(threads_.size()) + " threads ended without reaching the barrier or warp " +
                            "operation in line " + std::to_string(first->line));
  }
  return ok_status();
}

// The pairs of a butterfly: lane i and i + s for s = warp/2, warp/4, ..., 1.
void BlockRunner::reduce_warps() {
  const int32_t warp = header_.block.warp;
  std::array<float, 128> values;
  for (size_t w = 0; w < reduced_.size(); ++w) {
    for (int32_t i = 0; i < warp; ++i) values[i] = std::bit_cast<float>(slots_[side_][w * warp + i]);
    for (int32_t s = warp / 2; s > 0; s /= 2) {
      for (int32_t i = 0; i < s; ++i) {
        const float a = values[i];
        const float b = values[i + s];
        values[i] = threads_[0].operation == 0 ? a + b : (a > b || std::isnan(a)) ? a : b;
      }
    }
    reduced_[w] = values[0];
  }
}

bool BlockRunner::turn() {
  const auto count = static_cast<int32_t>(threads_.size());
  int32_t num_ended = 0;
  for (int32_t i = 0; i < count; ++i) {
    if (!threads_[i].ended) resume(i);
    if (!fault_.ok()) return false;
    num_ended += threads_[i].ended ? 1 : 0;
  }
  if (num_ended == count) return false;
  fault_ = check_meeting(num_ended);
  if (!fault_.ok()) return false;
  if (threads_[0].stop == Stop::kReduce) reduce_warps();
  side_ ^= 1;
  return true;
}

void BlockRunner::begin(const Shape& shape, const std::array<int32_t, 3>& group) {
  fl_simt_block& block = header_.block;
  header_.runner = this;
  std::copy(group.begin(), group.end(), block.group);
  std::copy(shape.groups.begin(), shape.groups.end(), block.groups);
  std::copy(shape.block.begin(), shape.block.end(), block.block);
  block.threads = shape.block[0] * shape.block[1] * shape.block[2];
  block.warp = shape.warp;
  local_.resize(shape.local_bytes);
  block.local_memory = local_.data();
  block.local_bytes = shape.local_bytes;
  block.dynamic_bytes = shape.dynamic_bytes;
  block.barrier = barrier;
  block.exchange = exchange;
  block.reduce = reduce;
  block.fault = fault;
  if (shape.poison_local) std::memset(local_.data(), 0xff, local_.size());
  threads_.assign(block.threads, Thread{});
  for (Thread& thread : threads_) thread.local_used = (shape.dynamic_bytes + 15) / 16 * 16;
  for (auto& side : slots_) side.resize(block.threads);
  reduced_.resize(block.threads / shape.warp);
  side_ = 0;
  fault_ = ok_status();
}

Status BlockRunner::run(const fl_simt_kernel& kernel, const fl_simt_argument* arguments, const Shape& shape,
                        const std::array<int32_t, 3>& group) {
  kernel_ = &kernel;
  arguments_ = arguments;
  begin(shape, group);
  while (turn()) {
  }
  for (Thread& thread : threads_) end_fiber(thread.fiber);
  free_stacks_.clear();  // after a fault some threads are left where they stood
  for (int i = static_cast<int>(stacks_.size()) - 1; i >= 0; --i) free_stacks_.push_back(i);
  return fault_;
}

}  // namespace firstlight::device
