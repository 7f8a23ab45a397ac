// Reading and writing elements by the name of their type (tensor/dtype.h). Buffers come in as bytes, since an operand
// may have any type: fl_load_bf16(x, i) is element i of x as a float.
#define fl_at(type, p, i) (((FL_GLOBAL(type))(p))[i])
#define fl_load_f32(p, i) fl_at(const float, p, i)
#define fl_load_f16(p, i) fl_f16_to_f32(fl_at(const fl_u16, p, i))
#define fl_load_bf16(p, i) fl_bf16_to_f32(fl_at(const fl_u16, p, i))
#define fl_load_f8e4m3(p, i) fl_e4m3_to_f32((p)[i])
#define fl_load_f8e5m2(p, i) fl_e5m2_to_f32((p)[i])
#define fl_load_f8e8m0(p, i) fl_e8m0_to_f32((p)[i])
#define fl_load_i32(p, i) ((float)fl_at(const fl_i32, p, i))
#define fl_load_u32(p, i) ((float)fl_at(const fl_u32, p, i))
#define fl_load_i64(p, i) ((float)fl_at(const fl_i64, p, i))
#define fl_load_i16(p, i) ((float)fl_at(const fl_i16, p, i))
#define fl_load_u16(p, i) ((float)fl_at(const fl_u16, p, i))
#define fl_load_i8(p, i) ((float)(fl_i8)(p)[i])
#define fl_load_u8(p, i) ((float)(p)[i])
#define fl_load_bool(p, i) ((float)(p)[i])

#define fl_store_f32(p, i, v) fl_at(float, p, i) = (v)
#define fl_store_f16(p, i, v) fl_at(fl_u16, p, i) = fl_f32_to_f16(v)
#define fl_store_bf16(p, i, v) fl_at(fl_u16, p, i) = fl_f32_to_bf16(v)
#define fl_store_i32(p, i, v) fl_at(fl_i32, p, i) = fl_saturated_i32(v)
#define fl_store_bool(p, i, v) (p)[i] = (fl_u8)((v) != 0.0f)

FL_FUNCTION fl_i32 fl_narrow_i32(fl_i64 v) {
  return v < -2147483647 ? (fl_i32)(-2147483647 - 1) : v > 2147483647 ? 2147483647 : (fl_i32)v;
}

// Towards zero, saturating, NaN to 0.
FL_FUNCTION fl_i32 fl_saturated_i32(float v) {
  if (fl_is_nan(v)) return 0;
  if (v <= -2147483648.0f) return (fl_i32)(-2147483647 - 1);
  if (v >= 2147483648.0f) return 2147483647;
  return (fl_i32)v;
}

// A sum that carries what its additions round off (T. Ogita, S. Rump, S. Oishi, "Accurate sum and dot product", 2005).
typedef struct {
  float sum;
  float rest;
} fl_exact_sum;

FL_FUNCTION fl_exact_sum fl_exact_from(float v) {
  fl_exact_sum s;
  s.sum = v;
  s.rest = 0.0f;
  return s;
}

FL_FUNCTION fl_exact_sum fl_exact_add(fl_exact_sum s, float v) {
  const float next = s.sum + v;
  const float part = next - s.sum;
  s.rest += (s.sum - (next - part)) + (v - part);
  s.sum = next;
  return s;
}

FL_FUNCTION fl_exact_sum fl_exact_add_product(fl_exact_sum s, float x, float y) {
  const float product = x * y;
  s = fl_exact_add(s, product);
  s.rest += fl_fma(x, y, -product);
  return s;
}

FL_FUNCTION float fl_exact_value(fl_exact_sum s) { return fl_is_nan(s.rest) ? s.sum : s.sum + s.rest; }
