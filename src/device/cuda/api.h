// SPDX-License-Identifier: Apache-2.0
// The vendor's driver and run-time compiler, found when asked for: the program is built and runs where neither is.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "device/cuda/vendor.h"

namespace firstlight::device::FL_VENDOR {

struct DriverApi {
#define FL_MEMBER(name) decltype(&cu##name) name = nullptr;
  FL_DRIVER_FUNCTIONS(FL_MEMBER)
#undef FL_MEMBER

  // Initialised. Stays loaded for good. Errors: kUnsupported naming the library or the function that is missing, or
  // what the driver answers.
  static Result<std::shared_ptr<const DriverApi>> load();
  std::string error_name(CUresult code) const;
};

// Source to a binary for one architecture; needs no device.
class RuntimeCompiler {
 public:
  // Errors: kUnsupported naming the libraries looked for.
  static Result<RuntimeCompiler> load();
  const std::string& version() const { return version_; }
  // Errors: kInvalidData with the first lines of the log.
  Result<std::string> compile(const std::string& name, const std::string& text, const std::string& architecture) const;

 private:
#define FL_MEMBER(name) decltype(&nvrtc##name) name##_ = nullptr;
  FL_RTC_FUNCTIONS(FL_MEMBER)
#undef FL_MEMBER
  std::string version_;
};

}  // namespace firstlight::device::FL_VENDOR
