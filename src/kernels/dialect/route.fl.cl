// SPDX-License-Identifier: Apache-2.0
// The choice of a router among its experts: a block per token, the products made by a launch before. FL_SCORE is 0 for
// none, 1 softmax, 2 sigmoid; FL_AFTER 0 none, 1 softmax, 2 division by the sum. FL_LOAD_C reads the correction.
#include "dialect/rows.fl.h"

// The first of `from`[begin, end) as top_k orders them that stands behind (value, index); index below 0: behind nothing.
FL_FUNCTION fl_i32 fl_next_best(FL_LOCAL_POINTER(float) from, fl_i32 begin, fl_i32 end, float value, fl_i32 index) {
  fl_i32 best = -1;
  for (fl_i32 i = begin; i < end; ++i) {
    if (index >= 0 && !fl_stands_before(value, index, from[i], i)) continue;
    if (best < 0 || fl_stands_before(from[i], i, from[best], best)) best = i;
  }
  return best;
}

// exp(x - most) / sum over `n` numbers of a block's local memory.
FL_FUNCTION void fl_softmax_row(FL_LOCAL_POINTER(float) row, fl_i32 n, FL_LOCAL_POINTER(float) parts) {
  float most = -FL_INFINITY;
  FL_EACH(i, n) most = fl_max(most, row[i]);
  most = fl_block_most(parts, most);
  float sum = 0.0f;
  FL_EACH(i, n) sum += fl_exp(row[i] - most);
  sum = fl_block_sum(parts, sum);
  FL_EACH(i, n) row[i] = fl_exp(row[i] - most) / sum;
}

FL_KERNEL(route)(FL_GLOBAL(const float) products, FL_GLOBAL(const fl_u8) correction, FL_GLOBAL(float) weights,
                 FL_GLOBAL(fl_i32) indices, fl_i32 experts, fl_i32 k, fl_i32 groups, fl_i32 top_groups,
                 fl_i32 group_best, float eps, float scale, FL_DYNAMIC_LOCAL_PARAM) {
  FL_DYNAMIC_LOCAL(float, scores);  // of the experts, what the choice goes by, then of the groups
  FL_LOCAL(float, parts, [FL_THREADS]);
  FL_LOCAL(fl_i32, places, [FL_THREADS]);
  const fl_i64 token = fl_group_id(0);
  FL_LOCAL_POINTER(float) choice = scores + experts;
  FL_LOCAL_POINTER(float) sums = choice + experts;
  FL_EACH(i, experts) {
    const float v = products[token * experts + i];
    scores[i] = FL_SCORE == 2 ? fl_sigmoid(v) : v;
  }
#if FL_SCORE == 1
  fl_softmax_row(scores, experts, parts);
#endif
  FL_EACH(i, experts) {
    choice[i] = scores[i];
    if (correction) choice[i] = scores[i] + FL_LOAD_C(correction, i);
  }
  FL_BARRIER();
  const fl_i32 size = experts / groups;
  if (groups > 1) {
    FL_EACH(g, groups) {
      float sum = 0.0f;
      float value = 0.0f;
      fl_i32 last = -1;
      for (fl_i32 taken = 0; taken < group_best; ++taken) {
        last = fl_next_best(choice, g * size, (g + 1) * size, value, last);
        value = choice[last];
        sum += value;
      }
      sums[g] = sum;
    }
  }
  FL_BARRIER();
  if (groups > 1) {  // a group stays when fewer than top_groups stand before it
    FL_EACH(i, experts) {
      fl_i32 before = 0;
      for (fl_i32 g = 0; g < groups; ++g) {
        before += g != i / size && fl_stands_before(sums[g], g, sums[i / size], i / size) ? 1 : 0;
      }
      if (before >= top_groups) choice[i] = -3e38f;
    }
  }
  float value = 0.0f;
  fl_i32 last = -1;
  for (fl_i32 taken = 0; taken < k; ++taken) {
    FL_BARRIER();
    fl_i32 best = -1;
    FL_EACH(i, experts) {
      if (last >= 0 && !fl_stands_before(value, last, choice[i], i)) continue;
      if (best < 0 || fl_stands_before(choice[i], i, choice[best], best)) best = i;
    }
    places[fl_local_id(0)] = best;
    FL_BARRIER();
    best = places[0];
    for (int t = 1; t < FL_THREADS; ++t) {
      const fl_i32 other = places[t];
      if (other >= 0 && (best < 0 || fl_stands_before(choice[other], other, choice[best], best))) best = other;
    }
    value = choice[best];
    last = best;
    if (fl_local_id(0) == 0) {
      indices[token * k + taken] = best;
      weights[token * k + taken] = scores[best];
    }
  }
  if (fl_local_id(0) == 0) {
    FL_GLOBAL(float) own = weights + token * k;
    float most = 0.0f;
    float divisor = FL_AFTER == 0 ? 1.0f : 0.0f;
#if FL_AFTER == 1
    most = own[0];
    for (fl_i32 i = 1; i < k; ++i) most = fl_max(most, own[i]);
    for (fl_i32 i = 0; i < k; ++i) divisor += fl_exp(own[i] - most);
#elif FL_AFTER == 2
    for (fl_i32 i = 0; i < k; ++i) divisor += own[i];
    divisor += eps;
#endif
    for (fl_i32 i = 0; i < k; ++i) own[i] = (FL_AFTER == 1 ? fl_exp(own[i] - most) : own[i]) / divisor * scale;
  }
}
