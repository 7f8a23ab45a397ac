// SPDX-License-Identifier: Apache-2.0
#include "align/pack.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>

#include "align/sketch.h"

namespace firstlight::align {

size_t histogram_bin(float value) {
  constexpr int kLowest = -20, kBins = static_cast<int>(kHistogramBins / 2);
  const int exponent = std::clamp(std::ilogb(value) - kLowest, 0, kBins - 1);
  return static_cast<size_t>(exponent + (value < 0 ? kBins : 0));
}

int64_t num_sampled(const PackLayout& layout, int64_t num_rows) { return std::min(layout.sampled_rows, num_rows); }

int64_t sampled_row(int64_t i, int64_t sampled, int64_t num_rows) {
  return sampled <= 1 ? num_rows - 1 : i * (num_rows - 1) / (sampled - 1);
}

int64_t whole_rows(const TapInfo& info, const PromptRecord& prompt) {
  return static_cast<int64_t>(prompt.tokens.size()) / info.rate;
}

std::vector<int32_t> sampled_rows(const PackLayout& layout, const TapInfo& info, const PromptRecord& prompt,
                                  const TapRecord& record) {
  const int64_t all = whole_rows(info, prompt), sampled = num_sampled(layout, all);
  std::vector<int32_t> rows;
  for (int64_t i = 0; i < sampled; ++i) {
    const auto row = static_cast<int32_t>(sampled_row(i, sampled, all));
    const bool here =
        info.part.split != Split::kRows || std::binary_search(record.part_rows.begin(), record.part_rows.end(), row);
    if (here) rows.push_back(row);
  }
  return rows;
}

Status check_is_whole(const Pack& pack) {
  if (pack.ranks < 2) return ok_status();
  return invalid_argument("a recording of rank " + std::to_string(pack.rank) + " of " + std::to_string(pack.ranks) +
                          ": put the ranks together first (baseline join)");
}

std::string tokens_hash(const std::vector<int32_t>& tokens) {
  uint64_t hash = mix64(tokens.size());
  for (const int32_t token : tokens) hash = mix64(hash ^ static_cast<uint64_t>(static_cast<uint32_t>(token)));
  char text[24];
  std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

int64_t size_limit(int64_t parameters) {
  constexpr int64_t kSmall = 8'000'000, kLarge = 64'000'000, kBillion = 1'000'000'000;
  return parameters < kBillion ? kSmall : kLarge;
}

}  // namespace firstlight::align
