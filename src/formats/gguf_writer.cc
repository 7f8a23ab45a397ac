// SPDX-License-Identifier: Apache-2.0
#include "formats/gguf_writer.h"

#include <algorithm>
#include <type_traits>

#include "base/file_map.h"
#include "formats/gguf.h"
#include "formats/tensor_layout.h"

namespace firstlight::formats {
namespace {

constexpr uint32_t kVersion = 3;
constexpr uint32_t kDefaultAlignment = 32;

template <typename T>
constexpr GgufType type_of() {
  if constexpr (std::is_same_v<T, uint8_t>) return GgufType::kU8;
  if constexpr (std::is_same_v<T, int8_t>) return GgufType::kI8;
  if constexpr (std::is_same_v<T, uint16_t>) return GgufType::kU16;
  if constexpr (std::is_same_v<T, int16_t>) return GgufType::kI16;
  if constexpr (std::is_same_v<T, uint32_t>) return GgufType::kU32;
  if constexpr (std::is_same_v<T, int32_t>) return GgufType::kI32;
  if constexpr (std::is_same_v<T, uint64_t>) return GgufType::kU64;
  if constexpr (std::is_same_v<T, int64_t>) return GgufType::kI64;
  if constexpr (std::is_same_v<T, float>) return GgufType::kF32;
  if constexpr (std::is_same_v<T, double>) return GgufType::kF64;
  if constexpr (std::is_same_v<T, bool>) return GgufType::kBool;
  if constexpr (std::is_same_v<T, std::string>) return GgufType::kString;
}

template <typename T>
void put(std::string& out, T value) {
  static_assert(std::is_arithmetic_v<T>);
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void put(std::string& out, const std::string& text) {
  put(out, static_cast<uint64_t>(text.size()));
  out += text;
}

void put(std::string& out, GgufType type) { put(out, static_cast<uint32_t>(type)); }

void pad(std::string& out, uint64_t alignment) {
  out.resize((out.size() + alignment - 1) / alignment * alignment, '\0');
}

}  // namespace

GgufWriter::GgufWriter(uint32_t alignment) : alignment_(alignment) {
  FL_CHECK(alignment > 0 && (alignment & (alignment - 1)) == 0);
  if (alignment != kDefaultAlignment) set("general.alignment", alignment);
}

void GgufWriter::set(const std::string& key, const GgufScalar& value) {
  put(entries_, key);
  std::visit(
      [&](const auto& scalar) {
        put(entries_, type_of<std::decay_t<decltype(scalar)>>());
        put(entries_, scalar);
      },
      value);
  ++num_entries_;
}

void GgufWriter::set_array(const std::string& key, const GgufArray& value) {
  put(entries_, key);
  put(entries_, GgufType::kArray);
  std::visit(
      [&](const auto& array) {
        put(entries_, type_of<typename std::decay_t<decltype(array)>::value_type>());
        put(entries_, static_cast<uint64_t>(array.size()));
        for (const auto& element : array) put(entries_, element);
      },
      value);
  ++num_entries_;
}

Status GgufWriter::add_tensor(const std::string& name, tensor::DType dtype, std::vector<int64_t> shape,
                              std::span<const std::byte> data) {
  const std::string context = "tensor " + quote_name(name);
  const GgmlType* type = find_ggml_type(dtype);
  if (type == nullptr) return unsupported(context + ": GGUF has no type for " + std::string(tensor::dtype_name(dtype)));
  if (shape.size() > 4)
    return invalid_argument(context + ": " + std::to_string(shape.size()) + " axes, at most 4 wanted");
  if (std::any_of(tensors_.begin(), tensors_.end(), [&](const Tensor& other) { return other.name == name; })) {
    return invalid_argument(context + ": the name is taken");
  }
  const auto elements = count_elements(shape);
  if (!elements.ok()) return invalid_argument(context + ": " + elements.status().message());
  if (const int64_t row = shape.empty() ? 1 : shape.back(); row % type->block_elements != 0) {
    return invalid_argument(context + ": rows of " + std::to_string(row) + " elements, a multiple of " +
                            std::to_string(type->block_elements) + " wanted");
  }
  const auto wanted = count_bytes(*elements, type->block_elements, type->block_bytes);
  if (!wanted.ok() || *wanted != data.size()) {
    return invalid_argument(context + ": shape " + shape_text(shape) + " of " + std::string(type->name) +
                            " does not take " + std::to_string(data.size()) + " bytes");
  }
  tensors_.push_back({name, type->id, std::move(shape), {reinterpret_cast<const char*>(data.data()), data.size()}});
  return ok_status();
}

std::string GgufWriter::encode() const {
  std::string out = "GGUF";
  put(out, kVersion);
  put(out, static_cast<uint64_t>(tensors_.size()));
  put(out, num_entries_);
  out += entries_;
  uint64_t offset = 0;
  for (const Tensor& tensor : tensors_) {
    put(out, tensor.name);
    put(out, static_cast<uint32_t>(tensor.shape.size()));
    for (auto dim = tensor.shape.rbegin(); dim != tensor.shape.rend(); ++dim) put(out, static_cast<uint64_t>(*dim));
    put(out, tensor.type_id);
    put(out, offset);
    offset += (tensor.data.size() + alignment_ - 1) / alignment_ * alignment_;
  }
  pad(out, alignment_);
  for (const Tensor& tensor : tensors_) {
    out += tensor.data;
    pad(out, alignment_);
  }
  return out;
}

Status GgufWriter::write(const std::string& path) const { return write_file(path, encode()); }

}  // namespace firstlight::formats
