// SPDX-License-Identifier: Apache-2.0
// Recurrences, conv1d, shift and recent_tokens on devices (recurrence.fl.cl).
#include "kernels/dialect/launches.h"

namespace firstlight::kernels {
namespace {

constexpr std::string_view kPath = "dialect/recurrence.fl.cl";

std::string load_of(const catalog::Signature& signature, size_t operand) {
  return operand < signature.operands.size() ? load_word(signature.operands[operand].dtype) : "fl_load_f32";
}

// The component that a step reads and writes.
size_t component_of(const DevicePrepare& prepare) {
  return static_cast<size_t>(prepare.states[0]->component_index(prepare.signature.attributes.get_string("component")));
}

int64_t num_sequences(const DeviceCall& call) { return static_cast<int64_t>(call.batch->sequences.size()); }

class Conv1d final : public DeviceKernel {
 public:
  Conv1d(device::Kernel kernel, device::Kernel keep, size_t component, int64_t dilation)
      : kernel_(std::move(kernel)), keep_(std::move(keep)), component_(component), dilation_(dilation) {}

  Status launch(const DeviceCall& call) const override {
    const DeviceState& state = *call.states[0];
    const tensor::View& x = call.inputs[0].view;
    const int64_t taps = call.inputs[1].view.dim(1), channels = x.dim(1);
    const DeviceView* bias = device_operand(call.inputs, 3);
    const int64_t offset = state.components[component_].offset_bytes;
    FL_TRY(launch_elements(
        call.queue, kernel_, x.num_elements(),
        {call.inputs[0].data, call.inputs[1].data, bias != nullptr ? bias->data : device::Buffer(),
         call.outputs[0].data, state.pool, state.pages, call.batch->row_sequence, call.batch->spans, x.num_elements(),
         i32(state.max_pages), offset, i32(channels), i32(taps), i32(dilation_), i32(bias != nullptr)}));
    const int64_t total = num_sequences(call) * channels;
    return launch_elements(call.queue, keep_, total,
                           {call.inputs[0].data, state.pool, state.pages, call.batch->spans, total,
                            i32(state.max_pages), offset, i32(channels), i32((taps - 1) * dilation_)});
  }

 private:
  device::Kernel kernel_, keep_;
  size_t component_;
  int64_t dilation_;
};

Result<std::unique_ptr<DeviceKernel>> prepare_conv1d_step(const DevicePrepare& prepare) {
  const DeviceModules::Defines defines = {
      {"FL_CONV1D", "1"}, {"FL_LOAD_W", load_of(prepare.signature, 1)}, {"FL_LOAD_B", load_of(prepare.signature, 3)}};
  auto kernel = FL_TRY(prepare.modules.kernel(kPath, "", defines, "conv1d"));
  auto keep = FL_TRY(prepare.modules.kernel(kPath, "", defines, "conv1d_keep"));
  return std::unique_ptr<DeviceKernel>(std::make_unique<Conv1d>(
      std::move(kernel), std::move(keep), component_of(prepare), prepare.signature.attributes.get_int("dilation")));
}

// recur_gla and recur_delta.
class Matrix final : public DeviceKernel {
 public:
  Matrix(device::Kernel kernel, size_t component, bool is_delta)
      : kernel_(std::move(kernel)), component_(component), is_delta_(is_delta) {}

  Status launch(const DeviceCall& call) const override {
    const DeviceState& state = *call.states[0];
    const tensor::View &q = call.inputs[0].view, &v = call.inputs[2].view;
    if (v.dim(0) == 0) return ok_status();
    const DeviceView* bonus = is_delta_ ? nullptr : device_operand(call.inputs, 5);
    const int64_t key = q.dim(2);
    const Arguments arguments = {call.inputs[0].data,
                                 call.inputs[1].data,
                                 call.inputs[2].data,
                                 call.inputs[3].data,
                                 is_delta_ ? call.inputs[4].data : device::Buffer(),
                                 bonus != nullptr ? bonus->data : device::Buffer(),
                                 call.outputs[0].data,
                                 state.pool,
                                 state.pages,
                                 call.batch->spans,
                                 i32(state.max_pages),
                                 state.components[component_].offset_bytes,
                                 i32(q.dim(1)),
                                 i32(v.dim(1)),
                                 i32(key),
                                 i32(v.dim(2)),
                                 i32(call.inputs[3].view.rank - 1),
                                 i32(bonus != nullptr)};
    return call.queue.launch(kernel_, {.grid = {v.dim(1), num_sequences(call), 1},
                                       .block = {kDeviceThreads, 1, 1},
                                       .arguments = arguments,
                                       .local_bytes = 3 * key * 4});
  }

 private:
  device::Kernel kernel_;
  size_t component_;
  bool is_delta_;
};

Result<std::unique_ptr<DeviceKernel>> prepare_matrix(const DevicePrepare& prepare) {
  const bool is_delta = prepare.signature.op == ops::OpKind::kRecurDelta;
  DeviceModules::Defines defines = {{"FL_MATRIX", "1"},
                                    {"FL_LOAD_D", load_of(prepare.signature, 3)},
                                    {"FL_LOAD_B", is_delta ? "fl_load_f32" : load_of(prepare.signature, 5)}};
  if (is_delta) defines.emplace_back("FL_DELTA", "1");
  auto kernel = FL_TRY(prepare.modules.kernel(kPath, "", std::move(defines), "recur_matrix"));
  return std::unique_ptr<DeviceKernel>(std::make_unique<Matrix>(std::move(kernel), component_of(prepare), is_delta));
}

class Dplr final : public DeviceKernel {
 public:
  Dplr(device::Kernel kernel, size_t component) : kernel_(std::move(kernel)), component_(component) {}

  Status launch(const DeviceCall& call) const override {
    const DeviceState& state = *call.states[0];
    const tensor::View &r = call.inputs[0].view, &v = call.inputs[3].view;
    if (r.dim(0) == 0) return ok_status();
    Arguments arguments;
    for (size_t i = 0; i < 6; ++i) arguments.emplace_back(call.inputs[i].data);
    const Arguments rest = {call.outputs[0].data, state.pool,           state.pages,
                            call.batch->spans,    i32(state.max_pages), state.components[component_].offset_bytes,
                            i32(r.dim(1)),        i32(r.dim(2)),        i32(v.dim(2))};
    arguments.insert(arguments.end(), rest.begin(), rest.end());
    return call.queue.launch(kernel_, {.grid = {r.dim(1), num_sequences(call), 1},
                                       .block = {kDeviceThreads, 1, 1},
                                       .arguments = arguments,
                                       .local_bytes = r.dim(2) * 4});
  }

 private:
  device::Kernel kernel_;
  size_t component_;
};

Result<std::unique_ptr<DeviceKernel>> prepare_dplr(const DevicePrepare& prepare) {
  auto kernel = FL_TRY(prepare.modules.kernel(kPath, "", {{"FL_DPLR", "1"}}, "recur_dplr"));
  return std::unique_ptr<DeviceKernel>(std::make_unique<Dplr>(std::move(kernel), component_of(prepare)));
}

// A thread per sequence and channel: recur_selective, recur_elementwise, shift.
class Channels final : public DeviceKernel {
 public:
  Channels(device::Kernel kernel, ops::OpKind op, size_t component)
      : kernel_(std::move(kernel)), op_(op), component_(component) {}

  Status launch(const DeviceCall& call) const override {
    const DeviceState& state = *call.states[0];
    const int64_t channels = call.inputs[0].view.dim(1);
    const int64_t total = num_sequences(call) * channels;
    if (call.inputs[0].view.dim(0) == 0) return ok_status();
    const size_t operands = op_ == ops::OpKind::kRecurSelective ? 5 : op_ == ops::OpKind::kRecurElementwise ? 2 : 1;
    Arguments arguments;
    for (size_t i = 0; i < operands; ++i) arguments.emplace_back(call.inputs[i].data);
    if (op_ == ops::OpKind::kShift) arguments.emplace_back(device::Buffer());
    const Arguments rest = {call.outputs[0].data,
                            state.pool,
                            state.pages,
                            call.batch->spans,
                            total,
                            i32(state.max_pages),
                            state.components[component_].offset_bytes,
                            i32(channels)};
    arguments.insert(arguments.end(), rest.begin(), rest.end());
    if (op_ == ops::OpKind::kRecurSelective) arguments.emplace_back(i32(call.inputs[3].view.dim(1)));
    return launch_elements(call.queue, kernel_, total, arguments);
  }

 private:
  device::Kernel kernel_;
  ops::OpKind op_;
  size_t component_;
};

Result<std::unique_ptr<DeviceKernel>> prepare_channels(const DevicePrepare& prepare) {
  const ops::OpKind op = prepare.signature.op;
  const bool selective = op == ops::OpKind::kRecurSelective;
  DeviceModules::Defines defines = {{selective ? "FL_SELECTIVE" : "FL_CHANNELS", "1"}};
  if (selective) defines.emplace_back("FL_LOAD_W", load_of(prepare.signature, 2));
  if (op == ops::OpKind::kShift) defines.emplace_back("FL_SHIFT", "1");
  auto kernel =
      FL_TRY(prepare.modules.kernel(kPath, "", std::move(defines), selective ? "recur_selective" : "recur_channels"));
  return std::unique_ptr<DeviceKernel>(std::make_unique<Channels>(std::move(kernel), op, component_of(prepare)));
}

class RecentTokens final : public DeviceKernel {
 public:
  explicit RecentTokens(device::Kernel kernel) : kernel_(std::move(kernel)) {}
  Status launch(const DeviceCall& call) const override {
    const DeviceState& state = *call.states[0];
    const int64_t tokens = call.inputs[0].view.dim(0);
    return launch_elements(call.queue, kernel_, tokens,
                           {call.inputs[0].data, call.outputs[0].data, state.pool, state.pages,
                            call.batch->row_sequence, call.batch->spans, tokens, i32(state.max_pages),
                            state.components[0].offset_bytes, i32(state.page_rows), i32(call.outputs[0].view.dim(1))});
  }

 private:
  device::Kernel kernel_;
};

Result<std::unique_ptr<DeviceKernel>> prepare_recent(const DevicePrepare& prepare) {
  auto kernel = FL_TRY(prepare.modules.kernel(kPath, "", {{"FL_RECENT", "1"}}, "recent_tokens"));
  return std::unique_ptr<DeviceKernel>(std::make_unique<RecentTokens>(std::move(kernel)));
}

constexpr DeviceBody kBodies[] = {
    {"conv1d_f32_f32_dialect", prepare_conv1d_step},       {"recur_gla_f32_f32_dialect", prepare_matrix},
    {"recur_delta_f32_f32_dialect", prepare_matrix},       {"recur_dplr_f32_f32_dialect", prepare_dplr},
    {"recur_selective_f32_f32_dialect", prepare_channels}, {"recur_elementwise_f32_f32_dialect", prepare_channels},
    {"shift_f32_f32_dialect", prepare_channels},           {"recent_tokens_i32_i32_dialect", prepare_recent},
};

}  // namespace

std::span<const DeviceBody> device_recurrence_bodies() { return kBodies; }

}  // namespace firstlight::kernels
