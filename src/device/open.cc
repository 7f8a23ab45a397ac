// SPDX-License-Identifier: Apache-2.0
#include "device/open.h"

#include "device/private_folder.h"

#include <algorithm>

#include "device/cuda/cuda_device.h"
#include "device/opencl/opencl_device.h"
#include "device/simt/simt_device.h"

namespace firstlight::device {

Result<std::unique_ptr<Device>> open_device(target::DeviceKind kind, const OpenOptions& options) {
  if (!options.cache_dir.empty()) FL_TRY(make_private_folder(options.cache_dir));  // code is loaded from it
  switch (kind) {
    case target::DeviceKind::kSimt:
      return open_simt(options);
    case target::DeviceKind::kOpencl:
      return open_opencl(options);
    case target::DeviceKind::kCuda:
      return cuda::open(options);
    case target::DeviceKind::kMusa:
      return musa::open(options);
  }
  return internal_error("unknown kind of device");
}

std::vector<Listed> list_devices() {
  std::vector<Listed> kinds;
  kinds.push_back({target::DeviceKind::kSimt, {simt_target()}, ""});
  const auto ask = [&](target::DeviceKind kind, std::vector<target::DeviceTarget> (*list)(std::string&)) {
    Listed listed{kind, {}, ""};
    listed.devices = list(listed.absent);
    kinds.push_back(std::move(listed));
  };
  ask(target::DeviceKind::kOpencl, list_opencl);
  ask(target::DeviceKind::kCuda, cuda::list);
  ask(target::DeviceKind::kMusa, musa::list);
  return kinds;
}

Status choose_warp_width(target::DeviceTarget& target, int wanted) {
  if (wanted == 0) return ok_status();
  std::string known;
  for (const int width : target.warp_widths) known += (known.empty() ? "" : ", ") + std::to_string(width);
  if (std::find(target.warp_widths.begin(), target.warp_widths.end(), wanted) == target.warp_widths.end()) {
    return unsupported(std::string(target::device_kind_name(target.kind)) + " '" + target.name + "': warps of " +
                       std::to_string(wanted) + " lanes, it has " + known);
  }
  target.warp_width = wanted;
  return ok_status();
}

}  // namespace firstlight::device
