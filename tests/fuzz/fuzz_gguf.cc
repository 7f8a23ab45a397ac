// SPDX-License-Identifier: Apache-2.0
// Fuzz target of the GGUF reader: any bytes give a file or a Status; tensors lie in the file, and every value can be
// asked for as every type.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "formats/gguf.h"

namespace {

using namespace firstlight::formats;

// Reads every byte a value refers to.
uint64_t touch(const GgufValue& value) {
  uint64_t sum = 0;
  for (const std::byte byte : value.raw) sum += std::to_integer<uint64_t>(byte);
  for (const std::string_view text : value.strings) {
    for (const char c : text) sum += static_cast<unsigned char>(c);
  }
  for (const GgufValue& child : value.children) sum += touch(child);
  return sum;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  (void)GgufFile::parse(bytes, std::nullopt);
  const auto file = GgufFile::parse(bytes);
  if (!file.ok()) {
    FL_CHECK(!file.status().message().empty());
    return 0;
  }
  for (const TensorRecord& record : file->tensors()) {
    FL_CHECK(record.offset <= size && record.size_bytes <= size - record.offset);
  }
  for (const GgufEntry& entry : file->entries()) {
    FL_CHECK(touch(entry.value) < UINT64_MAX);
    FL_CHECK(file->find(entry.key) == &entry.value);
    (void)file->get_string(entry.key);
    (void)file->get_integer(entry.key);
    (void)file->get_number(entry.key);
    (void)file->get_bool(entry.key);
    (void)file->get_strings(entry.key);
    (void)file->get_integers(entry.key);
    (void)file->get_numbers(entry.key);
  }
  return 0;
}
