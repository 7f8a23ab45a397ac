// SPDX-License-Identifier: Apache-2.0
// Element-wise formulas on devices, map and imap: the kernel is printed, with the operands' types and as many axes as
// the shapes need once neighbouring ones are joined.
#include <array>

#include "base/check.h"
#include "kernels/dialect/broadcast_axes.h"
#include "ops/expression_source.h"

namespace firstlight::kernels {
namespace {

using tensor::DType;

// What is printed of one element: the type of the formula's values, how each operand is read at a<i> into v<i>, the
// statements of the formula and of storing its value at `at`.
struct Element {
  std::string type;
  std::vector<std::string> reads;
  std::string statements;
};

std::string map_source(const Element& element, size_t rank) {
  std::string parameters, loads;
  for (size_t i = 0; i < element.reads.size(); ++i) {
    const std::string n = std::to_string(i);
    parameters += "FL_GLOBAL(const fl_u8) x" + n + ", ";
    loads += "  const " + element.type + " v" + n + " = " + element.reads[i] + ";\n";
  }
  const AxesSource axes = axes_source(element.reads.size(), rank);
  return "FL_KERNEL(map)(" + parameters + "FL_GLOBAL(fl_u8) out, fl_i64 total" + axes.parameters +
         ") {\n  const fl_i64 at = fl_global_id(0);\n  if (at >= total) return;\n  fl_i64 rest = at;\n" +
         axes.statements + loads + element.statements + "}\n";
}

Element float_element(std::span<const tensor::Type> operands, const ops::Expression& expr) {
  Element element{"float", {}, ""};
  std::vector<std::string> inputs;
  for (size_t i = 0; i < operands.size(); ++i) {
    const std::string n = std::to_string(i);
    element.reads.push_back(load_word(operands[i].dtype) + "(x" + n + ", a" + n + ")");
    inputs.push_back("v" + n);
  }
  const ops::ExpressionSource body = ops::expression_source(expr, inputs, "t", "  ");
  element.statements = body.statements + "  fl_at(float, out, at) = " + body.value + ";\n";
  return element;
}

// One operation of imap on fl_i64: sums and products wrap.
std::string integer_operation(ops::ExprOp op, const std::array<std::string, 3>& x) {
  const auto wrapped = [](const std::string& text) { return "(fl_i64)(" + text + ")"; };
  const auto u = [&](size_t i) { return "(fl_u64)" + x[i]; };
  switch (op) {
    case ops::ExprOp::kAdd:
      return wrapped(u(0) + " + " + u(1));
    case ops::ExprOp::kSub:
      return wrapped(u(0) + " - " + u(1));
    case ops::ExprOp::kMul:
      return wrapped(u(0) + " * " + u(1));
    case ops::ExprOp::kXor:
      return wrapped(u(0) + " ^ " + u(1));
    case ops::ExprOp::kNeg:
      return wrapped("(fl_u64)0 - " + u(0));
    case ops::ExprOp::kAbs:
      return x[0] + " < 0 ? " + wrapped("(fl_u64)0 - " + u(0)) + " : " + x[0];
    case ops::ExprOp::kSign:
      return "(" + x[0] + " > 0 ? 1 : 0) - (" + x[0] + " < 0 ? 1 : 0)";
    case ops::ExprOp::kMin:
      return x[0] + " < " + x[1] + " ? " + x[0] + " : " + x[1];
    case ops::ExprOp::kMax:
      return x[0] + " > " + x[1] + " ? " + x[0] + " : " + x[1];
    case ops::ExprOp::kMod:
      return "fl_modulo(" + x[0] + ", " + x[1] + ")";
    case ops::ExprOp::kLt:
      return x[0] + " < " + x[1] + " ? 1 : 0";
    case ops::ExprOp::kLe:
      return x[0] + " <= " + x[1] + " ? 1 : 0";
    case ops::ExprOp::kEq:
      return x[0] + " == " + x[1] + " ? 1 : 0";
    case ops::ExprOp::kWhere:
      return x[0] + " != 0 ? " + x[1] + " : " + x[2];
    default:
      FL_CHECK(false);  // the operator's own rule admits no other
  }
}

Element integer_element(std::span<const tensor::Type> operands, const ops::Expression& expr, DType to) {
  const auto word = [](DType dtype) { return dtype == DType::kI32 ? "fl_i32" : "fl_i64"; };
  Element element{"fl_i64", {}, ""};
  for (size_t i = 0; i < operands.size(); ++i) {
    const std::string n = std::to_string(i);
    element.reads.push_back("fl_at(const " + std::string(word(operands[i].dtype)) + ", x" + n + ", a" + n + ")");
  }
  std::vector<std::string> names;
  for (const ops::ExprTerm& term : expr.terms()) {
    if (term.op == ops::ExprOp::kInput) {
      names.push_back("v" + std::to_string(term.input));
      continue;
    }
    std::array<std::string, 3> args;
    for (size_t k = 0; k < 3; ++k) {
      if (term.args[k] >= 0) args[k] = names[static_cast<size_t>(term.args[k])];
    }
    const std::string value = term.op == ops::ExprOp::kConstant ? std::to_string(static_cast<int64_t>(term.constant))
                                                                : integer_operation(term.op, args);
    names.push_back("t" + std::to_string(names.size()));
    element.statements += "  const fl_i64 " + names.back() + " = " + value + ";\n";
  }
  const std::string narrowed = to == DType::kI32 ? "(fl_i32)(fl_u32)(fl_u64)" : "";
  element.statements += "  fl_at(" + std::string(word(to)) + ", out, at) = " + narrowed + names.back() + ";\n";
  return element;
}

class Map final : public DeviceKernel {
 public:
  Map(device::Kernel kernel, size_t rank) : kernel_(std::move(kernel)), rank_(rank) {}

  Status launch(const DeviceCall& call) const override {
    const tensor::View& out = call.outputs[0].view;
    const int64_t total = out.num_elements();
    if (total == 0) return ok_status();
    std::vector<tensor::View> operands;
    Arguments arguments;
    for (const DeviceView& x : call.inputs) {
      operands.push_back(x.view);
      arguments.emplace_back(x.data);
    }
    arguments.emplace_back(call.outputs[0].data);
    arguments.emplace_back(total);
    FL_TRY(append_axes(broadcast_axes(operands, out), rank_, arguments));
    return launch_elements(call.queue, kernel_, total, arguments);
  }

 private:
  device::Kernel kernel_;
  size_t rank_;
};

Result<std::unique_ptr<DeviceKernel>> prepare_map(const DevicePrepare& prepare) {
  const catalog::Signature& signature = prepare.signature;
  const size_t rank = most_axes(signature.operands, signature.results[0]);
  const ops::Expression& expr = signature.attributes.get_expression("expr");
  const Element element = signature.op == ops::OpKind::kMap
                              ? float_element(signature.operands, expr)
                              : integer_element(signature.operands, expr, signature.results[0].dtype);
  auto kernel = FL_TRY(prepare.modules.kernel("dialect/map.fl.cl", map_source(element, rank), {}, "map"));
  return std::unique_ptr<DeviceKernel>(std::make_unique<Map>(std::move(kernel), rank));
}

constexpr DeviceBody kBodies[] = {{"map_any_f32_dialect", prepare_map}, {"imap_any_any_dialect", prepare_map}};

}  // namespace

std::span<const DeviceBody> device_map_bodies() { return kBodies; }

}  // namespace firstlight::kernels
