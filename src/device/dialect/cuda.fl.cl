// SPDX-License-Identifier: Apache-2.0
// The dialect on CUDA C, through NVRTC or nvcc, and on MUSA C (FL_MUSA), which has no PTX and may have 128 lanes. Compiled
// with contraction off: fl_fma is the only fused product.
typedef signed char fl_i8;
typedef unsigned char fl_u8;
typedef short fl_i16;
typedef unsigned short fl_u16;
typedef int fl_i32;
typedef unsigned int fl_u32;
typedef long long fl_i64;
typedef unsigned long long fl_u64;
typedef float fl_f32;
typedef float4 fl_f32x4;
typedef uint4 fl_u32x4;
#define uint fl_u32

#define FL_KERNEL(name) extern "C" __global__ void name
#define FL_FUNCTION static __device__ __forceinline__
#define FL_CONSTANT static __device__ const
#define FL_GLOBAL(type) type*
#define FL_LOCAL(type, name, dims) __shared__ type name dims
#define FL_LOCAL_POINTER(type) type*
#define FL_DYNAMIC_LOCAL_PARAM int fl_dynamic_local_is_shared
#define FL_DYNAMIC_LOCAL(type, name) type* name = (type*)fl_dynamic_local
extern __shared__ __align__(16) unsigned char fl_dynamic_local[];
#define FL_BARRIER() __syncthreads()
#define FL_ASSERT(condition)
#define FL_UNROLL _Pragma("unroll")

#define fl_axis(v, d) ((fl_i32)((d) == 0 ? v.x : (d) == 1 ? v.y : v.z))
#define fl_group_id(d) fl_axis(blockIdx, d)
#define fl_group_count(d) fl_axis(gridDim, d)
#define fl_local_id(d) fl_axis(threadIdx, d)
#define fl_local_size(d) fl_axis(blockDim, d)
#define fl_thread() ((fl_i32)(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)))

FL_FUNCTION float fl_as_f32(fl_u32 x) { return __uint_as_float(x); }
FL_FUNCTION fl_u32 fl_as_u32(float x) { return __float_as_uint(x); }
#define fl_fma(a, b, c) __fmaf_rn(a, b, c)
#define fl_abs(x) fabsf(x)
#define fl_floor(x) floorf(x)
#define fl_ceil(x) ceilf(x)
#define fl_trunc(x) truncf(x)
#define fl_rint(x) rintf(x)
#define fl_sqrt(x) sqrtf(x)
#define fl_exp(x) expf(x)
#define fl_exp2(x) exp2f(x)
#define fl_expm1(x) expm1f(x)
#define fl_log(x) logf(x)
#define fl_log1p(x) log1pf(x)
#define fl_sin(x) sinf(x)
#define fl_cos(x) cosf(x)
#define fl_tanh(x) tanhf(x)
#define fl_erf(x) erff(x)
#define fl_pow(x, y) powf(x, y)
#define fl_is_nan(x) ((x) != (x))

FL_FUNCTION fl_f32x4 fl_load_f32x4(const float* p) { return *(const float4*)p; }
FL_FUNCTION void fl_store_f32x4(float* p, fl_f32x4 v) { *(float4*)p = v; }
FL_FUNCTION fl_u32x4 fl_load_u32x4(const fl_u32* p) { return *(const uint4*)p; }

#define fl_atomic_add_i32(p, v) atomicAdd(p, v)
#define fl_atomic_max_i32(p, v) atomicMax(p, v)
#define fl_atomic_add_f32(p, v) atomicAdd(p, v)

// All lanes of a warp are here (rule 2), whatever the width.
#define FL_EXCHANGE(x, lane) __shfl_sync(0xffffffffu, x, lane, FL_WARP)
#define FL_EXCHANGE_XOR(x, mask) __shfl_xor_sync(0xffffffffu, x, mask, FL_WARP)
#define FL_WARP_STATE const int fl_warp_scratch = 0
#define FL_WARP_PARAM int fl_warp_scratch
#define fl_lane() (fl_thread() & (FL_WARP - 1))
#define fl_warp_id() (fl_thread() / FL_WARP)
#define fl_warp_shuffle(x, lane) ((void)fl_warp_scratch, FL_EXCHANGE(x, lane))
#define fl_warp_shuffle_xor(x, mask) ((void)fl_warp_scratch, FL_EXCHANGE_XOR(x, mask))
// As fl_max, which comes later: NaN wins.
FL_FUNCTION float fl_larger(float a, float b) { return (a > b || a != a) ? a : b; }
FL_FUNCTION float fl_warp_sum_of(FL_WARP_PARAM, float x) {
  for (int s = FL_WARP / 2; s > 0; s /= 2) x += fl_warp_shuffle_xor(x, s);
  return x;
}
FL_FUNCTION float fl_warp_max_of(FL_WARP_PARAM, float x) {
  for (int s = FL_WARP / 2; s > 0; s /= 2) x = fl_larger(x, fl_warp_shuffle_xor(x, s));
  return x;
}
#define fl_warp_sum(x) fl_warp_sum_of(fl_warp_scratch, x)
#define fl_warp_max(x) fl_warp_max_of(fl_warp_scratch, x)
#define fl_warp_any(x) (fl_warp_max((x) ? 1.0f : 0.0f) != 0.0f)

#if !defined(FL_MUSA) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800 && FL_WARP == 32
#define FL_HAS_MMA 1
#endif
