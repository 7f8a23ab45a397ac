// SPDX-License-Identifier: Apache-2.0
// Generated C++ as code of this process, kept in a folder under the hash of source, compiler, flags, so that the next
// process only loads it. What the compiler sees is source that Firstlight wrote; nothing of a checkpoint is compiled.
#pragma once

#include <filesystem>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "base/status.h"
#include "device/host_compiler.h"

namespace firstlight::device {

class NativeCodeBuilder {
 public:
  // With flags for this CPU's instructions. `compiler` as HostCompiler::of takes it; empty: looked for. Errors: those
  // of HostCompiler and make_private_folder, kUnavailable without a folder.
  static Result<NativeCodeBuilder> open(std::filesystem::path cache_dir, const std::string& compiler = {});

  // From the folder, or null when it is not there.
  std::shared_ptr<LoadedLibrary> cached(const std::string& source) const;
  // From the folder, or compiled into it: seconds of one core, at the lowest priority. Errors: those of
  // HostCompiler::compile, kCancelled when `stop` was asked for.
  Result<std::shared_ptr<LoadedLibrary>> build(const std::string& source, const std::stop_token& stop = {}) const;

  // The file of a source in the folder: 32 hexadecimal digits.
  std::filesystem::path file_of(const std::string& source) const;

 private:
  NativeCodeBuilder(HostCompiler compiler, std::filesystem::path cache_dir);

  HostCompiler compiler_;
  std::filesystem::path cache_dir_;
  std::vector<std::string> flags_;
};

}  // namespace firstlight::device
