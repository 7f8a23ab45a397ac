// SPDX-License-Identifier: Apache-2.0
// fake_quant on devices (quant.fl.cl).
#include <algorithm>

#include "kernels/dialect/launches.h"
#include "kernels/fake_quant/options.h"
#include "ops/expression_source.h"

namespace firstlight::kernels {
namespace {

class FakeQuant final : public DeviceKernel {
 public:
  FakeQuant(device::Kernel kernel, const FakeQuantOptions& options)
      : kernel_(std::move(kernel)), block_(options.block), scale_(options.scale), least_(options.least) {}
  Status launch(const DeviceCall& call) const override {
    const tensor::View& x = call.inputs[0].view;
    const int64_t columns = x.dim(-1);
    if (x.num_elements() == 0) return ok_status();
    const int64_t block = block_ == 0 ? columns : std::min(block_, columns);
    const int64_t blocks = (columns + block - 1) / block;
    const DeviceView* stored = device_operand(call.inputs, 1);
    return launch_rows(call.queue, kernel_, x.num_rows() * blocks,
                       {call.inputs[0].data, stored != nullptr ? stored->data : device::Buffer(), call.outputs[0].data,
                        columns, block, blocks, scale_, least_});
  }

 private:
  device::Kernel kernel_;
  int64_t block_;
  float scale_, least_;
};

Result<std::unique_ptr<DeviceKernel>> prepare_fake_quant_step(const DevicePrepare& prepare) {
  const auto prepared = FL_TRY(prepare_fake_quant({.signature = prepare.signature}));
  const auto& options = static_cast<const FakeQuantOptions&>(*prepared);
  const auto operands = prepare.signature.operands;
  DeviceModules::Defines defines = {{"FL_LARGEST", ops::float_literal(static_cast<double>(largest_of(options.format)))},
                                    {"FL_SCALES", std::to_string(static_cast<int>(options.scale_format))},
                                    {"FL_LOAD_S", operands.size() > 1 ? load_word(operands[1].dtype) : "fl_load_f32"}};
  if (options.format == SmallFormat::kInt8 || options.format == SmallFormat::kInt4) {
    defines.emplace_back("FL_WHOLE", "1");
  } else {
    const bool e4m3 = options.format == SmallFormat::kE4M3, e5m2 = options.format == SmallFormat::kE5M2;
    defines.emplace_back("FL_LEAST_EXPONENT", e4m3 ? "(-6)" : e5m2 ? "(-14)" : "0");
    defines.emplace_back("FL_MANTISSA", e4m3 ? "3" : e5m2 ? "2" : "1");
  }
  auto kernel = FL_TRY(prepare.modules.kernel("dialect/quant.fl.cl", "", std::move(defines), "fake_quant"));
  return std::unique_ptr<DeviceKernel>(std::make_unique<FakeQuant>(std::move(kernel), options));
}

constexpr DeviceBody kBodies[] = {{"fake_quant_f32_f32_dialect", prepare_fake_quant_step}};

}  // namespace

std::span<const DeviceBody> device_quant_bodies() { return kBodies; }

}  // namespace firstlight::kernels
