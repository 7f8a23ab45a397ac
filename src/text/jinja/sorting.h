// SPDX-License-Identifier: Apache-2.0
// A stable merge sort whose comparison may fail, as Python's does on values that have no order.
#pragma once

#include <utility>
#include <vector>

#include "base/status.h"

namespace firstlight::text::jinja {

// Sorts `items` by `less(a, b)`, which returns a Result<bool>; the first failure is returned and `items` is then in any
// order.
template <typename T, typename Less>
Status sort_stable(std::vector<T>& items, Less less) {
  std::vector<T> from = items;
  std::vector<T> to = items;
  for (size_t width = 1; width < items.size(); width *= 2) {
    for (size_t low = 0; low < items.size(); low += 2 * width) {
      const size_t mid = std::min(low + width, items.size());
      const size_t high = std::min(mid + width, items.size());
      size_t left = low;
      size_t right = mid;
      for (size_t at = low; at < high; ++at) {
        const bool take_right = left == mid || (right < high && FL_TRY(less(from[right], from[left])));
        to[at] = std::move(take_right ? from[right++] : from[left++]);
      }
    }
    std::swap(from, to);
  }
  items = std::move(from);
  return ok_status();
}

}  // namespace firstlight::text::jinja
