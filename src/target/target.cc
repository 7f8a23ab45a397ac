// SPDX-License-Identifier: Apache-2.0
#include "target/target.h"

#include <algorithm>
#include <array>
#include <utility>

#include "target/device_target.h"

namespace firstlight::target {
namespace {

constexpr std::array<std::pair<Feature, std::string_view>, 7> kNames = {{{kAvx2, "avx2"},
                                                                         {kAvx512, "avx512"},
                                                                         {kAvx512Vnni, "avx512_vnni"},
                                                                         {kAvx512Bf16, "avx512_bf16"},
                                                                         {kAvxVnni, "avx_vnni"},
                                                                         {kMatrixUnits, "matrix_units"},
                                                                         {kHardwareWarps, "hardware_warps"}}};

}  // namespace

std::string features_to_string(const Features& features) {
  std::string text;
  for (const auto& [bit, name] : kNames) {
    if ((features.bits & bit) != 0) text += (text.empty() ? "" : " ") + std::string(name);
  }
  return text;
}

Features features_of(const DeviceTarget& device) {
  return {(device.has_mma ? kMatrixUnits : 0u) | (device.warps_in_hardware ? kHardwareWarps : 0u)};
}

Result<Features> parse_features(std::string_view text) {
  Features features;
  while (!text.empty()) {
    const size_t space = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, space);
    text.remove_prefix(std::min(space + 1, text.size()));
    if (word.empty()) continue;
    uint32_t bit = 0;
    for (const auto& [known, name] : kNames) {
      if (name == word) bit = known;
    }
    if (bit == 0) return invalid_argument("CPU feature '" + std::string(word) + "' is not known");
    features.bits |= bit;
  }
  return features;
}

}  // namespace firstlight::target
