// SPDX-License-Identifier: Apache-2.0
#include "device/opencl/describe.h"

#include <algorithm>
#include <string>

namespace firstlight::device {
namespace {

constexpr cl_device_info kSubGroupSizesIntel = 0x4108;

class Asker {
 public:
  Asker(const OpenclApi& api, cl_device_id id) : api_(api), id_(id) {}

  std::string text(cl_device_info what) const {
    size_t bytes = 0;
    if (api_.GetDeviceInfo(id_, what, 0, nullptr, &bytes) != CL_SUCCESS || bytes == 0) return "";
    std::string value(bytes, '\0');
    if (api_.GetDeviceInfo(id_, what, bytes, value.data(), nullptr) != CL_SUCCESS) return "";
    value.resize(std::min(value.find('\0'), value.size()));
    return value;
  }
  template <typename T>
  int64_t number(cl_device_info what) const {
    T value{};
    return api_.GetDeviceInfo(id_, what, sizeof(T), &value, nullptr) == CL_SUCCESS ? static_cast<int64_t>(value) : 0;
  }
  std::vector<size_t> numbers(cl_device_info what) const {
    size_t bytes = 0;
    if (api_.GetDeviceInfo(id_, what, 0, nullptr, &bytes) != CL_SUCCESS) return {};
    std::vector<size_t> values(bytes / sizeof(size_t));
    if (values.empty() || api_.GetDeviceInfo(id_, what, bytes, values.data(), nullptr) != CL_SUCCESS) return {};
    return values;
  }

 private:
  const OpenclApi& api_;
  cl_device_id id_;
};

// Warps are sub-groups only where their width can be demanded; else they are emulated, at any width.
void describe_warps(const Asker& ask, const std::string& extensions, target::DeviceTarget& target) {
  const bool can_demand = extensions.find("cl_intel_required_subgroup_size") != std::string::npos &&
                          extensions.find("cl_khr_subgroup_shuffle ") != std::string::npos;
  if (can_demand) {
    auto sizes = ask.numbers(kSubGroupSizesIntel);
    std::sort(sizes.rbegin(), sizes.rend());
    for (const size_t size : sizes) target.warp_widths.push_back(static_cast<int>(size));
    target.warps_in_hardware = target.lockstep = !sizes.empty();
  }
  if (target.warp_widths.empty()) target.warp_widths = {32, 64, 128, 16, 8, 4, 2, 1};
  target.warp_width = target.warp_widths.front();
}

target::DeviceTarget describe(const OpenclApi& api, cl_device_id id) {
  const Asker ask(api, id);
  const std::string extensions = ask.text(CL_DEVICE_EXTENSIONS) + " ";
  target::DeviceTarget target;
  target.kind = target::DeviceKind::kOpencl;
  target.name = ask.text(CL_DEVICE_NAME);
  target.vendor = ask.text(CL_DEVICE_VENDOR);
  target.driver_version = ask.text(CL_DRIVER_VERSION);
  target.compiler = ask.text(CL_DEVICE_VERSION);
  target.architecture = ask.text(CL_DEVICE_OPENCL_C_VERSION);
  target.compute_units = static_cast<int>(ask.number<cl_uint>(CL_DEVICE_MAX_COMPUTE_UNITS));
  describe_warps(ask, extensions, target);
  target.max_block_threads = std::min<int64_t>(ask.number<size_t>(CL_DEVICE_MAX_WORK_GROUP_SIZE), 1024);
  const auto sizes = ask.numbers(CL_DEVICE_MAX_WORK_ITEM_SIZES);
  for (size_t i = 0; i < 3; ++i) {
    target.max_block[i] = std::min(i < sizes.size() ? static_cast<int64_t>(sizes[i]) : 1, target.max_block_threads);
    target.max_grid[i] = i == 0 ? 0x7fffffff : 65535;
  }
  target.local_bytes = ask.number<cl_ulong>(CL_DEVICE_LOCAL_MEM_SIZE);
  target.global_bytes = ask.number<cl_ulong>(CL_DEVICE_GLOBAL_MEM_SIZE);
  target.max_allocation_bytes = ask.number<cl_ulong>(CL_DEVICE_MAX_MEM_ALLOC_SIZE);
  target.buffer_alignment = std::max<int64_t>(ask.number<cl_uint>(CL_DEVICE_MEM_BASE_ADDR_ALIGN) / 8, 64);
  target.max_argument_bytes = ask.number<size_t>(CL_DEVICE_MAX_PARAMETER_SIZE);
  target.has_f64 = ask.number<cl_device_fp_config>(CL_DEVICE_DOUBLE_FP_CONFIG) != 0;
  target.has_half = extensions.find("cl_khr_fp16 ") != std::string::npos;
  target.unified_memory = ask.number<cl_bool>(CL_DEVICE_HOST_UNIFIED_MEMORY) != 0;
  return target;
}

}  // namespace

Result<std::vector<OpenclEntry>> find_opencl_devices(const OpenclApi& api) {
  cl_uint num_platforms = 0;
  if (api.GetPlatformIDs(0, nullptr, &num_platforms) != CL_SUCCESS || num_platforms == 0) {
    return unsupported("the OpenCL loader of this machine knows no driver");
  }
  std::vector<cl_platform_id> platforms(num_platforms);
  if (api.GetPlatformIDs(num_platforms, platforms.data(), nullptr) != CL_SUCCESS) {
    return unsupported("the OpenCL loader does not list its drivers");
  }
  std::vector<OpenclEntry> entries;
  for (const cl_platform_id platform : platforms) {
    cl_uint num_devices = 0;
    if (api.GetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &num_devices) != CL_SUCCESS) continue;
    std::vector<cl_device_id> ids(num_devices);
    if (num_devices == 0 ||
        api.GetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, num_devices, ids.data(), nullptr) != CL_SUCCESS)
      continue;
    for (const cl_device_id id : ids) {
      if (Asker(api, id).number<cl_bool>(CL_DEVICE_COMPILER_AVAILABLE) != 0) entries.push_back({id, describe(api, id)});
    }
  }
  if (entries.empty()) return unsupported("the OpenCL drivers of this machine have no device with a compiler");
  return entries;
}

}  // namespace firstlight::device
