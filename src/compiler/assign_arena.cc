// SPDX-License-Identifier: Apache-2.0
// Places in the arena. Buffers are taken in an order, each to the lowest offset where it meets no other that is alive
// at the same time; the smallest result of a few orders is kept: by size (the greedy-by-size method of Pisarchyk and
// Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020), by size times lifetime, by first use.
#include <algorithm>
#include <array>
#include <functional>

#include "compiler/liveness.h"
#include "compiler/lower.h"

namespace firstlight::compiler {
namespace {

constexpr int64_t kAlignment = 64;

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// A buffer to place.
struct Item {
  plan::BufferId id = -1;
  int64_t bytes = 0;
  Lifetime life;
  int64_t offset = -1;
};

// Gives offsets in the order of `items`; the bytes that all take together.
int64_t place(std::vector<Item>& items, bool reuse) {
  std::vector<const Item*> placed;  // by ascending offset
  int64_t total = 0;
  for (Item& item : items) {
    int64_t offset = 0;
    for (const Item* other : placed) {
      if (reuse && !item.life.meets(other->life)) continue;
      if (offset + item.bytes <= other->offset) break;
      offset = std::max(offset, other->offset + other->bytes);
    }
    item.offset = offset;
    total = std::max(total, offset + item.bytes);
    const auto at =
        std::find_if(placed.begin(), placed.end(), [&](const Item* other) { return other->offset > offset; });
    placed.insert(at, &item);
  }
  return total;
}

// The most bytes alive at any one time.
int64_t most_alive(const std::vector<Item>& items) {
  std::vector<std::pair<int64_t, int64_t>> events;
  for (const Item& item : items) {
    events.emplace_back(item.life.begin, item.bytes);
    events.emplace_back(item.life.end + 1, -item.bytes);
  }
  std::sort(events.begin(), events.end());
  int64_t alive = 0, most = 0;
  for (const auto& [time, change] : events) {
    alive += change;
    most = std::max(most, alive);
  }
  return most;
}

bool by_size(const Item& a, const Item& b) { return a.bytes > b.bytes; }

bool by_area(const Item& a, const Item& b) {
  const auto area = [](const Item& item) {
    return static_cast<double>(item.bytes) * static_cast<double>(item.life.end - item.life.begin + 1);
  };
  return area(a) > area(b);
}

bool by_first_use(const Item& a, const Item& b) {
  return a.life.begin != b.life.begin ? a.life.begin < b.life.begin : a.bytes > b.bytes;
}

std::vector<Item> items_of(const plan::Plan& plan, plan::Bucket& bucket) {
  const Liveness live = find_liveness(plan);
  const tensor::SymbolValues values = bucket.largest_values();
  std::vector<int64_t> workspace = std::move(bucket.bytes);
  workspace.resize(plan.buffers.size(), 0);
  bucket.bytes.assign(plan.buffers.size(), 0);
  std::vector<Item> items;
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    const plan::Buffer& buffer = plan.buffers[i];
    const bool scratch = buffer.kind == plan::Buffer::Kind::kWorkspace;
    if ((buffer.kind != plan::Buffer::Kind::kArena && !scratch) || live.lifetimes[i].begin < 0) continue;
    bucket.bytes[i] = scratch ? workspace[i] : plan::buffer_bytes(buffer, values);
    items.push_back(
        {static_cast<plan::BufferId>(i), aligned(std::max<int64_t>(bucket.bytes[i], 1)), live.lifetimes[i]});
  }
  return items;
}

}  // namespace

void assign_arena(const plan::Plan& plan, bool reuse, plan::Bucket& bucket) {
  const std::vector<Item> items = items_of(plan, bucket);
  bucket.offsets.assign(plan.buffers.size(), -1);
  bucket.arena_bytes = bucket.sum_bytes = 0;
  bucket.lower_bound_bytes = most_alive(items);
  for (const Item& item : items) bucket.sum_bytes += item.bytes;
  constexpr std::array kOrders = {by_size, by_area, by_first_use};
  for (size_t i = 0; i < kOrders.size(); ++i) {
    std::vector<Item> ordered = items;
    std::stable_sort(ordered.begin(), ordered.end(), kOrders[i]);
    const int64_t bytes = place(ordered, reuse);
    if (i > 0 && bytes >= bucket.arena_bytes) continue;
    bucket.arena_bytes = bytes;
    for (const Item& item : ordered) bucket.offsets[static_cast<size_t>(item.id)] = item.offset;
    if (!reuse || bytes == bucket.lower_bound_bytes) break;
  }
}

}  // namespace firstlight::compiler
