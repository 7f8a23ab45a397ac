// SPDX-License-Identifier: Apache-2.0
// The device bodies by symbol, and the modules they are built into.
#include <algorithm>
#include <string>
#include <unordered_map>

#include "base/check.h"
#include "device/kernel_library.h"
#include "kernels/dialect/launches.h"

namespace firstlight::kernels {

const device::KernelLibrary& dialect_library();  // generated: the texts of this folder

namespace {

constexpr std::string_view kPlace = "//@printed\n";

// The text without the parts between "//@if WORD" and "//@end" whose word is not defined: devices read the parameters
// of every kernel in a text, so that kernels which are not wanted must not be there.
std::string wanted_parts(std::string_view text, const DeviceModules::Defines& defines) {
  std::string out;
  bool keeps = true;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end);
    if (line.starts_with("//@if ")) {
      const std::string_view word = line.substr(6, line.size() - 7);
      keeps = std::any_of(defines.begin(), defines.end(), [&](const auto& define) { return define.first == word; });
    } else if (line.starts_with("//@end")) {
      keeps = true;
    } else if (keeps) {
      out += line;
    }
  }
  return out;
}

using Bodies = std::span<const DeviceBody> (*)();
constexpr Bodies kFamilies[] = {
    device_data_bodies,       device_map_bodies,   device_rows_bodies,   device_linear_bodies, device_attention_bodies,
    device_recurrence_bodies, device_log_bodies,   device_einsum_bodies, device_axis_bodies,   device_fused_rows_bodies,
    device_rope_bodies,       device_route_bodies, device_quant_bodies,  device_vision_bodies};

std::unordered_map<std::string_view, DeviceBody> collect() {
  std::unordered_map<std::string_view, DeviceBody> bodies;
  for (const Bodies family : kFamilies) {
    for (const DeviceBody& one : family()) FL_CHECK(bodies.emplace(one.symbol, one).second);
  }
  return bodies;
}

}  // namespace

const DeviceBody* find_device_kernel(std::string_view symbol) {
  static const std::unordered_map<std::string_view, DeviceBody> bodies = collect();
  const auto found = bodies.find(symbol);
  return found == bodies.end() ? nullptr : &found->second;
}

Result<device::Kernel> DeviceModules::kernel(std::string_view path, const std::string& printed, Defines defines,
                                             std::string_view name) {
  std::string key = std::string(path) + "\n" + printed;
  for (const auto& [word, value] : defines) key += "\n" + word + "=" + value;
  auto found = modules_.find(key);
  if (found == modules_.end()) {
    std::string text = wanted_parts(FL_TRY(dialect_library().text(path)), defines);
    const size_t place = text.find(kPlace);
    if (place == std::string::npos) {
      text += printed;
    } else {
      text.replace(place, kPlace.size(), printed);
    }
    auto module = FL_TRY(device_.build({.name = std::string(path), .text = text, .defines = std::move(defines)})
                             .with_context("kernels of " + std::string(path)));
    found = modules_.emplace(std::move(key), std::move(module)).first;
  }
  return found->second.kernel(name);
}

}  // namespace firstlight::kernels
