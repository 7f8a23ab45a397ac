// SPDX-License-Identifier: Apache-2.0
// The probe that a device must pass before it is used: small kernels whose results the host knows. It asks for copies
// and views at odd places, local memory and barriers, what a warp really does at the width that the device states,
// storage formats, a tile product. Drivers have been met that fail at each of these.
#pragma once

#include "device/device.h"

namespace firstlight::device {

// What Device::health() runs. Errors: those of the device; kUnsupported with the name of the check, the first place
// that is wrong, what was found and what was wanted.
Status probe(Device& device);

// The comparisons alone, on what the kernels returned, for tests that plant a fault.
Status check_warp_results(int warp_width, std::span<const int32_t> seen, std::span<const float> sums,
                          std::span<const float> most, std::span<const int32_t> warps);

}  // namespace firstlight::device
