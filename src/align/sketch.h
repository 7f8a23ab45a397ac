// SPDX-License-Identifier: Apache-2.0
// Random projections of rows: a few numbers that tell how far two rows are apart without either being kept (Johnson and
// Lindenstrauss; signs instead of Gaussians by Achlioptas, 2003). docs/golden_pack.md derives what they resolve.
#pragma once

#include <cstdint>
#include <span>

namespace firstlight::align {

// SplitMix64's mixing function (Steele, Lea and Flood, 2014).
uint64_t mix64(uint64_t x);

// Finite, and no larger than 2^100: masks of the lowest number there is count as not finite.
bool is_plain(float value);

// out[j] = sum over i of s(j, i) row[i], with s(j, i) = -1 where bit i % 64 of
// mix64(seed + j 0x9e3779b97f4a7c15 + (i / 64) 0xd1342543de82ef95) is set, else 1. Summed in double; values that are
// not plain count as 0. A part of a row from column `first` on is projected as it is within the whole row: the sketch
// of a row is the sum of its parts' sketches, as that of a sum of rows is the sum of theirs.
void sketch_row(std::span<const float> row, uint64_t seed, std::span<float> out, int64_t first = 0);

// Of the rows whose sketches these are: the squared distance, and the product; unbiased, with a relative deviation of
// about the root of 2 over the number of projections.
double estimate_squared_distance(std::span<const float> a, std::span<const float> b);
double estimate_product(std::span<const float> a, std::span<const float> b);

}  // namespace firstlight::align
