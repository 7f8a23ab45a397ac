// SPDX-License-Identifier: Apache-2.0
#include "device/open.h"

namespace firstlight::device {

Result<std::unique_ptr<Device>> open_device(target::DeviceKind kind, const OpenOptions& options) {
  (void)options;
  return unsupported("backend '" + std::string(target::device_kind_name(kind)) + "' is not part of this build");
}

std::vector<Listed> list_devices() { return {}; }

}  // namespace firstlight::device
