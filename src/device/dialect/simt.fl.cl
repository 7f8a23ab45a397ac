// SPDX-License-Identifier: Apache-2.0
// The dialect's words in C++ for the simt device; simt.fl.h comes before. With FL_SIMT_CHECKED, FL_GLOBAL pointers know
// their buffer and every access is held against it.
typedef int8_t fl_i8;
typedef uint8_t fl_u8;
typedef int16_t fl_i16;
typedef uint16_t fl_u16;
typedef int32_t fl_i32;
typedef uint32_t fl_u32;
typedef int64_t fl_i64;
typedef uint64_t fl_u64;
typedef float fl_f32;
typedef uint32_t uint;
struct fl_f32x4 {
  float x, y, z, w;
};
struct fl_u32x4 {
  fl_u32 x, y, z, w;
};

static thread_local fl_simt_block* fl_simt;

#ifdef FL_SIMT_CHECKED
template <typename T>
struct fl_checked {
  T* at = nullptr;
  const char* begin = nullptr;
  const char* end = nullptr;

  fl_checked() = default;
  fl_checked(T* at_, const char* begin_, const char* end_) : at(at_), begin(begin_), end(end_) {}
  template <typename U>
    requires(std::is_convertible_v<U*, T*>)
  fl_checked(const fl_checked<U>& o) : at(o.at), begin(o.begin), end(o.end) {}
  template <typename U>
    requires(!std::is_convertible_v<U*, T*>)
  explicit fl_checked(const fl_checked<U>& o) : at((T*)o.at), begin(o.begin), end(o.end) {}
  fl_checked(decltype(nullptr)) {}

  T* within(int64_t i, int64_t n = 1) const {
    const int64_t offset = (const char*)at - begin + i * (int64_t)sizeof(T);
    if (at == nullptr || offset < 0 || offset + n * (int64_t)sizeof(T) > end - begin) {
      fl_simt->fault(fl_simt, "access outside of a buffer", offset, end - begin);
    }
    return at + i;
  }
  T& operator[](int64_t i) const { return *within(i); }
  T& operator*() const { return *within(0); }
  T* operator->() const { return within(0); }
  fl_checked operator+(int64_t i) const { return {at + i, begin, end}; }
  fl_checked operator-(int64_t i) const { return {at - i, begin, end}; }
  int64_t operator-(const fl_checked& o) const { return at - o.at; }
  fl_checked& operator+=(int64_t i) { return at += i, *this; }
  fl_checked& operator-=(int64_t i) { return at -= i, *this; }
  fl_checked& operator++() { return ++at, *this; }
  fl_checked operator++(int) { return {at++, begin, end}; }
  bool operator==(const fl_checked& o) const { return at == o.at; }
  bool operator<(const fl_checked& o) const { return at < o.at; }
  explicit operator bool() const { return at != nullptr; }
};
template <typename T>
using fl_pointer = fl_checked<T>;
template <typename T>
static inline T* fl_raw(const fl_checked<T>& p, int64_t n) {
  return p.within(0, n);
}
#else
template <typename T>
using fl_pointer = T*;
template <typename T>
static inline T* fl_raw(T* p, int64_t) {
  return p;
}
#endif

#define FL_KERNEL(name) static void name
#define FL_FUNCTION [[maybe_unused]] static inline
#define FL_CONSTANT [[maybe_unused]] static const
#define FL_GLOBAL(type) fl_pointer<type>
#define FL_LOCAL(type, name, dims) \
  typedef type name##_in_local dims; \
  name##_in_local& name = *(name##_in_local*)fl_local_memory(sizeof(name##_in_local))
#define FL_LOCAL_POINTER(type) type*
#define FL_DYNAMIC_LOCAL_PARAM int
#define FL_DYNAMIC_LOCAL(type, name) type* name = (type*)fl_simt->local_memory
#define FL_BARRIER() fl_simt->barrier(fl_simt, __LINE__)
#define FL_ASSERT(condition) \
  if (!(condition)) fl_simt->fault(fl_simt, "FL_ASSERT(" #condition ") failed in line", __LINE__, 0)
#define FL_UNROLL

// Every thread walks the same declarations in the same order, so all get the same place.
static inline void* fl_local_memory(size_t bytes) {
  uint32_t& used = *fl_simt->local_used;
  const uint32_t at = used;
  used += (uint32_t)((bytes + 15) / 16 * 16);
  if (used > fl_simt->local_bytes) fl_simt->fault(fl_simt, "more local memory than there is", used, fl_simt->local_bytes);
  return fl_simt->local_memory + at;
}

#define fl_group_id(d) (fl_simt->group[d])
#define fl_group_count(d) (fl_simt->groups[d])
#define fl_local_id(d) (fl_simt->local[d])
#define fl_local_size(d) (fl_simt->block[d])
#define fl_thread() (fl_simt->thread)

static inline float fl_as_f32(fl_u32 x) { return __builtin_bit_cast(float, x); }
static inline fl_u32 fl_as_u32(float x) { return __builtin_bit_cast(fl_u32, x); }
#define fl_fma(a, b, c) __builtin_fmaf(a, b, c)
#define fl_abs(x) __builtin_fabsf(x)
#define fl_floor(x) __builtin_floorf(x)
#define fl_ceil(x) __builtin_ceilf(x)
#define fl_trunc(x) __builtin_truncf(x)
#define fl_rint(x) __builtin_rintf(x)
#define fl_sqrt(x) __builtin_sqrtf(x)
#define fl_exp(x) __builtin_expf(x)
#define fl_exp2(x) __builtin_exp2f(x)
#define fl_expm1(x) __builtin_expm1f(x)
#define fl_log(x) __builtin_logf(x)
#define fl_log1p(x) __builtin_log1pf(x)
#define fl_sin(x) __builtin_sinf(x)
#define fl_cos(x) __builtin_cosf(x)
#define fl_tanh(x) __builtin_tanhf(x)
#define fl_erf(x) __builtin_erff(x)
#define fl_pow(x, y) __builtin_powf(x, y)
#define fl_is_nan(x) ((x) != (x))

[[maybe_unused]] static inline fl_f32x4 fl_load_f32x4(FL_GLOBAL(const float) p) {
  const float* at = fl_raw(p, 4);
  return {at[0], at[1], at[2], at[3]};
}
[[maybe_unused]] static inline fl_u32x4 fl_load_u32x4(FL_GLOBAL(const fl_u32) p) {
  const fl_u32* at = fl_raw(p, 4);
  return {at[0], at[1], at[2], at[3]};
}
[[maybe_unused]] static inline void fl_store_f32x4(FL_GLOBAL(float) p, fl_f32x4 v) {
  std::memcpy(fl_raw(p, 4), &v, sizeof(v));
}

// Blocks run on several host threads, so atomics are real ones.
template <typename P>
static inline fl_i32 fl_atomic_add_i32(P p, fl_i32 v) {
  return __atomic_fetch_add(&*p, v, __ATOMIC_RELAXED);
}
template <typename P>
static inline fl_i32 fl_atomic_max_i32(P p, fl_i32 v) {
  fl_i32 seen = __atomic_load_n(&*p, __ATOMIC_RELAXED);
  while (seen < v && !__atomic_compare_exchange_n(&*p, &seen, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return seen;
}
template <typename P>
static inline void fl_atomic_add_f32(P p, float v) {
  fl_u32* at = (fl_u32*)&*p;
  fl_u32 seen = __atomic_load_n(at, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(at, &seen, fl_as_u32(fl_as_f32(seen) + v), false, __ATOMIC_RELAXED,
                                      __ATOMIC_RELAXED)) {
  }
}

#define FL_WARP (fl_simt->warp)
#define FL_MMA_MAX_ELEMENTS 128
#define FL_WARP_STATE [[maybe_unused]] const int fl_warp_scratch = 0
#define FL_WARP_PARAM [[maybe_unused]] int fl_warp_scratch
#define fl_lane() (fl_simt->thread & (FL_WARP - 1))
#define fl_warp_id() (fl_simt->thread / FL_WARP)
template <typename T>
static inline T fl_warp_exchange(int, int line, T x, int lane) {
  static_assert(sizeof(T) == 4, "warp operations take 32 bits");
  return __builtin_bit_cast(T, fl_simt->exchange(fl_simt, line, __builtin_bit_cast(uint32_t, x), lane));
}
#define fl_warp_shuffle(x, lane) fl_warp_exchange(fl_warp_scratch, __LINE__, x, lane)
#define fl_warp_shuffle_xor(x, mask) fl_warp_exchange(fl_warp_scratch, __LINE__, x, fl_lane() ^ (mask))
#define fl_warp_sum(x) ((void)fl_warp_scratch, fl_simt->reduce(fl_simt, __LINE__, 0, x))
#define fl_warp_max(x) ((void)fl_warp_scratch, fl_simt->reduce(fl_simt, __LINE__, 1, x))
#define fl_warp_any(x) (fl_warp_max((x) ? 1.0f : 0.0f) != 0.0f)

template <typename T>
struct fl_take {
  static T from(const fl_simt_argument& a) { return *(const T*)a.value; }
};
template <typename T>
struct fl_take<T*> {
  static T* from(const fl_simt_argument& a) { return (T*)a.value; }
};
#ifdef FL_SIMT_CHECKED
template <typename T>
struct fl_take<fl_checked<T>> {
  static fl_checked<T> from(const fl_simt_argument& a) { return {(T*)a.value, a.begin, a.end}; }
};
#endif

template <auto kKernel, typename... A, size_t... I>
static void fl_call(void (*)(A...), const fl_simt_argument* arguments, std::integer_sequence<size_t, I...>) {
  kKernel(fl_take<A>::from(arguments[I])...);
}
template <typename... A>
static constexpr auto fl_indices(void (*)(A...)) {
  return std::make_integer_sequence<size_t, sizeof...(A)>();
}
// What runs one thread of a kernel.
template <auto kKernel>
static void fl_run(fl_simt_block* block, [[maybe_unused]] const fl_simt_argument* arguments) {
  fl_simt = block;
  fl_call<kKernel>(kKernel, arguments, fl_indices(kKernel));
}
