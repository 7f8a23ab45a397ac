// SPDX-License-Identifier: Apache-2.0
#include "cli/context.h"

#include <algorithm>

#include "device/cpu/detect.h"
#include "engine/engine.h"
#include "planner/memory.h"

namespace firstlight::cli {
namespace {

// What is left for states beside the model: of all memory, and of what is free. Of files that are mapped, none may be
// in memory yet.
struct Room {
  int64_t all = 0, free = 0;
};

Room room_of(const adapt::LoadedModel& loaded) {
  runtime::MemoryUse use = loaded.executor->memory();
  if (loaded.predictor) {  // its weights that are mapped are the file's, and the model's beside
    use.resident_bytes += loaded.predictor->memory().resident_bytes;
    use.arena_bytes += loaded.predictor->memory().arena_bytes;
    use.workspace_bytes += loaded.predictor->memory().workspace_bytes;
    use.mapped_bytes += loaded.predictor->memory().mapped_bytes;
  }
  planner::MemoryLimit limit;
  int64_t taken = use.resident_bytes + use.arena_bytes + use.workspace_bytes;
  int64_t coming = 0;
  if (loaded.device != nullptr) {
    limit.memory = loaded.device->target().global_bytes;
    limit.available = loaded.device->available_bytes();
  } else {
    const target::CpuTarget cpu = device::detect_cpu();
    limit.memory = cpu.memory_bytes;
    limit.available = cpu.available_bytes;
    coming = use.mapped_bytes;
  }
  return {.all = limit.memory - taken - coming,
          .free = std::min(limit.memory - limit.headroom_bytes() - taken, limit.available) - coming};
}

}  // namespace

Result<ContextChoice> choose_context(const adapt::LoadedModel& loaded, const ContextWish& wish) {
  const std::optional<int64_t> declared = loaded.model.max_positions;
  const std::string flag = "--context " + std::to_string(wish.context);
  if (declared && wish.context > *declared) {
    return invalid_argument(flag + ": the model knows " + std::to_string(*declared) + " positions");
  }
  std::vector<plan::StatePages> states;
  for (const ops::StateDecl& decl : loaded.states()) {
    states.push_back(FL_TRY(plan::pages_of(decl, engine::EngineOptions().page_rows)));
  }
  const int64_t most_tokens = loaded.executor->max_batch_tokens();
  const int64_t step = wish.step_tokens > 0 ? std::min(wish.step_tokens, most_tokens) : most_tokens;
  const auto state_of = [&](int64_t context) {
    int64_t bytes = 0;
    for (const plan::StatePages& state : states) bytes += state.bytes_for(context, step);
    return std::to_string(bytes);
  };
  const Room memory = room_of(loaded);
  const int64_t swap = loaded.device == nullptr ? wish.swap_bytes : 0;  // a device has memory of its own
  if (const int64_t wanted = wish.state_bytes + swap; wanted > 0 && wanted > memory.all) {
    return invalid_argument("--state-bytes and --swap-memory: " + std::to_string(wanted) + " bytes, there are " +
                            std::to_string(memory.all) + " of memory beside the model");
  }
  ContextChoice choice;
  choice.state_bytes = wish.state_bytes > 0 ? wish.state_bytes : memory.free - swap;
  const int64_t most = std::min(declared.value_or(planner::kLongestContext), planner::kLongestContext);
  choice.largest = planner::largest_context(states, choice.state_bytes, 1, step, most);
  const std::string room = std::to_string(std::max<int64_t>(0, choice.state_bytes));
  if ((choice.largest < 1 || choice.state_bytes < 1) && wish.state_bytes > 0) {
    return invalid_argument("--state-bytes " + room + ": the state of one token needs " + state_of(1) + " bytes");
  }
  if (choice.largest < 1 || choice.state_bytes < 1) {
    return out_of_memory("the state of one token needs " + state_of(1) + " bytes, " + room +
                         " are available beside the model");
  }
  const int64_t model = loaded.context();
  choice.context = wish.context > 0 ? wish.context : std::min(model, choice.largest);
  if (choice.context > choice.largest) {
    return invalid_argument(flag + ": its state needs " + state_of(choice.context) + " bytes, " + room +
                            " are available; the longest context that fits: " + std::to_string(choice.largest));
  }
  if (choice.context < model && wish.context == 0) {
    choice.note = "a context of " + std::to_string(choice.context) + ": the state of the model's " +
                  std::to_string(model) + " needs " + state_of(model) + " bytes, " + room + " are available";
  }
  return choice;
}

}  // namespace firstlight::cli
