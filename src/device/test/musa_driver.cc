// SPDX-License-Identifier: Apache-2.0
#include "device/test/musa_driver.h"

#include <mtrtc.h>
#include <musa.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include "tensor/codec.h"

namespace {

constexpr long long kTotalBytes = 64 << 20;

struct Image {
  std::string text;
};
std::map<MUdeviceptr, size_t>& allocations() {
  static std::map<MUdeviceptr, size_t> all;
  return all;
}

template <typename T>
T value(void** arguments, int i) {
  return *static_cast<T*>(arguments[i]);
}
template <typename T>
T* pointer(void** arguments, int i) {
  return reinterpret_cast<T*>(value<MUdeviceptr>(arguments, i));
}

void probe_local(int blocks, int n, void** a) {
  for (int t = 0; t < blocks * n; ++t) {
    const int first = t / n * n;
    pointer<int>(a, 1)[t] = pointer<int>(a, 0)[first + n - 1 - (t - first)] + pointer<int>(a, 0)[first];
  }
}

void probe_warp(int threads, void** a) {
  const int w = firstlight::device::fake_driver().real_warp;
  for (int t = 0; t < threads; ++t) {
    const int first = t / w * w;
    pointer<int>(a, 0)[t] = t ^ (w - 1);
    pointer<float>(a, 1)[t] = static_cast<float>(first * w + w * (w - 1) / 2);
    pointer<float>(a, 2)[t] = static_cast<float>(first + w - 1);
    pointer<int>(a, 3)[t] = t / w;
  }
}

void probe_storage(void** a) {
  namespace tensor = firstlight::tensor;
  for (int i = 0; i < 65536; ++i) {
    pointer<float>(a, 0)[i] = tensor::f16_to_f32(static_cast<uint16_t>(i));
    pointer<float>(a, 1)[i] = tensor::bf16_to_f32(static_cast<uint16_t>(i));
    if (i < 256) pointer<float>(a, 2)[i] = tensor::f8e4m3_to_f32(static_cast<uint8_t>(i));
  }
}

void probe_mma(void** a) {
  for (int i = 0; i < 128; ++i) {
    float sum = 0;
    for (int k = 0; k < 16; ++k) {
      sum += firstlight::tensor::bf16_to_f32(pointer<uint16_t>(a, 0)[i / 8 * 16 + k]) *
             firstlight::tensor::bf16_to_f32(pointer<uint16_t>(a, 1)[i % 8 * 16 + k]);
    }
    pointer<float>(a, 2)[i] = sum;
  }
}

// y[i] = x[i] * factor (+ i in the probe).
void scale(void** a, bool adds) {
  for (int i = 0; i < value<int>(a, 3); ++i) {
    pointer<float>(a, 1)[i] = pointer<float>(a, 0)[i] * value<float>(a, 2) + (adds ? static_cast<float>(i) : 0.0f);
  }
}

template <typename Handle>
MUresult make(Handle* handle) {
  ++firstlight::device::fake_driver().live_objects;
  *handle = reinterpret_cast<Handle>(std::malloc(1));
  return MUSA_SUCCESS;
}
template <typename Handle>
MUresult drop(Handle handle) {
  --firstlight::device::fake_driver().live_objects;
  std::free(handle);
  return MUSA_SUCCESS;
}

}  // namespace

namespace firstlight::device {
FakeDriver& fake_driver() {
  static FakeDriver driver;
  return driver;
}
}  // namespace firstlight::device

extern "C" {
using firstlight::device::fake_driver;

MUresult muInit(unsigned int) { return MUSA_SUCCESS; }
MUresult muDriverGetVersion(int* version) { return *version = 40200, MUSA_SUCCESS; }
MUresult muGetErrorName(MUresult error, const char** name) {
  *name = error == MUSA_ERROR_LAUNCH_FAILED ? "MUSA_ERROR_LAUNCH_FAILED" : "MUSA_ERROR_OTHER";
  return MUSA_SUCCESS;
}
MUresult muDeviceGetCount(int* count) { return *count = fake_driver().num_devices, MUSA_SUCCESS; }
MUresult muDeviceGet(MUdevice* device, int ordinal) { return *device = ordinal, MUSA_SUCCESS; }
MUresult muDeviceGetName(char* name, int length, MUdevice) {
  return std::strncpy(name, "Stand-in", static_cast<size_t>(length)), MUSA_SUCCESS;
}
MUresult muDeviceGetAttribute(int* out, MUdevice_attribute attribute, MUdevice) {
  switch (attribute) {
    case MU_DEVICE_ATTRIBUTE_WARP_SIZE:
      return *out = fake_driver().stated_warp, MUSA_SUCCESS;
    case MU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
    case MU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      return *out = 2, MUSA_SUCCESS;
    case MU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      return *out = 48, MUSA_SUCCESS;
    case MU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
    case MU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      return *out = 65536, MUSA_SUCCESS;
    default:
      return *out = 1024, MUSA_SUCCESS;
  }
}
MUresult muDeviceTotalMem(size_t* bytes, MUdevice) { return *bytes = kTotalBytes, MUSA_SUCCESS; }
MUresult muDevicePrimaryCtxRetain(MUcontext* context, MUdevice) { return make(context); }
MUresult muDevicePrimaryCtxRelease(MUdevice) { return --fake_driver().live_objects, MUSA_SUCCESS; }
MUresult muCtxSetCurrent(MUcontext) { return MUSA_SUCCESS; }
MUresult muMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  *free_bytes = static_cast<size_t>(kTotalBytes - fake_driver().live_bytes);
  return *total_bytes = kTotalBytes, MUSA_SUCCESS;
}
MUresult muMemAlloc(MUdeviceptr* address, size_t bytes) {
  if (fake_driver().live_bytes + static_cast<long long>(bytes) > kTotalBytes) return MUSA_ERROR_OUT_OF_MEMORY;
  fake_driver().live_bytes += static_cast<long long>(bytes);
  *address = reinterpret_cast<MUdeviceptr>(std::malloc(bytes));
  allocations()[*address] = bytes;
  return MUSA_SUCCESS;
}
MUresult muMemFree(MUdeviceptr address) {
  fake_driver().live_bytes -= static_cast<long long>(allocations().at(address));
  allocations().erase(address);
  return std::free(reinterpret_cast<void*>(address)), MUSA_SUCCESS;
}
MUresult muMemcpyHtoDAsync(MUdeviceptr to, const void* from, size_t bytes, MUstream) {
  return std::memcpy(reinterpret_cast<void*>(to), from, bytes), MUSA_SUCCESS;
}
MUresult muMemcpyDtoHAsync(void* to, MUdeviceptr from, size_t bytes, MUstream) {
  return std::memcpy(to, reinterpret_cast<void*>(from), bytes), MUSA_SUCCESS;
}
MUresult muMemcpyDtoDAsync(MUdeviceptr to, MUdeviceptr from, size_t bytes, MUstream) {
  return std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes), MUSA_SUCCESS;
}
MUresult muMemsetD8Async(MUdeviceptr to, unsigned char byte, size_t bytes, MUstream) {
  return std::memset(reinterpret_cast<void*>(to), byte, bytes), MUSA_SUCCESS;
}
MUresult muStreamCreate(MUstream* stream, unsigned int) { return make(stream); }
MUresult muStreamDestroy(MUstream stream) { return drop(stream); }
MUresult muStreamSynchronize(MUstream) { return MUSA_SUCCESS; }
MUresult muStreamWaitEvent(MUstream, MUevent, unsigned int) { return MUSA_SUCCESS; }
MUresult muEventCreate(MUevent* event, unsigned int) { return make(event); }
MUresult muEventDestroy(MUevent event) { return drop(event); }
MUresult muEventRecord(MUevent, MUstream) { return MUSA_SUCCESS; }
MUresult muEventSynchronize(MUevent) { return MUSA_SUCCESS; }
MUresult muEventQuery(MUevent) { return MUSA_SUCCESS; }
MUresult muModuleLoadData(MUmodule* module, const void* image) {
  if (std::strncmp(static_cast<const char*>(image), "image:", 6) != 0) return MUSA_ERROR_INVALID_IMAGE;
  ++fake_driver().live_objects;
  *module = reinterpret_cast<MUmodule>(new Image{static_cast<const char*>(image)});
  return MUSA_SUCCESS;
}
MUresult muModuleUnload(MUmodule module) {
  --fake_driver().live_objects;
  delete reinterpret_cast<Image*>(module);
  return MUSA_SUCCESS;
}
MUresult muModuleGetFunction(MUfunction* function, MUmodule, const char* name) {
  static const char* const known[] = {"probe_memory",  "probe_local", "probe_warp",
                                      "probe_storage", "probe_mma",   "scale"};
  for (const char* const& kernel : known) {
    if (std::strcmp(kernel, name) == 0) {
      *function = reinterpret_cast<MUfunction>(const_cast<char*>(kernel));
      return MUSA_SUCCESS;
    }
  }
  return MUSA_ERROR_INVALID_VALUE;
}
MUresult muFuncGetAttribute(int* out, MUfunction_attribute attribute, MUfunction) {
  return *out = attribute == MU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 512 : 256, MUSA_SUCCESS;
}
MUresult muFuncSetAttribute(MUfunction, MUfunction_attribute, int) { return MUSA_SUCCESS; }
MUresult muLaunchKernel(MUfunction function, unsigned int grid_x, unsigned int, unsigned int, unsigned int block_x,
                        unsigned int, unsigned int, unsigned int, MUstream, void** arguments, void**) {
  if (const int result = fake_driver().next_result) {
    fake_driver().next_result = 0;
    return static_cast<MUresult>(result);
  }
  const std::string name = reinterpret_cast<const char*>(function);
  if (name == "probe_memory") scale(arguments, true);
  if (name == "probe_local") probe_local(static_cast<int>(grid_x), static_cast<int>(block_x), arguments);
  if (name == "probe_warp") probe_warp(static_cast<int>(block_x), arguments);
  if (name == "probe_storage") probe_storage(arguments);
  if (name == "probe_mma") probe_mma(arguments);
  if (name == "scale") scale(arguments, false);
  return MUSA_SUCCESS;
}

mtrtcResult mtrtcVersion(int* major, int* minor) { return *major = 5, *minor = 2, MTRTC_SUCCESS; }
mtrtcResult mtrtcCreateProgram(mtrtcProgram* program, const char* source, const char*, int, const char* const*,
                               const char* const*) {
  *program = reinterpret_cast<mtrtcProgram>(new Image{std::string("image:") + source});
  return MTRTC_SUCCESS;
}
mtrtcResult mtrtcCompileProgram(mtrtcProgram program, int num_options, const char* const* options) {
  ++fake_driver().num_compiled;
  bool has_architecture = false;
  for (int i = 0; i < num_options; ++i) has_architecture |= std::strcmp(options[i], "--offload-arch=mp_22") == 0;
  const std::string& text = reinterpret_cast<Image*>(program)->text;
  const bool is_musa = text.find("#define FL_MUSA 1") != std::string::npos;
  const bool is_broken = text.find("no_such_word") != std::string::npos;
  return has_architecture && is_musa && !is_broken ? MTRTC_SUCCESS : MTRTC_ERROR_COMPILATION;
}
mtrtcResult mtrtcGetProgramLogSize(mtrtcProgram, size_t* bytes) { return *bytes = 13, MTRTC_SUCCESS; }
mtrtcResult mtrtcGetProgramLog(mtrtcProgram, char* log) { return std::memcpy(log, "no_such_word", 13), MTRTC_SUCCESS; }
mtrtcResult mtrtcGetFatBinSize(mtrtcProgram program, size_t* bytes) {
  return *bytes = reinterpret_cast<Image*>(program)->text.size() + 1, MTRTC_SUCCESS;
}
mtrtcResult mtrtcGetFatBin(mtrtcProgram program, char* binary) {
  const std::string& text = reinterpret_cast<Image*>(program)->text;
  return std::memcpy(binary, text.c_str(), text.size() + 1), MTRTC_SUCCESS;
}
mtrtcResult mtrtcDestroyProgram(mtrtcProgram* program) {
  delete reinterpret_cast<Image*>(*program);
  return MTRTC_SUCCESS;
}
}
