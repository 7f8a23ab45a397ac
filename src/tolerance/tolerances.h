// SPDX-License-Identifier: Apache-2.0
// Every tolerance there is, by level, stored type and compute mode, each with where it comes from in a line; the long
// derivations stand in docs/numerics.md under the same headings. Whoever judges (conformance tests, canary, align,
// gates) takes its numbers from here and nowhere else.
#pragma once

#include <cstdint>
#include <string_view>

#include "catalog/kernel_row.h"
#include "tensor/dtype.h"

namespace firstlight::tolerance {

// Operator level: per element against the reference body ("Everything else"). u = 2^-24, the rounding of float32.

inline constexpr double kUnit = 0x1p-24;
// Two forms of one kernel on the same operands, relative L2: operands are rounded alike, what is left is the order of
// sums; one wrong element in 10^4 makes 10^-2.
inline constexpr double kTwoForms = 1e-3;

// Of a product whose operands are rounded, of at least kUsualWidth terms: how much of what each element may be off (the
// sum of all roundings) a row is in root mean square. Roundings are independent: about 0.6 / (0.8 sqrt(K)), 0.13 at 32.
inline constexpr double kUsualShare = 1.0 / 3;
inline constexpr int64_t kUsualWidth = 32;

// Layer level and model level: relative L2 of rows, root mean squares of independent roundings ("Whole models").

// What two orders of summation in float32 may differ by.
inline constexpr double kFloor = 2e-5;
// And where what float32 does to a value has been measured (a code run in float64 and in float32): rows and sketches are
// kept in float32, norms and softmax are computed in it even so.
inline constexpr double kNoiseFloor = 5e-7;
// How many times the usual distance a row may have: errors add up like a random walk.
inline constexpr double kSpread = 4;
// Products of a layer whose errors are independent: q, k and v in low-rank factors, output, gate, up, down.
inline constexpr double kProductsPerLayer = 9;
// Of one with a recurrence, which multiplies up to five rounded factors with one another and keeps their errors.
inline constexpr double kProductsPerRecurrence = 27;
// Where a rounded reference stands beside: how many times its distance the tested side may have, and how far it may be
// from the rounded reference itself (the root of 2, were the two independent).
inline constexpr double kHonest = 3;
inline constexpr double kApart = 2;
// How many times a root mean square that was measured a single row may have. What was measured is that of other rows of
// one text, not an upper estimate, and the norm of a row, which divides, differs by a factor of two among them.
inline constexpr double kRowOfMeasured = 2 * kSpread;
// How many times the usual distance the root mean square over many rows of logits may be; its square for divergences.
// Rounding of equal size on other operands gives 1; 2 is for what a rounded reference does not round: sums, functions.
inline constexpr double kRowsOfRounding = 2;
// Share of routing decisions that rounding may turn.
inline constexpr double kTurnedRows = 0.05;

// Performance level: shares of what the machine reaches in the same round, where no targets are given ("Speed").

// Half way, as factors go, between what tuned kernels reach and what composed ones do (57 % and 4.4 % of reading, 71 %
// and 14 % of arithmetic), of the second half as much for rows that experts take in small groups: a model that fell
// from one form to the other is below.
inline constexpr double kShareOfReading = 0.15;
inline constexpr double kShareOfArithmetic = 0.15;
// Share of the cores that others may take meanwhile: beyond it, being slow is no verdict.
inline constexpr double kOtherWork = 0.1;

// What rounding one product's operands leaves in its result.
double product_rounding(catalog::ComputeMode mode);
double product_rounding(std::string_view mode);  // "f32", "bf16", "w8a8"; any other rounds as "f32"
// What rounding keys and values leaves when they are stored so; 0 for types that are exact.
double state_rounding(tensor::DType stored);

// The distance that rounding explains: `step` of one product and its state, `products` of them on the way.
double explained(double step, double products);
// The same where the noise of float32 has been measured.
double explained_beside_noise(double step, double products, double noise);
// The same where a rounded reference was measured, against the reference; and from the rounded reference.
double explained_by(double measured);
double apart_from_rounded(double measured);
double row_explained_by(double measured);  // of one row, whose sum has fewer roundings: kSpread times

}  // namespace firstlight::tolerance
