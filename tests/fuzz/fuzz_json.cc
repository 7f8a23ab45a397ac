// SPDX-License-Identifier: Apache-2.0
// Fuzz target of the JSON reader: any bytes give a document or a Status, and a document survives writing and reading.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto document = firstlight::parse_json(text);
  if (!document.ok()) {
    FL_CHECK(!document.status().message().empty());
    return 0;
  }
  const std::string written = firstlight::dump_json(*document);
  const auto again = firstlight::parse_json(written);
  FL_CHECK(again.ok());
  FL_CHECK(firstlight::dump_json(*again) == written);
  return 0;
}
