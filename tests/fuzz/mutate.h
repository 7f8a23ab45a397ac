// SPDX-License-Identifier: Apache-2.0
// Small deterministic mutations of a seed, for the replay of fuzz targets in the ordinary test run. They are those that
// find most faults of readers: flipped bits, extreme numbers where a length may stand, cuts, splices and repeated
// pieces. The same seed number gives the same bytes on every machine.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace firstlight::fuzz {

using Bytes = std::vector<uint8_t>;

// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014).
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  size_t below(size_t limit) { return limit == 0 ? 0 : static_cast<size_t>(next() % limit); }

 private:
  uint64_t state_;
};

// Overwrites 1, 2, 4 or 8 bytes with a number that a careless length check mistakes.
inline void put_extreme_number(Bytes& bytes, Random& random) {
  constexpr std::array<uint64_t, 8> kNumbers = {0,           1, 0x7f, 0xff, 0x7fffffff, 0xffffffff, 0x7fffffffffffffff,
                                                ~uint64_t{0}};
  const uint64_t number = kNumbers[random.below(kNumbers.size())];
  const size_t width = size_t{1} << random.below(4);
  const size_t at = random.below(bytes.size());
  for (size_t i = 0; i < width && at + i < bytes.size(); ++i) bytes[at + i] = static_cast<uint8_t>(number >> (8 * i));
}

inline void splice(Bytes& bytes, const Bytes& other, Random& random) {
  if (other.empty()) return;
  const size_t from = random.below(other.size());
  const size_t length = 1 + random.below(std::min<size_t>(other.size() - from, 64));
  const auto at = bytes.begin() + static_cast<std::ptrdiff_t>(random.below(bytes.size() + 1));
  const auto first = other.begin() + static_cast<std::ptrdiff_t>(from);
  bytes.insert(at, first, first + static_cast<std::ptrdiff_t>(length));
}

// One to four mutations of `seed`; pieces may come from `other`.
inline Bytes mutate(const Bytes& seed, const Bytes& other, Random& random) {
  Bytes bytes = seed;
  const size_t rounds = 1 + random.below(4);
  for (size_t round = 0; round < rounds; ++round) {
    if (bytes.empty()) {
      splice(bytes, other, random);
      continue;
    }
    const size_t at = random.below(bytes.size());
    const auto place = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    switch (random.below(7)) {
      case 0:
        bytes[at] = static_cast<uint8_t>(bytes[at] ^ (1u << random.below(8)));
        break;
      case 1:
        bytes[at] = static_cast<uint8_t>(random.next());
        break;
      case 2:
        put_extreme_number(bytes, random);
        break;
      case 3:
        bytes.resize(at);
        break;
      case 4:
        splice(bytes, other, random);
        break;
      case 5:
        splice(bytes, Bytes(bytes), random);
        break;
      case 6:
        bytes.erase(place,
                    place + static_cast<std::ptrdiff_t>(1 + random.below(std::min<size_t>(bytes.size() - at, 16))));
        break;
    }
  }
  return bytes;
}

}  // namespace firstlight::fuzz
