// SPDX-License-Identifier: Apache-2.0
#include "device/opencl/context.h"

#include <algorithm>

namespace firstlight::device {

OpenclContext::~OpenclContext() {
  if (context != nullptr) api->ReleaseContext(context);
}

Status OpenclContext::open() {
  cl_int code = CL_SUCCESS;
  context = api->CreateContext(nullptr, 1, &id, nullptr, nullptr, &code);
  return check(code, "opening the device");
}

Status OpenclContext::usable() const {
  return is_lost.load() ? device_lost(target, "it is not used any more") : ok_status();
}

Status OpenclContext::check(cl_int code, const std::string& what) {
  switch (code) {
    case CL_SUCCESS:
      return ok_status();
    case CL_DEVICE_NOT_AVAILABLE:
    case CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST:
      is_lost = true;
      return device_lost(target, what + ": " + opencl_error_name(code));
    case CL_MEM_OBJECT_ALLOCATION_FAILURE:
    case CL_OUT_OF_HOST_MEMORY:
    case CL_OUT_OF_RESOURCES:
      return out_of_memory("opencl '" + target.name + "': " + what + ": " + opencl_error_name(code) + ", " +
                           std::to_string(std::max<int64_t>(available_bytes(), 0)) + " bytes available");
    default:
      return internal_error("opencl '" + target.name + "': " + what + ": " + opencl_error_name(code));
  }
}

Result<std::shared_ptr<OpenclMemory>> OpenclMemory::allocate(std::shared_ptr<OpenclContext> context, int64_t bytes) {
  const target::DeviceTarget& target = context->target;
  const int64_t before = context->used_bytes.fetch_add(bytes);
  const int64_t available = std::clamp<int64_t>(target.global_bytes - before, 0, target.max_allocation_bytes);
  cl_int code = CL_MEM_OBJECT_ALLOCATION_FAILURE;
  cl_mem handle = nullptr;
  if (bytes <= available) {
    handle =
        context->api->CreateBuffer(context->context, CL_MEM_READ_WRITE, static_cast<size_t>(bytes), nullptr, &code);
  }
  if (handle == nullptr) {
    context->used_bytes.fetch_sub(bytes);
    if (code != CL_MEM_OBJECT_ALLOCATION_FAILURE && code != CL_INVALID_BUFFER_SIZE && code != CL_OUT_OF_RESOURCES &&
        code != CL_OUT_OF_HOST_MEMORY) {
      return context->check(code, "allocating");
    }
    return out_of_memory("opencl '" + target.name + "': " + std::to_string(bytes) + " bytes needed, " +
                         std::to_string(available) + " available in one buffer");
  }
  return std::shared_ptr<OpenclMemory>(new OpenclMemory(std::move(context), handle, bytes));
}

Result<std::shared_ptr<OpenclMemory>> OpenclMemory::wrap(std::shared_ptr<OpenclContext> context, void* host,
                                                         int64_t bytes) {
  cl_int code = CL_SUCCESS;
  cl_mem handle = context->api->CreateBuffer(context->context, CL_MEM_READ_ONLY | CL_MEM_USE_HOST_PTR,
                                             static_cast<size_t>(bytes), host, &code);
  if (handle == nullptr) return context->check(code, "wrapping " + std::to_string(bytes) + " bytes of the host");
  return std::shared_ptr<OpenclMemory>(new OpenclMemory(std::move(context), handle, 0));
}

OpenclMemory::~OpenclMemory() {
  context_->used_bytes.fetch_sub(counted_bytes_);
  context_->api->ReleaseMemObject(handle_);
}

}  // namespace firstlight::device
