// SPDX-License-Identifier: Apache-2.0
// route on devices: the products by the kernels of linear, into the workspace, then the choice (route.fl.cl).
#include <algorithm>

#include "kernels/dialect/launches.h"

namespace firstlight::kernels {
namespace {

using tensor::DType;
using tensor::Type;

class Route final : public DeviceKernel {
 public:
  Route(std::unique_ptr<DeviceKernel> product, device::Kernel choice, Type products, const ops::Attributes& attributes)
      : product_(std::move(product)), choice_(std::move(choice)), products_(std::move(products)) {
    for (const char* name : {"k", "groups", "top_groups", "group_best"}) {
      numbers_.emplace_back(i32(attributes.get_int(name)));
    }
    for (const char* name : {"eps", "scale"}) numbers_.emplace_back(static_cast<float>(attributes.get_float(name)));
    groups_ = attributes.get_int("groups");
    biased_ = attributes.get_bool("bias");
    corrected_ = attributes.get_bool("correction");
  }

  int64_t workspace_bytes(const tensor::SymbolValues& values) const override {
    return tensor::num_elements(products_.shape, values) * 4;
  }

  Status launch(const DeviceCall& call) const override {
    const int64_t tokens = call.inputs[0].view.dim(0);
    const int64_t experts = call.inputs[1].view.dim(0);
    if (tokens == 0) return ok_status();
    tensor::View shape = call.inputs[0].view;
    shape.dims[1] = experts;
    const DeviceView products{shape, call.workspace.view(0, tokens * experts * 4)};
    FL_TRY(product_->launch({.queue = call.queue,
                             .inputs = call.inputs.first(biased_ ? 3 : 2),
                             .outputs = {&products, 1},
                             .batch = call.batch,
                             .states = {},
                             .workspace = {},
                             .upload = call.upload,
                             .scratch = call.scratch}));
    Arguments arguments = {products.data, corrected_ ? call.inputs.back().data : device::Buffer(), call.outputs[0].data,
                           call.outputs[1].data, i32(experts)};
    arguments.insert(arguments.end(), numbers_.begin(), numbers_.end());
    return call.queue.launch(choice_, {.grid = {tokens, 1, 1},
                                       .block = {kDeviceThreads, 1, 1},
                                       .arguments = arguments,
                                       .local_bytes = (2 * experts + groups_) * 4});
  }

 private:
  std::unique_ptr<DeviceKernel> product_;
  device::Kernel choice_;
  Type products_;
  Arguments numbers_;
  int64_t groups_;
  bool biased_, corrected_;
};

Result<std::unique_ptr<DeviceKernel>> prepare_route(const DevicePrepare& prepare) {
  const catalog::Signature& signature = prepare.signature;
  const ops::Attributes& attributes = signature.attributes;
  const Type products = Type::tensor(DType::kF32, {signature.operands[0].shape[0], signature.operands[1].shape[0]});
  const catalog::Signature own{.op = ops::OpKind::kLinear,
                               .operands = signature.operands.first(attributes.get_bool("bias") ? 3 : 2),
                               .results = {&products, 1},
                               .attributes = {}};
  auto product = FL_TRY(find_device_kernel("linear_f32any_f32_dialect")
                            ->prepare({.signature = own, .states = {}, .modules = prepare.modules}));
  const auto number_of = [&](const char* name, std::string_view one, std::string_view two) {
    const std::string& word = attributes.get_string(name);
    return std::string(word == one ? "1" : word == two ? "2" : "0");
  };
  const bool corrected = attributes.get_bool("correction");
  auto choice = FL_TRY(
      prepare.modules.kernel("dialect/route.fl.cl", "",
                             {{"FL_SCORE", number_of("score", "softmax", "sigmoid")},
                              {"FL_AFTER", number_of("after", "softmax", "sum")},
                              {"FL_LOAD_C", corrected ? load_word(signature.operands.back().dtype) : "fl_load_f32"}},
                             "route"));
  return std::unique_ptr<DeviceKernel>(
      std::make_unique<Route>(std::move(product), std::move(choice), products, attributes));
}

constexpr DeviceBody kBodies[] = {{"route_f32any_f32_dialect", prepare_route}};

}  // namespace

std::span<const DeviceBody> device_route_bodies() { return kBodies; }

}  // namespace firstlight::kernels
