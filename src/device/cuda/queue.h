// SPDX-License-Identifier: Apache-2.0
// A stream behind the interface, and the kernels that it launches.
#pragma once

#include <memory>
#include <mutex>

#include "device/cuda/context.h"

namespace firstlight::device::FL_VENDOR {

struct LoadedModule {
  LoadedModule(std::shared_ptr<Context> context_, CUmodule handle_) : context(std::move(context_)), handle(handle_) {}
  ~LoadedModule();
  std::shared_ptr<Context> context;
  CUmodule handle;
};

struct Function final : Kernel::Body {
  std::shared_ptr<LoadedModule> module;
  CUfunction handle = nullptr;
  int64_t max_block_threads = 1;   // of this kernel
  int64_t static_local_bytes = 0;  // what it declares itself
  std::mutex mutex;
  int64_t allowed_dynamic_bytes = 0;  // above the default the driver wants to be told
};

class StreamQueue final : public Queue {
 public:
  static Result<std::unique_ptr<StreamQueue>> make(std::shared_ptr<Context> context);
  ~StreamQueue() override;

  Status copy_in(const Buffer& to, std::span<const std::byte> from) override;
  Status copy_out(std::span<std::byte> to, const Buffer& from) override;
  Status copy(const Buffer& to, const Buffer& from) override;
  Status fill(const Buffer& to, uint8_t value) override;
  Status launch(const Kernel& kernel, const Launch& launch) override;
  Result<Event> record() override;
  Status wait_for(const Event& event) override;
  Status finish() override;

 private:
  StreamQueue(std::shared_ptr<Context> context, CUstream stream) : context_(std::move(context)), stream_(stream) {}
  Status check_limits(Function& function, const KernelSignature& signature, const Launch& launch);

  std::shared_ptr<Context> context_;
  CUstream stream_;
};

}  // namespace firstlight::device::FL_VENDOR
