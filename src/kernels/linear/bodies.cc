// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear/bodies.h"

#include "base/check.h"
#include "tensor/codec.h"

namespace firstlight::kernels {

catalog::ComputeMode step_mode(const catalog::Signature& signature) {
  if (!signature.attributes.has("compute")) return signature.mode;
  const std::string& name = signature.attributes.get_string("compute");
  if (name == "f32") return catalog::ComputeMode::kF32;
  if (name == "bf16") return catalog::ComputeMode::kBf16;
  if (name == "w8a8") return catalog::ComputeMode::kInt8;
  return signature.mode;
}

const float* floats_of(const tensor::View& view, std::span<float> space) {
  if (!view.present()) return nullptr;
  if (view.dtype == tensor::DType::kF32) return view.as<const float>();
  const int64_t count = view.num_elements();
  FL_CHECK(static_cast<size_t>(count) <= space.size());
  const auto bytes = static_cast<size_t>(*tensor::row_bytes(view.dtype, count));
  const std::span<float> out = space.first(static_cast<size_t>(count));
  tensor::decode_to_f32(view.dtype, {view.as<const std::byte>(), bytes}, out).value();
  return out.data();
}

}  // namespace firstlight::kernels
