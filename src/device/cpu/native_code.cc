// SPDX-License-Identifier: Apache-2.0
#include "device/cpu/native_code.h"

#include <system_error>

#include "device/cpu/detect.h"
#include "device/private_folder.h"

namespace firstlight::device {
namespace {

namespace fs = std::filesystem;

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

}  // namespace

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

Result<NativeCodeBuilder> NativeCodeBuilder::open(fs::path cache_dir, const std::string& compiler) {
  if (cache_dir.empty()) return unavailable("there is no cache folder for generated kernels");
  FL_TRY(make_private_folder(cache_dir));
  return NativeCodeBuilder(FL_TRY(compiler.empty() ? HostCompiler::find() : HostCompiler::of(compiler)),
                           std::move(cache_dir));
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
