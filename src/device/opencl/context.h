// SPDX-License-Identifier: Apache-2.0
// What the parts of an open OpenCL device share: the context, the account of memory, whether it is lost, and the one
// place where OpenCL's codes become ours.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "device/device.h"
#include "device/opencl/api.h"

namespace firstlight::device {

struct OpenclContext {
  OpenclContext(std::shared_ptr<const OpenclApi> api_, cl_device_id id_, target::DeviceTarget target_)
      : api(std::move(api_)), id(id_), target(std::move(target_)) {}
  ~OpenclContext();
  OpenclContext(const OpenclContext&) = delete;
  OpenclContext& operator=(const OpenclContext&) = delete;

  // Errors: what the driver says.
  Status open();
  // ok_status, or the loss.
  Status usable() const;
  // Of a call that did `what`; a code that means the loss of the device is remembered.
  Status check(cl_int code, const std::string& what);
  int64_t available_bytes() const { return target.global_bytes - used_bytes.load(); }

  std::shared_ptr<const OpenclApi> api;
  cl_device_id id;
  target::DeviceTarget target;
  cl_context context = nullptr;
  std::atomic<int64_t> used_bytes{0};
  std::atomic<bool> is_lost{false};
};

class OpenclMemory final : public Memory {
 public:
  // Errors: kOutOfMemory with needed and available bytes.
  static Result<std::shared_ptr<OpenclMemory>> allocate(std::shared_ptr<OpenclContext> context, int64_t bytes);
  // Reads the host's memory in place.
  static Result<std::shared_ptr<OpenclMemory>> wrap(std::shared_ptr<OpenclContext> context, void* host, int64_t bytes);
  ~OpenclMemory() override;
  cl_mem handle() const { return handle_; }

 private:
  OpenclMemory(std::shared_ptr<OpenclContext> context, cl_mem handle, int64_t counted_bytes)
      : context_(std::move(context)), handle_(handle), counted_bytes_(counted_bytes) {}
  std::shared_ptr<OpenclContext> context_;
  cl_mem handle_;
  int64_t counted_bytes_;
};

}  // namespace firstlight::device
