// SPDX-License-Identifier: Apache-2.0
#include "paged_log.h"

#include <sys/mman.h>

#include <algorithm>
#include <random>

#include "base/check.h"
#include "tensor/codec.h"
#include "tensor/type.h"

namespace firstlight::long_tests {

PagedLog::PagedLog(std::vector<ops::StateComponent> components, int64_t rows, int64_t page_rows) : rows_(rows) {
  declaration_.name = "kv.0";
  declaration_.components = std::move(components);
  int64_t page_bytes = 0;
  for (const ops::StateComponent& c : declaration_.components) {
    components_.push_back({c.dtype, c.heads, c.width, page_bytes});
    page_bytes += c.heads * page_rows * *tensor::row_bytes(c.dtype, c.width);
    page_bytes = (page_bytes + 63) / 64 * 64;
    stored_.emplace_back(static_cast<size_t>(rows * c.heads * c.width));
  }
  void* range = mmap(nullptr, kRangeBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  FL_CHECK(range != MAP_FAILED);
  range_ = static_cast<std::byte*>(range);
  const int64_t count = (rows + page_rows - 1) / page_rows;
  const int64_t step = kRangeBytes / count / 4096 * 4096;
  FL_CHECK(step >= page_bytes);
  for (int64_t p = 0; p < count; ++p) pages_.push_back(range_ + p * step);
  std::shuffle(pages_.begin(), pages_.end(), std::mt19937(11));
  page_bytes_ = static_cast<size_t>(page_bytes);
  view_.page_rows = page_rows;
  view_.components = components_;
}

PagedLog::~PagedLog() { munmap(range_, kRangeBytes); }

void PagedLog::set(size_t component, int64_t row, int64_t head, std::span<const float> values) {
  const plan::StateComponentView& c = components_[component];
  const int64_t bytes = *tensor::row_bytes(c.dtype, c.width);
  std::byte* to = pages_[static_cast<size_t>(row / view_.page_rows)] + c.offset_bytes +
                  (head * view_.page_rows + row % view_.page_rows) * bytes;
  const std::span<std::byte> place(to, static_cast<size_t>(bytes));
  FL_CHECK(tensor::encode_from_f32(c.dtype, values, place).ok());
  float* back = stored_[component].data() + (row * c.heads + head) * c.width;
  FL_CHECK(tensor::decode_to_f32(c.dtype, place, {back, static_cast<size_t>(c.width)}).ok());
}

const float* PagedLog::row(size_t component, int64_t row, int64_t head) const {
  const plan::StateComponentView& c = components_[component];
  return stored_[component].data() + (row * c.heads + head) * c.width;
}

const plan::StateView& PagedLog::view(size_t sequences) {
  spans_.assign(sequences, std::span<std::byte* const>(pages_));
  view_.pages = spans_;
  return view_;
}

const plan::StateView& PagedLog::sliced_view(size_t pages_each) {
  spans_.clear();
  for (size_t first = 0; first + pages_each <= pages_.size(); first += pages_each) {
    spans_.emplace_back(pages_.data() + first, pages_each);
  }
  view_.pages = spans_;
  return view_;
}

}  // namespace firstlight::long_tests
