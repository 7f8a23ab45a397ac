// SPDX-License-Identifier: Apache-2.0
// The bodies of the CPU's matrix kernels, for the registry: linear, fused_linear and batched_linear per instruction
// set, and pack_weight.
#pragma once

#include <span>

#include "kernels/kernel.h"

namespace firstlight::kernels {

std::span<const KernelBody> cpu_linear_bodies();
std::span<const KernelBody> cpu_fused_linear_bodies();
std::span<const KernelBody> cpu_batched_linear_bodies();
std::span<const KernelBody> cpu_route_bodies();
std::span<const KernelBody> cpu_pack_weight_bodies();

// The mode of a step: its "compute" attribute where that names one ("auto" and none leave it), else the signature's.
catalog::ComputeMode step_mode(const catalog::Signature& signature);

// Floats of a small operand (bias, norm weight): its own memory if it is f32, else decoded into `space`. The type may
// be any plain float. Null for an absent one.
const float* floats_of(const tensor::View& view, std::span<float> space);

}  // namespace firstlight::kernels
