// SPDX-License-Identifier: Apache-2.0
// pad, cumsum and scatter_rows on devices (axes.fl.cl).
#include "kernels/common/axis_lines.h"
#include "kernels/dialect/launches.h"

namespace firstlight::kernels {
namespace {

constexpr std::string_view kPath = "dialect/axes.fl.cl";

class Pad final : public DeviceKernel {
 public:
  Pad(device::Kernel kernel, const ops::Attributes& attributes)
      : kernel_(std::move(kernel)),
        axis_(attributes.get_int("axis")),
        before_(attributes.get_int("before")),
        value_(static_cast<float>(attributes.get_float("value"))) {}
  Status launch(const DeviceCall& call) const override {
    const AxisLines from = axis_lines(call.inputs[0].view, axis_);
    const AxisLines to = axis_lines(call.outputs[0].view, axis_);
    const int64_t total = call.outputs[0].view.num_elements();
    return launch_elements(call.queue, kernel_, total,
                           {call.inputs[0].data, call.outputs[0].data, total, from.n, to.n, before_, to.inner, value_});
  }

 private:
  device::Kernel kernel_;
  int64_t axis_, before_;
  float value_;
};

Result<std::unique_ptr<DeviceKernel>> prepare_pad(const DevicePrepare& prepare) {
  auto kernel = FL_TRY(prepare.modules.kernel(
      kPath, "", {{"FL_PAD", "1"}, {"FL_LOAD_X", load_word(prepare.signature.operands[0].dtype)}}, "pad"));
  return std::unique_ptr<DeviceKernel>(std::make_unique<Pad>(std::move(kernel), prepare.signature.attributes));
}

class Cumsum final : public DeviceKernel {
 public:
  Cumsum(device::Kernel kernel, const ops::Attributes& attributes)
      : kernel_(std::move(kernel)),
        axis_(attributes.get_int("axis")),
        exclusive_(attributes.get_bool("exclusive")),
        reverse_(attributes.get_bool("reverse")) {}
  Status launch(const DeviceCall& call) const override {
    const AxisLines lines = axis_lines(call.inputs[0].view, axis_);
    if (lines.n == 0) return ok_status();
    return launch_elements(call.queue, kernel_, lines.outer * lines.inner,
                           {call.inputs[0].data, call.outputs[0].data, lines.outer * lines.inner, lines.n, lines.inner,
                            i32(exclusive_), i32(reverse_)});
  }

 private:
  device::Kernel kernel_;
  int64_t axis_;
  bool exclusive_, reverse_;
};

Result<std::unique_ptr<DeviceKernel>> prepare_cumsum(const DevicePrepare& prepare) {
  auto kernel = FL_TRY(prepare.modules.kernel(
      kPath, "", {{"FL_CUMSUM", "1"}, {"FL_LOAD_X", load_word(prepare.signature.operands[0].dtype)}}, "cumsum"));
  return std::unique_ptr<DeviceKernel>(std::make_unique<Cumsum>(std::move(kernel), prepare.signature.attributes));
}

class ScatterRows final : public DeviceKernel {
 public:
  ScatterRows(device::Kernel kernel, bool adds) : kernel_(std::move(kernel)), adds_(adds) {}
  Status launch(const DeviceCall& call) const override {
    const tensor::View& x = call.inputs[0].view;
    const int64_t ids = call.inputs[1].view.num_elements();
    if (x.num_elements() == 0) return ok_status();
    FL_TRY(call.queue.copy(call.outputs[0].data, call.inputs[0].data));
    if (ids == 0) return ok_status();
    const int64_t width = x.num_elements() / x.dim(0);
    return launch_elements(
        call.queue, kernel_, width,
        {call.inputs[1].data, call.inputs[2].data, call.outputs[0].data, width, ids, x.dim(0), i32(adds_)});
  }

 private:
  device::Kernel kernel_;
  bool adds_;
};

Result<std::unique_ptr<DeviceKernel>> prepare_scatter_rows(const DevicePrepare& prepare) {
  auto kernel = FL_TRY(prepare.modules.kernel(kPath, "", {{"FL_SCATTER", "1"}}, "scatter_rows"));
  const bool adds = prepare.signature.attributes.get_string("mode") == "add";
  return std::unique_ptr<DeviceKernel>(std::make_unique<ScatterRows>(std::move(kernel), adds));
}

constexpr DeviceBody kBodies[] = {
    {"pad_any_f32_dialect", prepare_pad},
    {"cumsum_any_f32_dialect", prepare_cumsum},
    {"scatter_rows_f32_f32_dialect", prepare_scatter_rows},
};

}  // namespace

std::span<const DeviceBody> device_axis_bodies() { return kBodies; }

}  // namespace firstlight::kernels
