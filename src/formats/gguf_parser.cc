// SPDX-License-Identifier: Apache-2.0
// The parsing half of GgufFile: header, metadata, tensor table.
//
//   "GGUF" | version u32 | tensor count u64 | metadata count u64
//   metadata: key string | type u32 | value        (array: element type u32 | count u64 | elements)
//   tensors:  name string | axes u32 | dimensions u64, innermost first | ggml type u32 | offset u64
//   padding to general.alignment | data; offsets count from here
#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <unordered_set>
#include <utility>

#include "formats/byte_reader.h"
#include "formats/gguf.h"
#include "formats/tensor_layout.h"

namespace firstlight::formats {
namespace {

constexpr uint32_t kMaxAxes = 4;            // GGML_MAX_DIMS
constexpr int kMaxArrayDepth = 4;           // arrays in arrays; no file in the wild has any
constexpr uint64_t kMaxChildren = 1 << 20;  // arrays in arrays, all together: each costs us far more than its bytes
constexpr uint64_t kMinEntryBytes = 8 + 4 + 1;
constexpr uint64_t kMinTensorBytes = 8 + 4 + 4 + 8;

// Bytes of a number or bool; 0 for the others.
size_t number_bytes(GgufType type) {
  switch (type) {
    case GgufType::kU8:
    case GgufType::kI8:
    case GgufType::kBool:
      return 1;
    case GgufType::kU16:
    case GgufType::kI16:
      return 2;
    case GgufType::kU32:
    case GgufType::kI32:
    case GgufType::kF32:
      return 4;
    case GgufType::kU64:
    case GgufType::kI64:
    case GgufType::kF64:
      return 8;
    case GgufType::kString:
    case GgufType::kArray:
      break;
  }
  return 0;
}

Status check_count(std::string_view what, uint64_t count, uint64_t bytes_each, size_t remaining) {
  if (count <= remaining / bytes_each) return ok_status();
  return invalid_data(std::string(what) + " " + std::to_string(count) + " is absurd: each takes at least " +
                      std::to_string(bytes_each) + " bytes, only " + std::to_string(remaining) + " remain");
}

}  // namespace

class GgufParser {
 public:
  GgufParser(std::span<const std::byte> bytes, std::optional<uint64_t> file_size)
      : reader_(bytes), file_size_(file_size) {}

  Result<GgufFile> parse() {
    FL_TRY(parse_version());
    const auto num_tensors = FL_TRY(reader_.number<uint64_t>().with_context("tensor count"));
    const auto num_entries = FL_TRY(reader_.number<uint64_t>().with_context("metadata count"));
    FL_TRY(check_count("metadata count", num_entries, kMinEntryBytes, reader_.remaining()));
    file_.entries_.reserve(static_cast<size_t>(num_entries));
    for (uint64_t i = 0; i < num_entries; ++i) FL_TRY(parse_entry(i));
    FL_TRY(parse_alignment());
    FL_TRY(check_count("tensor count", num_tensors, kMinTensorBytes, reader_.remaining()));
    file_.tensors_.reserve(static_cast<size_t>(num_tensors));
    for (uint64_t i = 0; i < num_tensors; ++i) FL_TRY(parse_tensor(i));
    FL_TRY(place_tensors());
    return std::move(file_);
  }

 private:
  Status parse_version() {
    const auto magic = FL_TRY(reader_.take(4).with_context("GGUF magic"));
    constexpr std::array<char, 4> kMagic = {'G', 'G', 'U', 'F'};
    if (!std::equal(magic.begin(), magic.end(), kMagic.begin(),
                    [](std::byte a, char b) { return std::to_integer<char>(a) == b; })) {
      return invalid_data("not a GGUF file: begins with " +
                          quote_name({reinterpret_cast<const char*>(magic.data()), magic.size()}) +
                          ", wanted \"GGUF\"");
    }
    const auto version = FL_TRY(reader_.number<uint32_t>().with_context("GGUF version"));
    if (version != 0 && (version & 0xffff) == 0) {
      return unsupported("a big-endian GGUF file: only little endian is read");
    }
    if (version != 2 && version != 3) {
      return unsupported("GGUF version " + std::to_string(version) + ": only versions 2 and 3 are read");
    }
    file_.version_ = version;
    return ok_status();
  }

  Status parse_entry(uint64_t idx) {
    const auto key = FL_TRY(reader_.string().with_context("metadata key " + std::to_string(idx)));
    auto value = parse_value();
    if (!value.ok()) return std::move(value).status().with_context("metadata key " + quote_name(key));
    if (!file_.index_.emplace(key, file_.entries_.size()).second) {
      return invalid_data("metadata key " + quote_name(key) + " occurs twice");
    }
    file_.entries_.push_back({key, std::move(value).value()});
    return ok_status();
  }

  Result<GgufType> parse_type() {
    const auto type = FL_TRY(reader_.number<uint32_t>().with_context("value type"));
    if (type >= kGgufNumTypes) {
      return invalid_data("value type " + std::to_string(type) + " is unknown, wanted 0 to " +
                          std::to_string(kGgufNumTypes - 1));
    }
    return static_cast<GgufType>(type);
  }

  Result<GgufValue> parse_value() {
    const GgufType type = FL_TRY(parse_type());
    if (type == GgufType::kArray) return parse_array(1);
    GgufValue value;
    value.type = type;
    value.element_type = type;
    FL_TRY(parse_elements(value, 0));
    return value;
  }

  Result<GgufValue> parse_array(int depth) {
    if (depth > kMaxArrayDepth) {
      return invalid_data("arrays nested deeper than " + std::to_string(kMaxArrayDepth));
    }
    GgufValue value;
    value.type = GgufType::kArray;
    value.element_type = FL_TRY(parse_type());
    value.count = FL_TRY(reader_.number<uint64_t>().with_context("array length"));
    FL_TRY(parse_elements(value, depth));
    return value;
  }

  // Fills raw, strings or children for value.count elements.
  Status parse_elements(GgufValue& value, int depth) {
    if (value.element_type == GgufType::kString) {
      FL_TRY(check_count("array length", value.count, 8, reader_.remaining()));
      value.strings.reserve(static_cast<size_t>(value.count));
      for (uint64_t i = 0; i < value.count; ++i) value.strings.push_back(FL_TRY(reader_.string()));
      return ok_status();
    }
    if (value.element_type == GgufType::kArray) {
      FL_TRY(check_count("array length", value.count, 4 + 8, reader_.remaining()));
      num_children_ += value.count;
      if (num_children_ > kMaxChildren) {
        return invalid_data("more than " + std::to_string(kMaxChildren) + " arrays inside arrays");
      }
      for (uint64_t i = 0; i < value.count; ++i) value.children.push_back(FL_TRY(parse_array(depth + 1)));
      return ok_status();
    }
    const size_t width = number_bytes(value.element_type);
    FL_TRY(check_count("array length", value.count, width, reader_.remaining()));
    value.raw = FL_TRY(reader_.take(value.count * width));
    return ok_status();
  }

  Status parse_alignment() {
    const GgufValue* value = file_.find("general.alignment");
    if (value == nullptr) return ok_status();
    const auto alignment = value->type == GgufType::kU32 ? value->integer_at(0) : std::nullopt;
    if (!alignment || *alignment == 0 || (*alignment & (*alignment - 1)) != 0) {
      return invalid_data("metadata key \"general.alignment\": found " +
                          (alignment ? std::to_string(*alignment) : std::string(gguf_type_name(value->type))) +
                          ", wanted a u32 that is a power of two");
    }
    file_.alignment_ = static_cast<uint64_t>(*alignment);
    return ok_status();
  }

  Status parse_tensor(uint64_t idx) {
    TensorRecord record;
    record.name = FL_TRY(reader_.string().with_context("name of tensor " + std::to_string(idx)));
    const std::string context = "tensor " + quote_name(record.name);
    if (!names_.insert(record.name).second) return invalid_data(context + " occurs twice");
    FL_TRY(parse_shape(record).with_context(context));
    const auto type_id = FL_TRY(reader_.number<uint32_t>().with_context(context));
    FL_TRY(set_type(record, type_id).with_context(context));
    record.offset = FL_TRY(reader_.number<uint64_t>().with_context(context));
    if (record.offset % file_.alignment_ != 0) {
      return invalid_data(context + ": offset " + std::to_string(record.offset) + " is no multiple of the alignment " +
                          std::to_string(file_.alignment_));
    }
    file_.tensors_.push_back(std::move(record));
    return ok_status();
  }

  Status parse_shape(TensorRecord& record) {
    const auto num_axes = FL_TRY(reader_.number<uint32_t>());
    if (num_axes > kMaxAxes) {
      return invalid_data(std::to_string(num_axes) + " axes, at most " + std::to_string(kMaxAxes) + " wanted");
    }
    for (uint32_t i = 0; i < num_axes; ++i) {
      const auto dim = FL_TRY(reader_.number<uint64_t>());
      if (dim > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        return invalid_data("dimension " + std::to_string(dim) + " is absurd");
      }
      record.shape.push_back(static_cast<int64_t>(dim));
    }
    std::reverse(record.shape.begin(), record.shape.end());
    return ok_status();
  }

  // Types ggml does not know either have no size: theirs is what lies before the next tensor, found in place_tensors().
  Status set_type(TensorRecord& record, uint32_t type_id) {
    const int64_t elements = FL_TRY(count_elements(record.shape));
    const GgmlType* type = find_ggml_type(type_id);
    if (type == nullptr) {
      record.stored_type = "ggml type " + std::to_string(type_id);
      record.size_bytes = kUnknownSize;
      return ok_status();
    }
    record.dtype = type->dtype;
    record.stored_type = type->name;
    const int64_t row = record.shape.empty() ? 1 : record.shape.back();
    if (row % type->block_elements != 0) {
      return invalid_data("rows of " + std::to_string(row) + " elements are no whole number of " + record.stored_type +
                          " blocks of " + std::to_string(type->block_elements));
    }
    record.size_bytes = FL_TRY(count_bytes(elements, type->block_elements, type->block_bytes));
    return ok_status();
  }

  Status place_tensors() {
    const uint64_t head = reader_.position();
    file_.data_offset_ = (head + file_.alignment_ - 1) / file_.alignment_ * file_.alignment_;
    for (TensorRecord& record : file_.tensors_) {
      if (record.offset > std::numeric_limits<uint64_t>::max() / 2) {
        return invalid_data("tensor " + quote_name(record.name) + ": offset " + std::to_string(record.offset) +
                            " is absurd");
      }
      record.offset += file_.data_offset_;
    }
    std::vector<TensorRecord> sorted = file_.tensors_;
    if (has_unknown_sizes()) {
      fill_unknown_sizes();
      sorted = file_.tensors_;
    }
    // A file of metadata alone may or may not have the padding.
    const uint64_t begin = sorted.empty() ? head : file_.data_offset_;
    return sort_and_check_layout(sorted, {.begin = begin, .file_size = file_size_, .alignment = file_.alignment_});
  }

  bool has_unknown_sizes() const {
    return std::any_of(file_.tensors_.begin(), file_.tensors_.end(),
                       [](const TensorRecord& record) { return record.size_bytes == kUnknownSize; });
  }

  void fill_unknown_sizes() {
    std::vector<uint64_t> begins;
    for (const TensorRecord& record : file_.tensors_) begins.push_back(record.offset);
    std::sort(begins.begin(), begins.end());
    for (TensorRecord& record : file_.tensors_) {
      if (record.size_bytes != kUnknownSize) continue;
      const auto next = std::upper_bound(begins.begin(), begins.end(), record.offset);
      const uint64_t end = next != begins.end() ? *next : file_size_.value_or(record.offset);
      record.size_bytes = end > record.offset ? end - record.offset : 0;
    }
  }

  static constexpr uint64_t kUnknownSize = std::numeric_limits<uint64_t>::max();

  ByteReader reader_;
  std::optional<uint64_t> file_size_;
  GgufFile file_;
  std::unordered_set<std::string> names_;
  uint64_t num_children_ = 0;
};

Result<GgufFile> GgufFile::parse(std::span<const std::byte> bytes, std::optional<uint64_t> file_size) {
  return GgufParser(bytes, file_size).parse();
}

}  // namespace firstlight::formats
