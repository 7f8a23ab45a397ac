// SPDX-License-Identifier: Apache-2.0
#include "device/cpu/native_code.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <system_error>

#include "device/cpu/detect.h"

namespace firstlight::device {
namespace {

namespace fs = std::filesystem;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// FNV-1a (Fowler, Noll, Vo), 64 bits, from a start of its own.
uint64_t fnv1a(std::string_view text, uint64_t hash) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

std::string hex(uint64_t value) {
  std::string text(16, '0');
  for (size_t i = 16; i-- > 0; value >>= 4) text[i] = "0123456789abcdef"[value & 15];
  return text;
}

// Ours alone: nobody else can put code there that we would load.
Status check_private(const fs::path& folder) {
  struct stat info {};
  if (::stat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
    return unavailable("cache folder " + folder.string() + " can not be made");
  }
  if (info.st_uid != ::geteuid() || (info.st_mode & 022) != 0) {
    return unavailable("cache folder " + folder.string() + " belongs to another user or is writable by others");
  }
  return ok_status();
}

}  // namespace

Result<fs::path> default_cache_dir() {
  std::string base = environment("FIRSTLIGHT_CACHE");
  if (base.empty() && !environment("XDG_CACHE_HOME").empty()) base = environment("XDG_CACHE_HOME") + "/firstlight";
  if (base.empty() && !environment("HOME").empty()) base = environment("HOME") + "/.cache/firstlight";
  if (base.empty()) return unavailable("no cache folder: neither FIRSTLIGHT_CACHE nor HOME is set");
  std::error_code error;
  if (!fs::exists(base, error)) {
    fs::create_directories(fs::path(base).parent_path(), error);
    ::mkdir(base.c_str(), 0700);
  }
  FL_TRY(check_private(base));
  return fs::path(base);
}

NativeCodeBuilder::NativeCodeBuilder(HostCompiler compiler, fs::path cache_dir)
    : compiler_(std::move(compiler)), cache_dir_(std::move(cache_dir)) {
  const bool avx512 = detect_cpu().features.has({target::kAvx512});
  flags_ = {"-std=c++17",
            "-O3",
            avx512 ? "-march=x86-64-v4" : "-march=x86-64-v3",
            "-fno-math-errno",
            "-fno-trapping-math",
            "-ffp-contract=off"};
  if (avx512) flags_.push_back("-mprefer-vector-width=512");
}

Result<NativeCodeBuilder> NativeCodeBuilder::open() {
  auto cache_dir = FL_TRY(default_cache_dir());
  return open(FL_TRY(HostCompiler::find()), std::move(cache_dir));
}

Result<NativeCodeBuilder> NativeCodeBuilder::open(HostCompiler compiler, fs::path cache_dir) {
  FL_TRY(check_private(cache_dir));
  return NativeCodeBuilder(std::move(compiler), std::move(cache_dir));
}

fs::path NativeCodeBuilder::file_of(const std::string& source) const {
  std::string all = compiler_.program() + "\n" + compiler_.version() + "\n";
  for (const std::string& flag : flags_) all += flag + " ";
  all += "\n" + source;
  return cache_dir_ / (hex(fnv1a(all, 0xcbf29ce484222325u)) + hex(fnv1a(all, 0x84222325cbf29ce4u)) + ".so");
}

std::shared_ptr<LoadedLibrary> NativeCodeBuilder::cached(const std::string& source) const {
  const fs::path file = file_of(source);
  std::error_code error;
  if (!fs::exists(file, error)) return nullptr;
  auto library = LoadedLibrary::load(file);
  if (library.ok()) return *std::move(library);
  fs::remove(file, error);  // cut off, or of another machine: made anew
  return nullptr;
}

Result<std::shared_ptr<LoadedLibrary>> NativeCodeBuilder::build(const std::string& source,
                                                                const std::stop_token& stop) const {
  if (auto known = cached(source)) return known;
  const fs::path file = file_of(source);
  FL_TRY(compiler_.compile("generated kernels", source, file, {.flags = flags_, .in_background = true, .stop = stop}));
  return LoadedLibrary::load(file);
}

}  // namespace firstlight::device
