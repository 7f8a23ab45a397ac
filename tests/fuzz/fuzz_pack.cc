// SPDX-License-Identifier: Apache-2.0
// Manifests of golden packs.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "align/pack.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto pack = firstlight::align::parse_manifest({reinterpret_cast<const char*>(data), size});
  return pack.ok() && pack->layout.projections < 1 ? 1 : 0;
}
