// SPDX-License-Identifier: Apache-2.0
// Writes a small GGUF file (version 3, little endian): metadata and tensors held in memory until it is written. For
// twins and tests; checkpoints of real size are written as safetensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/status.h"
#include "tensor/dtype.h"

namespace firstlight::formats {

using GgufScalar = std::variant<uint8_t, int8_t, uint16_t, int16_t, uint32_t, int32_t, uint64_t, int64_t, float, double,
                                bool, std::string>;
using GgufArray = std::variant<std::vector<uint8_t>, std::vector<int32_t>, std::vector<uint32_t>, std::vector<int64_t>,
                               std::vector<float>, std::vector<std::string>>;

class GgufWriter {
 public:
  // The alignment is written as general.alignment unless it is the default, 32. A power of two.
  explicit GgufWriter(uint32_t alignment = 32);

  // Entries are written in the order they were set. Keys must differ.
  void set(const std::string& key, const GgufScalar& value);
  void set_array(const std::string& key, const GgufArray& value);

  // `shape` outermost first, as everywhere here. Errors: kUnsupported (a type GGUF has no number for), kInvalidArgument
  // (more than four axes, rows that are no whole number of blocks, `data` of another size, a name used before).
  Status add_tensor(const std::string& name, tensor::DType dtype, std::vector<int64_t> shape,
                    std::span<const std::byte> data);

  std::string encode() const;                   // the whole file
  Status write(const std::string& path) const;  // through a temporary file and a rename

 private:
  struct Tensor {
    std::string name;
    uint32_t type_id = 0;
    std::vector<int64_t> shape;
    std::string data;
  };
  uint32_t alignment_;
  uint64_t num_entries_ = 0;
  std::string entries_;  // encoded
  std::vector<Tensor> tensors_;
};

}  // namespace firstlight::formats
