// SPDX-License-Identifier: Apache-2.0
#include "device/compile_check.h"

#include "device/assemble.h"
#include "device/cuda/cuda_device.h"

namespace firstlight::device {

target::DeviceTarget cuda_target_of(const std::string& architecture) {
  target::DeviceTarget target;
  target.kind = target::DeviceKind::kCuda;
  target.name = target.architecture = architecture;
  target.warp_width = 32;
  target.warp_widths = {32};
  target.max_block_threads = 1024;
  return target;
}

Status compiles_for_cuda(const ModuleSource& source, const std::string& architecture) {
  const auto assembled = FL_TRY(assemble(cuda_target_of(architecture), source, false));
  return cuda::compile_only(source.name, assembled.text, architecture);
}

}  // namespace firstlight::device
