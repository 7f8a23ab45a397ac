// SPDX-License-Identifier: Apache-2.0
// conv2d, pool2d and interp2d on devices (vision.fl.cl).
#include <algorithm>

#include "kernels/dialect/launches.h"
#include "kernels/interp2d/taps.h"
#include "ops/vision/window2d.h"

namespace firstlight::kernels {
namespace {

constexpr std::string_view kPath = "dialect/vision.fl.cl";

class Conv2d final : public DeviceKernel {
 public:
  Conv2d(device::Kernel kernel, const ops::Window2d& window, int64_t groups)
      : kernel_(std::move(kernel)), window_(window), groups_(groups) {}
  Status launch(const DeviceCall& call) const override {
    const tensor::View& x = call.inputs[0].view;
    const tensor::View& out = call.outputs[0].view;
    const DeviceView* bias = device_operand(call.inputs, 2);
    Arguments arguments = {call.inputs[0].data,
                           call.inputs[1].data,
                           bias != nullptr ? bias->data : device::Buffer(),
                           call.outputs[0].data,
                           out.num_elements(),
                           x.dim(1),
                           x.dim(2),
                           x.dim(3),
                           out.dim(1),
                           out.dim(2),
                           out.dim(3),
                           groups_};
    for (const int64_t n : {window_.kernel[0], window_.kernel[1], window_.stride[0], window_.stride[1],
                            window_.dilation[0], window_.dilation[1], window_.pad[0], window_.pad[2]}) {
      arguments.emplace_back(i32(n));
    }
    return launch_elements(call.queue, kernel_, out.num_elements(), arguments);
  }

 private:
  device::Kernel kernel_;
  ops::Window2d window_;
  int64_t groups_;
};

Result<std::unique_ptr<DeviceKernel>> prepare_conv2d(const DevicePrepare& prepare) {
  const auto operands = prepare.signature.operands;
  const ops::Attributes& attributes = prepare.signature.attributes;
  const tensor::Shape& weight = operands[1].shape;
  const auto window = FL_TRY(ops::window2d(ops::OpKind::kConv2d, attributes, weight[2].factor, weight[3].factor));
  auto kernel =
      FL_TRY(prepare.modules.kernel(kPath, "",
                                    {{"FL_CONV2D", "1"},
                                     {"FL_LOAD_X", load_word(operands[0].dtype)},
                                     {"FL_LOAD_W", load_word(operands[1].dtype)},
                                     {"FL_LOAD_B", operands.size() > 2 ? load_word(operands[2].dtype) : "fl_load_f32"}},
                                    "conv2d"));
  return std::unique_ptr<DeviceKernel>(
      std::make_unique<Conv2d>(std::move(kernel), window, attributes.get_int("groups")));
}

class Pool2d final : public DeviceKernel {
 public:
  Pool2d(device::Kernel kernel, const ops::Window2d& window, bool counts_padding)
      : kernel_(std::move(kernel)), window_(window), counts_padding_(counts_padding) {}
  Status launch(const DeviceCall& call) const override {
    const tensor::View& x = call.inputs[0].view;
    const tensor::View& out = call.outputs[0].view;
    const int64_t total = out.num_elements();
    return launch_elements(call.queue, kernel_, total,
                           {call.inputs[0].data, call.outputs[0].data, total, x.dim(2), x.dim(3), out.dim(2),
                            out.dim(3), i32(window_.kernel[0]), i32(window_.kernel[1]), i32(window_.stride[0]),
                            i32(window_.stride[1]), i32(window_.pad[0]), i32(window_.pad[2]), i32(counts_padding_)});
  }

 private:
  device::Kernel kernel_;
  ops::Window2d window_;
  bool counts_padding_;
};

Result<std::unique_ptr<DeviceKernel>> prepare_pool2d(const DevicePrepare& prepare) {
  const ops::Attributes& attributes = prepare.signature.attributes;
  const std::vector<int64_t>& size = attributes.get_ints("kernel");
  const auto window = FL_TRY(ops::window2d(ops::OpKind::kPool2d, attributes, size.front(), size.back()));
  auto kernel = FL_TRY(prepare.modules.kernel(kPath, "",
                                              {{"FL_POOL2D", "1"},
                                               {"FL_MAX", attributes.get_string("op") == "max" ? "1" : "0"},
                                               {"FL_LOAD_X", load_word(prepare.signature.operands[0].dtype)}},
                                              "pool2d"));
  return std::unique_ptr<DeviceKernel>(
      std::make_unique<Pool2d>(std::move(kernel), window, attributes.get_bool("count_padding")));
}

// The taps of one axis in device memory, as many for every place; what is not there is -1.
struct TapTable {
  device::Buffer places, weights;
  int64_t count = 1;
};

Result<TapTable> tap_table(device::Device& device, const std::vector<InterpTaps>& taps) {
  TapTable table;
  std::vector<int32_t> places;
  std::vector<float> weights;
  for (const InterpTaps& one : taps) table.count = std::max(table.count, static_cast<int64_t>(one.at.size()));
  for (const InterpTaps& one : taps) {
    for (const int64_t place : one.at) places.push_back(i32(place));
    for (const double weight : one.weight) weights.push_back(static_cast<float>(weight));
    const size_t padded = places.size() + static_cast<size_t>(table.count) - one.at.size();
    places.resize(padded, -1);
    weights.resize(padded);
  }
  table.places = FL_TRY(resident_table(device, places));
  table.weights = FL_TRY(resident_table(device, weights));
  return table;
}

class Interp2d final : public DeviceKernel {
 public:
  Interp2d(device::Kernel kernel, TapTable rows, TapTable columns)
      : kernel_(std::move(kernel)), rows_(std::move(rows)), columns_(std::move(columns)) {}
  Status launch(const DeviceCall& call) const override {
    const tensor::View& x = call.inputs[0].view;
    const tensor::View& out = call.outputs[0].view;
    const int64_t total = out.num_elements();
    return launch_elements(
        call.queue, kernel_, total,
        {call.inputs[0].data, rows_.places, rows_.weights, columns_.places, columns_.weights, call.outputs[0].data,
         total, x.dim(2), x.dim(3), out.dim(2), out.dim(3), i32(rows_.count), i32(columns_.count)});
  }

 private:
  device::Kernel kernel_;
  TapTable rows_, columns_;
};

Result<std::unique_ptr<DeviceKernel>> prepare_interp2d(const DevicePrepare& prepare) {
  const ops::Attributes& attributes = prepare.signature.attributes;
  const tensor::Type& x = prepare.signature.operands[0];
  const std::vector<int64_t>& size = attributes.get_ints("size");
  device::Device& device = prepare.modules.device();
  auto kernel =
      FL_TRY(prepare.modules.kernel(kPath, "", {{"FL_INTERP2D", "1"}, {"FL_LOAD_X", load_word(x.dtype)}}, "interp2d"));
  auto rows = FL_TRY(tap_table(device, interp_taps(attributes, x.shape[2].factor, size[0])));
  auto columns = FL_TRY(tap_table(device, interp_taps(attributes, x.shape[3].factor, size[1])));
  return std::unique_ptr<DeviceKernel>(
      std::make_unique<Interp2d>(std::move(kernel), std::move(rows), std::move(columns)));
}

constexpr DeviceBody kBodies[] = {
    {"conv2d_any_f32_dialect", prepare_conv2d},
    {"pool2d_any_f32_dialect", prepare_pool2d},
    {"interp2d_any_f32_dialect", prepare_interp2d},
};

}  // namespace

std::span<const DeviceBody> device_vision_bodies() { return kBodies; }

}  // namespace firstlight::kernels
