// SPDX-License-Identifier: Apache-2.0
#include "target/device_target.h"

#include <utility>

namespace firstlight::target {
namespace {

constexpr std::array<std::pair<DeviceKind, std::string_view>, 4> kKinds = {{{DeviceKind::kSimt, "simt"},
                                                                            {DeviceKind::kOpencl, "opencl"},
                                                                            {DeviceKind::kCuda, "cuda"},
                                                                            {DeviceKind::kMusa, "musa"}}};

}  // namespace

std::string_view device_kind_name(DeviceKind kind) { return kKinds[static_cast<size_t>(kind)].second; }

Result<DeviceKind> parse_device_kind(std::string_view name) {
  std::string known;
  for (const auto& [kind, word] : kKinds) {
    if (word == name) return kind;
    known += (known.empty() ? "" : ", ") + std::string(word);
  }
  return invalid_argument("device kind '" + std::string(name) + "', wanted one of " + known);
}

}  // namespace firstlight::target
