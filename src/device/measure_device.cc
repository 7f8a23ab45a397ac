// SPDX-License-Identifier: Apache-2.0
#include "device/measure_device.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "device/kernel_library.h"

namespace firstlight::device {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRepeats = 3;
constexpr double kEnoughSeconds = 0.1;  // a product this long tells

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// The best of a few runs of `work`, which queues something on the compute queue.
template <typename F>
Result<double> best_seconds(Device& device, const F& work) {
  double best = 1e30;
  for (int i = 0; i < kRepeats; ++i) {
    const auto begin = Clock::now();
    FL_TRY(work());
    FL_TRY(device.compute().finish());
    best = std::min(best, seconds_since(begin));
  }
  return best;
}

Status measure_copies(Device& device, DeviceRoof& roof) {
  const int64_t bytes = std::min<int64_t>({int64_t{64} << 20, device.target().max_allocation_bytes,
                                           std::max<int64_t>(device.available_bytes() / 4, int64_t{1} << 20)});
  std::vector<std::byte> host(static_cast<size_t>(bytes), std::byte{1});
  const auto a = FL_TRY(device.allocate(bytes));
  const auto b = FL_TRY(device.allocate(bytes));
  const auto size = static_cast<double>(bytes) * 1e-9;
  roof.copy_in_gbps = size / FL_TRY(best_seconds(device, [&] { return device.compute().copy_in(a, host); }));
  roof.copy_gbps = 2 * size / FL_TRY(best_seconds(device, [&] { return device.compute().copy(b, a); }));
  roof.copy_out_gbps = size / FL_TRY(best_seconds(device, [&] { return device.compute().copy_out(host, b); }));
  return ok_status();
}

// Of the n by n product; ones times twos, so that every element of the result is 2n.
Result<double> product_seconds(Device& device, const Kernel& kernel, int n) {
  const auto count = static_cast<size_t>(n) * static_cast<size_t>(n);
  std::vector<float> host(count, 1.0f);
  const int64_t bytes = static_cast<int64_t>(count * sizeof(float));
  const auto a = FL_TRY(device.allocate(bytes));
  const auto b = FL_TRY(device.allocate(bytes));
  const auto c = FL_TRY(device.allocate(bytes));
  FL_TRY(device.compute().copy_in(a, std::as_bytes(std::span(host))));
  FL_TRY(device.compute().finish());
  std::fill(host.begin(), host.end(), 2.0f);
  FL_TRY(device.compute().copy_in(b, std::as_bytes(std::span(host))));
  const Argument arguments[] = {a, b, c, n};
  const Launch launch = {.grid = {n / 64, n / 64, 1}, .block = {16, 16, 1}, .arguments = arguments};
  const double seconds = FL_TRY(best_seconds(device, [&] { return device.compute().launch(kernel, launch); }));
  FL_TRY(device.compute().copy_out(std::as_writable_bytes(std::span(host)), c));
  FL_TRY(device.compute().finish());
  const auto wanted = static_cast<float>(2 * n);
  if (std::any_of(host.begin(), host.end(), [&](float v) { return v != wanted; })) {
    return internal_error("the product that is measured is wrong on '" + device.target().name + "'");
  }
  return seconds;
}

}  // namespace

Result<DeviceRoof> measure_device(Device& device) {
  constexpr std::string_view kPath = "dialect/measure.fl.cl";
  const std::string_view text = FL_TRY(device_kernels().text(kPath));
  const auto module = FL_TRY(device.build({.name = std::string(kPath), .text = std::string(text), .defines = {}}));
  const auto kernel = FL_TRY(module.kernel("measure_product"));
  DeviceRoof roof;
  FL_TRY(measure_copies(device, roof));
  for (int n = 128; n <= 8192; n *= 2) {
    if (16 * int64_t{n} * n > device.available_bytes()) break;
    const double seconds = FL_TRY(product_seconds(device, kernel, n));
    roof.f32_tflops = std::max(roof.f32_tflops, 2e-12 * n * n * n / seconds);
    if (seconds > kEnoughSeconds) break;
  }
  return roof;
}

}  // namespace firstlight::device
