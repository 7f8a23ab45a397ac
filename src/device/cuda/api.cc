// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/api.h"

#include <dlfcn.h>

#include <vector>

#include "device/assemble.h"

namespace firstlight::device::FL_VENDOR {
namespace {

void* open_first(const std::vector<const char*>& libraries) {
  for (const char* library : libraries) {
    if (void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL)) return handle;
  }
  return nullptr;
}

std::string name_of(const char* library) { return library == nullptr ? "this program" : library; }

// Headers map names to versions of them (cuMemAlloc_v2); a driver may have the plain name alone.
void* find(void* handle, std::string name) {
  if (void* found = dlsym(handle, name.c_str())) return found;
  if (name.ends_with("_v2")) name.resize(name.size() - 3);
  return dlsym(handle, name.c_str());
}

}  // namespace

// Two steps, so that the headers' own macros are applied first.
#define FL_TEXT_OF(name) #name
#define FL_TEXT(name) FL_TEXT_OF(name)

Result<std::shared_ptr<const DriverApi>> DriverApi::load() {
  const std::vector<const char*> libraries = FL_DRIVER_LIBRARIES;
  void* handle = open_first(libraries);
  if (handle == nullptr) {
    return unsupported("no " FL_VENDOR_NAME " driver (" + name_of(libraries[0]) + ") on this machine");
  }
  auto api = std::make_shared<DriverApi>();
#define FL_LOAD(name)                                                                 \
  api->name = reinterpret_cast<decltype(api->name)>(find(handle, FL_TEXT(cu##name))); \
  if (api->name == nullptr) return unsupported("the " FL_VENDOR_NAME " driver has no " FL_TEXT(cu##name));
  FL_DRIVER_FUNCTIONS(FL_LOAD)
#undef FL_LOAD
  const CUresult code = api->Init(0);
  if (code != CUDA_SUCCESS) return unsupported("the " FL_VENDOR_NAME " driver: " + api->error_name(code));
  return std::shared_ptr<const DriverApi>(std::move(api));
}

std::string DriverApi::error_name(CUresult code) const {
  const char* name = nullptr;
  if (GetErrorName(code, &name) == CUDA_SUCCESS && name != nullptr) return name;
  return "error " + std::to_string(static_cast<int>(code));
}

Result<RuntimeCompiler> RuntimeCompiler::load() {
  const std::vector<const char*> libraries = FL_RTC_LIBRARIES;
  void* handle = open_first(libraries);
  if (handle == nullptr) {
    return unsupported("no " FL_VENDOR_NAME " run-time compiler (" + name_of(libraries[0]) + ") on this machine");
  }
  RuntimeCompiler compiler;
#define FL_LOAD(name)                                                                                  \
  compiler.name##_ = reinterpret_cast<decltype(compiler.name##_)>(find(handle, FL_TEXT(nvrtc##name))); \
  if (compiler.name##_ == nullptr) return unsupported(name_of(libraries[0]) + " has no " FL_TEXT(nvrtc##name));
  FL_RTC_FUNCTIONS(FL_LOAD)
#undef FL_LOAD
  int major = 0;
  int minor = 0;
  if (compiler.Version_(&major, &minor) != NVRTC_SUCCESS) return unsupported(name_of(libraries[0]) + " does not work");
  compiler.version_ = FL_VENDOR_NAME " rtc " + std::to_string(major) + "." + std::to_string(minor);
  return compiler;
}

Result<std::string> RuntimeCompiler::compile(const std::string& name, const std::string& text,
                                             const std::string& architecture) const {
  nvrtcProgram program = nullptr;
  if (CreateProgram_(&program, text.c_str(), name.c_str(), 0, nullptr, nullptr) != NVRTC_SUCCESS) {
    return internal_error(version_ + ": no program for '" + name + "'");
  }
  const std::string wanted = FL_ARCHITECTURE_OPTION + architecture;
  std::vector<const char*> options = FL_RTC_OPTIONS;
  options.push_back(wanted.c_str());
  const bool is_built = CompileProgram_(program, static_cast<int>(options.size()), options.data()) == NVRTC_SUCCESS;
  size_t bytes = 0;
  std::string result;
  if (is_built) {
    if (GetCUBINSize_(program, &bytes) == NVRTC_SUCCESS) result.resize(bytes);
    if (bytes == 0 || GetCUBIN_(program, result.data()) != NVRTC_SUCCESS) result.clear();
  } else if (GetProgramLogSize_(program, &bytes) == NVRTC_SUCCESS) {
    result.resize(bytes);
    GetProgramLog_(program, result.data());
    result.resize(std::min(result.find('\0'), result.size()));
  }
  DestroyProgram_(&program);
  if (!is_built) return invalid_data("kernel source '" + name + "' does not build: " + first_lines(result));
  if (result.empty()) return internal_error(version_ + ": no binary of '" + name + "' for " + architecture);
  return result;
}

}  // namespace firstlight::device::FL_VENDOR
