// SPDX-License-Identifier: Apache-2.0
// The watch over the arena: what is planned is what a run uses, byte for byte. Before a step everything but its results
// and its workspace is hashed, and results are filled with a pattern that is no number; after it the hash must be the
// same. A kernel that writes past its result or uses more scratch than planned shows at once, and one that leaves a
// part unwritten gives NaN.
#include <algorithm>
#include <cstring>

#include "runtime/executor_internal.h"

namespace firstlight::runtime {
namespace {

constexpr int kNoNumber = 0xff;  // four or two of them make a NaN

// Fowler, Noll, Vo's FNV-1a over eight bytes at a time.
uint64_t hashed(uint64_t hash, std::span<const std::byte> bytes) {
  size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, 8);
    hash = (hash ^ word) * 0x100000001b3u;
  }
  for (; i < bytes.size(); ++i) hash = (hash ^ static_cast<uint64_t>(bytes[i])) * 0x100000001b3u;
  return hash;
}

}  // namespace

void Executor::MemoryCheck::before(std::vector<Range> ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  open = std::move(ranges);
  kept = hash_closed();
  for (const Range& range : open) {
    if (!range.is_result) continue;
    std::memset(arena.data() + range.begin, kNoNumber, static_cast<size_t>(range.end - range.begin));
  }
}

void Executor::MemoryCheck::after(const std::string& label) {
  if (hash_closed() == kept || !fault.empty()) return;
  fault = label + " wrote into the arena beside its results and its workspace";
}

uint64_t Executor::MemoryCheck::hash_closed() const {
  uint64_t hash = 0xcbf29ce484222325u;
  int64_t at = 0;
  for (const Range& range : open) {
    if (range.begin > at) {
      hash = hashed(hash, arena.subspan(static_cast<size_t>(at), static_cast<size_t>(range.begin - at)));
    }
    at = std::max(at, range.end);
  }
  return hashed(hash, arena.subspan(static_cast<size_t>(at)));
}

// Opens the places that the step may write: its results at their sizes in this run, its workspace as planned.
void Executor::watch(const plan::KernelStep& step, const Context& context) {
  std::vector<MemoryCheck::Range> ranges;
  const auto below = [&](plan::BufferId id) {
    while (id >= 0 && plan_.buffer(id).kind == plan::Buffer::Kind::kAlias) id = plan_.buffer(id).alias_of;
    return id;
  };
  for (const plan::BufferId id : step.outputs) {
    const plan::BufferId place = below(id);
    if (plan_.buffer(place).kind != plan::Buffer::Kind::kArena) continue;
    const bool in_place = std::any_of(step.inputs.begin(), step.inputs.end(),
                                      [&](plan::BufferId input) { return below(input) == place; });
    const int64_t begin = place_in_arena(place, context);
    const int64_t bytes = tensor::size_bytes(plan_.buffer(id).type, context.values);
    ranges.push_back({begin, begin + bytes, !in_place});
  }
  if (step.workspace >= 0) {
    const auto at = static_cast<size_t>(step.workspace);
    ranges.push_back({context.bucket->offsets[at], context.bucket->offsets[at] + context.bucket->bytes[at], false});
  }
  memory_check_->before(std::move(ranges));
}

}  // namespace firstlight::runtime
