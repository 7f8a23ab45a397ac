// SPDX-License-Identifier: Apache-2.0
// Fills a pack row by row, as runs in whatever chunks and batches give them. What is kept is decided beforehand from
// sizes alone, so that two recordings of the same prompts keep the same.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "align/pack.h"
#include "tensor/view.h"

namespace firstlight::align {

class PackBuilder {
 public:
  // `pack` has taps and the prompts' tokens. Taps in `full` (by name; "all": every one) keep all their rows. Chooses
  // the largest layout of sketches and the most rows that fit `limit` bytes. Errors: kNotFound for a name in `full`
  // that is no tap; kInvalidArgument where not even the smallest layout fits.
  static Result<PackBuilder> create(Pack pack, const std::set<std::string>& full, int64_t limit);
  // Keeps the same of the same taps as `other` does: for comparing with it. A tap that it does not have keeps its
  // statistics alone.
  static PackBuilder like(Pack pack, const Pack& other);

  // Rows [first_row, first_row + rows) of one tap; every row once, in any order. f32 or i32. Of a part of the rows
  // (Split::kRows; `pack` has their part_rows), rows of that part.
  void add(size_t tap, size_t prompt, int64_t first_row, const tensor::View& rows);

  const Pack& pack() const { return pack_; }
  // Bytes of what is kept.
  int64_t bytes() const;
  // Bytes of what is kept only because it was asked for whole.
  int64_t full_bytes() const { return full_bytes_; }
  Pack finish() &&;

 private:
  struct Sums {
    double sum = 0, squares = 0;
    double min = 0, max = 0;
    int64_t count = 0, not_finite = 0, zeros = 0;
  };

  explicit PackBuilder(Pack pack);
  Status choose_layout(int64_t limit, int64_t& left);
  void choose_rows(const std::set<std::string>& full, int64_t left);
  void allocate();
  // `row` is the number in the whole value; `sampled`: its place among the sampled rows, negative where it is none.
  void add_row(const TapInfo& info, TapRecord& record, Sums& sums, int64_t row, int64_t sampled,
               std::span<const float> values);
  static void add_logits(const TapInfo& info, PromptRecord& prompt, int64_t sampled, std::span<const float> values);

  Pack pack_;
  int64_t full_bytes_ = 0;
  std::vector<std::vector<Sums>> sums_;                     // [prompt][tap]
  std::vector<std::vector<std::vector<int32_t>>> sampled_;  // [prompt][tap]: rows
  std::vector<float> scratch_;
};

}  // namespace firstlight::align
