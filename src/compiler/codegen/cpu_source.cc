// SPDX-License-Identifier: Apache-2.0
#include "compiler/codegen/cpu_source.h"

#include <algorithm>
#include <set>

#include "ops/expression_source.h"
#include "ops/infer.h"

namespace firstlight::compiler {
namespace {

using ops::OpKind;

std::string number(int64_t value) { return std::to_string(value); }

// Of the function's own text, so that the name says what it does (FNV-1a, Fowler, Noll, Vo).
std::string hash_of(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  std::string digits(16, '0');
  for (size_t i = 16; i-- > 0; hash >>= 4) digits[i] = "0123456789abcdef"[hash & 15];
  return digits;
}

CpuFunction named(OpKind op, const std::string& body) {
  CpuFunction function;
  function.name = "fl_" + std::string(ops::op_name(op)) + "_" + hash_of(body);
  function.text = "extern \"C\" __attribute__((visibility(\"default\"))) void " + function.name +
                  "(const float* const* in, float* out, const fl_int* dims, fl_int begin, fl_int end) {\n" + body +
                  "}\n\n";
  return function;
}

Status want_f32(const catalog::Signature& signature) {
  for (const tensor::Type& type : signature.operands) {
    const bool fits = type.dtype == tensor::DType::kF32 && type.layout == tensor::Layout::kRowMajor;
    if (!fits) return unsupported("operand " + type.to_string() + ", float32 wanted");
  }
  return ok_status();
}

// Sizes behind the first axis are constants in the source; the first may be symbolic.
Status want_static_tail(const tensor::Shape& shape) {
  for (size_t i = 1; i < shape.size(); ++i) {
    if (!shape[i].is_static())
      return unsupported("shape " + tensor::shape_to_string(shape) + ": a symbol behind the first axis");
  }
  return ok_status();
}

// Where operand k's rows and elements lie for a row of the result: "+ (row % 8) * 64" and so on.
struct Strides {
  std::string row_offset;  // "" when all rows read the same
  int64_t last = 0;
};

Strides strides_of(const tensor::Shape& own, const tensor::Shape& out) {
  Strides strides;
  int64_t stride = 1;
  std::string rest = "row";
  for (size_t back = 0; back < out.size(); ++back) {
    const size_t at = out.size() - 1 - back;
    const tensor::Dim own_dim = back < own.size() ? own[own.size() - 1 - back] : tensor::Dim(1);
    const bool moves = own_dim != tensor::Dim(1);
    if (back == 0) {
      strides.last = moves ? 1 : 0;
    } else {
      const std::string index = at == 0 ? rest : "(" + rest + " % " + number(out[at].factor) + ")";
      if (moves) strides.row_offset += " + " + index + " * " + number(stride);
      if (at > 0) rest = "(" + rest + " / " + number(out[at].factor) + ")";
    }
    if (own_dim.is_static()) stride *= own_dim.factor;
  }
  return strides;
}

std::string operand_name(size_t k) { return "x" + std::to_string(k); }

// All operands lie as the result does, or are one element: one loop over elements. The result may take the place of an
// operand: nothing is promised here but that iterations do not depend on each other.
std::string flat_map(const catalog::Signature& signature) {
  std::string body;
  std::vector<std::string> inputs;
  for (size_t k = 0; k < signature.operands.size(); ++k) {
    const bool whole = signature.operands[k].shape == signature.results[0].shape;
    body += "  const float* " + operand_name(k) + " = in[" + number(static_cast<int64_t>(k)) + "];\n";
    if (!whole) body += "  const float s" + std::to_string(k) + " = " + operand_name(k) + "[0];\n";
    inputs.push_back(whole ? operand_name(k) + "[i]" : "s" + std::to_string(k));
  }
  const auto source = ops::expression_source(signature.attributes.get_expression("expr"), inputs, "t", "    ");
  return body + "  (void)dims;\n#pragma GCC ivdep\n  for (fl_int i = begin; i < end; ++i) {\n" + source.statements +
         "    out[i] = " + source.value + ";\n  }\n";
}

std::string row_map(const catalog::Signature& signature) {
  const tensor::Shape& out = signature.results[0].shape;
  const std::string width = number(out.back().factor);
  std::string body = "  (void)dims;\n  for (fl_int row = begin; row < end; ++row) {\n";
  std::vector<std::string> inputs;
  for (size_t k = 0; k < signature.operands.size(); ++k) {
    const Strides strides = strides_of(signature.operands[k].shape, out);
    body += "    const float* " + operand_name(k) + " = in[" + number(static_cast<int64_t>(k)) + "]" +
            strides.row_offset + ";\n";
    if (strides.last == 0) body += "    const float s" + std::to_string(k) + " = " + operand_name(k) + "[0];\n";
    inputs.push_back(strides.last == 0 ? "s" + std::to_string(k) : operand_name(k) + "[i]");
  }
  const auto source = ops::expression_source(signature.attributes.get_expression("expr"), inputs, "t", "      ");
  return body + "    float* y = out + row * " + width + ";\n#pragma GCC ivdep\n    for (fl_int i = 0; i < " + width +
         "; ++i) {\n" + source.statements + "      y[i] = " + source.value + ";\n    }\n  }\n";
}

bool is_flat(const catalog::Signature& signature) {
  const tensor::Shape& out = signature.results[0].shape;
  return std::all_of(signature.operands.begin(), signature.operands.end(), [&](const tensor::Type& type) {
    return type.shape == out || tensor::dim_product(type.shape) == tensor::Dim(1);
  });
}

Result<std::string> map_body(const catalog::Signature& signature) {
  if (is_flat(signature)) return flat_map(signature);
  const tensor::Shape& out = signature.results[0].shape;
  FL_TRY(want_static_tail(out));
  if (!out.back().is_static()) return unsupported("a last axis of " + out.back().to_string());
  for (const tensor::Type& type : signature.operands) FL_TRY(want_static_tail(type.shape));
  return row_map(signature);
}

std::string row_loop(int64_t width, const std::string& body) {
  const std::string n = number(width);
  return "  (void)dims;\n  for (fl_int row = begin; row < end; ++row) {\n    const float* __restrict x = in[0] + row "
         "* " +
         n + ";\n    float* y = out + row * " + n + ";\n" + body + "  }\n";
}

std::string rms_norm_body(const catalog::Signature& signature, int64_t width) {
  const std::string n = number(width);
  const std::string eps = ops::exact_decimal(signature.attributes.get_float("eps"));
  const std::string offset = ops::float_literal(signature.attributes.get_float("offset"));
  const bool weighted = signature.operands.size() > 1;
  return row_loop(
      width,
      "    FL_SUM(sum, " + n + ", i, (double)x[i] * (double)x[i])\n    const float r = (float)(1.0 / sqrt(sum / " + n +
          " + " + eps + "));\n#pragma GCC ivdep\n    for (fl_int i = 0; i < " + n +
          "; ++i) y[i] = " + (weighted ? "x[i] * r * (in[1][i] + " + offset + ")" : std::string("x[i] * r")) + ";\n");
}

std::string layer_norm_body(const catalog::Signature& signature, int64_t width) {
  const std::string n = number(width);
  const std::string eps = ops::exact_decimal(signature.attributes.get_float("eps"));
  std::string value = "(float)(((double)x[i] - mean) * r)";
  if (signature.operands.size() > 1) value += " * in[1][i]";
  if (signature.operands.size() > 2) value += " + in[2][i]";
  return row_loop(
      width, "    FL_SUM(sum, " + n + ", i, x[i])\n    const double mean = sum / " + n + ";\n    FL_SUM(squares, " + n +
                 ", i, ((double)x[i] - mean) * ((double)x[i] - mean))\n    const double r = 1.0 / sqrt(squares / " + n +
                 " + " + eps + ");\n#pragma GCC ivdep\n    for (fl_int i = 0; i < " + n + "; ++i) y[i] = " + value +
                 ";\n");
}

// A NaN in the row reaches the sum through its own exponential, and from there every element.
std::string softmax_body(int64_t width) {
  const std::string n = number(width);
  const std::string loop = "for (fl_int i = 0; i < " + n + "; ++i) ";
  return row_loop(width, "    FL_TOP(top, " + n + ", i, x[i])\n#pragma GCC ivdep\n    " + loop +
                             "y[i] = fl_exp(x[i] - top);\n    FL_SUM(sum, " + n +
                             ", i, y[i])\n    const float scale = (float)(1.0 / sum);\n#pragma GCC ivdep\n    " + loop +
                             "y[i] = y[i] * scale;\n");
}

Result<std::string> reduce_body(const catalog::Signature& signature) {
  const tensor::Type& x = signature.operands[0];
  const int rank = static_cast<int>(x.shape.size());
  if (ops::resolve_axis(signature.attributes.get_int("axis"), rank) != rank - 1) {
    return unsupported("a reduction of another axis than the last");
  }
  const std::string n = number(x.shape.back().factor);
  const std::string& op = signature.attributes.get_string("op");
  std::string body =
      "  (void)dims;\n  for (fl_int row = begin; row < end; ++row) {\n    const float* __restrict x = in[0] + row * " +
      n + ";\n";
  if (op == "sum" || op == "mean") {
    body += "    FL_SUM(sum, " + n + ", i, x[i])\n    out[row] = (float)(" +
            (op == "mean" ? "sum / " + n : std::string("sum")) + ");\n";
  } else {
    const bool is_max = op == "max";
    body += std::string("    float best = ") + (is_max ? "-" : "") + "FL_INFINITY;\n    for (fl_int i = 0; i < " + n +
            "; ++i) best = " + (is_max ? "fl_max" : "fl_min") + "(best, x[i]);\n    out[row] = best;\n";
  }
  return body + "  }\n";
}

// fused_rows: a loop per stage. What a later stage reads is kept on the stack, a reduced stage as one number.
class RowStages {
 public:
  explicit RowStages(const catalog::Signature& signature)
      : signature_(signature), stages_(ops::row_stages(signature.attributes)) {
    for (const tensor::Type& type : signature.operands) ops::broadcast_onto(shape_, type.shape);
    for (const ops::RowStage& stage : stages_) {
      for (const ops::ExprTerm& term : stage.formula.terms()) {
        if (term.op == ops::ExprOp::kInput) read_.insert(static_cast<size_t>(term.input));
      }
    }
  }

  Result<std::string> body() {
    const auto results = signature_.attributes.get_ints("results");
    if (results.size() != 1) return unsupported("a step with several results");
    FL_TRY(want_static_tail(shape_));
    for (const tensor::Type& type : signature_.operands) FL_TRY(want_static_tail(type.shape));
    width_ = number(shape_.back().factor);
    for (size_t k = 0; k < signature_.operands.size(); ++k) add_operand(k);
    int64_t kept = 0;
    for (size_t s = 0; s < stages_.size(); ++s) {
      const bool is_result = results[0] == static_cast<int64_t>(s);
      kept += stages_[s].reduce == ops::RowStage::Reduce::kNone ? shape_.back().factor : 0;
      add_stage(s, is_result);
    }
    if (kept > kMaxKept) return unsupported("rows of " + width_ + " elements: too many to keep on the stack");
    return "  (void)dims;\n  for (fl_int row = begin; row < end; ++row) {\n" + text_ + "  }\n";
  }

 private:
  static constexpr int64_t kMaxKept = 64 * 1024;  // floats

  void add_operand(size_t k) {
    const Strides strides = strides_of(signature_.operands[k].shape, shape_);
    const std::string name = operand_name(k);
    text_ += "    const float* " + name + " = in[" + number(static_cast<int64_t>(k)) + "]" + strides.row_offset + ";\n";
    if (strides.last == 0) text_ += "    const float v" + number(static_cast<int64_t>(k)) + " = " + name + "[0];\n";
    inputs_.push_back(strides.last == 0 ? "v" + number(static_cast<int64_t>(k)) : name + "[i]");
  }

  void add_stage(size_t s, bool is_result) {
    const std::string name = "s" + number(static_cast<int64_t>(s));
    const auto source = ops::expression_source(stages_[s].formula, inputs_, "t", "        ");
    const std::string loop = "    for (fl_int i = 0; i < " + width_ + "; ++i) ";
    switch (stages_[s].reduce) {
      case ops::RowStage::Reduce::kNone: {
        const bool kept = read_.contains(inputs_.size());
        std::string store = kept ? "        " + name + "[i] = " + source.value + ";\n" : "";
        if (is_result) store += "        out[row * " + width_ + " + i] = " + source.value + ";\n";
        if (kept) text_ += "    float " + name + "[" + width_ + "];\n";
        text_ += "#pragma GCC ivdep\n" + loop + "{\n" + source.statements + store + "    }\n";
        inputs_.push_back(name + "[i]");
        return;
      }
      case ops::RowStage::Reduce::kMax:
        text_ += "    FL_MAX(" + name + ", " + width_ + ", i, ({\n" + source.statements + "        " + source.value +
                 "; }))\n";
        break;
      case ops::RowStage::Reduce::kSum:
      case ops::RowStage::Reduce::kMean: {
        const bool mean = stages_[s].reduce == ops::RowStage::Reduce::kMean;
        text_ += "    FL_SUM(sum" + name + ", " + width_ + ", i, ({\n" + source.statements + "        " + source.value +
                 "; }))\n    const float " + name + " = (float)(sum" + name + (mean ? " / " + width_ : "") + ");\n";
        break;
      }
    }
    if (is_result) text_ += "    out[row] = " + name + ";\n";
    inputs_.push_back(name);
  }

  const catalog::Signature& signature_;
  std::vector<ops::RowStage> stages_;
  std::set<size_t> read_;  // operands, then stages
  tensor::Shape shape_;
  std::string width_;
  std::vector<std::string> inputs_;  // C text of operands and of the stages so far
  std::string text_;
};

Result<std::string> body_of(const catalog::Signature& signature) {
  const OpKind op = signature.op;
  const bool row_op = op == OpKind::kRmsNorm || op == OpKind::kLayerNorm || op == OpKind::kSoftmax ||
                      op == OpKind::kReduce || op == OpKind::kFusedRows;
  if (op != OpKind::kMap && !row_op) return unsupported("no source is written for this operator");
  FL_TRY(want_f32(signature));
  if (op == OpKind::kMap) return map_body(signature);
  if (op == OpKind::kFusedRows) return RowStages(signature).body();
  const tensor::Shape& shape = signature.operands[0].shape;
  if (shape.empty() || !shape.back().is_static() || shape.back().factor < 1) {
    return unsupported("a last axis that is not constant");
  }
  const int64_t width = shape.back().factor;
  if (op == OpKind::kRmsNorm) return rms_norm_body(signature, width);
  if (op == OpKind::kLayerNorm) return layer_norm_body(signature, width);
  return op == OpKind::kSoftmax ? softmax_body(width) : reduce_body(signature);
}

}  // namespace

Result<CpuFunction> cpu_function(const catalog::Signature& signature) {
  CpuFunction function = named(signature.op, FL_TRY(body_of(signature)));
  function.rows = signature.op != OpKind::kMap || !is_flat(signature);
  return function;
}

std::string CpuUnit::add(CpuFunction function) {
  std::string name = function.name;
  functions_.emplace(std::move(function.name), std::move(function.text));
  return name;
}

std::string CpuUnit::text() const {
  if (functions_.empty()) return "";
  std::string text = kCpuPrologue;
  for (const auto& [name, function] : functions_) text += function;
  return text;
}

}  // namespace firstlight::compiler
