// SPDX-License-Identifier: Apache-2.0
#include "gates/golden_text.h"

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <string_view>

namespace firstlight::gates {
namespace {

constexpr std::string_view kParts[] = {
    R"(The harbour master kept two clocks. One showed the time of the town, the other the time of the sea, and they agreed
only when the tide stood still. On the morning of the fourth of March the second clock stopped at twelve minutes past
six. He wound it, he opened the back and blew into it, he set it by the first; after an hour it had stopped again, at
the same place. "Then it is right," he said to the boy who carried the lamps, "and we are late." They went down to the
quay together. Seven boats had left in the night. Six of them lay at their rings, wet and quiet, as if they had never
moved, and of the seventh there was a rope, cut clean.
)",
    R"(def largest_gap(numbers: list[int]) -> int:
    """The widest distance between neighbours, once the list is sorted."""
    ordered = sorted(numbers)
    if len(ordered) < 2:
        return 0
    return max(b - a for a, b in zip(ordered, ordered[1:]))

assert largest_gap([7, 1, 4, 20]) == 13
for (int i = 0; i < 10; ++i) { total += values[i] * 0.5; }  // half of each
)",
    R"(Three things are needed to bake a plain loaf: 500 g of flour, 320 ml of water at about 27 degrees, and 9 g of salt.
The yeast is a matter of patience: 2 g will do overnight, 10 g in two hours. Fold the dough 4 times, 30 minutes apart.
Bake 20 minutes at 240, then 25 minutes at 200. A loaf that sounds hollow when you knock on it is done; one that does
not needs 5 minutes more. Per slice (40 g): 95 kcal, 3.1 g protein, 0.4 g fat, 19.5 g carbohydrate.
)",
    R"(Der Fluss ist hier so breit, dass man das andere Ufer nur an hellen Tagen sieht. La rivière, elle, ne se presse pas.
El puente se construyó en 1893 y nadie recuerda quién lo pagó. Мост стоит до сих пор. 桥下的水很慢，鱼很多。 橋の上で風が強い。
والجسر طويل. The bridge is 412.7 m long; its twin, 18 km upstream, only 96.
)",
    R"(| planet | radius km | day h | moons |
|---|---|---|---|
| Mercury | 2439.7 | 4222.6 | 0 |
| Earth | 6371.0 | 24.0 | 1 |
| Mars | 3389.5 | 24.7 | 2 |
| Jupiter | 69911 | 9.9 | 95 |
Q: Which of these has the shortest day? A: Jupiter. Q: And the longest? A: Mercury, whose day lasts 176 of ours.
)",
    R"(A proof by contradiction begins by supposing what it wants to destroy. Let p be the largest prime. Multiply all primes
up to p and add one: the result leaves the remainder 1 whichever of them divides it, so none of them does. Either it is
prime itself, or some prime beyond p divides it. In both cases p was not the largest, and since p was any prime we liked,
there is no largest one. What is pleasant about this argument is how little it needs: that every number above one has a
prime that divides it, and that a number and the next have nothing in common.
)"};

constexpr size_t kNumParts = std::size(kParts);

// The whole text once, beginning with another part and taking them in another stride each time.
std::string round_of_text(size_t round) {
  std::string text;
  const size_t stride = round % 2 == 0 ? 1 : kNumParts - 1;  // both prime to the number of parts
  for (size_t i = 0; i < kNumParts; ++i) text += kParts[(round + i * stride) % kNumParts];
  return text;
}

std::vector<int32_t> seeded_tokens(int64_t vocabulary, int64_t length) {
  std::mt19937 random(20);
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < length; ++i)
    ids.push_back(static_cast<int32_t>(random() % static_cast<uint32_t>(std::max<int64_t>(vocabulary, 1))));
  return ids;
}

}  // namespace

std::vector<int32_t> golden_tokens(const adapt::TextAssets& assets, int64_t vocabulary, int64_t length) {
  if (!assets.tokenizer) return seeded_tokens(vocabulary, length);
  std::string text;
  for (size_t round = 0;; ++round) {
    text += round_of_text(round);
    auto ids = assets.tokenizer->encode(text);
    const bool usable = ids.ok() && !ids->empty() &&
                        std::all_of(ids->begin(), ids->end(), [&](int32_t id) { return id >= 0 && id < vocabulary; });
    if (!usable) return seeded_tokens(vocabulary, length);
    if (static_cast<int64_t>(ids->size()) < length) continue;
    ids->resize(static_cast<size_t>(length));
    return std::move(*ids);
  }
}

std::vector<int64_t> positions_to_check(int64_t length, std::span<const Horizon> horizons, int64_t most) {
  constexpr int64_t kAround = 3, kLast = 16;
  std::set<int64_t> chosen;
  const auto add = [&](int64_t first, int64_t end) {
    for (int64_t at = std::max<int64_t>(0, first); at < std::min(end, length); ++at) {
      if (static_cast<int64_t>(chosen.size()) < most) chosen.insert(at);
    }
  };
  add(length - kLast, length);
  for (const Horizon& horizon : horizons) add(horizon.length - kAround, horizon.length + kAround);
  const int64_t left = most - static_cast<int64_t>(chosen.size());
  if (length <= most) {
    add(0, length);
  } else {
    for (int64_t i = 0; i < left; ++i) add(i * length / left, i * length / left + 1);
  }
  return {chosen.begin(), chosen.end()};
}

}  // namespace firstlight::gates
