// SPDX-License-Identifier: Apache-2.0
#include "formats/gguf.h"

#include <array>
#include <cstring>
#include <limits>

namespace firstlight::formats {
namespace {

template <typename T>
T number_in(std::span<const std::byte> raw, uint64_t idx) {
  T value;
  std::memcpy(&value, raw.data() + idx * sizeof(T), sizeof(T));
  return value;
}

std::string type_text(const GgufValue& value) {
  if (!value.is_array()) return std::string(gguf_type_name(value.type));
  return "array of " + std::to_string(value.count) + " " + std::string(gguf_type_name(value.element_type));
}

Status wrong_type(std::string_view key, const GgufValue& value, std::string_view wanted) {
  return invalid_data("metadata key " + quote_name(key) + ": found " + type_text(value) + ", wanted " +
                      std::string(wanted));
}

}  // namespace

std::string_view gguf_type_name(GgufType type) {
  constexpr std::array<std::string_view, kGgufNumTypes> kNames = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                                                  "bool", "string", "array", "u64", "i64", "f64"};
  return kNames[static_cast<size_t>(type)];
}

std::optional<int64_t> GgufValue::integer_at(uint64_t idx) const {
  if (idx >= count) return std::nullopt;
  switch (element_type) {
    case GgufType::kU8:
      return number_in<uint8_t>(raw, idx);
    case GgufType::kI8:
      return number_in<int8_t>(raw, idx);
    case GgufType::kU16:
      return number_in<uint16_t>(raw, idx);
    case GgufType::kI16:
      return number_in<int16_t>(raw, idx);
    case GgufType::kU32:
      return number_in<uint32_t>(raw, idx);
    case GgufType::kI32:
      return number_in<int32_t>(raw, idx);
    case GgufType::kI64:
      return number_in<int64_t>(raw, idx);
    case GgufType::kU64: {
      const auto value = number_in<uint64_t>(raw, idx);
      if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
      return static_cast<int64_t>(value);
    }
    case GgufType::kF32:
    case GgufType::kF64:
    case GgufType::kBool:
    case GgufType::kString:
    case GgufType::kArray:
      break;
  }
  return std::nullopt;
}

std::optional<double> GgufValue::number_at(uint64_t idx) const {
  if (idx >= count) return std::nullopt;
  if (element_type == GgufType::kF32) return number_in<float>(raw, idx);
  if (element_type == GgufType::kF64) return number_in<double>(raw, idx);
  if (element_type == GgufType::kU64) return static_cast<double>(number_in<uint64_t>(raw, idx));
  if (const auto integer = integer_at(idx)) return static_cast<double>(*integer);
  return std::nullopt;
}

std::optional<bool> GgufValue::bool_at(uint64_t idx) const {
  if (idx >= count || element_type != GgufType::kBool) return std::nullopt;
  const auto value = number_in<uint8_t>(raw, idx);
  if (value > 1) return std::nullopt;
  return value == 1;
}

const GgufValue* GgufFile::find(std::string_view key) const {
  const auto found = index_.find(key);
  return found == index_.end() ? nullptr : &entries_[found->second].value;
}

Result<const GgufValue*> GgufFile::get(std::string_view key, bool is_array, std::string_view wanted) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return not_found("metadata key " + quote_name(key) + " (" + std::string(wanted) + ")");
  if (value->is_array() != is_array) return wrong_type(key, *value, wanted);
  return value;
}

Result<std::string_view> GgufFile::get_string(std::string_view key) const {
  const GgufValue* value = FL_TRY(get(key, false, "a string"));
  if (value->type != GgufType::kString) return wrong_type(key, *value, "a string");
  return value->strings[0];
}

Result<int64_t> GgufFile::get_integer(std::string_view key) const {
  const GgufValue* value = FL_TRY(get(key, false, "an integer"));
  const auto integer = value->integer_at(0);
  if (!integer) return wrong_type(key, *value, "an integer below 2^63");
  return *integer;
}

Result<double> GgufFile::get_number(std::string_view key) const {
  const GgufValue* value = FL_TRY(get(key, false, "a number"));
  const auto number = value->number_at(0);
  if (!number) return wrong_type(key, *value, "a number");
  return *number;
}

Result<bool> GgufFile::get_bool(std::string_view key) const {
  const GgufValue* value = FL_TRY(get(key, false, "a bool"));
  const auto flag = value->bool_at(0);
  if (!flag) return wrong_type(key, *value, "a bool (0 or 1)");
  return *flag;
}

Result<std::span<const std::string_view>> GgufFile::get_strings(std::string_view key) const {
  const GgufValue* value = FL_TRY(get(key, true, "an array of strings"));
  if (value->element_type != GgufType::kString) return wrong_type(key, *value, "an array of strings");
  return std::span<const std::string_view>(value->strings);
}

Result<std::vector<int64_t>> GgufFile::get_integers(std::string_view key) const {
  const GgufValue* value = FL_TRY(get(key, true, "an array of integers"));
  std::vector<int64_t> integers;
  for (uint64_t i = 0; i < value->count; ++i) {
    const auto integer = value->integer_at(i);
    if (!integer) return wrong_type(key, *value, "an array of integers below 2^63");
    integers.push_back(*integer);
  }
  return integers;
}

Result<std::vector<double>> GgufFile::get_numbers(std::string_view key) const {
  const GgufValue* value = FL_TRY(get(key, true, "an array of numbers"));
  std::vector<double> numbers;
  for (uint64_t i = 0; i < value->count; ++i) {
    const auto number = value->number_at(i);
    if (!number) return wrong_type(key, *value, "an array of numbers");
    numbers.push_back(*number);
  }
  return numbers;
}

}  // namespace firstlight::formats
