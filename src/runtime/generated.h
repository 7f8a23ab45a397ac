// SPDX-License-Identifier: Apache-2.0
// The generated functions of a plan: taken from the cache, or built in the background while the plan runs its composed
// forms. Who owns it asks between two batches whether the code has come.
#pragma once

#include <future>
#include <memory>
#include <string>
#include <thread>

#include "base/status.h"
#include "device/cpu/native_code.h"

namespace firstlight::runtime {

enum class GeneratedMode : uint8_t {
  kOff,
  kCached,      // used where an earlier process built it
  kBackground,  // built meanwhile
  kWait,        // built before the first batch
};

class GeneratedCode {
 public:
  // `cache_dir` and `compiler` as NativeCodeBuilder::open takes them. Never fails: where no compiler or no cache folder
  // is, status() says why and the code never comes.
  static std::unique_ptr<GeneratedCode> start(std::string source, GeneratedMode mode,
                                              const std::filesystem::path& cache_dir, const std::string& compiler);

  // The code, once; null before it has come and after it was taken.
  std::shared_ptr<device::LoadedLibrary> take();
  const Status& status() const { return status_; }

 private:
  GeneratedCode() = default;
  using Built = Result<std::shared_ptr<device::LoadedLibrary>>;

  Status status_;
  std::shared_ptr<device::LoadedLibrary> ready_;
  std::future<Built> building_;
  std::jthread builder_;
};

}  // namespace firstlight::runtime
