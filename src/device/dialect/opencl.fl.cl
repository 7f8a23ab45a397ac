// SPDX-License-Identifier: Apache-2.0
// The dialect on OpenCL C 1.2. Buffers may begin anywhere: the device rewrites each kernel so that every FL_GLOBAL
// parameter has a byte offset added (opencl/rewrite.h). Without sub-groups, warp operations go through local memory and
// meet as barriers do.
#pragma OPENCL FP_CONTRACT OFF
#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

typedef char fl_i8;
typedef uchar fl_u8;
typedef short fl_i16;
typedef ushort fl_u16;
typedef int fl_i32;
typedef uint fl_u32;
typedef long fl_i64;
typedef ulong fl_u64;
typedef float fl_f32;
typedef float4 fl_f32x4;
typedef uint4 fl_u32x4;

#define FL_KERNEL(name) __kernel void name
#define FL_FUNCTION static inline
#define FL_CONSTANT __constant
#define FL_GLOBAL(type) __global type*
#define FL_LOCAL(type, name, dims) __local type name dims
#define FL_LOCAL_POINTER(type) __local type*
#define FL_DYNAMIC_LOCAL_PARAM __local fl_u8* fl_dynamic_local
#define FL_DYNAMIC_LOCAL(type, name) __local type* name = (__local type*)fl_dynamic_local
#define FL_BARRIER() barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#define FL_ASSERT(condition)
#define FL_UNROLL

#define fl_group_id(d) ((fl_i32)get_group_id(d))
#define fl_group_count(d) ((fl_i32)get_num_groups(d))
#define fl_local_id(d) ((fl_i32)get_local_id(d))
#define fl_local_size(d) ((fl_i32)get_local_size(d))

#define fl_as_f32(x) as_float(x)
#define fl_as_u32(x) as_uint(x)
#define fl_fma(a, b, c) fma((float)(a), (float)(b), (float)(c))
#define fl_abs(x) fabs((float)(x))
#define fl_floor(x) floor((float)(x))
#define fl_ceil(x) ceil((float)(x))
#define fl_trunc(x) trunc((float)(x))
#define fl_rint(x) rint((float)(x))
#define fl_sqrt(x) sqrt((float)(x))
#define fl_exp(x) exp((float)(x))
#define fl_exp2(x) exp2((float)(x))
#define fl_expm1(x) expm1((float)(x))
#define fl_log(x) log((float)(x))
#define fl_log1p(x) log1p((float)(x))
#define fl_sin(x) sin((float)(x))
#define fl_cos(x) cos((float)(x))
#define fl_tanh(x) tanh((float)(x))
#define fl_erf(x) erf((float)(x))
#define fl_pow(x, y) pow((float)(x), (float)(y))
#define fl_is_nan(x) (isnan((float)(x)) != 0)

#define fl_load_f32x4(p) vload4(0, p)
#define fl_store_f32x4(p, v) vstore4(v, 0, p)
#define fl_load_u32x4(p) vload4(0, p)

#define fl_atomic_add_i32(p, v) atomic_add(p, v)
#define fl_atomic_max_i32(p, v) atomic_max(p, v)
FL_FUNCTION void fl_atomic_add_f32(__global float* p, float v) {
  volatile __global uint* at = (volatile __global uint*)p;
  uint seen = *at;
  for (;;) {
    const uint before = atomic_cmpxchg(at, seen, as_uint(as_float(seen) + v));
    if (before == seen) return;
    seen = before;
  }
}

// As fl_max, which comes later: NaN wins.
FL_FUNCTION float fl_larger(float a, float b) { return (a > b || a != a) ? a : b; }

#define fl_thread() \
  ((fl_i32)(get_local_id(0) + get_local_size(0) * (get_local_id(1) + get_local_size(1) * get_local_id(2))))

#ifdef FL_SUBGROUPS
#pragma OPENCL EXTENSION cl_khr_subgroups : enable
#pragma OPENCL EXTENSION cl_khr_subgroup_shuffle : enable
#define FL_WARP_STATE const int fl_warp_scratch = 0
#define FL_WARP_PARAM int fl_warp_scratch
#define fl_lane() ((fl_i32)get_sub_group_local_id())
#define fl_warp_id() ((fl_i32)get_sub_group_id())
#define fl_warp_shuffle(x, lane) (((void)fl_warp_scratch), sub_group_shuffle(x, (uint)(lane) & (FL_WARP - 1)))
#define fl_warp_shuffle_xor(x, mask) (((void)fl_warp_scratch), sub_group_shuffle_xor(x, (uint)(mask)))
FL_FUNCTION float fl_warp_sum_of(FL_WARP_PARAM, float x) {
  for (int s = FL_WARP / 2; s > 0; s /= 2) x += fl_warp_shuffle_xor(x, s);
  return x;
}
FL_FUNCTION float fl_warp_max_of(FL_WARP_PARAM, float x) {
  for (int s = FL_WARP / 2; s > 0; s /= 2) x = fl_larger(x, fl_warp_shuffle_xor(x, s));
  return x;
}
FL_FUNCTION int fl_warp_any_of(FL_WARP_PARAM, int x) { return sub_group_any(x); }
#else
#define FL_WARP_STATE __local uint fl_warp_scratch[FL_MAX_BLOCK]
#define FL_WARP_PARAM __local uint* fl_warp_scratch
#define fl_lane() (fl_thread() & (FL_WARP - 1))
#define fl_warp_id() (fl_thread() / FL_WARP)
FL_FUNCTION uint fl_warp_exchange(__local uint* scratch, uint x, int source) {
  const int t = fl_thread();
  scratch[t] = x;
  barrier(CLK_LOCAL_MEM_FENCE);
  const uint other = scratch[(t & ~(FL_WARP - 1)) + (source & (FL_WARP - 1))];
  barrier(CLK_LOCAL_MEM_FENCE);
  return other;
}
FL_FUNCTION __attribute__((overloadable)) float fl_warp_shuffle_of(__local uint* scratch, float x, int source) {
  return as_float(fl_warp_exchange(scratch, as_uint(x), source));
}
FL_FUNCTION __attribute__((overloadable)) int fl_warp_shuffle_of(__local uint* scratch, int x, int source) {
  return as_int(fl_warp_exchange(scratch, as_uint(x), source));
}
FL_FUNCTION __attribute__((overloadable)) uint fl_warp_shuffle_of(__local uint* scratch, uint x, int source) {
  return fl_warp_exchange(scratch, x, source);
}
#define fl_warp_shuffle(x, lane) fl_warp_shuffle_of(fl_warp_scratch, x, lane)
#define fl_warp_shuffle_xor(x, mask) fl_warp_shuffle_of(fl_warp_scratch, x, fl_lane() ^ (mask))
// The pairs are those of a butterfly of shuffles, so the sum is the same to the last bit.
FL_FUNCTION float fl_warp_sum_of(__local uint* scratch, float x) {
  const int t = fl_thread();
  scratch[t] = as_uint(x);
  barrier(CLK_LOCAL_MEM_FENCE);
  if ((t & (FL_WARP - 1)) == 0) {
    __local float* v = (__local float*)scratch + t;
    for (int s = FL_WARP / 2; s > 0; s /= 2) {
      for (int i = 0; i < s; ++i) v[i] += v[i + s];
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  const float sum = as_float(scratch[t & ~(FL_WARP - 1)]);
  barrier(CLK_LOCAL_MEM_FENCE);
  return sum;
}
FL_FUNCTION float fl_warp_max_of(__local uint* scratch, float x) {
  const int t = fl_thread();
  scratch[t] = as_uint(x);
  barrier(CLK_LOCAL_MEM_FENCE);
  if ((t & (FL_WARP - 1)) == 0) {
    __local float* v = (__local float*)scratch + t;
    for (int i = 1; i < FL_WARP; ++i) v[0] = fl_larger(v[0], v[i]);
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  const float most = as_float(scratch[t & ~(FL_WARP - 1)]);
  barrier(CLK_LOCAL_MEM_FENCE);
  return most;
}
FL_FUNCTION int fl_warp_any_of(__local uint* scratch, int x) {
  return fl_warp_max_of(scratch, x != 0 ? 1.0f : 0.0f) != 0.0f;
}
#endif
#define fl_warp_sum(x) fl_warp_sum_of(fl_warp_scratch, x)
#define fl_warp_max(x) fl_warp_max_of(fl_warp_scratch, x)
#define fl_warp_any(x) fl_warp_any_of(fl_warp_scratch, x)
