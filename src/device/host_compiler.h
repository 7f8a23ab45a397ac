// SPDX-License-Identifier: Apache-2.0
// The host's C++ compiler as a service: source text to a shared object that is loaded. Found when asked for; a machine
// without one is told so by name.
#pragma once

#include <filesystem>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "base/status.h"

namespace firstlight::device {

// A loaded shared object; unloaded with its last user.
class LoadedLibrary {
 public:
  // One that HostCompiler made: its seal, a hash behind the object, is checked first, since a loader runs what it is
  // given and dies of files that are cut off. Errors: kInvalidData with what was wrong, or the loader's message.
  static Result<std::shared_ptr<LoadedLibrary>> load(const std::filesystem::path& path);
  ~LoadedLibrary();
  LoadedLibrary(const LoadedLibrary&) = delete;
  LoadedLibrary& operator=(const LoadedLibrary&) = delete;
  void* symbol(const char* name) const;  // nullptr: not there

 private:
  explicit LoadedLibrary(void* handle) : handle_(handle) {}
  void* handle_;
};

class HostCompiler {
 public:
  // The first of c++, g++, clang++ on the path that runs. Errors: kUnsupported, naming those.
  static Result<HostCompiler> find();
  // `program` as posix_spawnp takes it.
  static Result<HostCompiler> of(const std::string& program);

  const std::string& program() const { return program_; }
  const std::string& version() const { return version_; }

  struct Options {
    std::vector<std::string> flags = {"-std=c++20", "-O2", "-march=x86-64-v3", "-ffp-contract=off", "-fno-math-errno"};
    bool in_background = false;  // at the lowest priority
    std::stop_token stop;        // asked for: the compiler is ended, kCancelled
  };
  // Compiles `source` to the shared object at `output`, which appears whole or not at all; what it needs besides lies
  // in the same folder for the time being. Errors: kInvalidData with the first lines of the compiler's messages.
  Status compile(const std::string& name, const std::string& source, const std::filesystem::path& output,
                 const Options& options) const;
  Status compile(const std::string& name, const std::string& source, const std::filesystem::path& output) const {
    return compile(name, source, output, Options());
  }

 private:
  HostCompiler(std::string program, std::string version) : program_(std::move(program)), version_(std::move(version)) {}
  std::string program_;
  std::string version_;
};

}  // namespace firstlight::device
