// SPDX-License-Identifier: Apache-2.0
#include "formats/ggmf.h"

#include <algorithm>
#include <array>
#include <set>

#include "formats/byte_reader.h"
#include "formats/gguf.h"
#include "formats/tensor_layout.h"

namespace firstlight::formats {
namespace {

using tensor::DType;

constexpr uint32_t kVersion = 101;
constexpr uint32_t kMaxRank = 4;
constexpr uint32_t kMaxName = 1000;
constexpr size_t kMaxTensors = 1'000'000;

// The numbers of types are the container's own; 4 to 6 were given up.
struct Code {
  uint32_t code;
  DType dtype;
};
constexpr std::array kCodes = {Code{0, DType::kF32},  Code{1, DType::kF16},  Code{2, DType::kQ4_0},
                               Code{3, DType::kQ4_1}, Code{7, DType::kQ5_0}, Code{8, DType::kQ5_1},
                               Code{9, DType::kQ8_0}};

Result<const GgmlType*> type_of(uint32_t code) {
  for (const Code& known : kCodes) {
    if (known.code == code) return find_ggml_type(known.dtype);
  }
  return unsupported("data type: found " + std::to_string(code) + ", wanted 0 to 3 or 7 to 9");
}

Result<int64_t> read_count(ByteReader& reader, const char* what) {
  const auto value = FL_TRY(reader.number<int32_t>());
  if (value < 1) return invalid_data(std::string(what) + ": found " + std::to_string(value) + ", wanted at least 1");
  return int64_t{value};
}

// One tensor; its data is skipped.
Result<TensorRecord> read_tensor(ByteReader& reader) {
  const auto rank = FL_TRY(reader.number<uint32_t>());
  const auto name_length = FL_TRY(reader.number<uint32_t>());
  const auto code = FL_TRY(reader.number<uint32_t>());
  if (rank > kMaxRank) return invalid_data("rank: found " + std::to_string(rank) + ", wanted 0 to 4");
  if (name_length < 1 || name_length > kMaxName)
    return invalid_data("length of a name: found " + std::to_string(name_length) + ", wanted 1 to 1000");
  TensorRecord record;
  for (uint32_t i = 0; i < rank; ++i) record.shape.push_back(FL_TRY(read_count(reader, "a size of the shape")));
  std::reverse(record.shape.begin(), record.shape.end());
  const auto name = FL_TRY(reader.take(name_length));
  record.name.assign(reinterpret_cast<const char*>(name.data()), name.size());

  const auto fill = [&]() -> Status {
    const GgmlType* type = FL_TRY(type_of(code));
    record.dtype = type->dtype;
    record.stored_type = type->name;
    const int64_t innermost = record.shape.empty() ? 1 : record.shape.back();
    FL_TRY(count_bytes(innermost, type->block_elements, type->block_bytes));
    record.size_bytes =
        FL_TRY(count_bytes(FL_TRY(count_elements(record.shape)), type->block_elements, type->block_bytes));
    record.offset = reader.position();
    FL_TRY(reader.take(record.size_bytes));
    return ok_status();
  };
  FL_TRY(fill().with_context("tensor " + quote_name(record.name)));
  return record;
}

}  // namespace

Result<GgmfFile> parse_ggmf(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  const auto magic = FL_TRY(reader.number<uint32_t>());
  if (magic != kGgmfMagic) return invalid_data("the file does not begin with the magic of ggmf");
  const auto version = FL_TRY(reader.number<uint32_t>());
  if (version != kVersion) return unsupported("ggmf version: found " + std::to_string(version) + ", wanted 101");
  GgmfFile file;
  file.num_vocabulary = FL_TRY(read_count(reader, "size of the vocabulary"));
  file.width = FL_TRY(read_count(reader, "width"));
  file.num_layers = FL_TRY(read_count(reader, "number of layers"));
  FL_TRY(type_of(FL_TRY(reader.number<uint32_t>())));
  std::set<std::string> names;
  while (reader.remaining() > 0) {
    if (file.tensors.size() >= kMaxTensors)
      return invalid_data("more than " + std::to_string(kMaxTensors) + " tensors");
    TensorRecord record = FL_TRY(read_tensor(reader).with_context("tensor " + std::to_string(file.tensors.size())));
    if (!names.insert(record.name).second) return invalid_data("tensor " + quote_name(record.name) + " occurs twice");
    file.tensors.push_back(std::move(record));
  }
  return file;
}

}  // namespace firstlight::formats
