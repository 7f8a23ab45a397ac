// SPDX-License-Identifier: Apache-2.0
// What a step of work mostly waits for. Plans label their steps with it, timers add up by it (base/trace.h).
#pragma once

#include <cstdint>
#include <string_view>

namespace firstlight {

enum class StepClass : uint8_t {
  kCompute,        // arithmetic on data that is where it is needed
  kMemory,         // moving, converting or clearing data within the machine
  kCommunication,  // between ranks
  kIo,             // files and network
};
inline constexpr int kNumStepClasses = 4;

std::string_view step_class_name(StepClass step_class);  // "compute", "memory", "communication", "io"

}  // namespace firstlight
