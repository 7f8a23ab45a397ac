// SPDX-License-Identifier: Apache-2.0
#include "device/device.h"

#include <limits>

namespace firstlight::device {
namespace {

constexpr std::string_view kLostPrefix = "device lost";

std::string triple(const std::array<int64_t, 3>& v) {
  return std::to_string(v[0]) + "x" + std::to_string(v[1]) + "x" + std::to_string(v[2]);
}

Status check_arguments(const KernelSignature& signature, std::span<const Argument> arguments) {
  if (arguments.size() != signature.parameters.size()) {
    return invalid_argument("kernel '" + signature.name + "': " + std::to_string(arguments.size()) +
                            " arguments, wanted " + std::to_string(signature.parameters.size()));
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto given = static_cast<ParameterKind>(arguments[i].index());
    const KernelParameter& parameter = signature.parameters[i];
    if (given != parameter.kind) {
      return invalid_argument("kernel '" + signature.name + "': argument " + std::to_string(i) + " (" + parameter.name +
                              ") is " + std::string(parameter_kind_name(given)) + ", wanted " +
                              std::string(parameter_kind_name(parameter.kind)));
    }
  }
  return ok_status();
}

Status check_shape(const target::DeviceTarget& target, const KernelSignature& signature, const Launch& launch) {
  int64_t threads = 1;
  for (size_t i = 0; i < 3; ++i) {
    if (launch.block[i] < 1 || launch.block[i] > target.max_block[i] || launch.grid[i] < 0 ||
        launch.grid[i] > target.max_grid[i]) {
      return invalid_argument("kernel '" + signature.name + "': grid " + triple(launch.grid) + " of blocks " +
                              triple(launch.block) + ", at most " + triple(target.max_grid) + " of " +
                              triple(target.max_block) + " on this device");
    }
    threads *= launch.block[i];
  }
  if (threads > target.max_block_threads) {
    return invalid_argument("kernel '" + signature.name + "': blocks of " + std::to_string(threads) +
                            " threads, at most " + std::to_string(target.max_block_threads) + " on this device");
  }
  if (signature.uses_warps && threads % target.warp_width != 0) {
    return invalid_argument("kernel '" + signature.name + "': blocks of " + std::to_string(threads) +
                            " threads, wanted whole warps of " + std::to_string(target.warp_width));
  }
  return ok_status();
}

static_assert(std::is_same_v<std::variant_alternative_t<static_cast<size_t>(ParameterKind::kF32), Argument>, float>);

}  // namespace

Buffer Buffer::view(int64_t offset, int64_t bytes) const {
  FL_CHECK(offset >= 0 && bytes >= 0 && offset <= bytes_ && bytes <= bytes_ - offset);
  return Buffer(memory_, offset_ + offset, bytes);
}

Result<Kernel> Module::kernel(std::string_view name) const {
  std::string known;
  for (const KernelSignature& signature : kernels_) {
    if (signature.name == name) return Kernel(signature, FL_TRY(code_->find(signature)));
    known += (known.empty() ? "" : ", ") + signature.name;
  }
  return not_found("module '" + name_ + "' has no kernel '" + std::string(name) + "', it has: " + known);
}

Result<Buffer> Device::wrap(std::span<const std::byte> host) {
  return unsupported("device '" + target_.name + "' has memory of its own: " + std::to_string(host.size()) +
                     " bytes of the host can not be wrapped");
}

Status device_lost(const target::DeviceTarget& target, std::string_view what) {
  return unavailable(std::string(kLostPrefix) + ": " + std::string(device_kind_name(target.kind)) + " '" + target.name +
                     "': " + std::string(what));
}

bool is_device_lost(const Status& status) {
  return status.code() == StatusCode::kUnavailable && status.message().find(kLostPrefix) != std::string::npos;
}

Status check_copy(const char* what, int64_t to_bytes, int64_t from_bytes) {
  if (to_bytes == from_bytes) return ok_status();
  return invalid_argument(std::string(what) + ": " + std::to_string(from_bytes) + " bytes to a place of " +
                          std::to_string(to_bytes));
}

Status check_copy(const Buffer& to, const Buffer& from) {
  FL_TRY(check_copy("copy", to.bytes(), from.bytes()));
  const bool overlap = to.memory() == from.memory() && to.bytes() > 0 && to.offset() < from.offset() + from.bytes() &&
                       from.offset() < to.offset() + to.bytes();
  if (!overlap) return ok_status();
  return invalid_argument("copy of " + std::to_string(to.bytes()) + " bytes within one memory from " +
                          std::to_string(from.offset()) + " to " + std::to_string(to.offset()) +
                          ": the ranges overlap");
}

Status check_launch(const target::DeviceTarget& target, const KernelSignature& signature, const Launch& launch) {
  FL_TRY(check_arguments(signature, launch.arguments));
  FL_TRY(check_shape(target, signature, launch));
  if (launch.local_bytes < 0 || launch.local_bytes > target.local_bytes) {
    return invalid_argument("kernel '" + signature.name + "': " + std::to_string(launch.local_bytes) +
                            " bytes of local memory, at most " + std::to_string(target.local_bytes) +
                            " on this device");
  }
  if (launch.local_bytes > 0 && !signature.has_dynamic_local) {
    return invalid_argument("kernel '" + signature.name + "' takes no dynamic local memory, given " +
                            std::to_string(launch.local_bytes) + " bytes");
  }
  return ok_status();
}

}  // namespace firstlight::device
