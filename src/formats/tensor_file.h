// SPDX-License-Identifier: Apache-2.0
// A checkpoint as everybody above sees it: named tensors with type, shape and bytes, whatever files they came from
// (safetensors, single or sharded; GGUF, single or split; the one file of rwkv.cpp). Owns the memory maps; knows no
// model. Every length and offset has been compared with the size of its file before open() returns, so bytes() can not
// reach past a map.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file_map.h"
#include "base/status.h"
#include "tensor/dtype.h"

namespace firstlight::formats {

class GgufFile;

// Where one tensor lies. Safetensors promises no alignment of `offset`; GGUF promises general.alignment (32 by
// default).
struct TensorRecord {
  std::string name;
  std::optional<tensor::DType> dtype;  // nullopt: a stored type we can not decode (some ggml types); see stored_type
  std::string stored_type;             // as the file's format names it: "BF16", "F8_E4M3", "Q4_K", "IQ4_XS"
  std::vector<int64_t> shape;          // row-major, outermost axis first (GGUF dimensions are reversed into this order)
  size_t file_idx = 0;                 // into Checkpoint::files()
  uint64_t offset = 0;                 // of the first byte, from the start of that file
  uint64_t size_bytes = 0;

  int64_t num_elements() const;  // product of shape; 1 for a scalar (checked to fit when the file was read)
};

using TensorMap = std::map<std::string, TensorRecord, std::less<>>;

// A name from a file, fit for a message: control characters and broken UTF-8 escaped, cut after 200 bytes, in quotes.
std::string quote_name(std::string_view name);

// "[2, 3]".
std::string shape_text(std::span<const int64_t> shape);

// The path, and where it is a symbolic link its target: "model.safetensors (a link to ../../blobs/ab12)".
std::string describe_file(const std::string& path);

enum class CheckpointFormat : uint8_t { kSafetensors, kGguf, kGgmf };

struct CheckpointOptions {
  // Accept files that end right after their header (or anywhere in the data): for a dry run from headers alone. Tensors
  // whose bytes are not all there are listed, and bytes() refuses them.
  bool headers_only = false;
};

class Checkpoint {
 public:
  // `path` is a directory (model.safetensors, else *.safetensors.index.json with its shards, else a lone *.safetensors,
  // else exactly one *.gguf or one split set), a *.safetensors file, a *.safetensors.index.json, or a *.gguf file (of a
  // split set: its first part), or a file of rwkv.cpp. The format is judged by the name as given, not by a link's
  // target; an unknown ending by its first bytes. Errors: kNotFound (path, shard or part absent, dangling link),
  // kInvalidData (malformed; the message names file, tensor, value found and value wanted), kUnsupported (an unknown
  // safetensors dtype, GGUF v1, big endian).
  static Result<Checkpoint> open(const std::string& path, const CheckpointOptions& options = {});

  Checkpoint(Checkpoint&&) noexcept;
  Checkpoint& operator=(Checkpoint&&) noexcept;
  ~Checkpoint();

  CheckpointFormat format() const { return format_; }
  const std::vector<std::string>& files() const { return files_; }  // weight files, in order of file_idx
  const TensorMap& tensors() const { return tensors_; }
  const TensorRecord* find(std::string_view name) const;

  // The stored bytes, inside the map: valid while this lives, possibly unaligned. Errors: kUnsupported when the stored
  // type is one we can not decode, kNotFound when the bytes are absent (headers_only).
  Result<std::span<const std::byte>> bytes(const TensorRecord& record) const;

  // Hints to the kernel, never an error: read ahead; or drop the pages again, which bounds the memory a load occupies.
  void will_need(const TensorRecord& record) const;
  void done_with(const TensorRecord& record) const;

  uint64_t total_bytes() const { return total_bytes_; }       // stored bytes of all tensors
  bool is_metadata_only() const { return tensors_.empty(); }  // a vocabulary-only GGUF, for one

  // The first GGUF file's metadata; nullptr for safetensors.
  const GgufFile* gguf() const { return gguf_.get(); }
  // __metadata__ of the safetensors files, later files not overriding earlier ones; empty for GGUF; for ggmf the
  // numbers of its header, in decimal: num_vocabulary, width, num_layers.
  const std::map<std::string, std::string, std::less<>>& metadata() const { return metadata_; }
  // What is odd but no reason to refuse (a total_size in the index that does not agree, for one).
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  friend class CheckpointOpener;
  Checkpoint();

  CheckpointFormat format_ = CheckpointFormat::kSafetensors;
  std::vector<std::string> files_;
  std::vector<FileMap> maps_;
  TensorMap tensors_;
  uint64_t total_bytes_ = 0;
  std::unique_ptr<GgufFile> gguf_;
  std::map<std::string, std::string, std::less<>> metadata_;
  std::vector<std::string> warnings_;
};

}  // namespace firstlight::formats
