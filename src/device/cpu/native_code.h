// SPDX-License-Identifier: Apache-2.0
// C++ source into code of this process: the host's own compiler makes a shared object, kept in a folder under the hash
// of source, compiler, flags and CPU, so that the next process only loads it. What the compiler sees is source that
// Firstlight generated; nothing of a checkpoint is ever compiled.
#pragma once

#include <filesystem>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace firstlight::device {

struct NativeCompiler {
  std::string path;                // "/usr/bin/c++"
  std::string version;             // its first line of --version
  std::vector<std::string> flags;  // behind -shared -fPIC
};

// $FIRSTLIGHT_CXX, else $CXX, else c++, g++ or clang++ on the PATH; flags for this CPU's instructions. Errors:
// kUnsupported where there is none.
Result<NativeCompiler> find_native_compiler();

// $FIRSTLIGHT_CACHE, else $XDG_CACHE_HOME/firstlight, else ~/.cache/firstlight; made where it is missing, for this user
// alone. Errors: kUnavailable where it can not be made, or is another user's or writable by others.
Result<std::filesystem::path> default_cache_dir();

// A loaded shared object. Stays loaded while anyone holds it.
class NativeCode {
 public:
  ~NativeCode();
  NativeCode(const NativeCode&) = delete;
  NativeCode& operator=(const NativeCode&) = delete;

  // From the folder, or null when it is not there.
  static Result<std::shared_ptr<NativeCode>> cached(std::string_view source, const NativeCompiler& compiler,
                                                    const std::filesystem::path& cache_dir);
  // From the folder, or compiled into it: seconds of one core, at the lowest priority. Errors: kInvalidData with the
  // first lines of the compiler's log, kUnavailable when the folder or the compiler fails, or `stop` is asked for: the
  // compiler is ended then.
  static Result<std::shared_ptr<NativeCode>> build(std::string_view source, const NativeCompiler& compiler,
                                                   const std::filesystem::path& cache_dir,
                                                   const std::stop_token& stop = {});

  void* symbol(const std::string& name) const;  // null when there is none

 private:
  explicit NativeCode(void* handle) : handle_(handle) {}
  void* handle_;
};

// The name a source has in the folder: 32 hexadecimal digits.
std::string native_code_key(std::string_view source, const NativeCompiler& compiler);

}  // namespace firstlight::device
