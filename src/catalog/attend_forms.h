// SPDX-License-Identifier: Apache-2.0
// Which kernels of attention round their operands. Those of products say it in their attribute "compute".
#pragma once

#include <string_view>

namespace firstlight::catalog {

// Whether a kernel of attend or attend_segments rounds queries and weights to bfloat16, by its symbol.
constexpr bool attends_in_bf16(std::string_view symbol) {
  return symbol.starts_with("attend_bf16_") || symbol.starts_with("attend_segments_bf16_");
}

}  // namespace firstlight::catalog
