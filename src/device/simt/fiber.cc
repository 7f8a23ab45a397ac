// SPDX-License-Identifier: Apache-2.0
#include "device/simt/fiber.h"

#include <sys/mman.h>

#include <cstdint>

#include "base/check.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

// Saves the registers that a call must keep, stores the stack pointer in *rdi, goes on at rsi. A new stack is laid out
// so that the same pops fill r12 with the argument, r13 with the entry and return into fl_fiber_begin.
asm(R"(
.text
.p2align 4
.type fl_fiber_switch, @function
fl_fiber_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size fl_fiber_switch, .-fl_fiber_switch
.p2align 4
.type fl_fiber_begin, @function
fl_fiber_begin:
  movq %r12, %rdi
  xorl %ebp, %ebp
  callq *%r13
  ud2
.size fl_fiber_begin, .-fl_fiber_begin
)");

extern "C" void fl_fiber_switch(void** from, void* to);
extern "C" void fl_fiber_begin();

namespace firstlight::device {
namespace {

// Whom this host thread left last: the sanitizers tell on arrival what stack that was.
#if defined(__SANITIZE_ADDRESS__)
thread_local Fiber* left = nullptr;
#endif

void arrived([[maybe_unused]] Fiber& here) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(here.sanitizer, &left->stack_bottom, &left->stack_bytes);
#endif
}

struct Begin {
  void (*entry)(void*);
  void* argument;
  Fiber* fiber;
};

void begin(void* packed) {
  const Begin start = *static_cast<Begin*>(packed);
  arrived(*start.fiber);
  start.entry(start.argument);
}

}  // namespace

std::unique_ptr<FiberStack> FiberStack::make() {
  void* memory = mmap(nullptr, kPageBytes + kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  std::unique_ptr<FiberStack> stack(new FiberStack(static_cast<std::byte*>(memory)));
  return mprotect(memory, kPageBytes, PROT_NONE) == 0 ? std::move(stack) : nullptr;
}

FiberStack::~FiberStack() { munmap(base_, kPageBytes + kStackBytes); }

void start_fiber(Fiber& fiber, const FiberStack& stack, void (*entry)(void*), void* argument) {
  auto* packed = reinterpret_cast<Begin*>(stack.top() - 64);
  *packed = {entry, argument, &fiber};
  // From the lowest: r15 r14 r13 r12 rbx rbp, the address to return to. At fl_fiber_begin the stack is a multiple
  // of 16.
  auto** slots = reinterpret_cast<void**>(stack.top() - 64 - 16 - 7 * sizeof(void*));
  slots[0] = nullptr;
  slots[1] = nullptr;
  slots[2] = reinterpret_cast<void*>(&begin);
  slots[3] = packed;
  slots[4] = nullptr;
  slots[5] = nullptr;
  slots[6] = reinterpret_cast<void*>(&fl_fiber_begin);
  fiber.stack_pointer = slots;
  fiber.stack_bottom = stack.bottom();
  fiber.stack_bytes = FiberStack::kStackBytes;
  fiber.sanitizer = nullptr;
#if defined(__SANITIZE_THREAD__)
  fiber.sanitizer = __tsan_create_fiber(0);
#endif
}

void end_fiber([[maybe_unused]] Fiber& fiber) {
#if defined(__SANITIZE_THREAD__)
  if (fiber.sanitizer != nullptr) __tsan_destroy_fiber(fiber.sanitizer);
  fiber.sanitizer = nullptr;
#endif
}

void switch_fiber(Fiber& from, Fiber& to, [[maybe_unused]] bool ends) {
#if defined(__SANITIZE_ADDRESS__)
  left = &from;
  __sanitizer_start_switch_fiber(ends ? nullptr : &from.sanitizer, to.stack_bottom, to.stack_bytes);
#endif
#if defined(__SANITIZE_THREAD__)
  if (from.sanitizer == nullptr) from.sanitizer = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(to.sanitizer, 0);
#endif
  fl_fiber_switch(&from.stack_pointer, to.stack_pointer);
  arrived(from);
}

}  // namespace firstlight::device
