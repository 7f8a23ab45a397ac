// SPDX-License-Identifier: Apache-2.0
// Fuzz target of the config reader: any bytes give one JSON object or a Status.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "formats/config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto config = firstlight::formats::parse_config({reinterpret_cast<const char*>(data), size});
  if (config.ok()) {
    FL_CHECK(config->is_object());
    FL_CHECK(!firstlight::dump_json(*config).empty());
  } else {
    FL_CHECK(!config.status().message().empty());
  }
  return 0;
}
