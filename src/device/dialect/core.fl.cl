// SPDX-License-Identifier: Apache-2.0
// The part of the dialect that is the same everywhere, on top of a binding: numbers in storage, small functions, the
// tile product. Storage types are read and written through these helpers and computed in float32; they use integer
// arithmetic alone, so that every device converts alike, with or without subnormals.

typedef fl_u16 fl_half;  // IEEE binary16, as storage
typedef fl_u16 fl_bf16;  // the upper half of a float32
typedef fl_u8 fl_f8;     // E4M3 or E5M2, by the name of the helper

#define FL_WARP_PASS fl_warp_scratch  // what a caller hands to a function with FL_WARP_PARAM
#define fl_global_id(d) ((fl_i64)fl_group_id(d) * fl_local_size(d) + fl_local_id(d))
#define fl_block_threads() (fl_local_size(0) * fl_local_size(1) * fl_local_size(2))

// The smaller and the larger; NaN where one of them is.
FL_FUNCTION float fl_min(float a, float b) { return (a < b || a != a) ? a : b; }
FL_FUNCTION float fl_max(float a, float b) { return (a > b || a != a) ? a : b; }
FL_FUNCTION float fl_rsqrt(float x) { return 1.0f / fl_sqrt(x); }
FL_FUNCTION float fl_sigmoid(float x) { return 1.0f / (1.0f + fl_exp(-x)); }
FL_FUNCTION float fl_sign(float x) { return x > 0.0f ? 1.0f : (x < 0.0f ? -1.0f : x); }
#define FL_INFINITY fl_as_f32(0x7f800000u)
#define FL_NAN fl_as_f32(0x7fc00000u)

FL_FUNCTION float fl_f16_to_f32(fl_half h) {
  const fl_u32 magnitude = h & 0x7fffu;
  fl_u32 bits = (magnitude << 13) + (112u << 23);
  if (magnitude >= 0x7c00u) bits += 112u << 23;
  if (magnitude < 0x0400u) bits = fl_as_u32(fl_as_f32((magnitude << 13) + (113u << 23)) - fl_as_f32(113u << 23));
  return fl_as_f32(bits | ((fl_u32)(h & 0x8000u) << 16));
}

// To nearest, ties to even; too large becomes infinity, NaN stays NaN.
FL_FUNCTION fl_half fl_f32_to_f16(float x) {
  const fl_u32 bits = fl_as_u32(x);
  const fl_u32 magnitude = bits & 0x7fffffffu;
  fl_u32 code = (magnitude + 0xc8000fffu + ((magnitude >> 13) & 1u)) >> 13;
  if (magnitude >= 0x47800000u) code = magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u;
  if (magnitude < 0x38800000u) code = fl_as_u32(fl_as_f32(magnitude) + 0.5f) - 0x3f000000u;
  return (fl_half)(code | ((bits >> 16) & 0x8000u));
}

FL_FUNCTION float fl_bf16_to_f32(fl_bf16 b) { return fl_as_f32((fl_u32)b << 16); }

FL_FUNCTION fl_bf16 fl_f32_to_bf16(float x) {
  const fl_u32 bits = fl_as_u32(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (fl_bf16)((bits >> 16) | 0x40u);
  return (fl_bf16)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

FL_FUNCTION float fl_e4m3_to_f32(fl_f8 code) {
  const fl_u32 magnitude = code & 0x7fu;
  float value = fl_as_f32((magnitude << 20) + (120u << 23));
  if (magnitude < 8u) value = (float)magnitude * 0.001953125f;
  if (magnitude == 0x7fu) value = FL_NAN;
  return fl_as_f32(fl_as_u32(value) | ((fl_u32)(code & 0x80u) << 24));
}

// The variant without negative zero (FNUZ): half of the value for the same code, 0x80 is its only NaN.
FL_FUNCTION float fl_e4m3fnuz_to_f32(fl_f8 code) {
  const fl_u32 magnitude = code & 0x7fu;
  float value = fl_as_f32((magnitude << 20) + (119u << 23));
  if (magnitude < 8u) value = (float)magnitude * 0.0009765625f;
  if (code == 0x80u) value = FL_NAN;
  return code > 0x80u ? -value : value;
}

// To nearest, ties to even; beyond 448 the largest (saturating), NaN stays NaN.
FL_FUNCTION fl_f8 fl_f32_to_e4m3(float x) {
  const fl_u32 bits = fl_as_u32(x);
  const fl_u32 magnitude = bits & 0x7fffffffu;
  const fl_u32 sign = (bits >> 24) & 0x80u;
  if (magnitude > 0x7f800000u) return (fl_f8)(0x7fu | sign);
  if (magnitude >= 0x43e00000u) return (fl_f8)(0x7eu | sign);
  fl_u32 code = (magnitude - (120u << 23) + 0x7ffffu + ((magnitude >> 20) & 1u)) >> 20;
  if (magnitude < 0x3c800000u) code = fl_as_u32(fl_as_f32(magnitude) + 16384.0f) - 0x46800000u;
  return (fl_f8)(code | sign);
}

FL_FUNCTION float fl_e5m2_to_f32(fl_f8 code) { return fl_f16_to_f32((fl_half)(code << 8)); }
FL_FUNCTION float fl_e8m0_to_f32(fl_u8 code) {
  if (code == 255u) return FL_NAN;
  return fl_as_f32(code == 0u ? 0x00400000u : (fl_u32)code << 23);
}
FL_FUNCTION float fl_e2m1_to_f32(fl_u32 nibble) {
  const fl_u32 magnitude = nibble & 7u;
  const float value = magnitude < 2u ? (float)magnitude * 0.5f : fl_as_f32((magnitude << 22) + (126u << 23));
  return (nibble & 8u) != 0u ? -value : value;
}

// Four products of signed bytes, added to c.
FL_FUNCTION fl_i32 fl_dot4_i8(fl_u32 a, fl_u32 b, fl_i32 c) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 610
  return __dp4a((int)a, (int)b, c);
#else
  c += (fl_i32)(fl_i8)(a & 0xffu) * (fl_i32)(fl_i8)(b & 0xffu);
  c += (fl_i32)(fl_i8)((a >> 8) & 0xffu) * (fl_i32)(fl_i8)((b >> 8) & 0xffu);
  c += (fl_i32)(fl_i8)((a >> 16) & 0xffu) * (fl_i32)(fl_i8)((b >> 16) & 0xffu);
  c += (fl_i32)(fl_i8)(a >> 24) * (fl_i32)(fl_i8)(b >> 24);
  return c;
#endif
}

// The tile product of a warp: acc[16, 8] += a[16, 16] * b[8, 16]^T, sums in float32. a and b lie in local memory, row by
// row with strides lda and ldb (in elements, even; rows begin at even elements); acc is spread over the lanes: element e
// of a lane is (fl_mma_row(e), fl_mma_col(e)).
#define FL_MMA_M 16
#define FL_MMA_N 8
#define FL_MMA_K 16
#ifdef FL_HAS_MMA
#define FL_MMA_MAX_ELEMENTS 4
#define FL_MMA_ELEMENTS 4
#define fl_mma_row(e) ((fl_lane() >> 2) + ((e) >> 1) * 8)
#define fl_mma_col(e) ((fl_lane() & 3) * 2 + ((e) & 1))
#else
#ifndef FL_MMA_MAX_ELEMENTS
#define FL_MMA_MAX_ELEMENTS (FL_MMA_M * FL_MMA_N / FL_WARP)
#endif
#define FL_MMA_ELEMENTS (FL_MMA_M * FL_MMA_N / FL_WARP)
#define fl_mma_row(e) (((e) * FL_WARP + fl_lane()) / FL_MMA_N)
#define fl_mma_col(e) (((e) * FL_WARP + fl_lane()) & (FL_MMA_N - 1))
#endif
typedef struct {
  float v[FL_MMA_MAX_ELEMENTS];
} fl_mma_acc;

FL_FUNCTION fl_mma_acc fl_mma_zero(void) {
  fl_mma_acc acc;
  for (int e = 0; e < FL_MMA_MAX_ELEMENTS; ++e) acc.v[e] = 0.0f;
  return acc;
}

// FL_MMA(bf16, acc, a, lda, b, ldb), also f16 and f32 (which is never on matrix units: they would round it).
#define FL_MMA(type, acc, a, lda, b, ldb) acc = fl_mma_##type(acc, a, lda, b, ldb)

#define FL_MMA_TWIN(type, element, widen)                                                                              \
  FL_FUNCTION fl_mma_acc fl_mma_##type(fl_mma_acc acc, FL_LOCAL_POINTER(const element) a, int lda,                     \
                                       FL_LOCAL_POINTER(const element) b, int ldb) {                                   \
    for (int e = 0; e < FL_MMA_ELEMENTS; ++e) {                                                                        \
      for (int k = 0; k < FL_MMA_K; ++k) {                                                                             \
        acc.v[e] += widen(a[fl_mma_row(e) * lda + k]) * widen(b[fl_mma_col(e) * ldb + k]);                             \
      }                                                                                                                \
    }                                                                                                                  \
    return acc;                                                                                                        \
  }
#define fl_itself(x) (x)
FL_MMA_TWIN(f32, float, fl_itself)

#ifdef FL_HAS_MMA
#define FL_MMA_PTX(type, letter)                                                                                      \
  FL_FUNCTION fl_mma_acc fl_mma_##type(fl_mma_acc acc, const fl_u16* a, int lda, const fl_u16* b, int ldb) {           \
    const int g = fl_lane() >> 2;                                                                                      \
    const int t = (fl_lane() & 3) * 2;                                                                                 \
    const fl_u32 a0 = *(const fl_u32*)(a + g * lda + t);                                                               \
    const fl_u32 a1 = *(const fl_u32*)(a + (g + 8) * lda + t);                                                         \
    const fl_u32 a2 = *(const fl_u32*)(a + g * lda + t + 8);                                                           \
    const fl_u32 a3 = *(const fl_u32*)(a + (g + 8) * lda + t + 8);                                                     \
    const fl_u32 b0 = *(const fl_u32*)(b + g * ldb + t);                                                               \
    const fl_u32 b1 = *(const fl_u32*)(b + g * ldb + t + 8);                                                           \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." letter "." letter                                            \
                 ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                                          \
                 : "+f"(acc.v[0]), "+f"(acc.v[1]), "+f"(acc.v[2]), "+f"(acc.v[3])                                      \
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));                                              \
    return acc;                                                                                                        \
  }
FL_MMA_PTX(bf16, "bf16")
FL_MMA_PTX(f16, "f16")
#else
FL_MMA_TWIN(bf16, fl_bf16, fl_bf16_to_f32)
FL_MMA_TWIN(f16, fl_half, fl_f16_to_f32)
#endif
