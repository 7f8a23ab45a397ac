// SPDX-License-Identifier: Apache-2.0
// pack_mxfp4: scale first, nibbles from neighbours to halves.

#include "kernels/bodies.h"
#include "kernels/common/rows.h"

namespace firstlight::kernels {
namespace {

void run(const KernelCall& call, Worker& worker) {
  const auto* blocks = call.inputs[0].as<const uint8_t>();
  const auto* scales = call.inputs[1].as<const uint8_t>();
  auto* out = call.outputs[0].as<uint8_t>();
  for_rows(worker, call.inputs[1].num_elements(), [&](int64_t b) {
    uint8_t codes[32];
    for (int j = 0; j < 16; ++j) {
      codes[2 * j] = blocks[b * 16 + j] & 15;
      codes[2 * j + 1] = static_cast<uint8_t>(blocks[b * 16 + j] >> 4);
    }
    out[b * 17] = scales[b];
    for (int j = 0; j < 16; ++j) out[b * 17 + 1 + j] = static_cast<uint8_t>(codes[j] | codes[j + 16] << 4);
  });
}

}  // namespace

KernelBody pack_mxfp4_reference() {
  KernelBody body;
  body.symbol = "pack_mxfp4_u8_mxfp4_ref";
  body.run = run;
  return body;
}

}  // namespace firstlight::kernels
