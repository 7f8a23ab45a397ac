// SPDX-License-Identifier: Apache-2.0
#include "device/health.h"

#include <cmath>
#include <numeric>
#include <vector>

#include "device/kernel_library.h"
#include "tensor/codec.h"

namespace firstlight::device {
namespace {

template <typename T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

template <typename T>
Result<Buffer> upload(Device& device, const std::vector<T>& values) {
  auto buffer = FL_TRY(device.allocate(static_cast<int64_t>(bytes_of(values).size())));
  FL_TRY(device.compute().copy_in(buffer, bytes_of(values)));
  FL_TRY(device.compute().finish());  // `values` may end with this call
  return buffer;
}

template <typename T>
Result<std::vector<T>> download(Device& device, const Buffer& buffer) {
  std::vector<T> values(static_cast<size_t>(buffer.bytes()) / sizeof(T));
  FL_TRY(device.compute().copy_out(std::as_writable_bytes(std::span(values)), buffer));
  FL_TRY(device.compute().finish());
  return values;
}

// The first place where two numbers differ (NaN equals NaN).
template <typename A, typename B>
Status compare(const char* what, std::span<const A> found, const B& wanted) {
  for (size_t i = 0; i < found.size(); ++i) {
    const auto want = static_cast<A>(wanted(i));
    if (found[i] == want) continue;
    if constexpr (std::is_floating_point_v<A>) {
      if (std::isnan(found[i]) && std::isnan(want)) continue;
    }
    return unsupported(std::string(what) + " at " + std::to_string(i) + ": found " + std::to_string(found[i]) +
                       ", wanted " + std::to_string(want));
  }
  return ok_status();
}

Status probe_memory(Device& device, const Module& module) {
  constexpr int kCount = 1000;  // no multiple of anything; views begin at the second element
  std::vector<float> x(kCount + 1);
  std::iota(x.begin(), x.end(), -500.0f);
  const auto in = FL_TRY(upload(device, x));
  const auto out = FL_TRY(upload(device, std::vector<float>(kCount + 2, -1.0f)));
  const Argument arguments[] = {in.view(4, kCount * 4), out.view(4, kCount * 4), 0.5f, kCount};
  FL_TRY(device.compute().launch(FL_TRY(module.kernel("probe_memory")),
                                 {.grid = {16, 1, 1}, .block = {64, 1, 1}, .arguments = arguments}));
  const auto found = FL_TRY(download<float>(device, out));
  return compare("memory", std::span(found), [&](size_t i) {
    if (i == 0 || i == kCount + 1) return -1.0f;
    return x[i] * 0.5f + static_cast<float>(i - 1);
  });
}

Status probe_local(Device& device, const Module& module) {
  constexpr int kThreads = 64;
  constexpr int kBlocks = 5;
  std::vector<int32_t> x(kThreads * kBlocks);
  std::iota(x.begin(), x.end(), 7);
  const auto in = FL_TRY(upload(device, x));
  const auto out = FL_TRY(device.allocate(in.bytes()));
  const Argument arguments[] = {in, out};
  FL_TRY(device.compute().launch(
      FL_TRY(module.kernel("probe_local")),
      {.grid = {kBlocks, 1, 1}, .block = {kThreads, 1, 1}, .arguments = arguments, .local_bytes = kThreads * 4}));
  const auto found = FL_TRY(download<int32_t>(device, out));
  return compare("local memory", std::span(found), [&](size_t i) {
    const size_t block = i / kThreads * kThreads;
    return x[block + kThreads - 1 - (i - block)] + x[block];
  });
}

Status probe_warp(Device& device, const Module& module, int num_warps) {
  const int64_t threads = int64_t{device.target().warp_width} * num_warps;
  if (threads > device.target().max_block_threads) return ok_status();
  std::array<Buffer, 4> buffers;
  for (Buffer& buffer : buffers) buffer = FL_TRY(device.allocate(threads * 4));
  const Argument arguments[] = {buffers[0], buffers[1], buffers[2], buffers[3]};
  FL_TRY(
      device.compute().launch(FL_TRY(module.kernel("probe_warp")), {.block = {threads, 1, 1}, .arguments = arguments}));
  const auto seen = FL_TRY(download<int32_t>(device, buffers[0]));
  const auto sums = FL_TRY(download<float>(device, buffers[1]));
  const auto most = FL_TRY(download<float>(device, buffers[2]));
  const auto warps = FL_TRY(download<int32_t>(device, buffers[3]));
  return check_warp_results(device.target().warp_width, seen, sums, most, warps);
}

Status probe_storage(Device& device, const Module& module) {
  constexpr int64_t kCodes = 65536;
  const auto half = FL_TRY(device.allocate(kCodes * 4));
  const auto bf16 = FL_TRY(device.allocate(kCodes * 4));
  const auto e4m3 = FL_TRY(device.allocate(256 * 4));
  const Argument arguments[] = {half, bf16, e4m3};
  FL_TRY(device.compute().launch(FL_TRY(module.kernel("probe_storage")),
                                 {.grid = {kCodes / 64, 1, 1}, .block = {64, 1, 1}, .arguments = arguments}));
  const auto halves = FL_TRY(download<float>(device, half));
  const auto bf16s = FL_TRY(download<float>(device, bf16));
  const auto e4m3s = FL_TRY(download<float>(device, e4m3));
  FL_TRY(
      compare("fp16 code", std::span(halves), [](size_t i) { return tensor::f16_to_f32(static_cast<uint16_t>(i)); }));
  FL_TRY(
      compare("bf16 code", std::span(bf16s), [](size_t i) { return tensor::bf16_to_f32(static_cast<uint16_t>(i)); }));
  return compare("e4m3 code", std::span(e4m3s),
                 [](size_t i) { return tensor::f8e4m3_to_f32(static_cast<uint8_t>(i)); });
}

Status probe_mma(Device& device, const Module& module) {
  constexpr int kM = 16;
  constexpr int kN = 8;
  constexpr int kK = 16;
  std::vector<uint16_t> a(kM * kK);
  std::vector<uint16_t> b(kN * kK);
  // Small whole numbers: every order of summation gives the same.
  const auto number = [](size_t i) { return static_cast<float>(static_cast<int>(i * 7 % 13) - 6); };
  for (size_t i = 0; i < a.size(); ++i) a[i] = tensor::f32_to_bf16(number(i));
  for (size_t i = 0; i < b.size(); ++i) b[i] = tensor::f32_to_bf16(number(i + 5));
  const auto da = FL_TRY(upload(device, a));
  const auto db = FL_TRY(upload(device, b));
  const auto dc = FL_TRY(device.allocate(kM * kN * 4));
  const Argument arguments[] = {da, db, dc};
  FL_TRY(device.compute().launch(FL_TRY(module.kernel("probe_mma")),
                                 {.block = {device.target().warp_width, 1, 1}, .arguments = arguments}));
  const auto found = FL_TRY(download<float>(device, dc));
  return compare("tile product", std::span(found), [&](size_t i) {
    float sum = 0;
    for (size_t k = 0; k < kK; ++k) sum += number(i / kN * kK + k) * number(i % kN * kK + k + 5);
    return sum;
  });
}

}  // namespace

Status check_warp_results(int warp_width, std::span<const int32_t> seen, std::span<const float> sums,
                          std::span<const float> most, std::span<const int32_t> warps) {
  const auto width = static_cast<size_t>(warp_width);
  const std::string stated = "warps of " + std::to_string(warp_width) + " lanes";
  FL_TRY(compare("shuffle", seen, [&](size_t t) { return t ^ (width - 1); }).with_context(stated));
  FL_TRY(compare("sum", sums, [&](size_t t) {
           const size_t first = t / width * width;
           return first * width + width * (width - 1) / 2;
         }).with_context(stated));
  FL_TRY(compare("maximum", most, [&](size_t t) { return t / width * width + width - 1; }).with_context(stated));
  return compare("number of the warp", warps, [&](size_t t) { return t / width; }).with_context(stated);
}

Status probe(Device& device) {
  constexpr std::string_view kPath = "dialect/probe.fl.cl";
  const std::string_view text = FL_TRY(device_kernels().text(kPath));
  const auto module = FL_TRY(device.build({.name = std::string(kPath), .text = std::string(text), .defines = {}}));
  FL_TRY(probe_memory(device, module));
  FL_TRY(probe_local(device, module));
  for (const int num_warps : {1, 2, 3}) FL_TRY(probe_warp(device, module, num_warps));
  FL_TRY(probe_storage(device, module));
  return probe_mma(device, module);
}

Status Device::health() {
  return probe(*this).with_context(std::string(target::device_kind_name(target_.kind)) + " '" + target_.name +
                                   "': health probe");
}

}  // namespace firstlight::device
