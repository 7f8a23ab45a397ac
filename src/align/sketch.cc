// SPDX-License-Identifier: Apache-2.0
#include "align/sketch.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>

namespace firstlight::align {
namespace {

constexpr uint64_t kProjectionStep = 0x9e3779b97f4a7c15;
constexpr uint64_t kBlockStep = 0xd1342543de82ef95;
constexpr size_t kBlock = 64;

double signed_sum(std::span<const float> block, uint64_t bits) {
  double sum = 0;
  for (size_t i = 0; i < block.size(); ++i) {
    const auto flip = static_cast<uint32_t>(bits >> i & 1) << 31;
    sum += static_cast<double>(std::bit_cast<float>(std::bit_cast<uint32_t>(block[i]) ^ flip));
  }
  return sum;
}

}  // namespace

uint64_t mix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

bool is_plain(float value) { return std::abs(value) <= 0x1p100f; }

void sketch_row(std::span<const float> row, uint64_t seed, std::span<float> out, int64_t first) {
  std::array<float, kBlock> finite{};
  std::array<double, 256> sums{};
  const size_t width = std::min(out.size(), sums.size());
  const auto shift = static_cast<size_t>(first) % kBlock;  // columns of the first block that are before this part
  for (size_t at = 0, block = static_cast<size_t>(first) / kBlock; at < row.size(); ++block) {
    const size_t skip = at == 0 ? shift : 0;
    const size_t count = std::min(kBlock - skip, row.size() - at);
    for (size_t i = 0; i < count; ++i) finite[i] = is_plain(row[at + i]) ? row[at + i] : 0.0f;
    for (size_t j = 0; j < width; ++j) {
      sums[j] += signed_sum({finite.data(), count}, mix64(seed + j * kProjectionStep + block * kBlockStep) >> skip);
    }
    at += count;
  }
  for (size_t j = 0; j < width; ++j) out[j] = static_cast<float>(sums[j]);
}

double estimate_squared_distance(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t j = 0; j < a.size(); ++j) {
    const double difference = static_cast<double>(a[j]) - static_cast<double>(b[j]);
    sum += difference * difference;
  }
  return a.empty() ? 0 : sum / static_cast<double>(a.size());
}

double estimate_product(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t j = 0; j < a.size(); ++j) sum += static_cast<double>(a[j]) * static_cast<double>(b[j]);
  return a.empty() ? 0 : sum / static_cast<double>(a.size());
}

}  // namespace firstlight::align
