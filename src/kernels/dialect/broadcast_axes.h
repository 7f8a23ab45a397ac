// SPDX-License-Identifier: Apache-2.0
// Where every operand's element lies for an element of a result that operands broadcast to: in launches as sizes and
// strides, in printed kernels as statements.
#pragma once

#include <array>

#include "kernels/dialect/launches.h"

namespace firstlight::kernels {

// Neighbouring axes that lie one behind the other in all operands are joined.
struct BroadcastAxes {
  size_t rank = 0;
  std::array<int64_t, tensor::kMaxRank> dims{};
  std::vector<std::array<int64_t, tensor::kMaxRank>> strides;  // per operand
};
BroadcastAxes broadcast_axes(std::span<const tensor::View> operands, const tensor::View& out);

// How many axes are left after joining, whatever the batch's sizes: one of them that is 1 only takes an axis away.
// At least one.
size_t most_axes(std::span<const tensor::Type> operands, const tensor::Type& result);

// Sizes but the first, then strides per operand, as parameters that begin with a comma; and the statements that turn
// the element `rest` of the result into a<i>, the element of operand i.
struct AxesSource {
  std::string parameters;
  std::string statements;
};
AxesSource axes_source(size_t operands, size_t rank);
// The arguments for them. Errors: kInternal when the axes are more than `rank`.
Status append_axes(const BroadcastAxes& axes, size_t rank, Arguments& arguments);

}  // namespace firstlight::kernels
