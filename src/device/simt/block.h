// SPDX-License-Identifier: Apache-2.0
// Runs one block of a simt launch: each thread a fiber, all on the calling host thread. Threads run one after another
// until they reach a barrier or a warp operation; when all stand at the same one, all go on. A thread that ended or
// stands elsewhere is an error with the lines, never a wait for ever.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "device/dialect/simt.fl.h"
#include "device/simt/fiber.h"

namespace firstlight::device {

class BlockRunner {
 public:
  struct Shape {
    std::array<int32_t, 3> groups;
    std::array<int32_t, 3> block;
    int32_t warp;
    uint32_t local_bytes;    // of the device
    uint32_t dynamic_bytes;  // of the launch
    bool poison_local;       // fill local memory with NaN before each block
  };

  // Errors: kInvalidArgument with the kernel's fault, as a sentence; kOutOfMemory without stacks for its threads.
  Status run(const fl_simt_kernel& kernel, const fl_simt_argument* arguments, const Shape& shape,
             const std::array<int32_t, 3>& group);

 private:
  enum class Stop : uint8_t { kEnd, kBarrier, kExchange, kReduce };
  struct Thread {
    Fiber fiber;
    int stack = -1;
    Stop stop = Stop::kEnd;
    int operation = 0;
    int line = 0;
    uint32_t local_used = 0;
    bool started = false;
    bool ended = false;
  };

  static BlockRunner& of(fl_simt_block* block);
  static void barrier(fl_simt_block* block, int line);
  static uint32_t exchange(fl_simt_block* block, int line, uint32_t value, int lane);
  static float reduce(fl_simt_block* block, int line, int operation, float value);
  static void fault(fl_simt_block* block, const char* what, int64_t at, int64_t limit);
  static void enter(void* self);

  void begin(const Shape& shape, const std::array<int32_t, 3>& group);
  void resume(int32_t index);
  Status start(int32_t index);
  void stop(Stop kind, int operation, int line);
  // One turn of all threads. False: every thread has ended, or there was a fault.
  bool turn();
  Status check_meeting(int32_t num_ended) const;
  void reduce_warps();

  struct Header {  // `block` first, so that a pointer to it is one to this
    fl_simt_block block;
    BlockRunner* runner;
  };
  Header header_ = {};
  const fl_simt_kernel* kernel_ = nullptr;
  const fl_simt_argument* arguments_ = nullptr;
  Fiber host_;
  std::vector<Thread> threads_;
  std::vector<std::unique_ptr<FiberStack>> stacks_;
  std::vector<int> free_stacks_;
  std::vector<unsigned char> local_;
  std::array<std::vector<uint32_t>, 2> slots_;  // of alternate turns, so that one meeting per warp operation is enough
  std::vector<float> reduced_;
  int side_ = 0;
  Status fault_;
};

}  // namespace firstlight::device
