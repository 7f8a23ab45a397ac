// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/context.h"

#include <algorithm>

namespace firstlight::device::FL_VENDOR {

Context::~Context() {
  if (context != nullptr) api->DevicePrimaryCtxRelease(id);
}

Status Context::open() {
  FL_TRY(check(api->DevicePrimaryCtxRetain(&context, id), "opening the device"));
  return enter();
}

Status Context::enter() {
  if (is_lost.load()) return device_lost(target, "it is not used any more");
  return check(api->CtxSetCurrent(context), "making the context current");
}

Status Context::check(CUresult code, const std::string& what) {
  if (code == CUDA_SUCCESS) return ok_status();
  const std::string message = FL_VENDOR_NAME " '" + target.name + "': " + what + ": " + api->error_name(code);
  switch (code) {
    case CUDA_ERROR_OUT_OF_MEMORY:
      return out_of_memory(message);
    case CUDA_ERROR_INVALID_VALUE:
    case CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES:
      return invalid_argument(message);
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_INVALID_IMAGE:
      return invalid_data(message);
    default:
      // Illegal addresses, launch failures, a bus that is gone: the context answers nothing else from now on.
      is_lost = true;
      return device_lost(target, what + ": " + api->error_name(code));
  }
}

Result<std::shared_ptr<DeviceMemory>> DeviceMemory::allocate(std::shared_ptr<Context> context, int64_t bytes) {
  FL_TRY(context->enter());
  const int64_t before = context->used_bytes.fetch_add(bytes);
  int64_t available = std::max<int64_t>(context->target.global_bytes - before, 0);
  CUdeviceptr address{};
  CUresult code = CUDA_ERROR_OUT_OF_MEMORY;
  if (bytes <= available) code = context->api->MemAlloc(&address, static_cast<size_t>(bytes));
  if (code == CUDA_SUCCESS) return std::shared_ptr<DeviceMemory>(new DeviceMemory(std::move(context), address, bytes));
  context->used_bytes.fetch_sub(bytes);
  if (code != CUDA_ERROR_OUT_OF_MEMORY) return context->check(code, "allocating");
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  if (context->api->MemGetInfo(&free_bytes, &total_bytes) == CUDA_SUCCESS) {
    available = std::min(available, static_cast<int64_t>(free_bytes));
  }
  return out_of_memory(FL_VENDOR_NAME " '" + context->target.name + "': " + std::to_string(bytes) + " bytes needed, " +
                       std::to_string(available) + " available");
}

DeviceMemory::~DeviceMemory() {
  context_->used_bytes.fetch_sub(bytes_);
  if (context_->enter().ok()) context_->api->MemFree(address_);  // waits for what still uses it
}

}  // namespace firstlight::device::FL_VENDOR
