// SPDX-License-Identifier: Apache-2.0
// The one place where CUDA's names become MUSA's. The sources of this folder are written with CUDA's; with FL_MUSA they
// are built as MUSA, into a namespace of their own, so that one program may hold both. Only what is used is mapped: the
// list below is the whole of what a MUSA driver must have (docs/devices.md repeats it; a test compares).
#pragma once

#ifdef FL_MUSA
#include <mtrtc.h>
#include <musa.h>
#define FL_VENDOR musa
#define FL_VENDOR_NAME "musa"
#define FL_VENDOR_KIND target::DeviceKind::kMusa
#ifdef FL_DRIVER_IN_PROGRAM  // a test that brings its own
#define FL_DRIVER_LIBRARIES \
  { nullptr }
#define FL_RTC_LIBRARIES \
  { nullptr }
#else
#define FL_DRIVER_LIBRARIES \
  { "libmusa.so" }
#define FL_RTC_LIBRARIES \
  { "libmtrtc.so" }
#endif
#define FL_ARCHITECTURE_PREFIX "mp_"
#define FL_ARCHITECTURE_OPTION "--offload-arch="
#define FL_RTC_OPTIONS \
  { "-ffp-contract=off" }

// Types and codes.
#define CUresult MUresult
#define CUdevice MUdevice
#define CUcontext MUcontext
#define CUmodule MUmodule
#define CUfunction MUfunction
#define CUstream MUstream
#define CUevent MUevent
#define CUdeviceptr MUdeviceptr
#define CUdevice_attribute MUdevice_attribute
#define CUfunction_attribute MUfunction_attribute
#define CUDA_SUCCESS MUSA_SUCCESS
#define CUDA_ERROR_NOT_READY MUSA_ERROR_NOT_READY
#define CUDA_ERROR_OUT_OF_MEMORY MUSA_ERROR_OUT_OF_MEMORY
#define CUDA_ERROR_INVALID_VALUE MUSA_ERROR_INVALID_VALUE
#define CUDA_ERROR_NO_DEVICE MUSA_ERROR_NO_DEVICE
#define CUDA_ERROR_NO_BINARY_FOR_GPU MUSA_ERROR_NO_BINARY_FOR_GPU
#define CUDA_ERROR_INVALID_IMAGE MUSA_ERROR_INVALID_IMAGE
#define CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES MUSA_ERROR_LAUNCH_OUT_OF_RESOURCES
#define CU_STREAM_NON_BLOCKING MU_STREAM_NON_BLOCKING
#define CU_EVENT_DISABLE_TIMING MU_EVENT_DISABLE_TIMING
#define CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT MU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
#define CU_DEVICE_ATTRIBUTE_WARP_SIZE MU_DEVICE_ATTRIBUTE_WARP_SIZE
#define CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK MU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK
#define CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X MU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X
#define CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y MU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y
#define CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z MU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z
#define CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X MU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X
#define CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y MU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y
#define CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z MU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z
#define CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN MU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
#define CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK MU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK
#define CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR MU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
#define CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR MU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR
#define CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK MU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK
#define CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES MU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES
#define CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES MU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
// The driver.
#define cuInit muInit
#define cuDriverGetVersion muDriverGetVersion
#define cuGetErrorName muGetErrorName
#define cuDeviceGetCount muDeviceGetCount
#define cuDeviceGet muDeviceGet
#define cuDeviceGetName muDeviceGetName
#define cuDeviceGetAttribute muDeviceGetAttribute
#define cuDeviceTotalMem muDeviceTotalMem
#define cuDevicePrimaryCtxRetain muDevicePrimaryCtxRetain
#define cuDevicePrimaryCtxRelease muDevicePrimaryCtxRelease
#define cuCtxSetCurrent muCtxSetCurrent
#define cuMemGetInfo muMemGetInfo
#define cuMemAlloc muMemAlloc
#define cuMemFree muMemFree
#define cuMemcpyHtoDAsync muMemcpyHtoDAsync
#define cuMemcpyDtoHAsync muMemcpyDtoHAsync
#define cuMemcpyDtoDAsync muMemcpyDtoDAsync
#define cuMemsetD8Async muMemsetD8Async
#define cuStreamCreate muStreamCreate
#define cuStreamDestroy muStreamDestroy
#define cuStreamSynchronize muStreamSynchronize
#define cuStreamWaitEvent muStreamWaitEvent
#define cuEventCreate muEventCreate
#define cuEventDestroy muEventDestroy
#define cuEventRecord muEventRecord
#define cuEventSynchronize muEventSynchronize
#define cuEventQuery muEventQuery
#define cuModuleLoadData muModuleLoadData
#define cuModuleUnload muModuleUnload
#define cuModuleGetFunction muModuleGetFunction
#define cuFuncGetAttribute muFuncGetAttribute
#define cuFuncSetAttribute muFuncSetAttribute
#define cuLaunchKernel muLaunchKernel
// The compiler.
#define nvrtcResult mtrtcResult
#define nvrtcProgram mtrtcProgram
#define NVRTC_SUCCESS MTRTC_SUCCESS
#define nvrtcVersion mtrtcVersion
#define nvrtcCreateProgram mtrtcCreateProgram
#define nvrtcCompileProgram mtrtcCompileProgram
#define nvrtcGetProgramLogSize mtrtcGetProgramLogSize
#define nvrtcGetProgramLog mtrtcGetProgramLog
#define nvrtcGetCUBINSize mtrtcGetFatBinSize
#define nvrtcGetCUBIN mtrtcGetFatBin
#define nvrtcDestroyProgram mtrtcDestroyProgram

#else
#include <cuda.h>
#include <nvrtc.h>
#define FL_VENDOR cuda
#define FL_VENDOR_NAME "cuda"
#define FL_VENDOR_KIND target::DeviceKind::kCuda
#define FL_DRIVER_LIBRARIES \
  { "libcuda.so.1" }
#define FL_RTC_LIBRARIES \
  { "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so" }
#define FL_ARCHITECTURE_PREFIX "sm_"
#define FL_ARCHITECTURE_OPTION "--gpu-architecture="
#define FL_RTC_OPTIONS \
  { "--fmad=false", "--std=c++17", "-default-device" }
#endif

// Each without its "cu" or "nvrtc".
#define FL_DRIVER_FUNCTIONS(X)                                                                                       \
  X(Init)                                                                                                            \
  X(DriverGetVersion)                                                                                                \
  X(GetErrorName) X(DeviceGetCount) X(DeviceGet) X(DeviceGetName) X(DeviceGetAttribute) X(DeviceTotalMem)            \
      X(DevicePrimaryCtxRetain) X(DevicePrimaryCtxRelease) X(CtxSetCurrent) X(MemGetInfo) X(MemAlloc) X(MemFree)     \
          X(MemcpyHtoDAsync) X(MemcpyDtoHAsync) X(MemcpyDtoDAsync) X(MemsetD8Async) X(StreamCreate) X(StreamDestroy) \
              X(StreamSynchronize) X(StreamWaitEvent) X(EventCreate) X(EventDestroy) X(EventRecord)                  \
                  X(EventSynchronize) X(EventQuery) X(ModuleLoadData) X(ModuleUnload) X(ModuleGetFunction)           \
                      X(FuncGetAttribute) X(FuncSetAttribute) X(LaunchKernel)
#define FL_RTC_FUNCTIONS(X) \
  X(Version)                \
  X(CreateProgram) X(CompileProgram) X(GetProgramLogSize) X(GetProgramLog) X(GetCUBINSize) X(GetCUBIN) X(DestroyProgram)
