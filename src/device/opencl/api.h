// SPDX-License-Identifier: Apache-2.0
// The functions of the OpenCL loader that are used, found at run time: a machine without OpenCL runs the same program.
// Version 1.2 is the floor.
#pragma once

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <memory>

#include "base/status.h"

// Each without its "cl".
#define FL_OPENCL_FUNCTIONS(X)  \
  X(GetPlatformIDs)             \
  X(GetPlatformInfo)            \
  X(GetDeviceIDs)               \
  X(GetDeviceInfo)              \
  X(CreateContext)              \
  X(ReleaseContext)             \
  X(CreateCommandQueue)         \
  X(ReleaseCommandQueue)        \
  X(CreateBuffer)               \
  X(ReleaseMemObject)           \
  X(CreateProgramWithSource)    \
  X(CreateProgramWithBinary)    \
  X(BuildProgram)               \
  X(GetProgramInfo)             \
  X(GetProgramBuildInfo)        \
  X(ReleaseProgram)             \
  X(CreateKernel)               \
  X(ReleaseKernel)              \
  X(SetKernelArg)               \
  X(GetKernelWorkGroupInfo)     \
  X(EnqueueWriteBuffer)         \
  X(EnqueueReadBuffer)          \
  X(EnqueueCopyBuffer)          \
  X(EnqueueFillBuffer)          \
  X(EnqueueNDRangeKernel)       \
  X(EnqueueMarkerWithWaitList)  \
  X(EnqueueBarrierWithWaitList) \
  X(WaitForEvents)              \
  X(GetEventInfo)               \
  X(ReleaseEvent)               \
  X(Flush)                      \
  X(Finish)

namespace firstlight::device {

struct OpenclApi {
#define FL_OPENCL_MEMBER(name) decltype(&cl##name) name = nullptr;
  FL_OPENCL_FUNCTIONS(FL_OPENCL_MEMBER)
#undef FL_OPENCL_MEMBER

  // Stays loaded for good: drivers do not unload well. Errors: kUnsupported naming the library or the function.
  static Result<std::shared_ptr<const OpenclApi>> load(const char* library = "libOpenCL.so.1");
};

// "CL_INVALID_KERNEL_ARGS", or the number.
std::string opencl_error_name(cl_int code);

}  // namespace firstlight::device
