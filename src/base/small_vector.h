// SPDX-License-Identifier: Apache-2.0
// A vector of plain values that needs no memory of its own up to kInline of them: for the short lists that a kernel
// makes anew in every run. More than that go to the heap.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <type_traits>

namespace firstlight {

template <typename T, size_t kInline>
class SmallVector {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  SmallVector() = default;
  explicit SmallVector(size_t count, const T& value = T()) { resize(count, value); }
  SmallVector(const SmallVector&) = delete;
  SmallVector& operator=(const SmallVector&) = delete;

  T* data() { return heap_ ? heap_.get() : inline_.data(); }
  const T* data() const { return heap_ ? heap_.get() : inline_.data(); }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  T& operator[](size_t i) { return data()[i]; }
  const T& operator[](size_t i) const { return data()[i]; }
  T& back() { return data()[size_ - 1]; }
  const T& back() const { return data()[size_ - 1]; }

  void push_back(const T& value) {
    const T copy = value;  // it may lie in the memory that is given back
    if (size_ == capacity_) grow(2 * capacity_);
    data()[size_++] = copy;
  }
  // New elements are `value`.
  void resize(size_t count, const T& value = T()) {
    if (count > capacity_) grow(count);
    for (size_t i = size_; i < count; ++i) data()[i] = value;
    size_ = count;
  }

 private:
  void grow(size_t capacity) {
    auto memory = std::make_unique<T[]>(capacity);
    for (size_t i = 0; i < size_; ++i) memory[i] = data()[i];
    heap_ = std::move(memory);
    capacity_ = capacity;
  }

  std::array<T, kInline> inline_{};
  std::unique_ptr<T[]> heap_;
  size_t size_ = 0;
  size_t capacity_ = kInline;
};

}  // namespace firstlight
