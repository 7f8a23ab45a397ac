// SPDX-License-Identifier: Apache-2.0
#include "formats/safetensors.h"

#include <simdjson.h>

#include <array>
#include <cstring>
#include <limits>
#include <unordered_set>

#include "formats/tensor_layout.h"

namespace firstlight::formats {
namespace {

namespace dom = simdjson::dom;
using tensor::DType;

constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the limit of the reference implementation
constexpr size_t kLengthBytes = 8;

struct NamedDType {
  std::string_view name;
  DType dtype;
};
constexpr std::array kDTypes = {
    NamedDType{"BOOL", DType::kBool},      NamedDType{"U8", DType::kU8},          NamedDType{"I8", DType::kI8},
    NamedDType{"I16", DType::kI16},        NamedDType{"U16", DType::kU16},        NamedDType{"F16", DType::kF16},
    NamedDType{"BF16", DType::kBF16},      NamedDType{"I32", DType::kI32},        NamedDType{"U32", DType::kU32},
    NamedDType{"F32", DType::kF32},        NamedDType{"F64", DType::kF64},        NamedDType{"I64", DType::kI64},
    NamedDType{"U64", DType::kU64},        NamedDType{"F8_E4M3", DType::kF8E4M3}, NamedDType{"F8_E5M2", DType::kF8E5M2},
    NamedDType{"F8_E8M0", DType::kF8E8M0}, NamedDType{"F4", DType::kF4E2M1},
};

// A value of the wanted JSON type, or an error that says what was wanted.
template <typename T>
Result<T> get(dom::element element, std::string_view what, std::string_view wanted) {
  T value;
  if (element.get(value) != simdjson::SUCCESS) {
    return invalid_data(std::string(what) + ": " + std::string(wanted) + " wanted");
  }
  return value;
}

Result<StringMap> parse_metadata(dom::element element) {
  StringMap metadata;
  const auto object = FL_TRY(get<dom::object>(element, "__metadata__", "an object of strings"));
  for (const dom::key_value_pair field : object) {
    const auto value = FL_TRY(get<std::string_view>(field.value, "__metadata__ " + quote_name(field.key), "a string"));
    if (!metadata.emplace(field.key, value).second) {
      return invalid_data("__metadata__ " + quote_name(field.key) + " occurs twice");
    }
  }
  return metadata;
}

Status parse_shape(dom::element element, TensorRecord& record) {
  const auto shape = FL_TRY(get<dom::array>(element, "shape", "an array of numbers"));
  for (const dom::element dim : shape) {
    record.shape.push_back(FL_TRY(get<int64_t>(dim, "shape", "whole numbers below 2^63")));
  }
  return ok_status();
}

// data_offsets: first byte and the byte after the last, counted from `data_offset`.
Status parse_offsets(dom::element element, uint64_t data_offset, TensorRecord& record) {
  const auto offsets = FL_TRY(get<dom::array>(element, "data_offsets", "an array of two numbers"));
  std::array<uint64_t, 2> bounds{};
  size_t count = 0;
  for (const dom::element bound : offsets) {
    if (count == 2) return invalid_data("data_offsets has more than two numbers");
    bounds[count++] = FL_TRY(get<uint64_t>(bound, "data_offsets", "whole numbers, not negative"));
  }
  if (count != 2) return invalid_data("data_offsets has " + std::to_string(count) + " numbers, 2 wanted");
  const std::string text = "[" + std::to_string(bounds[0]) + ", " + std::to_string(bounds[1]) + "]";
  if (bounds[0] > bounds[1]) return invalid_data("data_offsets " + text + " run backwards");
  if (bounds[1] > std::numeric_limits<uint64_t>::max() / 2) return invalid_data("data_offsets " + text + " are absurd");
  record.offset = data_offset + bounds[0];
  record.size_bytes = bounds[1] - bounds[0];
  return ok_status();
}

Status parse_dtype(dom::element element, TensorRecord& record) {
  const auto name = FL_TRY(get<std::string_view>(element, "dtype", "a string"));
  record.stored_type = name;
  record.dtype = safetensors_dtype_from_name(name);
  if (!record.dtype) return unsupported("dtype " + quote_name(name) + " is unknown");
  return ok_status();
}

// Shape, type and number of bytes must tell the same story.
Status check_size(const TensorRecord& record) {
  const int64_t elements = FL_TRY(count_elements(record.shape));
  const tensor::DTypeInfo& info = tensor::dtype_info(*record.dtype);
  const uint64_t wanted = FL_TRY(count_bytes(elements, info.block_elements, info.block_bytes));
  if (wanted == record.size_bytes) return ok_status();
  return invalid_data("shape " + shape_text(record.shape) + " of " + record.stored_type + " takes " +
                      std::to_string(wanted) + " bytes, data_offsets give " + std::to_string(record.size_bytes));
}

Status parse_fields(dom::element element, uint64_t data_offset, TensorRecord& record) {
  const auto object = FL_TRY(get<dom::object>(element, "entry", "an object"));
  int num_dtypes = 0, num_shapes = 0, num_offsets = 0;
  for (const dom::key_value_pair field : object) {
    if (field.key == "dtype") {
      if (++num_dtypes == 1) FL_TRY(parse_dtype(field.value, record));
    } else if (field.key == "shape") {
      if (++num_shapes == 1) FL_TRY(parse_shape(field.value, record));
    } else if (field.key == "data_offsets") {
      if (++num_offsets == 1) FL_TRY(parse_offsets(field.value, data_offset, record));
    }
  }
  if (num_dtypes != 1 || num_shapes != 1 || num_offsets != 1) {
    return invalid_data("found " + std::to_string(num_dtypes) + " dtype, " + std::to_string(num_shapes) +
                        " shape and " + std::to_string(num_offsets) + " data_offsets, one of each wanted");
  }
  return check_size(record);
}

// The JSON text of the header, its length checked.
Result<std::string_view> find_header(std::span<const std::byte> bytes) {
  if (bytes.size() < kLengthBytes) {
    return invalid_data("the file has " + std::to_string(bytes.size()) + " bytes, a header of at least 8 wanted");
  }
  uint64_t length;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  if (length > kMaxHeaderBytes) {
    return invalid_data("header length " + std::to_string(length) + " is absurd, at most " +
                        std::to_string(kMaxHeaderBytes) + " wanted: not a safetensors file?");
  }
  if (length > bytes.size() - kLengthBytes) {
    return invalid_data("header length " + std::to_string(length) + ", but only " +
                        std::to_string(bytes.size() - kLengthBytes) + " bytes follow: the file is cut short");
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, static_cast<size_t>(length));
  if (text.empty() || text[0] != '{')
    return invalid_data("the header does not begin with '{': not a safetensors file?");
  return text;
}

}  // namespace

std::optional<std::string_view> safetensors_dtype_name(DType type) {
  for (const NamedDType& entry : kDTypes) {
    if (entry.dtype == type) return entry.name;
  }
  return std::nullopt;
}

std::optional<DType> safetensors_dtype_from_name(std::string_view name) {
  for (const NamedDType& entry : kDTypes) {
    if (entry.name == name) return entry.dtype;
  }
  return std::nullopt;
}

Result<SafetensorsHeader> parse_safetensors_header(std::span<const std::byte> bytes,
                                                   std::optional<uint64_t> file_size) {
  const std::string_view text = FL_TRY(find_header(bytes));
  SafetensorsHeader header;
  header.data_offset = kLengthBytes + text.size();
  dom::parser parser;
  dom::object root;
  if (const auto error = parser.parse(text.data(), text.size()).get(root); error != simdjson::SUCCESS) {
    return invalid_data(std::string("header: ") + simdjson::error_message(error));
  }
  std::unordered_set<std::string_view> names;
  for (const dom::key_value_pair field : root) {
    if (!names.insert(field.key).second) return invalid_data("tensor " + quote_name(field.key) + " occurs twice");
    if (field.key == "__metadata__") {
      header.metadata = FL_TRY(parse_metadata(field.value));
      continue;
    }
    TensorRecord record;
    record.name = field.key;
    FL_TRY(parse_fields(field.value, header.data_offset, record).with_context("tensor " + quote_name(field.key)));
    header.tensors.push_back(std::move(record));
  }
  FL_TRY(sort_and_check_layout(header.tensors, {.begin = header.data_offset, .file_size = file_size}));
  return header;
}

}  // namespace firstlight::formats
