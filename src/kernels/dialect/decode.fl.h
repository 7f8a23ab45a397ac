// Weights of every stored type, 16 elements at a time: fl_decode_<type>(row, c, n, w) writes elements 16 c .. 16 c + 15
// of a row to w. `n` is how many of them the row has (block formats: always 16); what is beyond is 0. The formats are
// those of tensor/dtype.h, in their file layout; every decoded value equals the host's (tensor/codec.h).
#define FL_PRIVATE_PLAIN_DECODER(type)                                                          \
  FL_FUNCTION void fl_decode_##type(FL_GLOBAL(const fl_u8) row, fl_i32 c, fl_i32 n, float* w) { \
    for (int j = 0; j < 16; ++j) w[j] = j < n ? fl_load_##type(row, 16 * (fl_i64)c + j) : 0.0f; \
  }
#ifdef FL_WANT_f32
FL_PRIVATE_PLAIN_DECODER(f32)
#endif
#ifdef FL_WANT_f16
FL_PRIVATE_PLAIN_DECODER(f16)
#endif
#ifdef FL_WANT_bf16
FL_PRIVATE_PLAIN_DECODER(bf16)
#endif
#ifdef FL_WANT_f8e4m3
FL_PRIVATE_PLAIN_DECODER(f8e4m3)
#endif
#ifdef FL_WANT_f8e5m2
FL_PRIVATE_PLAIN_DECODER(f8e5m2)
#endif
#ifdef FL_WANT_f8e8m0
FL_PRIVATE_PLAIN_DECODER(f8e8m0)
#endif

// Blocks lie at any byte.
#define fl_half_at(p) fl_f16_to_f32((fl_half)((fl_u32)(p)[0] | ((fl_u32)(p)[1] << 8)))
#define fl_word_at(p) ((fl_u32)(p)[0] | ((fl_u32)(p)[1] << 8) | ((fl_u32)(p)[2] << 16) | ((fl_u32)(p)[3] << 24))

#ifdef FL_WANT_q8_0
FL_FUNCTION void fl_decode_q8_0(FL_GLOBAL(const fl_u8) row, fl_i32 c, fl_i32 n, float* w) {
  FL_GLOBAL(const fl_u8) in = row + (fl_i64)(c / 2) * 34;
  const float d = fl_half_at(in);
  in += 2 + 16 * (c & 1);
  for (int j = 0; j < 16; ++j) w[j] = d * (float)(fl_i8)in[j];
}
#endif
#ifdef FL_WANT_q4_0
FL_FUNCTION void fl_decode_q4_0(FL_GLOBAL(const fl_u8) row, fl_i32 c, fl_i32 n, float* w) {
  FL_GLOBAL(const fl_u8) in = row + (fl_i64)(c / 2) * 18;
  const float d = fl_half_at(in);
  const int shift = 4 * (c & 1);
  for (int j = 0; j < 16; ++j) w[j] = d * (float)((int)((in[2 + j] >> shift) & 15) - 8);
}
#endif
#ifdef FL_WANT_q4_1
FL_FUNCTION void fl_decode_q4_1(FL_GLOBAL(const fl_u8) row, fl_i32 c, fl_i32 n, float* w) {
  FL_GLOBAL(const fl_u8) in = row + (fl_i64)(c / 2) * 20;
  const float d = fl_half_at(in);
  const float m = fl_half_at(in + 2);
  const int shift = 4 * (c & 1);
  for (int j = 0; j < 16; ++j) w[j] = d * (float)((in[4 + j] >> shift) & 15) + m;
}
#endif
#ifdef FL_WANT_q5_0
FL_FUNCTION void fl_decode_q5_0(FL_GLOBAL(const fl_u8) row, fl_i32 c, fl_i32 n, float* w) {
  FL_GLOBAL(const fl_u8) in = row + (fl_i64)(c / 2) * 22;
  const float d = fl_half_at(in);
  const fl_u32 high = fl_word_at(in + 2) >> (16 * (c & 1));
  const int shift = 4 * (c & 1);
  for (int j = 0; j < 16; ++j) {
    w[j] = d * (float)((int)(((in[6 + j] >> shift) & 15) | (((high >> j) & 1u) << 4)) - 16);
  }
}
#endif
#ifdef FL_WANT_q5_1
FL_FUNCTION void fl_decode_q5_1(FL_GLOBAL(const fl_u8) row, fl_i32 c, fl_i32 n, float* w) {
  FL_GLOBAL(const fl_u8) in = row + (fl_i64)(c / 2) * 24;
  const float d = fl_half_at(in);
  const float m = fl_half_at(in + 2);
  const fl_u32 high = fl_word_at(in + 4) >> (16 * (c & 1));
  const int shift = 4 * (c & 1);
  for (int j = 0; j < 16; ++j) w[j] = d * (float)(((in[8 + j] >> shift) & 15) | (((high >> j) & 1u) << 4)) + m;
}
#endif
#if defined(FL_WANT_q4_k) || defined(FL_WANT_q5_k)
// Scale and minimum of group `i` in the 12 bytes at `in`: 6 bits each, the high bits of groups 4 to 7 in the spare
// ones.
#define fl_k_scale(in, i) ((float)((i) < 4 ? (in)[i] & 63 : ((in)[(i) + 4] & 15) | (((in)[(i)-4] >> 6) << 4)))
#define fl_k_min(in, i) ((float)((i) < 4 ? (in)[(i) + 4] & 63 : ((in)[(i) + 4] >> 4) | (((in)[i] >> 6) << 4)))
#endif
#ifdef FL_WANT_q4_k
FL_FUNCTION void fl_decode_q4_k(FL_GLOBAL(const fl_u8) row, fl_i32 c, fl_i32 n, float* w) {
  FL_GLOBAL(const fl_u8) in = row + (fl_i64)(c / 16) * 144;
  const int group = (c & 15) / 2;
  const float scale = fl_half_at(in) * fl_k_scale(in + 4, group);
  const float least = fl_half_at(in + 2) * fl_k_min(in + 4, group);
  const int shift = 4 * (group & 1);
  in += 16 + group / 2 * 32 + 16 * (c & 1);
  for (int j = 0; j < 16; ++j) w[j] = scale * (float)((in[j] >> shift) & 15) - least;
}
#endif
#ifdef FL_WANT_q5_k
FL_FUNCTION void fl_decode_q5_k(FL_GLOBAL(const fl_u8) row, fl_i32 c, fl_i32 n, float* w) {
  FL_GLOBAL(const fl_u8) in = row + (fl_i64)(c / 16) * 176;
  const int group = (c & 15) / 2;
  const float scale = fl_half_at(in) * fl_k_scale(in + 4, group);
  const float least = fl_half_at(in + 2) * fl_k_min(in + 4, group);
  const int shift = 4 * (group & 1);
  FL_GLOBAL(const fl_u8) high = in + 16 + 16 * (c & 1);
  in += 48 + group / 2 * 32 + 16 * (c & 1);
  for (int j = 0; j < 16; ++j) {
    w[j] = scale * (float)(((in[j] >> shift) & 15) | (((high[j] >> group) & 1) << 4)) - least;
  }
}
#endif
#ifdef FL_WANT_q6_k
FL_FUNCTION void fl_decode_q6_k(FL_GLOBAL(const fl_u8) row, fl_i32 c, fl_i32 n, float* w) {
  FL_GLOBAL(const fl_u8) in = row + (fl_i64)(c / 16) * 210;
  const int part = (c & 15) / 8;  // which half of 128
  const int group = (c & 7) / 2;  // of 32
  const int lane = 16 * (c & 1);
  const float scale = fl_half_at(in + 208) * (float)(fl_i8)in[192 + 8 * part + (c & 7)];
  FL_GLOBAL(const fl_u8) low = in + 64 * part + 32 * (group & 1) + lane;
  FL_GLOBAL(const fl_u8) high = in + 128 + 32 * part + lane;
  const int shift = group / 2 * 4;
  for (int j = 0; j < 16; ++j) {
    w[j] = scale * (float)((int)(((low[j] >> shift) & 15) | (((high[j] >> (2 * group)) & 3) << 4)) - 32);
  }
}
#endif
#ifdef FL_WANT_int4g
FL_FUNCTION void fl_decode_int4g(FL_GLOBAL(const fl_u8) row, fl_i32 c, fl_i32 n, float* w) {
  FL_GLOBAL(const fl_u8) in = row + (fl_i64)(c / 2) * 21;
  const float d = fl_as_f32(fl_word_at(in));
  const int zero = in[4];
  const int shift = 4 * (c & 1);
  for (int j = 0; j < 16; ++j) w[j] = d * (float)((int)((in[5 + j] >> shift) & 15) - zero);
}
#endif
#ifdef FL_WANT_int8g
FL_FUNCTION void fl_decode_int8g(FL_GLOBAL(const fl_u8) row, fl_i32 c, fl_i32 n, float* w) {
  FL_GLOBAL(const fl_u8) in = row + (fl_i64)(c / 2) * 37;
  const float d = fl_as_f32(fl_word_at(in));
  const int zero = in[4];
  in += 5 + 16 * (c & 1);
  for (int j = 0; j < 16; ++j) w[j] = d * (float)((int)in[j] - zero);
}
#endif
#ifdef FL_WANT_fp8g
FL_FUNCTION void fl_decode_fp8g(FL_GLOBAL(const fl_u8) row, fl_i32 c, fl_i32 n, float* w) {
  FL_GLOBAL(const fl_u8) in = row + (fl_i64)(c / 2) * 36;
  const float d = fl_as_f32(fl_word_at(in));
  in += 4 + 16 * (c & 1);
  for (int j = 0; j < 16; ++j) w[j] = d * fl_e4m3_to_f32(in[j]);
}
#endif
#ifdef FL_WANT_nvfp4
FL_FUNCTION void fl_decode_nvfp4(FL_GLOBAL(const fl_u8) row, fl_i32 c, fl_i32 n, float* w) {
  FL_GLOBAL(const fl_u8) in = row + (fl_i64)(c / 4) * 40;
  const float scale = fl_as_f32(fl_word_at(in)) * fl_e4m3_to_f32(in[4 + (c & 3)]);
  const int shift = 4 * (c & 1);
  in += 8 + 16 * ((c & 3) / 2);
  for (int j = 0; j < 16; ++j) w[j] = scale * fl_e2m1_to_f32((in[j] >> shift) & 15u);
}
#endif
#ifdef FL_WANT_mxfp4
FL_FUNCTION void fl_decode_mxfp4(FL_GLOBAL(const fl_u8) row, fl_i32 c, fl_i32 n, float* w) {
  FL_GLOBAL(const fl_u8) in = row + (fl_i64)(c / 2) * 17;
  const float scale = fl_e8m0_to_f32(in[0]);
  const int shift = 4 * (c & 1);
  for (int j = 0; j < 16; ++j) w[j] = scale * fl_e2m1_to_f32((in[1 + j] >> shift) & 15u);
}
#endif
