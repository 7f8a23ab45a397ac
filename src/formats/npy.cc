// SPDX-License-Identifier: Apache-2.0
// "\x93NUMPY" | major, minor u8 | header length u16 (version 1) or u32 | a Python dict literal | data.
#include "formats/npy.h"

#include <array>
#include <charconv>
#include <cstring>
#include <optional>

#include "base/file_map.h"
#include "formats/byte_reader.h"
#include "formats/tensor_file.h"
#include "formats/tensor_layout.h"

namespace firstlight::formats {
namespace {

using tensor::DType;

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kHeaderAlignment = 64;

struct NamedDType {
  std::string_view descr;
  DType dtype;
};
constexpr std::array kDTypes = {
    NamedDType{"|b1", DType::kBool}, NamedDType{"|i1", DType::kI8},  NamedDType{"|u1", DType::kU8},
    NamedDType{"<i2", DType::kI16},  NamedDType{"<u2", DType::kU16}, NamedDType{"<i4", DType::kI32},
    NamedDType{"<u4", DType::kU32},  NamedDType{"<i8", DType::kI64}, NamedDType{"<u8", DType::kU64},
    NamedDType{"<f2", DType::kF16},  NamedDType{"<f4", DType::kF32}, NamedDType{"<f8", DType::kF64},
};

struct Header {
  std::optional<std::string> descr;
  std::optional<bool> is_fortran;
  std::optional<std::vector<int64_t>> shape;
};

// Reads the dict literal: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }. Only this form: what NumPy
// writes.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  Result<Header> parse() {
    FL_TRY(expect('{'));
    while (!accept('}')) {
      const std::string key = FL_TRY(parse_string());
      FL_TRY(expect(':'));
      FL_TRY(parse_field(key));
      if (!accept(',')) {
        FL_TRY(expect('}'));
        break;
      }
    }
    skip_blanks();
    if (position_ != text_.size()) return fail("end of the header");
    return std::move(header_);
  }

 private:
  Status parse_field(const std::string& key) {
    skip_blanks();
    if (key == "descr" && !header_.descr) {
      if (!text_.substr(position_).starts_with('\'')) {
        return unsupported("descr is no plain type: " + quote_name(text_.substr(position_)));
      }
      header_.descr = FL_TRY(parse_string());
    } else if (key == "fortran_order" && !header_.is_fortran) {
      header_.is_fortran = FL_TRY(parse_bool());
    } else if (key == "shape" && !header_.shape) {
      header_.shape = FL_TRY(parse_shape());
    } else {
      return invalid_data("header key " + quote_name(key) + " is unknown or occurs twice");
    }
    return ok_status();
  }

  Result<std::string> parse_string() {
    FL_TRY(expect('\''));
    const size_t end = text_.find('\'', position_);
    if (end == std::string_view::npos) return fail("a closing quote");
    const std::string value(text_.substr(position_, end - position_));
    position_ = end + 1;
    return value;
  }

  Result<bool> parse_bool() {
    for (const auto& [word, value] : {std::pair("True", true), std::pair("False", false)}) {
      if (!text_.substr(position_).starts_with(word)) continue;
      position_ += std::strlen(word);
      return value;
    }
    return fail("True or False");
  }

  Result<std::vector<int64_t>> parse_shape() {
    std::vector<int64_t> shape;
    FL_TRY(expect('('));
    while (!accept(')')) {
      skip_blanks();
      int64_t dim = 0;
      const char* begin = text_.data() + position_;
      const auto parsed = std::from_chars(begin, text_.data() + text_.size(), dim);
      if (parsed.ec != std::errc() || dim < 0) return fail("a dimension");
      position_ += static_cast<size_t>(parsed.ptr - begin);
      shape.push_back(dim);
      if (!accept(',')) {
        FL_TRY(expect(')'));
        break;
      }
    }
    return shape;
  }

  void skip_blanks() {
    while (position_ < text_.size() && (text_[position_] == ' ' || text_[position_] == '\n')) ++position_;
  }

  bool accept(char wanted) {
    skip_blanks();
    if (position_ >= text_.size() || text_[position_] != wanted) return false;
    ++position_;
    return true;
  }

  Status expect(char wanted) { return accept(wanted) ? ok_status() : fail("'" + std::string(1, wanted) + "'"); }

  Status fail(const std::string& wanted) const {
    return invalid_data("header, at byte " + std::to_string(position_) + ": " + wanted + " wanted, found " +
                        quote_name(text_.substr(position_)));
  }

  std::string_view text_;
  size_t position_ = 0;
  Header header_;
};

Result<Header> read_header(ByteReader& reader) {
  const auto magic = FL_TRY(reader.take(kMagic.size()));
  if (std::memcmp(magic.data(), kMagic.data(), kMagic.size()) != 0) return invalid_data("no NPY file: wrong magic");
  const auto major = FL_TRY(reader.number<uint8_t>());
  const auto minor = FL_TRY(reader.number<uint8_t>());
  if (major < 1 || major > 3 || minor != 0) {
    return unsupported("NPY version " + std::to_string(major) + "." + std::to_string(minor) + ", 1.0 to 3.0 wanted");
  }
  const uint64_t length = major == 1 ? FL_TRY(reader.number<uint16_t>()) : FL_TRY(reader.number<uint32_t>());
  const auto text = FL_TRY(reader.take(length).with_context("header"));
  return HeaderParser({reinterpret_cast<const char*>(text.data()), text.size()}).parse();
}

Result<DType> find_dtype(const std::string& descr) {
  for (const NamedDType& entry : kDTypes) {
    if (descr == entry.descr) return entry.dtype;
  }
  return unsupported("element type " + quote_name(descr) + ": little-endian bool, integers or floats wanted");
}

std::string shape_literal(std::span<const int64_t> shape) {
  std::string out = "(";
  for (size_t i = 0; i < shape.size(); ++i) out += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  return out + (shape.size() == 1 ? ",)" : ")");
}

template <typename T>
constexpr DType dtype_of();
template <>
constexpr DType dtype_of<float>() {
  return DType::kF32;
}
template <>
constexpr DType dtype_of<double>() {
  return DType::kF64;
}
template <>
constexpr DType dtype_of<int32_t>() {
  return DType::kI32;
}
template <>
constexpr DType dtype_of<int64_t>() {
  return DType::kI64;
}

}  // namespace

template <typename T>
Result<std::vector<T>> NpyArray::as() const {
  if (dtype != dtype_of<T>()) {
    return invalid_data("elements of " + std::string(tensor::dtype_name(dtype)) + ", wanted " +
                        std::string(tensor::dtype_name(dtype_of<T>())));
  }
  std::vector<T> values(data.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), data.data(), data.size());
  return values;
}
template Result<std::vector<float>> NpyArray::as() const;
template Result<std::vector<double>> NpyArray::as() const;
template Result<std::vector<int32_t>> NpyArray::as() const;
template Result<std::vector<int64_t>> NpyArray::as() const;

Result<NpyArray> parse_npy(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  const Header header = FL_TRY(read_header(reader));
  if (!header.descr || !header.is_fortran || !header.shape) {
    return invalid_data("header: descr, fortran_order and shape wanted");
  }
  if (*header.is_fortran && header.shape->size() > 1) {
    return unsupported("an array in Fortran order, C order wanted");
  }
  NpyArray array;
  array.dtype = FL_TRY(find_dtype(*header.descr));
  array.shape = *header.shape;
  const int64_t elements = FL_TRY(count_elements(array.shape));
  const uint64_t wanted = FL_TRY(count_bytes(elements, 1, tensor::dtype_info(array.dtype).block_bytes));
  if (wanted != reader.remaining()) {
    return invalid_data("shape " + shape_text(array.shape) + " of " + *header.descr + " takes " +
                        std::to_string(wanted) + " bytes, found " + std::to_string(reader.remaining()));
  }
  const auto data = FL_TRY(reader.take(wanted));
  array.data.assign(data.begin(), data.end());
  return array;
}

Result<NpyArray> read_npy(const std::string& path) {
  const FileMap map = FL_TRY(FileMap::open(path));
  return parse_npy(map.bytes()).with_context(describe_file(path));
}

Status write_npy(const std::string& path, DType dtype, std::span<const int64_t> shape,
                 std::span<const std::byte> data) {
  std::string_view descr;
  for (const NamedDType& entry : kDTypes) {
    if (entry.dtype == dtype) descr = entry.descr;
  }
  if (descr.empty()) return invalid_argument("NumPy has no type for " + std::string(tensor::dtype_name(dtype)));
  const auto elements = count_elements(shape);
  if (!elements.ok()) return invalid_argument(elements.status().message());
  const auto wanted = count_bytes(*elements, 1, tensor::dtype_info(dtype).block_bytes);
  if (!wanted.ok() || *wanted != data.size()) {
    return invalid_argument("shape " + shape_text(shape) + " of " + std::string(tensor::dtype_name(dtype)) +
                            " does not take " + std::to_string(data.size()) + " bytes");
  }
  std::string header =
      "{'descr': '" + std::string(descr) + "', 'fortran_order': False, 'shape': " + shape_literal(shape) + ", }";
  const size_t prefix = kMagic.size() + 2 + 2;
  header.resize((prefix + header.size() + 1 + kHeaderAlignment - 1) / kHeaderAlignment * kHeaderAlignment - prefix,
                ' ');
  header.back() = '\n';
  std::string content(kMagic);
  content += {'\1', '\0', static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)};
  content += header;
  content.append(reinterpret_cast<const char*>(data.data()), data.size());
  return write_file(path, content);
}

Status write_npy(const std::string& path, std::span<const int64_t> shape, std::span<const float> values) {
  return write_npy(path, DType::kF32, shape, std::as_bytes(values));
}

}  // namespace firstlight::formats
