// SPDX-License-Identifier: Apache-2.0
// What a device runs before it is trusted (device/health.h): memory and buffer offsets, local memory and barriers, and
// what its warps do. The host knows every expected number.

// y[i] = x[i] * factor + i, by blocks, the tail cut.
FL_KERNEL(probe_memory)(FL_GLOBAL(const float) x, FL_GLOBAL(float) y, float factor, int n) {
  const fl_i64 i = fl_global_id(0);
  if (i < n) y[i] = x[i] * factor + (float)i;
}

// Turns each block's values around in local memory.
FL_KERNEL(probe_local)(FL_GLOBAL(const int) x, FL_GLOBAL(int) y, FL_DYNAMIC_LOCAL_PARAM) {
  FL_DYNAMIC_LOCAL(int, values);
  FL_LOCAL(int, first, [1]);
  const int t = fl_thread();
  const int n = fl_block_threads();
  values[t] = x[fl_global_id(0)];
  if (t == 0) first[0] = values[0];
  FL_BARRIER();
  y[fl_global_id(0)] = values[n - 1 - t] + first[0];
}

// Per thread: its lane as a neighbour sees it, the sum and the largest of the lanes' numbers, whose warp it is in.
FL_KERNEL(probe_warp)(FL_GLOBAL(int) seen, FL_GLOBAL(float) sums, FL_GLOBAL(float) most, FL_GLOBAL(int) warps) {
  FL_WARP_STATE;
  const int t = fl_thread();
  seen[t] = fl_warp_shuffle_xor(t, FL_WARP - 1);
  sums[t] = fl_warp_sum((float)t);
  most[t] = fl_warp_max((float)t);
  warps[t] = fl_warp_shuffle(fl_warp_id(), 0);
}

// Every FP16, BF16, E4M3 code as float32.
FL_KERNEL(probe_storage)(FL_GLOBAL(float) half_values, FL_GLOBAL(float) bf16_values, FL_GLOBAL(float) e4m3_values) {
  const int i = (int)fl_global_id(0);
  half_values[i] = fl_f16_to_f32((fl_half)i);
  bf16_values[i] = fl_bf16_to_f32((fl_bf16)i);
  if (i < 256) e4m3_values[i] = fl_e4m3_to_f32((fl_f8)i);
}

// One tile product on matrix units or their twin.
FL_KERNEL(probe_mma)(FL_GLOBAL(const fl_bf16) a, FL_GLOBAL(const fl_bf16) b, FL_GLOBAL(float) c) {
  FL_WARP_STATE;
  FL_LOCAL(fl_bf16, ta, [FL_MMA_M * FL_MMA_K]);
  FL_LOCAL(fl_bf16, tb, [FL_MMA_N * FL_MMA_K]);
  for (int i = fl_thread(); i < FL_MMA_M * FL_MMA_K; i += fl_block_threads()) ta[i] = a[i];
  for (int i = fl_thread(); i < FL_MMA_N * FL_MMA_K; i += fl_block_threads()) tb[i] = b[i];
  FL_BARRIER();
  fl_mma_acc acc = fl_mma_zero();
  FL_MMA(bf16, acc, ta, FL_MMA_K, tb, FL_MMA_K);
  for (int e = 0; e < FL_MMA_ELEMENTS; ++e) c[fl_mma_row(e) * FL_MMA_N + fl_mma_col(e)] = acc.v[e];
}
