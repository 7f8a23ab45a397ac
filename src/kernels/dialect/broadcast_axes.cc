// SPDX-License-Identifier: Apache-2.0
#include "kernels/dialect/broadcast_axes.h"

#include <algorithm>

namespace firstlight::kernels {

BroadcastAxes broadcast_axes(std::span<const tensor::View> operands, const tensor::View& out) {
  BroadcastAxes all;
  all.strides.resize(operands.size());
  for (int axis = 0; axis < out.rank; ++axis) {
    const int64_t dim = out.dim(axis);
    if (dim == 1) continue;
    std::vector<int64_t> own;
    for (const tensor::View& x : operands) {
      const int at = axis - (out.rank - x.rank);
      int64_t stride = 1;
      for (int i = at + 1; at >= 0 && i < x.rank; ++i) stride *= x.dim(i);
      own.push_back(at < 0 || x.dim(at) == 1 ? 0 : stride);
    }
    bool joins = all.rank > 0;
    for (size_t i = 0; i < operands.size() && joins; ++i) joins = all.strides[i][all.rank - 1] == own[i] * dim;
    if (!joins) {
      all.dims[all.rank++] = dim;
    } else {
      all.dims[all.rank - 1] *= dim;
    }
    for (size_t i = 0; i < operands.size(); ++i) all.strides[i][all.rank - 1] = own[i];
  }
  return all;
}

size_t most_axes(std::span<const tensor::Type> operands, const tensor::Type& result) {
  const tensor::SymbolValues large{.tokens = 7, .outputs = 7, .sequences = 7, .rows = 7};
  std::vector<tensor::View> views;
  for (const tensor::Type& type : operands) views.push_back(tensor::make_view(nullptr, type, large));
  return std::max<size_t>(broadcast_axes(views, tensor::make_view(nullptr, result, large)).rank, 1);
}

AxesSource axes_source(size_t operands, size_t rank) {
  AxesSource source;
  for (size_t axis = 1; axis < rank; ++axis) source.parameters += ", fl_i64 d" + std::to_string(axis);
  for (size_t i = 0; i < operands; ++i) {
    const std::string n = std::to_string(i);
    source.statements += "  fl_i64 a" + n + " = 0;\n";
    for (size_t axis = 0; axis < rank; ++axis) source.parameters += ", fl_i64 s" + n + "_" + std::to_string(axis);
  }
  for (size_t axis = rank; axis-- > 0;) {
    const std::string a = std::to_string(axis);
    const std::string index = axis == 0 ? "rest" : "rest % d" + a;
    for (size_t i = 0; i < operands; ++i) {
      const std::string n = std::to_string(i);
      source.statements += "  a" + n + " += " + index + " * s" + n + "_" + a + ";\n";
    }
    if (axis > 0) source.statements += "  rest /= d" + a + ";\n";
  }
  return source;
}

Status append_axes(const BroadcastAxes& axes, size_t rank, Arguments& arguments) {
  if (axes.rank > rank) return internal_error("a broadcast over more axes than were prepared for");
  const size_t shift = rank - axes.rank;  // axes of one in front
  for (size_t i = 1; i < rank; ++i) arguments.emplace_back(i < shift ? int64_t{1} : axes.dims[i - shift]);
  for (const auto& strides : axes.strides) {
    for (size_t i = 0; i < rank; ++i) arguments.emplace_back(i < shift ? int64_t{0} : strides[i - shift]);
  }
  return ok_status();
}

}  // namespace firstlight::kernels
