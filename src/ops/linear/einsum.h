// SPDX-License-Identifier: Apache-2.0
// The equation of an einsum, taken apart.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace firstlight::ops {

// "tij,tj->ti": a letter per axis of each operand and of the result; `summed` are the others.
struct EinsumEquation {
  std::string a, b, out, summed;
};

// Nothing for text of another form.
std::optional<EinsumEquation> parse_einsum(std::string_view text);

}  // namespace firstlight::ops
