// SPDX-License-Identifier: Apache-2.0
// Element-wise formulas on devices: the kernel is printed, with the operands' types and as many axes as the shapes need
// once neighbouring ones are joined.
#include <algorithm>
#include <array>

#include "kernels/dialect/launches.h"
#include "ops/expression_source.h"

namespace firstlight::kernels {
namespace {

constexpr size_t kAxes = tensor::kMaxRank;

// Where every operand's element lies for an element of the result.
struct Axes {
  size_t rank = 0;
  std::array<int64_t, kAxes> dims{};
  std::vector<std::array<int64_t, kAxes>> strides;  // per operand
};

Axes broadcast_axes(std::span<const DeviceView> inputs, const tensor::View& out) {
  Axes all;
  all.strides.resize(inputs.size());
  for (int axis = 0; axis < out.rank; ++axis) {
    const int64_t dim = out.dim(axis);
    if (dim == 1) continue;
    std::vector<int64_t> own;
    for (const DeviceView& input : inputs) {
      const tensor::View& x = input.view;
      const int at = axis - (out.rank - x.rank);
      int64_t stride = 1;
      for (int i = at + 1; at >= 0 && i < x.rank; ++i) stride *= x.dim(i);
      own.push_back(at < 0 || x.dim(at) == 1 ? 0 : stride);
    }
    bool joins = all.rank > 0;
    for (size_t i = 0; i < inputs.size() && joins; ++i) joins = all.strides[i][all.rank - 1] == own[i] * dim;
    if (!joins) {
      all.dims[all.rank++] = dim;
    } else {
      all.dims[all.rank - 1] *= dim;
    }
    for (size_t i = 0; i < inputs.size(); ++i) all.strides[i][all.rank - 1] = own[i];
  }
  return all;
}

// The kernel over `rank` axes. Sizes but the first, then strides per operand, are arguments.
std::string map_source(std::span<const tensor::Type> operands, const ops::Expression& expr, size_t rank) {
  std::string parameters, places, steps;
  std::vector<std::string> inputs;
  for (size_t i = 0; i < operands.size(); ++i) {
    const std::string n = std::to_string(i);
    parameters += "FL_GLOBAL(const fl_u8) x" + n + ", ";
    places += "  fl_i64 a" + n + " = 0;\n";
    inputs.push_back("v" + n);
  }
  parameters += "FL_GLOBAL(float) out, fl_i64 total";
  for (size_t axis = 1; axis < rank; ++axis) parameters += ", fl_i64 d" + std::to_string(axis);
  for (size_t i = 0; i < operands.size(); ++i) {
    for (size_t axis = 0; axis < rank; ++axis) {
      parameters += ", fl_i64 s" + std::to_string(i) + "_" + std::to_string(axis);
    }
  }
  for (size_t axis = rank; axis-- > 0;) {
    const std::string a = std::to_string(axis);
    const std::string index = axis == 0 ? "rest" : "rest % d" + a;
    for (size_t i = 0; i < operands.size(); ++i) {
      const std::string n = std::to_string(i);
      steps += "  a" + n + " += " + index + " * s" + n + "_" + a + ";\n";
    }
    if (axis > 0) steps += "  rest /= d" + a + ";\n";
  }
  std::string loads;
  for (size_t i = 0; i < operands.size(); ++i) {
    const std::string n = std::to_string(i);
    loads += "  const float v" + n + " = " + load_word(operands[i].dtype) + "(x" + n + ", a" + n + ");\n";
  }
  const ops::ExpressionSource body = ops::expression_source(expr, inputs, "t", "  ");
  return "FL_KERNEL(map)(" + parameters + ") {\n  const fl_i64 at = fl_global_id(0);\n  if (at >= total) return;\n" +
         "  fl_i64 rest = at;\n" + places + steps + loads + body.statements + "  out[at] = " + body.value + ";\n}\n";
}

class Map final : public DeviceKernel {
 public:
  Map(device::Kernel kernel, size_t rank) : kernel_(std::move(kernel)), rank_(rank) {}

  Status launch(const DeviceCall& call) const override {
    const tensor::View& out = call.outputs[0].view;
    const int64_t total = out.num_elements();
    if (total == 0) return ok_status();
    const Axes axes = broadcast_axes(call.inputs, out);
    if (axes.rank > rank_) return internal_error("map: more axes than were prepared for");
    const size_t shift = rank_ - axes.rank;  // axes of one in front
    Arguments arguments;
    for (const DeviceView& x : call.inputs) arguments.emplace_back(x.data);
    arguments.emplace_back(call.outputs[0].data);
    arguments.emplace_back(total);
    for (size_t i = 1; i < rank_; ++i) arguments.emplace_back(i < shift ? int64_t{1} : axes.dims[i - shift]);
    for (const auto& strides : axes.strides) {
      for (size_t i = 0; i < rank_; ++i) arguments.emplace_back(i < shift ? int64_t{0} : strides[i - shift]);
    }
    return launch_elements(call.queue, kernel_, total, arguments);
  }

 private:
  device::Kernel kernel_;
  size_t rank_;
};

// How many axes are left after joining, whatever the batch's sizes: one of them that is 1 only takes an axis away.
size_t most_axes(const catalog::Signature& signature) {
  const tensor::SymbolValues large{.tokens = 7, .outputs = 7, .sequences = 7, .rows = 7};
  std::vector<DeviceView> inputs;
  for (const tensor::Type& type : signature.operands) {
    inputs.push_back({tensor::make_view(nullptr, type, large), {}});
  }
  return broadcast_axes(inputs, tensor::make_view(nullptr, signature.results[0], large)).rank;
}

Result<std::unique_ptr<DeviceKernel>> prepare_map(const DevicePrepare& prepare) {
  const catalog::Signature& signature = prepare.signature;
  const size_t rank = std::max<size_t>(most_axes(signature), 1);
  const std::string source = map_source(signature.operands, signature.attributes.get_expression("expr"), rank);
  auto kernel = FL_TRY(prepare.modules.kernel("dialect/map.fl.cl", source, {}, "map"));
  return std::unique_ptr<DeviceKernel>(std::make_unique<Map>(std::move(kernel), rank));
}

constexpr DeviceBody kBodies[] = {{"map_any_f32_dialect", prepare_map}};

}  // namespace

std::span<const DeviceBody> device_map_bodies() { return kBodies; }

}  // namespace firstlight::kernels
