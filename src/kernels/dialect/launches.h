// SPDX-License-Identifier: Apache-2.0
// Small words of the device bodies: one thread per element, one block per row, names of types in the dialect.
#pragma once

#include <string>
#include <vector>

#include "kernels/dialect/device_kernel.h"
#include "tensor/dtype.h"

namespace firstlight::kernels {

inline constexpr int64_t kDeviceThreads = 64;  // of a block, where nothing asks for another number

using Arguments = std::vector<device::Argument>;

// A thread for each of `total` elements; nothing for none.
inline Status launch_elements(device::Queue& queue, const device::Kernel& kernel, int64_t total,
                              const Arguments& arguments) {
  if (total == 0) return ok_status();
  return queue.launch(kernel, {.grid = {(total + kDeviceThreads - 1) / kDeviceThreads, 1, 1},
                               .block = {kDeviceThreads, 1, 1},
                               .arguments = arguments});
}

inline Status launch_rows(device::Queue& queue, const device::Kernel& kernel, int64_t rows,
                          const Arguments& arguments) {
  if (rows == 0) return ok_status();
  return queue.launch(kernel, {.grid = {rows, 1, 1}, .block = {kDeviceThreads, 1, 1}, .arguments = arguments});
}

inline int32_t i32(int64_t value) { return static_cast<int32_t>(value); }

// "fl_load_bf16": reads an element of that type as a float.
inline std::string load_word(tensor::DType dtype) { return "fl_load_" + std::string(tensor::dtype_name(dtype)); }

// Errors: kUnsupported for states whose rows are blocks.
inline Status check_plain_states(std::span<const ops::StateDecl* const> states) {
  for (const ops::StateDecl* state : states) {
    for (const ops::StateComponent& part : state->components) {
      if (!tensor::dtype_info(part.dtype).is_quantised) continue;
      return unsupported("state '" + state->name + "' stored as " + std::string(tensor::dtype_name(part.dtype)) +
                         ": kernels of devices read f32, f16 and bf16");
    }
  }
  return ok_status();
}

inline const DeviceView* device_operand(std::span<const DeviceView> inputs, size_t i) {
  return i < inputs.size() && inputs[i].data ? &inputs[i] : nullptr;
}

inline int64_t view_row_elements(const tensor::View& view) { return view.rank == 0 ? 1 : view.dim(-1); }

// A table that belongs to a step: in device memory when this returns.
template <typename T>
Result<device::Buffer> resident_table(device::Device& device, const std::vector<T>& values) {
  device::Buffer table = FL_TRY(device.allocate(static_cast<int64_t>(values.size() * sizeof(T))));
  FL_TRY(device.compute().copy_in(table, std::as_bytes(std::span(values))));
  FL_TRY(device.compute().finish());
  return table;
}

// The batch counted in groups of `rate` tokens that are completed in it, in the form of DeviceBatch.
struct DeviceGroups {
  device::Buffer owners;  // i32[G]: the sequence of every group
  device::Buffer spans;   // i32[S, 4]: first group, groups, groups before, 0
};
Result<DeviceGroups> upload_groups(const DeviceCall& call, int64_t rate);

// One function per file that defines bodies.
std::span<const DeviceBody> device_data_bodies();
std::span<const DeviceBody> device_axis_bodies();
std::span<const DeviceBody> device_map_bodies();
std::span<const DeviceBody> device_rows_bodies();
std::span<const DeviceBody> device_linear_bodies();
std::span<const DeviceBody> device_attention_bodies();
std::span<const DeviceBody> device_recurrence_bodies();
std::span<const DeviceBody> device_log_bodies();
std::span<const DeviceBody> device_einsum_bodies();
std::span<const DeviceBody> device_fused_rows_bodies();
std::span<const DeviceBody> device_rope_bodies();
std::span<const DeviceBody> device_route_bodies();
std::span<const DeviceBody> device_quant_bodies();
std::span<const DeviceBody> device_vision_bodies();

}  // namespace firstlight::kernels
