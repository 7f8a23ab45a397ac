// SPDX-License-Identifier: Apache-2.0
#include "intake/stored_weight.h"

#include <algorithm>

#include "ops/op.h"
#include "ops/weights/assemble_weight.h"
#include "tensor/view.h"

namespace firstlight::intake {
namespace {

using Kind = WeightScheme::Kind;
using Sharing = WeightScheme::Sharing;
using tensor::DType;

constexpr int64_t kMaxSize = int64_t{1} << 40;  // keeps products of a few sizes in range
constexpr const char* kActivations =
    "a scale of activations, which stay in float32 (docs/numerics.md); --vendor-activations uses it";

std::string text_of(const std::vector<int64_t>& sizes) {
  tensor::Shape shape;
  for (const int64_t size : sizes) shape.emplace_back(size);
  return tensor::shape_to_string(shape);
}

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

std::vector<int64_t> above_one(const std::vector<int64_t>& sizes) {
  std::vector<int64_t> out;
  std::copy_if(sizes.begin(), sizes.end(), std::back_inserter(out), [](int64_t size) { return size != 1; });
  return out;
}

bool is_power_type(const TensorInfo& info) { return info.dtype == DType::kU8 || info.dtype == DType::kF8E8M0; }

class Finder {
 public:
  Finder(const TensorTable& tensors, const Quantisation& quantisation, const std::string& name,
         const std::optional<std::vector<int64_t>>& wanted)
      : tensors_(tensors), quantisation_(quantisation), name_(name), wanted_(wanted) {
    const size_t dot = name.rfind(".weight");
    is_weight_ = dot != std::string::npos && dot + 7 == name.size();
    module_ = is_weight_ ? name.substr(0, dot) : name;
  }

  Result<std::optional<StoredWeight>> run() {
    if (!quantisation_.present()) return std::optional<StoredWeight>{};
    out_.scheme = quantisation_.scheme_for(module_);
    const TensorInfo* plain = tensors_.find(name_);
    const TensorInfo* packed = tensors_.find(name_ + "_packed");
    const TensorInfo* words = is_weight_ ? tensors_.find(module_ + ".qweight") : nullptr;
    if (words != nullptr) {
      FL_TRY(check_listed(module_ + ".qweight", *words));
      FL_TRY(read_words(*words));
    } else if (packed != nullptr) {
      FL_TRY(check_listed(name_ + "_packed", *packed));
      FL_TRY(packed->dtype == DType::kI32 ? read_packed(*packed) : read_e2m1(name_ + "_packed", *packed));
    } else if (plain != nullptr && (plain->dtype == DType::kF8E4M3 || plain->dtype == DType::kF8E5M2)) {
      FL_TRY(check_listed(name_, *plain));
      FL_TRY(read_fp8(*plain));
    } else if (plain != nullptr && (plain->dtype == DType::kI8 || plain->dtype == DType::kU8)) {
      FL_TRY(check_listed(name_, *plain));
      FL_TRY(plain->dtype == DType::kU8 || holds_e2m1(*plain) ? read_e2m1(name_, *plain) : read_int8(*plain));
    } else {
      return std::optional<StoredWeight>{};
    }
    FL_TRY(check_shape());
    note_companions();
    choose_format();
    return std::optional<StoredWeight>(std::move(out_));
  }

 private:
  // A weight that is stored quantised and should not be.
  Status check_listed(const std::string& codes, const TensorInfo& info) {
    const std::string stored = codes + " is stored as " + info.stored_type;
    if (quantisation_.is_unconverted(module_)) {
      return invalid_data(stored + ", but quantization_config lists it as not converted");
    }
    if (out_.scheme == nullptr) return invalid_data(stored + ", but no group of quantization_config names " + module_);
    const bool fits =
        std::all_of(info.shape.begin(), info.shape.end(), [](int64_t size) { return size >= 1 && size <= kMaxSize; });
    if (info.shape.size() < 2 || !fits) {
      return invalid_data(codes + ": shape " + text_of(info.shape) + ", wanted two axes or more, each of 1 to 2^40");
    }
    return ok_status();
  }

  Status mismatch(const std::string& codes, const TensorInfo& info) const {
    return invalid_data(codes + " is stored as " + info.stored_type + ", but quantization_config says " +
                        out_.scheme->describe() + " for " + module_);
  }

  void add(const std::string& name, const TensorInfo& info) { out_.parts.push_back({name, info}); }

  Result<const TensorInfo*> need(const std::string& name, const std::string& beside) {
    const TensorInfo* info = tensors_.find(name);
    if (info == nullptr) return invalid_data(beside + " is stored quantised, but " + name + " is missing");
    if (!info->dtype) return unsupported(name + " is stored as " + info->stored_type + ", which nothing here decodes");
    return info;
  }

  Status want_scale(const std::string& name, const TensorInfo& scale, std::initializer_list<DType> types) const {
    if (std::find(types.begin(), types.end(), *scale.dtype) != types.end()) return ok_status();
    std::string wanted;
    for (const DType type : types) wanted += (wanted.empty() ? "" : ", ") + std::string(tensor::dtype_name(type));
    return invalid_data(name + " is stored as " + scale.stored_type + ", wanted " + wanted + " for the scales of " +
                        out_.scheme->describe());
  }

  void set_shape(const TensorInfo& codes, int64_t rows, int64_t columns) {
    out_.shape.assign(codes.shape.begin(), codes.shape.end() - 2);
    leading_ = out_.shape;
    rows_ = rows;
    columns_ = columns;
    out_.shape.push_back(rows);
    out_.shape.push_back(columns);
  }

  // The scale's shape must be that of one scale per block of these sizes; sizes of 1 may be left out.
  Status check_sizes(const std::string& name, const TensorInfo& info, std::vector<int64_t> last,
                     const std::string& why) {
    std::vector<int64_t> wanted = leading_;
    wanted.insert(wanted.end(), last.begin(), last.end());
    const bool few_axes = info.shape.size() <= static_cast<size_t>(tensor::kMaxRank);  // ones between them do no harm
    if (few_axes && above_one(info.shape) == above_one(wanted)) return ok_status();
    return invalid_data(name + ": shape " + text_of(info.shape) + ", wanted " + text_of(wanted) + " for " + why);
  }

  Status set_block(const std::string& name, const TensorInfo& scale, int64_t block_rows, int64_t block_columns) {
    const bool whole_rows = block_rows >= rows_;
    const bool whole_columns = block_columns >= columns_;
    const std::string why = whole_rows && whole_columns ? "one scale"
                            : whole_columns && block_rows == 1
                                ? "one scale per row"
                                : "blocks of " + std::to_string(block_rows) + " x " + std::to_string(block_columns);
    FL_TRY(check_sizes(name, scale, {ceil_div(rows_, block_rows), ceil_div(columns_, block_columns)}, why));
    out_.attributes.set("block", std::vector<int64_t>{block_rows, block_columns});
    return ok_status();
  }

  // By what the config says; where it does not, by how many scales there are.
  Status share_scale(const std::string& name, const TensorInfo& scale) {
    const WeightScheme& scheme = *out_.scheme;
    switch (scheme.sharing) {
      case Sharing::kTensor:
        return set_block(name, scale, std::max<int64_t>(rows_, 1), std::max<int64_t>(columns_, 1));
      case Sharing::kChannel:
        return set_block(name, scale, 1, std::max<int64_t>(columns_, 1));
      case Sharing::kBlock:
        return set_block(name, scale, scheme.block[0], scheme.block[1]);
      case Sharing::kAny:
        break;
    }
    std::vector<int64_t> sizes = above_one(scale.shape);
    const std::vector<int64_t> stack = above_one(leading_);
    if (is_power_type(scale)) return set_block(name, scale, 1, 32);
    if (sizes == stack) return set_block(name, scale, rows_, columns_);
    if (!sizes.empty() && sizes.back() == rows_ && sizes.size() == stack.size() + 1) {
      return set_block(name, scale, 1, columns_);
    }
    return invalid_data(name + ": shape " + text_of(scale.shape) +
                        ", wanted one scale, one per row, or a block size in quantization_config");
  }

  // The first of the names under which vendors store a scale.
  std::string scale_name() const {
    for (const std::string& name : {name_ + "_scale_inv", name_ + "_scale", module_ + ".scale"}) {
      if (tensors_.find(name) != nullptr) return name;
    }
    return name_ + (quantisation_.method == "fp8" ? "_scale_inv" : "_scale");
  }

  Status read_fp8(const TensorInfo& codes) {
    if (out_.scheme->kind != Kind::kFp8) return mismatch(name_, codes);
    set_shape(codes, codes.shape[codes.shape.size() - 2], codes.shape.back());
    const std::string name = scale_name();
    const TensorInfo* scale = FL_TRY(need(name, name_));
    const bool may_be_powers = out_.scheme->sharing == Sharing::kBlock || out_.scheme->sharing == Sharing::kAny;
    if (!may_be_powers || !is_power_type(*scale))
      FL_TRY(want_scale(name, *scale, {DType::kF32, DType::kF16, DType::kBF16}));
    out_.attributes.set("codes", std::string(codes.dtype == DType::kF8E4M3 ? "e4m3" : "e5m2"));
    FL_TRY(share_scale(name, *scale));
    add(name_, codes);
    add(name, *scale);
    return ok_status();
  }

  Status read_int8(const TensorInfo& codes) {
    if (out_.scheme->kind != Kind::kInt || out_.scheme->bits != 8) return mismatch(name_, codes);
    set_shape(codes, codes.shape[codes.shape.size() - 2], codes.shape.back());
    const std::string name = scale_name();
    const TensorInfo* scale = FL_TRY(need(name, name_));
    FL_TRY(want_scale(name, *scale, {DType::kF32, DType::kF16, DType::kBF16}));
    out_.attributes.set("codes", std::string("i8"));
    FL_TRY(share_scale(name, *scale));
    add(name_, codes);
    add(name, *scale);
    return read_zero(name_ + "_zero_point", DType::kI8, false);
  }

  // Nibbles in int8 bytes, as DeepSeek stores its experts: twice as many columns as bytes, a power of two per 32.
  bool holds_e2m1(const TensorInfo& codes) const {
    const TensorInfo* scale = tensors_.find(scale_name());
    return scale != nullptr && is_power_type(*scale) && codes.shape.size() >= 2 && !scale->shape.empty() &&
           codes.shape.back() % 16 == 0 && scale->shape.back() == codes.shape.back() / 16;
  }

  Status read_e2m1(const std::string& codes_name, const TensorInfo& codes) {
    if (codes.dtype != DType::kU8 && codes.dtype != DType::kI8) return mismatch(codes_name, codes);
    const std::string name = scale_name();
    const TensorInfo* scale = FL_TRY(need(name, codes_name));
    FL_TRY(want_scale(name, *scale, {DType::kF8E8M0, DType::kU8, DType::kF8E4M3}));
    const bool powers = is_power_type(*scale);
    const Kind found = powers ? Kind::kMxfp4 : Kind::kNvfp4;
    const bool native = quantisation_.method == "fp8" && powers;  // FP8 with FP4 experts: the config does not say
    if (out_.scheme->kind != found && !native) return mismatch(codes_name, codes);
    set_shape(codes, codes.shape[codes.shape.size() - 2], codes.shape.back() * 2);
    out_.attributes.set("codes", std::string("e2m1"));
    out_.attributes.set("bits", int64_t{4});
    FL_TRY(set_block(name, *scale, 1, powers ? 32 : 16));
    add(codes_name, codes);
    add(name, *scale);
    return powers ? ok_status() : read_global(codes_name);
  }

  // compressed-tensors divides by weight_global_scale, ModelOpt multiplies with weight_scale_2.
  Status read_global(const std::string& codes_name) {
    const bool divides = tensors_.find(name_ + "_global_scale") != nullptr;
    const std::string name = name_ + (divides || codes_name != name_ ? "_global_scale" : "_scale_2");
    const TensorInfo* global = FL_TRY(need(name, codes_name));
    FL_TRY(want_scale(name, *global, {DType::kF32, DType::kF16, DType::kBF16}));
    FL_TRY(check_sizes(name, *global, {}, "one scale"));
    out_.attributes.set("global", std::string(divides ? "divides" : "multiplies"));
    add(name, *global);
    return ok_status();
  }

  Status read_packed(const TensorInfo& codes) {
    const WeightScheme& scheme = *out_.scheme;
    const std::string codes_name = name_ + "_packed";
    if (scheme.kind != Kind::kInt) return mismatch(codes_name, codes);
    set_columns(codes, codes.shape[codes.shape.size() - 2], codes.shape.back());
    const std::string name = name_ + "_scale";
    const TensorInfo* scale = FL_TRY(need(name, codes_name));
    FL_TRY(want_scale(name, *scale, {DType::kF32, DType::kF16, DType::kBF16}));
    out_.attributes.set("codes", std::string("packed"));
    out_.attributes.set("bits", int64_t{scheme.bits});
    FL_TRY(share_scale(name, *scale));
    add(codes_name, codes);
    add(name, *scale);
    FL_TRY(read_zero(name_ + "_zero_point", DType::kI32, !scheme.symmetric));
    return read_order(name_ + "_g_idx");
  }

  // Words may hold more columns than there are.
  void set_columns(const TensorInfo& codes, int64_t rows, int64_t words) {
    const int64_t per_word = 32 / out_.scheme->bits;
    int64_t columns = words * per_word;
    if (wanted_ && wanted_->size() >= 2 && ceil_div(wanted_->back(), per_word) == words) columns = wanted_->back();
    set_shape(codes, rows, columns);
    if (columns != words * per_word) out_.attributes.set("columns", columns);
  }

  Status read_words(const TensorInfo& codes) {
    const WeightScheme& scheme = *out_.scheme;
    const std::string codes_name = module_ + ".qweight";
    const bool gptq = scheme.kind == Kind::kGptq;
    if ((!gptq && scheme.kind != Kind::kAwq) || codes.dtype != DType::kI32) return mismatch(codes_name, codes);
    const int64_t first = codes.shape[codes.shape.size() - 2];
    const int64_t last = codes.shape.back();
    if (gptq) {
      set_columns(codes, last, first);
    } else {
      set_shape(codes, last * 8, first);
    }
    const std::string name = module_ + ".scales";
    const TensorInfo* scale = FL_TRY(need(name, codes_name));
    FL_TRY(want_scale(name, *scale, {DType::kF32, DType::kF16, DType::kBF16}));
    const int64_t group = scheme.sharing == Sharing::kBlock ? scheme.block[1] : std::max<int64_t>(columns_, 1);
    FL_TRY(check_sizes(name, *scale, {ceil_div(columns_, group), rows_}, "groups of " + std::to_string(group)));
    out_.attributes.set("codes", std::string(gptq ? "gptq" : "awq"));
    out_.attributes.set("bits", int64_t{scheme.bits});
    out_.attributes.set("block", std::vector<int64_t>{1, group});
    add(codes_name, codes);
    add(name, *scale);
    FL_TRY(read_zero(module_ + ".qzeros", DType::kI32, !scheme.symmetric));
    return read_order(module_ + ".g_idx");
  }

  Status read_zero(const std::string& name, DType dtype, bool required) {
    const bool in_words = dtype == DType::kI32;
    const TensorInfo* zero = tensors_.find(name);
    if (zero == nullptr) {
      if (required)
        return invalid_data(out_.parts[0].name + " is stored with zero points, but " + name + " is missing");
      out_.attributes.set("zero", std::string(in_words ? "middle" : "none"));
      return ok_status();
    }
    if (zero->dtype != dtype) return invalid_data(name + " is stored as " + zero->stored_type);
    const std::vector<int64_t>& block = out_.attributes.get_ints("block");
    const int64_t groups = ceil_div(columns_, block[1]);
    const int64_t row_words = ceil_div(rows_ * out_.scheme->bits, 32);
    const bool flipped = out_.scheme->kind == Kind::kGptq || out_.scheme->kind == Kind::kAwq;
    if (!in_words) {
      FL_TRY(check_sizes(name, *zero, {ceil_div(rows_, block[0]), groups}, "a zero per scale"));
    } else if (flipped) {
      FL_TRY(check_sizes(name, *zero, {groups, row_words}, "a zero per scale"));
    } else {
      if (block[0] != 1) return unsupported(name + ": packed zeros of blocks that span rows");
      FL_TRY(check_sizes(name, *zero, {row_words, groups}, "a zero per scale"));
    }
    out_.attributes.set("zero", std::string(out_.scheme->zero_minus_one ? "stored_minus_one" : "stored"));
    add(name, *zero);
    return ok_status();
  }

  Status read_order(const std::string& name) {
    const TensorInfo* order = tensors_.find(name);
    if (order == nullptr) {
      if (!out_.scheme->ordered) return ok_status();
      return invalid_data(out_.parts[0].name + " has its columns in another order, but " + name + " is missing");
    }
    if (!out_.scheme->ordered) {
      out_.waived.emplace_back(name, "the config says that columns are in order: column k belongs to group k / size");
      return ok_status();
    }
    if (order->dtype != DType::kI32) return invalid_data(name + " is stored as " + order->stored_type + ", wanted I32");
    FL_TRY(check_sizes(name, *order, {columns_}, "a group per column"));
    out_.attributes.set("ordered", true);
    add(name, *order);
    return ok_status();
  }

  Status check_shape() const {
    if (!wanted_ || out_.shape == *wanted_) return ok_status();
    return invalid_data(name_ + ": shape " + text_of(out_.shape) + " (stored in " + out_.parts[0].name + " as " +
                        out_.parts[0].info.stored_type + " " + text_of(out_.parts[0].info.shape) + "), wanted " +
                        text_of(*wanted_));
  }

  void note_companions() {
    if (tensors_.find(name_ + "_shape") != nullptr) {
      out_.waived.emplace_back(name_ + "_shape", "the spec asks for the shape, and the codes agree");
    }
    const std::string start = is_weight_ ? module_ + "." : name_ + "_";
    for (const char* suffix : {"input_scale", "activation_scale", "input_global_scale", "input_zero_point"}) {
      const TensorInfo* info = tensors_.find(start + suffix);
      if (info == nullptr) continue;
      if (quantisation_.vendor_activations && out_.scheme->activations.is_static) {
        out_.activation_scale = StoredPart{start + suffix, *info};
        out_.activation_scale_divides = std::string_view(suffix) == "input_global_scale";
      } else {
        out_.waived.emplace_back(start + suffix, kActivations);
      }
    }
  }

  // The most compact form that holds it; float32 where none does.
  void choose_format() {
    for (const auto& attribute : ops::op_def(ops::OpKind::kAssembleWeight).attributes) {
      if (!attribute.required && !out_.attributes.has(attribute.name)) {
        out_.attributes.set(std::string(attribute.name), attribute.fallback);
      }
    }
    out_.attributes.set("format", std::string("f32"));
    std::vector<tensor::Type> types;
    for (const StoredPart& part : out_.parts) {
      tensor::Shape shape;
      for (const int64_t size : part.info.shape) shape.emplace_back(size);
      types.push_back(tensor::Type::tensor(*part.info.dtype, std::move(shape)));
    }
    for (const DType format : {DType::kInt4G, DType::kInt8G, DType::kFP8G, DType::kNVFP4, DType::kMXFP4}) {
      if (!ops::can_assemble(types, out_.attributes, format)) continue;
      out_.attributes.set("format", std::string(tensor::dtype_name(format)));
      return;
    }
  }

  const TensorTable& tensors_;
  const Quantisation& quantisation_;
  const std::string& name_;
  const std::optional<std::vector<int64_t>>& wanted_;
  std::string module_;
  bool is_weight_ = false;
  std::vector<int64_t> leading_;
  int64_t rows_ = 0;
  int64_t columns_ = 0;
  StoredWeight out_;
};

}  // namespace

Result<std::optional<StoredWeight>> find_stored_weight(const TensorTable& tensors, const Quantisation& quantisation,
                                                       const std::string& name,
                                                       const std::optional<std::vector<int64_t>>& wanted) {
  return Finder(tensors, quantisation, name, wanted).run();
}

bool is_stored(const TensorTable& tensors, const std::string& name) {
  if (tensors.find(name) != nullptr || tensors.find(name + "_packed") != nullptr ||
      tensors.find(name + "_blocks") != nullptr) {
    return true;
  }
  return name.ends_with(".weight") && tensors.find(name.substr(0, name.size() - 6) + "qweight") != nullptr;
}

}  // namespace firstlight::intake
