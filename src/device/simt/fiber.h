// SPDX-License-Identifier: Apache-2.0
// Switching between stacks on one host thread: what the threads of a simt block are made of. Written for x86-64, the
// floor of this project; the sanitizers are told about every switch.
#pragma once

#include <cstddef>
#include <memory>

namespace firstlight::device {

// A stack with an unmapped page below it, so that running over its end is a fault and not silent.
class FiberStack {
 public:
  // Null where the system gives no memory.
  static std::unique_ptr<FiberStack> make();
  ~FiberStack();
  FiberStack(const FiberStack&) = delete;
  FiberStack& operator=(const FiberStack&) = delete;

  std::byte* top() const { return base_ + kPageBytes + kStackBytes; }
  std::byte* bottom() const { return base_ + kPageBytes; }

  static constexpr size_t kPageBytes = 4096;
  static constexpr size_t kStackBytes = 128 << 10;

 private:
  explicit FiberStack(std::byte* base) : base_(base) {}
  std::byte* base_;
};

// A place to continue at. A host thread's own place is one as well, filled when it is left.
struct Fiber {
  void* stack_pointer = nullptr;
  const void* stack_bottom = nullptr;  // for the sanitizers
  size_t stack_bytes = 0;
  void* sanitizer = nullptr;
};

// Lets `fiber` begin in `entry(argument)` on `stack` at the next switch to it. `entry` must never return.
void start_fiber(Fiber& fiber, const FiberStack& stack, void (*entry)(void*), void* argument);

// After its last switch, by somebody else.
void end_fiber(Fiber& fiber);

// Goes on at `to`; returns when somebody switches back to `from`. `ends`: `from` will never be continued.
void switch_fiber(Fiber& from, Fiber& to, bool ends = false);

}  // namespace firstlight::device
