// SPDX-License-Identifier: Apache-2.0
#include "runtime/generated.h"

#include <chrono>
#include <utility>

namespace firstlight::runtime {

std::unique_ptr<GeneratedCode> GeneratedCode::start(std::string source, GeneratedMode mode,
                                                    const std::filesystem::path& cache_dir,
                                                    const std::string& compiler) {
  std::unique_ptr<GeneratedCode> code(new GeneratedCode());
  if (mode == GeneratedMode::kOff || source.empty()) return code;
  auto builder = device::NativeCodeBuilder::open(cache_dir, compiler);
  if (!builder.ok()) {
    code->status_ = builder.status();
    return code;
  }
  code->ready_ = builder->cached(source);
  if (code->ready_ != nullptr || mode == GeneratedMode::kCached) return code;
  if (mode == GeneratedMode::kWait) {
    auto built = builder->build(source);
    if (built.ok()) code->ready_ = *std::move(built);
    if (!built.ok()) code->status_ = built.status();
    return code;
  }
  std::promise<Built> promise;
  code->building_ = promise.get_future();
  code->builder_ =
      std::jthread([builder = *std::move(builder), source = std::move(source), promise = std::move(promise)](
                       const std::stop_token& stop) mutable { promise.set_value(builder.build(source, stop)); });
  return code;
}

std::shared_ptr<device::LoadedLibrary> GeneratedCode::take() {
  if (building_.valid() && building_.wait_for(std::chrono::seconds(0)) == std::future_status::ready) {
    Built built = building_.get();
    if (built.ok()) {
      ready_ = *std::move(built);
    } else {
      status_ = built.status();
    }
  }
  return std::exchange(ready_, nullptr);
}

}  // namespace firstlight::runtime
