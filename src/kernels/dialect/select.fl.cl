// SPDX-License-Identifier: Apache-2.0
// Scores over the rows of a state, and of them the highest: index_scores. The first kernel writes a key per unit (a row,
// or a block of rows) that orders as the score does, 0 for one that is no candidate; the second, one block per query,
// finds the lowest key that is still among the `top` highest, bit by bit, and names the units in ascending order.
#include "dialect/values.fl.h"

#define FL_THREADS 64

// Keys order as the numbers do; NaN is the highest. Never 0.
FL_FUNCTION fl_u32 fl_order_key(float x) {
  const fl_u32 bits = fl_as_u32(fl_is_nan(x) ? FL_INFINITY : x + 0.0f);  // -0 becomes 0
  return (bits & 0x80000000u) != 0u ? ~bits : bits | 0x80000000u;
}

FL_KERNEL(index_keys)(FL_GLOBAL(const float) q, FL_GLOBAL(const fl_u8) pool, FL_GLOBAL(const fl_i64) pages,
                      FL_GLOBAL(const fl_i32) row_sequence, FL_GLOBAL(const fl_i32) sequences,
                      FL_GLOBAL(const float) weights, FL_GLOBAL(const fl_i32) within, FL_GLOBAL(fl_u32) keys,
                      fl_i32 max_pages, fl_i32 page_rows, fl_i32 heads, fl_i32 width, fl_i64 offset,
                      fl_i32 element_bytes, fl_i32 rate, fl_i32 block, fl_i32 local_blocks, fl_i32 first_blocks,
                      fl_i32 within_block, fl_i32 within_groups, fl_i32 within_count, fl_i32 relu, fl_i32 per_head,
                      fl_i32 weighted, fl_i32 max_units) {
  const fl_i32 unit = (fl_i32)fl_global_id(0);
  const fl_i32 t = fl_group_id(1);
  const fl_i32 g = fl_group_id(2);
  const fl_i32 s = row_sequence[t];
  const fl_i32 position = sequences[4 * s + 2] + t - sequences[4 * s];
  const fl_i32 visible = (position + 1) / rate;
  const fl_i32 units = (visible + block - 1) / block;
  if (unit >= units) return;
  const fl_i64 place = ((fl_i64)t * fl_group_count(2) + g) * max_units + unit;
  if (unit < first_blocks || unit >= units - local_blocks) {
    keys[place] = fl_order_key(FL_INFINITY);
    return;
  }
  if (within_block != 0) {
    FL_GLOBAL(const fl_i32) names = within + ((fl_i64)t * within_groups + (within_groups == 1 ? 0 : g)) * within_count;
    fl_i32 found = 0;
    for (fl_i32 i = 0; i < within_count; ++i) found |= names[i] == unit * block / within_block ? 1 : 0;
    if (found == 0) {
      keys[place] = 0u;
      return;
    }
  }
  const fl_i32 first_head = per_head != 0 ? g : 0;
  const fl_i32 end_head = per_head != 0 ? g + 1 : heads;
  float most = -FL_INFINITY;
  for (fl_i32 j = unit * block; j < (unit + 1) * block && j < visible; ++j) {
    FL_GLOBAL(const fl_u8) key = pool + pages[(fl_i64)s * max_pages + j / page_rows] + offset;
    key = key + (fl_i64)(j % page_rows) * width * element_bytes;
    float score = 0.0f;
    for (fl_i32 h = first_head; h < end_head; ++h) {
      FL_GLOBAL(const float) from = q + ((fl_i64)t * heads + h) * width;
      float product = 0.0f;
      for (fl_i32 i = 0; i < width; ++i) product += from[i] * FL_LOAD_K(key, i);
      if (relu != 0 && product < 0.0f) product = 0.0f;
      score += weighted != 0 ? product * weights[(fl_i64)t * heads + h] : product;
    }
    most = fl_max(most, score);
  }
  keys[place] = fl_order_key(most);
}

FL_FUNCTION fl_i32 fl_block_count(FL_LOCAL_POINTER(fl_i32) parts, fl_i32 value) {
  FL_BARRIER();
  parts[fl_local_id(0)] = value;
  FL_BARRIER();
  fl_i32 sum = 0;
  for (int i = 0; i < FL_THREADS; ++i) sum += parts[i];
  return sum;
}

FL_KERNEL(index_select)(FL_GLOBAL(const fl_u32) keys, FL_GLOBAL(const fl_i32) row_sequence,
                        FL_GLOBAL(const fl_i32) sequences, FL_GLOBAL(fl_i32) out, fl_i32 rate, fl_i32 block,
                        fl_i32 max_units, fl_i32 top) {
  FL_LOCAL(fl_i32, parts, [FL_THREADS]);
  FL_LOCAL(fl_i32, above, [FL_THREADS]);
  FL_LOCAL(fl_i32, equal, [FL_THREADS]);
  const fl_i32 t = fl_group_id(1);
  const fl_i32 own = fl_local_id(0);
  const fl_i32 s = row_sequence[t];
  const fl_i32 position = sequences[4 * s + 2] + t - sequences[4 * s];
  const fl_i32 units = ((position + 1) / rate + block - 1) / block;
  const fl_i64 list = (fl_i64)t * fl_group_count(0) + fl_group_id(0);
  FL_GLOBAL(const fl_u32) from = keys + list * max_units;
  // The highest key that `top` units reach; 0 where there are not so many candidates.
  fl_u32 least = 0u;
  for (int bit = 31; bit >= 0; --bit) {
    const fl_u32 wanted = least | (1u << bit);
    fl_i32 reach = 0;
    for (fl_i32 i = own; i < units; i += FL_THREADS) reach += from[i] >= wanted ? 1 : 0;
    if (fl_block_count(parts, reach) >= top) least = wanted;
  }
  fl_i32 higher = 0;
  for (fl_i32 i = own; i < units; i += FL_THREADS) higher += from[i] > least ? 1 : 0;
  fl_i32 ties = top - fl_block_count(parts, higher);  // that may still be named
  fl_i32 named = 0;
  for (fl_i32 first = 0; first < units; first += FL_THREADS) {
    const fl_i32 i = first + own;
    FL_BARRIER();
    above[own] = i < units && from[i] > least ? 1 : 0;
    equal[own] = i < units && least != 0u && from[i] == least ? 1 : 0;
    FL_BARRIER();
    fl_i32 place = named;
    fl_i32 ties_before = 0;
    for (int k = 0; k < own; ++k) {
      const fl_i32 taken = equal[k] != 0 && ties_before < ties ? 1 : 0;
      place += above[k] + taken;
      ties_before += equal[k];
    }
    if (above[own] != 0 || (equal[own] != 0 && ties_before < ties)) out[list * top + place] = i;
    fl_i32 all_equal = 0;
    for (int k = 0; k < FL_THREADS; ++k) {
      named += above[k] + (equal[k] != 0 && all_equal < ties ? 1 : 0);
      all_equal += equal[k];
    }
    ties -= all_equal < ties ? all_equal : ties;
  }
  for (fl_i32 i = named + own; i < top; i += FL_THREADS) out[list * top + i] = -1;
}
