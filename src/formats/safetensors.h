// SPDX-License-Identifier: Apache-2.0
// Safetensors: eight bytes of header length, a JSON header, then tensor data without holes (the format's README in
// huggingface/safetensors). The reader parses headers from bytes (tensor_file.h opens files and shards); the writer
// streams tensors into one file or into shards with an index.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "formats/tensor_file.h"
#include "tensor/dtype.h"

namespace firstlight::formats {

using StringMap = std::map<std::string, std::string, std::less<>>;

// The format's name of a type ("BF16", "F8_E4M3"); nullopt: safetensors can not store it.
std::optional<std::string_view> safetensors_dtype_name(tensor::DType type);
std::optional<tensor::DType> safetensors_dtype_from_name(std::string_view name);

struct SafetensorsHeader {
  std::vector<TensorRecord> tensors;  // in the order of their offsets; offsets count from the start of the file
  StringMap metadata;                 // __metadata__
  uint64_t data_offset = 0;           // where tensor data begins
};

// Parses the head of a file. `file_size` as in GgufFile::parse: when given, the data must end exactly there. Errors:
// kInvalidData (absurd or truncated header, bad JSON, duplicate names, shape, type and size that disagree, holes,
// overlaps, trailing bytes), kUnsupported (an unknown dtype; it and the tensor are named).
Result<SafetensorsHeader> parse_safetensors_header(std::span<const std::byte> bytes, std::optional<uint64_t> file_size);

// model.safetensors.index.json: which shard each tensor is promised in.
struct SafetensorsIndex {
  StringMap weight_map;                // tensor name to shard file name, a plain name without directories
  std::optional<uint64_t> total_size;  // metadata.total_size, bytes, where stated
};
Result<SafetensorsIndex> parse_safetensors_index(std::string_view text);

struct TensorPlan {
  std::string name;
  tensor::DType dtype = tensor::DType::kF32;  // a plain type that safetensors knows
  std::vector<int64_t> shape;
};

struct SafetensorsWriteOptions {
  std::string stem = "model";    // model.safetensors; model-00001-of-00003.safetensors
  uint64_t max_shard_bytes = 0;  // tensor bytes per file; 0: everything in one file. A larger tensor gets its own.
  StringMap metadata = {{"format", "pt"}};
};

// Writes a checkpoint whose tensors are all announced first, so that headers come first and data streams: memory is
// bounded by what the caller appends at a time. Files appear under their names only in finish().
class SafetensorsWriter {
 public:
  // Errors: kInvalidArgument (a duplicate or empty name, a bad shape), kUnsupported (a type the format has no name
  // for), kInvalidArgument (the directory can not be written; it is not created here).
  static Result<SafetensorsWriter> create(const std::string& directory, std::vector<TensorPlan> tensors,
                                          SafetensorsWriteOptions options = {});
  SafetensorsWriter(SafetensorsWriter&&) noexcept;
  SafetensorsWriter& operator=(SafetensorsWriter&&) noexcept;
  ~SafetensorsWriter();  // without finish(): removes what was written

  // The next bytes of a tensor; tensors in any order, each one's bytes in order, in as many pieces as wanted. Errors:
  // kNotFound (not announced), kInvalidArgument (more bytes than its type and shape say; the disk is full).
  Status append(std::string_view name, std::span<const std::byte> bytes);

  // Checks that every tensor is complete, then renames the files into place and writes the index where there are
  // shards. Errors: kInvalidArgument (incomplete tensors, named; the disk).
  Status finish();

  const std::vector<std::string>& files() const;  // full paths, as they will be after finish(); the index last

 private:
  struct State;
  explicit SafetensorsWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace firstlight::formats
