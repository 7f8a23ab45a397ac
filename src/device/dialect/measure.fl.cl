// SPDX-License-Identifier: Apache-2.0
// A float32 matrix product for `devices --measure`: c[n, n] = a[n, n] * b[n, n], n a multiple of 64. Blocks of 16 x 16
// threads make tiles of 64 x 64, each thread 4 x 4 of it. It shows what plain arithmetic reaches, not matrix units.
FL_KERNEL(measure_product)(FL_GLOBAL(const float) a, FL_GLOBAL(const float) b, FL_GLOBAL(float) c, int n) {
  FL_LOCAL(float, ta, [16][64]);
  FL_LOCAL(float, tb, [16][64]);
  const int tx = fl_local_id(0);
  const int ty = fl_local_id(1);
  const int row0 = fl_group_id(1) * 64;
  const int col0 = fl_group_id(0) * 64;
  float acc[4][4];
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 4; ++j) acc[i][j] = 0.0f;
  }
  for (int k0 = 0; k0 < n; k0 += 16) {
    for (int i = 0; i < 4; ++i) {
      ta[tx][ty + 16 * i] = a[(fl_i64)(row0 + ty + 16 * i) * n + k0 + tx];
      tb[ty][tx + 16 * i] = b[(fl_i64)(k0 + ty) * n + col0 + tx + 16 * i];
    }
    FL_BARRIER();
    FL_UNROLL
    for (int k = 0; k < 16; ++k) {
      for (int i = 0; i < 4; ++i) {
        for (int j = 0; j < 4; ++j) acc[i][j] = fl_fma(ta[k][ty + 16 * i], tb[k][tx + 16 * j], acc[i][j]);
      }
    }
    FL_BARRIER();
  }
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 4; ++j) c[(fl_i64)(row0 + ty + 16 * i) * n + col0 + tx + 16 * j] = acc[i][j];
  }
}
