// SPDX-License-Identifier: Apache-2.0
// The words of the dialect, on simt and OpenCL, against the host: storage formats by every code, the small functions by
// the host's own, the rest by what its page (docs/dialect.md) says.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "device/fp8_variant.h"
#include "device/open.h"
#include "tensor/codec.h"

namespace firstlight::device {
namespace {

using target::DeviceKind;

constexpr const char* kSource = R"(
FL_CONSTANT float table[3] = {1.5f, 2.5f, 3.5f};
FL_KERNEL(read_codes)(FL_GLOBAL(float) y) {
  const int i = fl_thread();
  y[i] = fl_e5m2_to_f32((fl_f8)i);
  y[256 + i] = fl_e8m0_to_f32((fl_u8)i);
  y[512 + i] = fl_e2m1_to_f32((fl_u32)i);
  y[768 + i] = fl_e4m3fnuz_to_f32((fl_f8)i);
}
FL_KERNEL(write_codes)(FL_GLOBAL(const float) x, FL_GLOBAL(fl_half) h, FL_GLOBAL(fl_bf16) b, FL_GLOBAL(fl_f8) f) {
  const fl_i64 i = fl_global_id(0);
  h[i] = fl_f32_to_f16(x[i]);
  b[i] = fl_f32_to_bf16(x[i]);
  f[i] = fl_f32_to_e4m3(x[i]);
}
FL_KERNEL(functions)(FL_GLOBAL(const float) x, FL_GLOBAL(float) y, int n) {
  const int i = fl_thread();
  const float v = x[i];
  const float w = fl_abs(v);
  FL_GLOBAL(float) at = y + i;
  at[0 * n] = fl_exp(v);
  at[1 * n] = fl_exp2(v);
  at[2 * n] = fl_expm1(v);
  at[3 * n] = fl_log(w);
  at[4 * n] = fl_log1p(w);
  at[5 * n] = fl_sin(v);
  at[6 * n] = fl_cos(v);
  at[7 * n] = fl_tanh(v);
  at[8 * n] = fl_erf(v);
  at[9 * n] = fl_pow(w, 1.7f);
  at[10 * n] = fl_sqrt(w);
  at[11 * n] = fl_rsqrt(w);
  at[12 * n] = fl_sigmoid(v);
  at[13 * n] = fl_sign(v);
  at[14 * n] = fl_floor(v);
  at[15 * n] = fl_ceil(v);
  at[16 * n] = fl_trunc(v);
  at[17 * n] = fl_rint(v);
  at[18 * n] = fl_fma(v, v, -v * v);
  at[19 * n] = v * v + -v * v;
  at[20 * n] = fl_min(v, 0.25f);
  at[21 * n] = fl_max(v, 0.25f);
}
FL_KERNEL(small)(FL_GLOBAL(float) y, FL_GLOBAL(int) counts, FL_GLOBAL(const fl_u32) packed) {
  const int i = fl_thread();
  fl_atomic_add_i32(counts, 1);
  fl_atomic_max_i32(counts + 1, i);
  fl_atomic_add_f32(y, 0.5f);
  if (i == 0) {
    const fl_u32x4 p = fl_load_u32x4(packed);
    counts[2] = fl_dot4_i8(p.x, p.y, 1000);
    counts[3] = fl_is_nan(FL_NAN) && !fl_is_nan(FL_INFINITY) && fl_as_u32(FL_INFINITY) == 0x7f800000u;
    counts[4] = fl_is_nan(fl_min(FL_NAN, 1.0f)) && fl_is_nan(fl_max(1.0f, FL_NAN)) && fl_is_nan(fl_min(1.0f, FL_NAN));
    fl_f32x4 v = fl_load_f32x4((FL_GLOBAL(const float))(y + 4));
    v.x = table[0] + v.w;
    fl_store_f32x4(y + 8, v);
  }
}
FL_FUNCTION float over_warp(FL_WARP_PARAM, float x) { return fl_warp_max(x) + fl_warp_sum(x); }
FL_KERNEL(warps)(FL_GLOBAL(float) y, FL_GLOBAL(int) z) {
  FL_WARP_STATE;
  const int t = fl_thread();
  y[t] = over_warp(FL_WARP_PASS, (float)(t * t % 31) * 0.1f);
  z[t] = fl_warp_any(fl_lane() == 3 && fl_warp_id() == 1);
  const uint turned = fl_warp_shuffle((uint)t, fl_lane() + 1);
  z[fl_block_threads() + t] = (int)turned;
  const float with_nan = fl_warp_max(t == 1 ? FL_NAN : 1.0f);
  z[2 * fl_block_threads() + t] = fl_is_nan(with_nan);
}
FL_KERNEL(tiles)(FL_GLOBAL(const float) a, FL_GLOBAL(const float) b, FL_GLOBAL(float) c) {
  FL_WARP_STATE;
  FL_LOCAL(fl_half, ta, [16 * 18]);
  FL_LOCAL(fl_half, tb, [8 * 20]);
  FL_LOCAL(float, fa, [16 * 18]);
  FL_LOCAL(float, fb, [8 * 20]);
  for (int i = fl_thread(); i < 256; i += fl_block_threads()) fa[i / 16 * 18 + i % 16] = a[i];
  for (int i = fl_thread(); i < 128; i += fl_block_threads()) fb[i / 16 * 20 + i % 16] = b[i];
  for (int i = fl_thread(); i < 256; i += fl_block_threads()) ta[i / 16 * 18 + i % 16] = fl_f32_to_f16(a[i]);
  for (int i = fl_thread(); i < 128; i += fl_block_threads()) tb[i / 16 * 20 + i % 16] = fl_f32_to_f16(b[i]);
  FL_BARRIER();
  fl_mma_acc acc = fl_mma_zero();
  FL_MMA(f16, acc, ta, 18, tb, 20);
  FL_MMA(f32, acc, fa, 18, fb, 20);
  for (int e = 0; e < FL_MMA_ELEMENTS; ++e) {
    if (fl_warp_id() == 0) c[fl_mma_row(e) * FL_MMA_N + fl_mma_col(e)] = acc.v[e];
  }
}
)";

struct Case {
  const char* name;
  DeviceKind kind;
  int warp_width;
  bool checked;
};

class Dialect : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    for (const Listed& listed : list_devices()) {
      if (listed.kind == GetParam().kind && listed.devices.empty()) GTEST_SKIP() << listed.absent;
    }
    auto opened = open_device(GetParam().kind, {.warp_width = GetParam().warp_width, .checked = GetParam().checked});
    ASSERT_TRUE(opened.ok()) << opened.status().to_string();
    device_ = *std::move(opened);
    auto built = device_->build({.name = "dialect_test", .text = kSource, .defines = {}});
    ASSERT_TRUE(built.ok()) << built.status().to_string();
    module_ = std::make_unique<Module>(*std::move(built));
    read_codes();
    write_codes();
    functions();
    small_words();
    warps();
    tiles();
  }

  template <typename T>
  Buffer upload(const std::vector<T>& values) {
    auto buffer = device_->allocate(static_cast<int64_t>(values.size() * sizeof(T)));
    EXPECT_TRUE(buffer.ok() && device_->compute().copy_in(*buffer, std::as_bytes(std::span(values))).ok());
    EXPECT_TRUE(device_->compute().finish().ok());
    return *buffer;
  }
  template <typename T>
  std::vector<T> download(const Buffer& buffer) {
    std::vector<T> values(static_cast<size_t>(buffer.bytes()) / sizeof(T));
    EXPECT_TRUE(device_->compute().copy_out(std::as_writable_bytes(std::span(values)), buffer).ok());
    const Status status = device_->compute().finish();
    EXPECT_TRUE(status.ok()) << status.to_string();
    return values;
  }
  void run(const char* name, int64_t grid, int64_t block, const std::vector<Argument>& arguments) {
    const Status status = device_->compute().launch(
        *module_->kernel(name), {.grid = {grid, 1, 1}, .block = {block, 1, 1}, .arguments = arguments});
    ASSERT_TRUE(status.ok()) << status.to_string();
  }

  void read_codes();
  void write_codes();
  void functions();
  void small_words();
  void warps();
  void tiles();

  std::unique_ptr<Device> device_;
  std::unique_ptr<Module> module_;
};

void expect_same(float found, float wanted, size_t at, const char* what) {
  if (std::isnan(wanted)) {
    EXPECT_TRUE(std::isnan(found)) << what << " " << at;
  } else {
    EXPECT_EQ(std::bit_cast<uint32_t>(found), std::bit_cast<uint32_t>(wanted)) << what << " " << at;
  }
}

void Dialect::read_codes() {
  const Buffer y = upload(std::vector<float>(1024, 0));
  run("read_codes", 1, 256, {y});
  const auto found = download<float>(y);
  for (size_t i = 0; i < 256; ++i) {
    const auto code = static_cast<uint8_t>(i);
    expect_same(found[i], tensor::f8e5m2_to_f32(code), i, "e5m2");
    expect_same(found[256 + i], tensor::f8e8m0_to_f32(code), i, "e8m0");
    expect_same(found[512 + i], tensor::f4e2m1_to_f32(code & 15), i, "e2m1");
    const float fnuz = code == 0 ? 0.0f : e4m3fnuz_to_f32(code);
    expect_same(found[768 + i], fnuz, i, "e4m3fnuz");
  }
}

// The nearest code by looking at all of them; of two as near, the even one.
uint8_t nearest_e4m3(float x) {
  if (std::isnan(x)) return 0x7f;
  const double magnitude = std::min<double>(std::fabs(x), 448.0);
  int best = 0;
  for (int code = 1; code < 0x7f; ++code) {
    const double to_code = std::fabs(tensor::f8e4m3_to_f32(static_cast<uint8_t>(code)) - magnitude);
    const double to_best = std::fabs(tensor::f8e4m3_to_f32(static_cast<uint8_t>(best)) - magnitude);
    if (to_code < to_best || (to_code == to_best && code % 2 == 0)) best = code;
  }
  return static_cast<uint8_t>(best | (std::signbit(x) ? 0x80 : 0));
}

void Dialect::write_codes() {
  std::vector<float> x = {0.0f,     -0.0f,    INFINITY, -INFINITY, NAN,    65504.0f,
                          65519.9f, 65520.0f, 1e9f,     -1e9f,     448.0f, 464.0f};
  for (uint32_t i = 0; x.size() < 65536; ++i) x.push_back(std::bit_cast<float>(i * 65599u + (i << 17)));
  for (size_t i = 100; i < 40000; ++i)
    x[i] = std::ldexp(x[i] > 0 ? 1.0f : -1.0f, static_cast<int>(i % 48) - 30) *
           (1.0f + static_cast<float>(i * 37 % 8192) / 8192.0f);
  const Buffer in = upload(x);
  const Buffer h = upload(std::vector<uint16_t>(x.size(), 0));
  const Buffer b = upload(std::vector<uint16_t>(x.size(), 0));
  const Buffer f = upload(std::vector<uint8_t>(x.size(), 0));
  run("write_codes", 65536 / 128, 128, {in, h, b, f});
  const auto halves = download<uint16_t>(h);
  const auto bf16s = download<uint16_t>(b);
  const auto f8s = download<uint8_t>(f);
  for (size_t i = 0; i < x.size(); ++i) {
    if (std::isnan(x[i])) {
      EXPECT_TRUE(std::isnan(tensor::f16_to_f32(halves[i])) && std::isnan(tensor::bf16_to_f32(bf16s[i])));
      EXPECT_EQ(f8s[i] & 0x7f, 0x7f);
      continue;
    }
    ASSERT_EQ(halves[i], tensor::f32_to_f16(x[i])) << x[i];
    ASSERT_EQ(bf16s[i], tensor::f32_to_bf16(x[i])) << x[i];
    ASSERT_EQ(f8s[i], nearest_e4m3(x[i])) << x[i];
  }
}

void Dialect::functions() {
  std::vector<float> x;
  for (int i = 0; i < 128; ++i) x.push_back(static_cast<float>(i - 64) * 0.173f + 0.01f);
  const auto n = static_cast<int32_t>(x.size());
  const Buffer in = upload(x);
  const Buffer out = upload(std::vector<float>(x.size() * 22, 0));
  run("functions", 1, n, {in, out, n});
  const auto found = download<float>(out);
  using F = double (*)(double, double);
  const F wanted[] = {
      [](double v, double) { return std::exp(v); },
      [](double v, double) { return std::exp2(v); },
      [](double v, double) { return std::expm1(v); },
      [](double, double w) { return std::log(w); },
      [](double, double w) { return std::log1p(w); },
      [](double v, double) { return std::sin(v); },
      [](double v, double) { return std::cos(v); },
      [](double v, double) { return std::tanh(v); },
      [](double v, double) { return std::erf(v); },
      [](double, double w) { return std::pow(w, static_cast<double>(1.7f)); },
      [](double, double w) { return std::sqrt(w); },
      [](double, double w) { return 1 / std::sqrt(w); },
      [](double v, double) { return 1 / (1 + std::exp(-v)); },
      [](double v, double) { return v > 0 ? 1.0 : -1.0; },
      [](double v, double) { return std::floor(v); },
      [](double v, double) { return std::ceil(v); },
      [](double v, double) { return std::trunc(v); },
      [](double v, double) { return std::nearbyint(v); },
      [](double v, double) { return v * v - static_cast<double>(static_cast<float>(v) * static_cast<float>(v)); },
      [](double, double) { return 0.0; },
      [](double v, double) { return std::min(v, 0.25); },
      [](double v, double) { return std::max(v, 0.25); }};
  for (size_t f = 0; f < std::size(wanted); ++f) {
    for (size_t i = 0; i < x.size(); ++i) {
      const double want = wanted[f](x[i], std::fabs(x[i]));
      // 16 units in the last place is what OpenCL allows at most (pow); sin and cos lose some more near their zeros.
      EXPECT_NEAR(found[f * x.size() + i], want, std::fabs(want) * 16 * 6e-8 + (f == 5 || f == 6 ? 4e-7 : 1e-30))
          << "function " << f << " of " << x[i];
    }
  }
}

void Dialect::small_words() {
  std::vector<float> y(12, 0);
  y[7] = 4.0f;
  const Buffer out = upload(y);
  const Buffer counts = upload(std::vector<int32_t>(5, 0));
  const Buffer packed = upload(std::vector<uint32_t>{0x80ff7f01u, 0x7f02fe03u, 0, 0});
  run("small", 4, 64, {out, counts, packed});
  const auto found = download<int32_t>(counts);
  EXPECT_EQ(found[0], 256);
  EXPECT_EQ(found[1], 63);
  EXPECT_EQ(found[2], 1000 + 1 * 3 + 127 * -2 + -1 * 2 + -128 * 127);
  EXPECT_EQ(found[3], 1);
  EXPECT_EQ(found[4], 1);
  const auto floats = download<float>(out);
  EXPECT_EQ(floats[0], 128.0f);
  EXPECT_EQ(floats[8], 5.5f);
  EXPECT_EQ(floats[11], 4.0f);
}

void Dialect::warps() {
  const int warp = device_->target().warp_width;
  const int threads = std::max(2 * warp, 64);
  const Buffer y = upload(std::vector<float>(static_cast<size_t>(threads), 0));
  const Buffer z = upload(std::vector<int32_t>(static_cast<size_t>(threads) * 3, 0));
  run("warps", 1, threads, {y, z});
  const auto sums = download<float>(y);
  const auto found = download<int32_t>(z);
  for (int t = 0; t < threads; ++t) {
    const int first = t / warp * warp;
    std::vector<float> values;
    for (int i = 0; i < warp; ++i) values.push_back(static_cast<float>((first + i) * (first + i) % 31) * 0.1f);
    const float most = *std::max_element(values.begin(), values.end());
    for (int s = warp / 2; s > 0; s /= 2) {
      for (int i = 0; i < s; ++i) values[static_cast<size_t>(i)] += values[static_cast<size_t>(i + s)];
    }
    EXPECT_EQ(sums[static_cast<size_t>(t)], most + values[0]) << t;  // to the last bit
    EXPECT_EQ(found[static_cast<size_t>(t)] != 0, t / warp == 1 && warp > 3) << t;
    EXPECT_EQ(found[static_cast<size_t>(threads + t)], first + (t - first + 1) % warp) << t;
    EXPECT_EQ(found[static_cast<size_t>(2 * threads + t)] != 0, t / warp == 1 / warp) << t;
  }
}

void Dialect::tiles() {
  std::vector<float> a(256);
  std::vector<float> b(128);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i * 11 % 19) - 9;
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i * 5 % 23) - 11;
  const Buffer c = upload(std::vector<float>(128, 0));
  run("tiles", 1, std::max(2 * device_->target().warp_width, 64), {upload(a), upload(b), c});
  const auto found = download<float>(c);
  for (size_t i = 0; i < 128; ++i) {
    float sum = 0;
    for (size_t k = 0; k < 16; ++k) sum += a[i / 8 * 16 + k] * b[i % 8 * 16 + k];
    EXPECT_EQ(found[i], 2 * sum) << i;
  }
}

TEST_P(Dialect, EveryWordDoesWhatItsPageSays) {}

INSTANTIATE_TEST_SUITE_P(Devices, Dialect,
                         testing::Values(Case{"simt32", DeviceKind::kSimt, 32, true},
                                         Case{"simt64", DeviceKind::kSimt, 64, false},
                                         Case{"simt128", DeviceKind::kSimt, 128, false},
                                         Case{"opencl32", DeviceKind::kOpencl, 32, false},
                                         Case{"opencl1", DeviceKind::kOpencl, 1, false}),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace firstlight::device
