// SPDX-License-Identifier: Apache-2.0
// Stands for MUSA's driver header where there is none: exactly the types, codes and functions that vendor.h maps. For
// compiling alone (CI) and for a driver of our own making in tests; a build that is to run uses MUSA's own header.
#pragma once
#include <cstddef>

extern "C" {
typedef int MUdevice;
typedef unsigned long long MUdeviceptr;
typedef struct MUctx_st* MUcontext;
typedef struct MUmod_st* MUmodule;
typedef struct MUfunc_st* MUfunction;
typedef struct MUstream_st* MUstream;
typedef struct MUevent_st* MUevent;

typedef enum {
  MUSA_SUCCESS = 0,
  MUSA_ERROR_INVALID_VALUE = 1,
  MUSA_ERROR_OUT_OF_MEMORY = 2,
  MUSA_ERROR_NO_DEVICE = 100,
  MUSA_ERROR_INVALID_IMAGE = 200,
  MUSA_ERROR_NO_BINARY_FOR_GPU = 209,
  MUSA_ERROR_NOT_READY = 600,
  MUSA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701,
  MUSA_ERROR_LAUNCH_FAILED = 719
} MUresult;

typedef enum {
  MU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1,
  MU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X = 2,
  MU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y = 3,
  MU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z = 4,
  MU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X = 5,
  MU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y = 6,
  MU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z = 7,
  MU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK = 8,
  MU_DEVICE_ATTRIBUTE_WARP_SIZE = 10,
  MU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
  MU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
  MU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
  MU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97
} MUdevice_attribute;

typedef enum {
  MU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0,
  MU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1,
  MU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8
} MUfunction_attribute;

enum { MU_STREAM_NON_BLOCKING = 1, MU_EVENT_DISABLE_TIMING = 2 };

MUresult muInit(unsigned int flags);
MUresult muDriverGetVersion(int* version);
MUresult muGetErrorName(MUresult error, const char** name);
MUresult muDeviceGetCount(int* count);
MUresult muDeviceGet(MUdevice* device, int ordinal);
MUresult muDeviceGetName(char* name, int length, MUdevice device);
MUresult muDeviceGetAttribute(int* value, MUdevice_attribute attribute, MUdevice device);
MUresult muDeviceTotalMem(size_t* bytes, MUdevice device);
MUresult muDevicePrimaryCtxRetain(MUcontext* context, MUdevice device);
MUresult muDevicePrimaryCtxRelease(MUdevice device);
MUresult muCtxSetCurrent(MUcontext context);
MUresult muMemGetInfo(size_t* free_bytes, size_t* total_bytes);
MUresult muMemAlloc(MUdeviceptr* address, size_t bytes);
MUresult muMemFree(MUdeviceptr address);
MUresult muMemcpyHtoDAsync(MUdeviceptr to, const void* from, size_t bytes, MUstream stream);
MUresult muMemcpyDtoHAsync(void* to, MUdeviceptr from, size_t bytes, MUstream stream);
MUresult muMemcpyDtoDAsync(MUdeviceptr to, MUdeviceptr from, size_t bytes, MUstream stream);
MUresult muMemsetD8Async(MUdeviceptr to, unsigned char value, size_t bytes, MUstream stream);
MUresult muStreamCreate(MUstream* stream, unsigned int flags);
MUresult muStreamDestroy(MUstream stream);
MUresult muStreamSynchronize(MUstream stream);
MUresult muStreamWaitEvent(MUstream stream, MUevent event, unsigned int flags);
MUresult muEventCreate(MUevent* event, unsigned int flags);
MUresult muEventDestroy(MUevent event);
MUresult muEventRecord(MUevent event, MUstream stream);
MUresult muEventSynchronize(MUevent event);
MUresult muEventQuery(MUevent event);
MUresult muModuleLoadData(MUmodule* module, const void* image);
MUresult muModuleUnload(MUmodule module);
MUresult muModuleGetFunction(MUfunction* function, MUmodule module, const char* name);
MUresult muFuncGetAttribute(int* value, MUfunction_attribute attribute, MUfunction function);
MUresult muFuncSetAttribute(MUfunction function, MUfunction_attribute attribute, int value);
MUresult muLaunchKernel(MUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                        unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int local_bytes,
                        MUstream stream, void** arguments, void** extra);
}
