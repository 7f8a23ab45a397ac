// SPDX-License-Identifier: Apache-2.0
// What the parts of an open CUDA (or MUSA) device share, and the one place where the driver's codes become ours.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "device/cuda/api.h"
#include "device/device.h"

namespace firstlight::device::FL_VENDOR {

struct Context {
  Context(std::shared_ptr<const DriverApi> api_, CUdevice id_, target::DeviceTarget target_)
      : api(std::move(api_)), id(id_), target(std::move(target_)) {}
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  Status open();
  // Makes the context the calling thread's. Errors: the loss of the device.
  Status enter();
  // Of a call that did `what`. Codes that a context does not survive count as the loss of the device.
  Status check(CUresult code, const std::string& what);

  std::shared_ptr<const DriverApi> api;
  CUdevice id;
  target::DeviceTarget target;
  CUcontext context = nullptr;
  std::atomic<int64_t> used_bytes{0};
  std::atomic<bool> is_lost{false};
};

class DeviceMemory final : public Memory {
 public:
  // Errors: kOutOfMemory with needed and available bytes.
  static Result<std::shared_ptr<DeviceMemory>> allocate(std::shared_ptr<Context> context, int64_t bytes);
  ~DeviceMemory() override;
  CUdeviceptr address() const { return address_; }

 private:
  DeviceMemory(std::shared_ptr<Context> context, CUdeviceptr address, int64_t bytes)
      : context_(std::move(context)), address_(address), bytes_(bytes) {}
  std::shared_ptr<Context> context_;
  CUdeviceptr address_;
  int64_t bytes_;
};

inline CUdeviceptr address_of(const Buffer& buffer) {
  if (!buffer) return {};
  return static_cast<DeviceMemory*>(buffer.memory())->address() + static_cast<CUdeviceptr>(buffer.offset());
}

}  // namespace firstlight::device::FL_VENDOR
