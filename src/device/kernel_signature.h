// SPDX-License-Identifier: Apache-2.0
// The parameters of the kernels in a source text of the dialect, read from the text itself, so that every device checks
// arguments the same way. The grammar is small on purpose: FL_KERNEL(name)(parameters), where a parameter is
// FL_GLOBAL(type) name, one of the scalar types of the dialect and a name, or, last, FL_DYNAMIC_LOCAL_PARAM.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace firstlight::device {

enum class ParameterKind : uint8_t { kBuffer, kI32, kU32, kI64, kU64, kF32 };

std::string_view parameter_kind_name(ParameterKind kind);  // "buffer", "fl_i32", ...

struct KernelParameter {
  ParameterKind kind;
  std::string name;
  std::string type;  // as written: "FL_GLOBAL(const float)"
};

struct KernelSignature {
  std::string name;
  std::vector<KernelParameter> parameters;
  bool has_dynamic_local = false;
  bool uses_warps = false;  // its body has FL_WARP_STATE or FL_MMA: blocks must be whole warps

  // Places in the text, for devices that rewrite it: the end of the parameter list (at its closing bracket) and of the
  // opening brace of the body (just behind it).
  size_t parameters_end = 0;
  size_t body_begin = 0;
};

// In the order of the text; comments are skipped. Errors: kInvalidData with the line of what does not fit the grammar.
Result<std::vector<KernelSignature>> parse_signatures(std::string_view text);

}  // namespace firstlight::device
