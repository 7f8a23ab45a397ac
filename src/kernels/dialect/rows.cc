// SPDX-License-Identifier: Apache-2.0
// Norms, softmax, reduce and top_k on devices: one block per row (rows.fl.cl).
#include "kernels/dialect/launches.h"
#include "ops/infer.h"

namespace firstlight::kernels {
namespace {

constexpr std::string_view kPath = "dialect/rows.fl.cl";

std::string load_of(const catalog::Signature& signature, size_t operand) {
  return operand < signature.operands.size() ? load_word(signature.operands[operand].dtype) : "fl_load_f32";
}

class Norm final : public DeviceKernel {
 public:
  Norm(device::Kernel kernel, bool is_layer_norm, double eps, double offset)
      : kernel_(std::move(kernel)), is_layer_norm_(is_layer_norm), eps_(eps), offset_(offset) {}

  Status launch(const DeviceCall& call) const override {
    const tensor::View& x = call.inputs[0].view;
    const DeviceView* weight = device_operand(call.inputs, 1);
    const DeviceView* bias = device_operand(call.inputs, 2);
    Arguments arguments = {call.inputs[0].data, weight != nullptr ? weight->data : device::Buffer()};
    if (is_layer_norm_) arguments.emplace_back(bias != nullptr ? bias->data : device::Buffer());
    arguments.emplace_back(call.outputs[0].data);
    arguments.emplace_back(i32(view_row_elements(x)));
    arguments.emplace_back(i32(weight != nullptr));
    if (is_layer_norm_) arguments.emplace_back(i32(bias != nullptr));
    arguments.emplace_back(static_cast<float>(eps_));
    if (!is_layer_norm_) arguments.emplace_back(static_cast<float>(offset_));
    return launch_rows(call.queue, kernel_, x.num_rows(), arguments);
  }

 private:
  device::Kernel kernel_;
  bool is_layer_norm_;
  double eps_, offset_;
};

Result<std::unique_ptr<DeviceKernel>> prepare_norm(const DevicePrepare& prepare, bool is_layer_norm) {
  const catalog::Signature& signature = prepare.signature;
  auto kernel = FL_TRY(prepare.modules.kernel(kPath, "",
                                              {{is_layer_norm ? "FL_LAYER_NORM" : "FL_RMS_NORM", "1"},
                                               {"FL_LOAD_X", load_of(signature, 0)},
                                               {"FL_LOAD_W", load_of(signature, 1)},
                                               {"FL_LOAD_B", load_of(signature, 2)}},
                                              is_layer_norm ? "layer_norm" : "rms_norm"));
  return std::unique_ptr<DeviceKernel>(
      std::make_unique<Norm>(std::move(kernel), is_layer_norm, signature.attributes.get_float("eps"),
                             is_layer_norm ? 0 : signature.attributes.get_float("offset")));
}

Result<std::unique_ptr<DeviceKernel>> prepare_rms_norm(const DevicePrepare& prepare) {
  return prepare_norm(prepare, false);
}
Result<std::unique_ptr<DeviceKernel>> prepare_layer_norm(const DevicePrepare& prepare) {
  return prepare_norm(prepare, true);
}

class Softmax final : public DeviceKernel {
 public:
  explicit Softmax(device::Kernel kernel) : kernel_(std::move(kernel)) {}
  Status launch(const DeviceCall& call) const override {
    const tensor::View& x = call.inputs[0].view;
    return launch_rows(call.queue, kernel_, x.num_rows(),
                       {call.inputs[0].data, call.outputs[0].data, i32(view_row_elements(x))});
  }

 private:
  device::Kernel kernel_;
};

Result<std::unique_ptr<DeviceKernel>> prepare_softmax(const DevicePrepare& prepare) {
  auto kernel = FL_TRY(prepare.modules.kernel(
      kPath, "", {{"FL_SOFTMAX", "1"}, {"FL_LOAD_X", load_of(prepare.signature, 0)}}, "softmax"));
  return std::unique_ptr<DeviceKernel>(std::make_unique<Softmax>(std::move(kernel)));
}

class Reduce final : public DeviceKernel {
 public:
  Reduce(device::Kernel kernel, int64_t axis) : kernel_(std::move(kernel)), axis_(axis) {}
  Status launch(const DeviceCall& call) const override {
    const tensor::View& x = call.inputs[0].view;
    const int axis = ops::resolve_axis(axis_, x.rank);
    int64_t inner = 1, outer = 1;
    for (int i = axis + 1; i < x.rank; ++i) inner *= x.dim(i);
    for (int i = 0; i < axis; ++i) outer *= x.dim(i);
    return launch_rows(call.queue, kernel_, outer * inner,
                       {call.inputs[0].data, call.outputs[0].data, x.dim(axis), inner});
  }

 private:
  device::Kernel kernel_;
  int64_t axis_;
};

Result<std::unique_ptr<DeviceKernel>> prepare_reduce(const DevicePrepare& prepare) {
  const ops::Attributes& attributes = prepare.signature.attributes;
  const std::string& op = attributes.get_string("op");
  const std::string number = op == "sum" ? "0" : op == "max" ? "1" : op == "mean" ? "2" : "3";
  auto kernel = FL_TRY(prepare.modules.kernel(
      kPath, "", {{"FL_REDUCE", "1"}, {"FL_OP", number}, {"FL_LOAD_X", load_of(prepare.signature, 0)}}, "reduce_rows"));
  return std::unique_ptr<DeviceKernel>(std::make_unique<Reduce>(std::move(kernel), attributes.get_int("axis")));
}

class TopK final : public DeviceKernel {
 public:
  explicit TopK(device::Kernel kernel) : kernel_(std::move(kernel)) {}
  Status launch(const DeviceCall& call) const override {
    const tensor::View& x = call.inputs[0].view;
    return launch_rows(call.queue, kernel_, x.num_rows(),
                       {call.inputs[0].data, call.outputs[0].data, call.outputs[1].data, i32(view_row_elements(x)),
                        i32(view_row_elements(call.outputs[0].view))});
  }

 private:
  device::Kernel kernel_;
};

Result<std::unique_ptr<DeviceKernel>> prepare_top_k(const DevicePrepare& prepare) {
  auto kernel = FL_TRY(prepare.modules.kernel(kPath, "", {{"FL_TOP_K", "1"}}, "top_k"));
  return std::unique_ptr<DeviceKernel>(std::make_unique<TopK>(std::move(kernel)));
}

constexpr DeviceBody kBodies[] = {
    {"rms_norm_any_f32_dialect", prepare_rms_norm}, {"layer_norm_any_f32_dialect", prepare_layer_norm},
    {"softmax_any_f32_dialect", prepare_softmax},   {"reduce_any_f32_dialect", prepare_reduce},
    {"top_k_f32_f32_dialect", prepare_top_k},
};

}  // namespace

std::span<const DeviceBody> device_rows_bodies() { return kBodies; }

}  // namespace firstlight::kernels
