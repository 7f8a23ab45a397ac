// SPDX-License-Identifier: Apache-2.0
// An in-order OpenCL command queue behind the interface, and the kernels that it launches.
#pragma once

#include <memory>
#include <mutex>

#include "device/device.h"
#include "device/opencl/context.h"

namespace firstlight::device {

// A kernel object keeps its arguments, so one launch at a time fills it.
struct OpenclBody final : Kernel::Body {
  OpenclBody(std::shared_ptr<OpenclContext> context_, cl_kernel handle_)
      : context(std::move(context_)), handle(handle_) {}
  ~OpenclBody() override { context->api->ReleaseKernel(handle); }
  std::shared_ptr<OpenclContext> context;
  cl_kernel handle;
  int64_t max_block_threads = 1;  // of this kernel
  std::mutex mutex;
};

class OpenclQueue final : public Queue {
 public:
  static Result<std::unique_ptr<OpenclQueue>> make(std::shared_ptr<OpenclContext> context);
  ~OpenclQueue() override;

  Status copy_in(const Buffer& to, std::span<const std::byte> from) override;
  Status copy_out(std::span<std::byte> to, const Buffer& from) override;
  Status copy(const Buffer& to, const Buffer& from) override;
  Status fill(const Buffer& to, uint8_t value) override;
  Status launch(const Kernel& kernel, const Launch& launch) override;
  Result<Event> record() override;
  Status wait_for(const Event& event) override;
  Status finish() override;

 private:
  OpenclQueue(std::shared_ptr<OpenclContext> context, cl_command_queue queue)
      : context_(std::move(context)), queue_(queue) {}
  Status set_arguments(const OpenclBody& body, const KernelSignature& signature, const Launch& launch);

  std::shared_ptr<OpenclContext> context_;
  cl_command_queue queue_;
};

}  // namespace firstlight::device
