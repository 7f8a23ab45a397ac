// SPDX-License-Identifier: Apache-2.0
#include "kernels/common/strided_copy.h"

#include <cstring>

namespace firstlight::kernels {
namespace {

// Joins neighbouring axes that lie one behind the other on both sides, and drops axes of one.
void merge_axes(StridedCopy& copy) {
  int kept = 0;
  for (int i = 0; i < copy.rank; ++i) {
    const auto at = static_cast<size_t>(i);
    if (copy.dims[at] == 1) continue;
    if (kept > 0) {
      const auto last = static_cast<size_t>(kept - 1);
      if (copy.from_strides[last] == copy.dims[at] * copy.from_strides[at] &&
          copy.to_strides[last] == copy.dims[at] * copy.to_strides[at]) {
        copy.dims[last] *= copy.dims[at];
        copy.from_strides[last] = copy.from_strides[at];
        copy.to_strides[last] = copy.to_strides[at];
        continue;
      }
    }
    const auto to = static_cast<size_t>(kept++);
    copy.dims[to] = copy.dims[at];
    copy.from_strides[to] = copy.from_strides[at];
    copy.to_strides[to] = copy.to_strides[at];
  }
  copy.rank = kept;
}

template <int kBytes>
void copy_units(const std::byte* from, std::byte* to, int64_t count, int64_t from_stride, int64_t to_stride) {
  for (int64_t i = 0; i < count; ++i) std::memcpy(to + i * to_stride, from + i * from_stride, kBytes);
}

void copy_line(const StridedCopy& copy, const std::byte* from, std::byte* to, int64_t count) {
  const auto last = static_cast<size_t>(copy.rank - 1);
  const int64_t from_stride = copy.from_strides[last];
  const int64_t to_stride = copy.to_strides[last];
  if (from_stride == copy.unit_bytes && to_stride == copy.unit_bytes) {
    std::memcpy(to, from, static_cast<size_t>(count * copy.unit_bytes));
    return;
  }
  switch (copy.unit_bytes) {
    case 1:
      return copy_units<1>(from, to, count, from_stride, to_stride);
    case 2:
      return copy_units<2>(from, to, count, from_stride, to_stride);
    case 4:
      return copy_units<4>(from, to, count, from_stride, to_stride);
    case 8:
      return copy_units<8>(from, to, count, from_stride, to_stride);
    default:
      break;
  }
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(to + i * to_stride, from + i * from_stride, static_cast<size_t>(copy.unit_bytes));
  }
}

}  // namespace

UnitAxes unit_axes(const tensor::View& view) {
  UnitAxes axes;
  const tensor::DTypeInfo& info = tensor::dtype_info(view.dtype);
  axes.rank = view.rank;
  axes.unit_bytes = info.block_bytes;
  axes.unit_elements = info.block_elements;
  int64_t stride = info.block_bytes;
  for (int i = view.rank - 1; i >= 0; --i) {
    const auto at = static_cast<size_t>(i);
    axes.dims[at] = i == view.rank - 1 ? view.dims[at] / info.block_elements : view.dims[at];
    axes.strides[at] = stride;
    stride *= axes.dims[at];
  }
  return axes;
}

void run_strided_copy(StridedCopy copy, Worker& worker) {
  for (int i = 0; i < copy.rank; ++i) {
    if (copy.dims[static_cast<size_t>(i)] == 0) return;
  }
  merge_axes(copy);
  if (copy.rank == 0) {
    if (worker.index() == 0) std::memcpy(copy.to, copy.from, static_cast<size_t>(copy.unit_bytes));
    return;
  }
  if (copy.rank == 1) {
    const Worker::Range range = worker.share(copy.dims[0], 64);
    copy_line(copy, copy.from + range.begin * copy.from_strides[0], copy.to + range.begin * copy.to_strides[0],
              range.end - range.begin);
    return;
  }
  int64_t lines = 1;
  for (int i = 0; i + 1 < copy.rank; ++i) lines *= copy.dims[static_cast<size_t>(i)];
  const Worker::Range range = worker.share(lines);
  for (int64_t line = range.begin; line < range.end; ++line) {
    int64_t rest = line;
    const std::byte* from = copy.from;
    std::byte* to = copy.to;
    for (int i = copy.rank - 2; i >= 0; --i) {
      const auto at = static_cast<size_t>(i);
      from += rest % copy.dims[at] * copy.from_strides[at];
      to += rest % copy.dims[at] * copy.to_strides[at];
      rest /= copy.dims[at];
    }
    copy_line(copy, from, to, copy.dims[static_cast<size_t>(copy.rank - 1)]);
  }
}

}  // namespace firstlight::kernels
