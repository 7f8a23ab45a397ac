// SPDX-License-Identifier: Apache-2.0
#include "runtime/generated.h"

#include <chrono>
#include <utility>

namespace firstlight::runtime {
namespace {

struct Workshop {
  device::NativeCompiler compiler;
  std::filesystem::path cache_dir;
};

Result<Workshop> workshop() {
  Workshop shop;
  shop.cache_dir = FL_TRY(device::default_cache_dir());
  shop.compiler = FL_TRY(device::find_native_compiler());
  return shop;
}

}  // namespace

std::unique_ptr<GeneratedCode> GeneratedCode::start(std::string source, GeneratedMode mode) {
  std::unique_ptr<GeneratedCode> code(new GeneratedCode());
  if (mode == GeneratedMode::kOff || source.empty()) return code;
  const auto shop = workshop();
  if (!shop.ok()) {
    code->status_ = shop.status();
    return code;
  }
  auto found = mode == GeneratedMode::kWait ? device::NativeCode::build(source, shop->compiler, shop->cache_dir)
                                            : device::NativeCode::cached(source, shop->compiler, shop->cache_dir);
  if (!found.ok()) {
    code->status_ = found.status();
  } else {
    code->ready_ = *std::move(found);
  }
  if (mode != GeneratedMode::kBackground || code->ready_ != nullptr || !code->status_.ok()) return code;
  std::promise<Built> promise;
  code->building_ = promise.get_future();
  code->builder_ = std::jthread(
      [shop = *shop, source = std::move(source), promise = std::move(promise)](const std::stop_token& stop) mutable {
        promise.set_value(device::NativeCode::build(source, shop.compiler, shop.cache_dir, stop));
      });
  return code;
}

std::shared_ptr<device::NativeCode> GeneratedCode::take() {
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
