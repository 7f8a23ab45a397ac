// SPDX-License-Identifier: Apache-2.0
#include "device/opencl/api.h"

#include <dlfcn.h>

#include <string>

namespace firstlight::device {

Result<std::shared_ptr<const OpenclApi>> OpenclApi::load(const char* library) {
  void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return unsupported("no OpenCL loader (" + std::string(library) + ") on this machine");
  auto api = std::make_shared<OpenclApi>();
#define FL_OPENCL_LOAD(name)                                                    \
  api->name = reinterpret_cast<decltype(api->name)>(dlsym(handle, "cl" #name)); \
  if (api->name == nullptr) return unsupported(std::string(library) + " has no cl" #name ": OpenCL 1.2 is wanted");
  FL_OPENCL_FUNCTIONS(FL_OPENCL_LOAD)
#undef FL_OPENCL_LOAD
  return std::shared_ptr<const OpenclApi>(std::move(api));
}

std::string opencl_error_name(cl_int code) {
  switch (code) {
#define FL_NAME(name) \
  case name:          \
    return #name;
    FL_NAME(CL_DEVICE_NOT_FOUND)
    FL_NAME(CL_DEVICE_NOT_AVAILABLE)
    FL_NAME(CL_COMPILER_NOT_AVAILABLE)
    FL_NAME(CL_MEM_OBJECT_ALLOCATION_FAILURE)
    FL_NAME(CL_OUT_OF_RESOURCES)
    FL_NAME(CL_OUT_OF_HOST_MEMORY)
    FL_NAME(CL_MEM_COPY_OVERLAP)
    FL_NAME(CL_BUILD_PROGRAM_FAILURE)
    FL_NAME(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST)
    FL_NAME(CL_INVALID_VALUE)
    FL_NAME(CL_INVALID_BUFFER_SIZE)
    FL_NAME(CL_INVALID_BINARY)
    FL_NAME(CL_INVALID_PROGRAM_EXECUTABLE)
    FL_NAME(CL_INVALID_KERNEL_NAME)
    FL_NAME(CL_INVALID_ARG_INDEX)
    FL_NAME(CL_INVALID_ARG_VALUE)
    FL_NAME(CL_INVALID_ARG_SIZE)
    FL_NAME(CL_INVALID_KERNEL_ARGS)
    FL_NAME(CL_INVALID_WORK_GROUP_SIZE)
    FL_NAME(CL_INVALID_WORK_ITEM_SIZE)
#undef FL_NAME
    case -1001:
      return "CL_PLATFORM_NOT_FOUND_KHR";
    default:
      return "OpenCL error " + std::to_string(code);
  }
}

}  // namespace firstlight::device
