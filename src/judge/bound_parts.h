// SPDX-License-Identifier: Apache-2.0
// What the files of bounds.cc have in common: values around which results may lie, and the operators' bounds by kind.
// For those files only.
#pragma once

#include <cmath>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "judge/bounds.h"
#include "ops/infer.h"

namespace firstlight::judge {

using catalog::ComputeMode;
using ops::OpKind;
using Row = std::vector<double>;

inline constexpr double kLargest = std::numeric_limits<float>::max();
inline constexpr double kUnit = 0x1p-24;

inline size_t at(int64_t i) { return static_cast<size_t>(i); }
inline int64_t last(const Tensor& t) { return t.type.shape.empty() ? 1 : t.type.shape.back().factor; }
inline bool is_unstated(const Case& c) { return c.bound.absolute == 0 && c.bound.relative == 0; }

double largest_finite(const Row& values);
// A number that is none, or none any more, must be that; a tolerance without end allows everything.
Range around(double wanted, double tolerance);
Ranges around(const Outcome& wanted, const std::function<double(size_t result, size_t i, double wanted)>& tolerance);
// What the judge makes of absolute values.
Outcome magnitudes(const Case& c);
// The bound that the case states, for values of the size that it has, taken along with larger ones.
double growth(const Case& c);

// bounds_rows.cc: operators without a state. Formulas along rows in stages, as fused_rows has them (map: one stage that
// is not reduced); products; elements beside one another in a row; sums; places of a token's choice; pairs.
Ranges stage_ranges(const Case& c, std::span<const ops::RowStage> stages, bool on_device);
Ranges fused_row_ranges(const Case& c, bool on_device);
Ranges product_ranges(const Case& c, ComputeMode mode, bool on_device);
Ranges row_ranges(const Case& c, const Outcome& wanted, bool on_device);
Ranges sum_ranges(const Case& c, const Outcome& wanted, double terms, bool on_device);
Ranges route_ranges(const Case& c, const Outcome& wanted, ComputeMode mode);
Ranges rope_ranges(const Case& c, const Outcome& wanted, bool on_device);

// bounds_states.cc: operators that read or write a state.
double rescaling(const Case& c, bool on_device);
Limits recurrence_limits(const Case& c, const Outcome& wanted, bool on_device);
Ranges page_limits(const Case& c, const Outcome& wanted, double grown);
// What attention in bf16 adds, per query and head; 0 in other modes.
Row attend_roundings(const Case& c, catalog::ComputeMode mode);
Ranges attend_ranges(const Case& c, const Outcome& wanted, catalog::ComputeMode mode, bool on_device);
Limits rope_append_limits(const Case& c, const Outcome& wanted, bool on_device);

}  // namespace firstlight::judge
