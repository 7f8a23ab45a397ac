// SPDX-License-Identifier: Apache-2.0
// Runs a case on one row of a device backend.
#pragma once

#include "kernels/dialect/device_kernel.h"
#include "case.h"
#include "judge/run_case.h"

namespace firstlight::conformance {

// As run_case: result memory is 0xff bytes first, 64 bytes behind each result, the workspace and the pages are guarded.
Result<Outcome> run_device_case(const Case& c, const catalog::KernelRow& row, kernels::DeviceModules& modules);

}  // namespace firstlight::conformance
