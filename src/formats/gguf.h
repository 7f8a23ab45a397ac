// SPDX-License-Identifier: Apache-2.0
// GGUF, versions 2 and 3, little endian: metadata and the table of tensors, parsed from bytes. The layout is that of
// docs/gguf.md in ggml-org/ggml. A parsed file refers into the bytes it was parsed from (strings are views, an array of
// 150,000 tokens costs one vector); it owns no tensor data. tensor_file.h opens files and split sets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "formats/tensor_file.h"
#include "tensor/dtype.h"

namespace firstlight::formats {

enum class GgufType : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};
inline constexpr uint32_t kGgufNumTypes = 13;

std::string_view gguf_type_name(GgufType type);  // "u8", "string", "array", …

// One metadata value. Scalars have count 1; an array has its element type and count, and one of: packed numbers in
// `raw`, `strings`, or `children` (arrays of arrays).
struct GgufValue {
  GgufType type = GgufType::kU8;
  GgufType element_type = GgufType::kU8;  // same as type unless type is kArray
  uint64_t count = 1;
  std::span<const std::byte> raw;         // numbers and bools, packed little endian, unaligned
  std::vector<std::string_view> strings;  // not checked to be UTF-8: vocabularies hold broken pieces on purpose
  std::vector<GgufValue> children;

  bool is_array() const { return type == GgufType::kArray; }
  // Element `idx` of a scalar or an array of numbers, by value. nullopt: not that kind of number, or it does not fit.
  std::optional<int64_t> integer_at(uint64_t idx) const;  // any integer type
  std::optional<double> number_at(uint64_t idx) const;    // any integer or float type
  std::optional<bool> bool_at(uint64_t idx) const;
};

struct GgufEntry {
  std::string_view key;
  GgufValue value;
};

// A tensor type of ggml: name, block size, and ours where we can decode it. Block sizes of the others are known too, so
// that their tensors can be listed, summed and checked against the file.
struct GgmlType {
  uint32_t id;
  std::string_view name;
  int64_t block_elements;
  int64_t block_bytes;
  std::optional<tensor::DType> dtype;
};
const GgmlType* find_ggml_type(uint32_t id);         // nullptr: no such type (or one withdrawn by ggml)
const GgmlType* find_ggml_type(tensor::DType type);  // nullptr: GGUF can not store it

class GgufFile {
 public:
  // Parses the head of a file. `bytes` must outlive the result; when the file is only partly there (a dry run from
  // headers) `file_size` is the size to check offsets against, nullopt for no check. Errors: kInvalidData,
  // kUnsupported (version 1, big endian). Nothing is allocated from a count that the remaining bytes can not hold.
  static Result<GgufFile> parse(std::span<const std::byte> bytes, std::optional<uint64_t> file_size);
  static Result<GgufFile> parse(std::span<const std::byte> bytes) { return parse(bytes, bytes.size()); }

  uint32_t version() const { return version_; }
  uint64_t alignment() const { return alignment_; }
  uint64_t data_offset() const { return data_offset_; }  // where tensor data begins, from the start of the file
  const std::vector<GgufEntry>& entries() const { return entries_; }     // in the order of the file
  const std::vector<TensorRecord>& tensors() const { return tensors_; }  // in the order of the file; file_idx 0

  bool has(std::string_view key) const { return find(key) != nullptr; }
  const GgufValue* find(std::string_view key) const;

  // Typed access. Errors: kNotFound (no such key), kInvalidData (another type or out of range; both are named).
  Result<std::string_view> get_string(std::string_view key) const;
  Result<int64_t> get_integer(std::string_view key) const;
  Result<double> get_number(std::string_view key) const;
  Result<bool> get_bool(std::string_view key) const;
  Result<std::span<const std::string_view>> get_strings(std::string_view key) const;
  Result<std::vector<int64_t>> get_integers(std::string_view key) const;
  Result<std::vector<double>> get_numbers(std::string_view key) const;

 private:
  friend class GgufParser;
  Result<const GgufValue*> get(std::string_view key, bool is_array, std::string_view wanted) const;

  uint32_t version_ = 0;
  uint64_t alignment_ = 32;
  uint64_t data_offset_ = 0;
  std::vector<GgufEntry> entries_;
  std::vector<TensorRecord> tensors_;
  std::map<std::string_view, size_t> index_;  // key to entry
};

}  // namespace firstlight::formats
