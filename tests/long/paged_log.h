// SPDX-License-Identifier: Apache-2.0
// A long log in pages that lie scattered over a sparse range of addresses much longer than 4 GiB (only what is written
// is there), with its rows as stored beside it, for the judge. Several sequences of a batch may read the same pages.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "ops/state.h"
#include "plan/batch.h"

namespace firstlight::long_tests {

class PagedLog {
 public:
  static constexpr int64_t kRangeBytes = int64_t{9} << 30;

  PagedLog(std::vector<ops::StateComponent> components, int64_t rows, int64_t page_rows);
  ~PagedLog();
  PagedLog(const PagedLog&) = delete;
  PagedLog& operator=(const PagedLog&) = delete;

  // Rounds values[0 .. width) into the component's type.
  void set(size_t component, int64_t row, int64_t head, std::span<const float> values);
  // As stored.
  const float* row(size_t component, int64_t row, int64_t head) const;
  int64_t rows() const { return rows_; }
  // The bytes of page `index`, and how many pages there are.
  std::span<const std::byte> page(size_t index) const { return {pages_[index], page_bytes_}; }
  size_t num_pages() const { return pages_.size(); }
  const ops::StateDecl& declaration() const { return declaration_; }
  // For `sequences` sequences that all read these pages; valid until the next call.
  const plan::StateView& view(size_t sequences);
  // For sequences of `pages_each` pages of their own, one after the other: row r of sequence s is row
  // s * pages_each * page_rows + r of the log.
  const plan::StateView& sliced_view(size_t pages_each);

 private:
  ops::StateDecl declaration_;
  int64_t rows_;
  size_t page_bytes_ = 0;
  std::byte* range_ = nullptr;
  std::vector<plan::StateComponentView> components_;
  std::vector<std::byte*> pages_;
  std::vector<std::vector<float>> stored_;  // [component][row][head][width]
  std::vector<std::span<std::byte* const>> spans_;
  plan::StateView view_;
};

}  // namespace firstlight::long_tests
