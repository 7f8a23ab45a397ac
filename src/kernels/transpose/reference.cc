// SPDX-License-Identifier: Apache-2.0
// transpose: one strided copy.
#include "kernels/common/strided_copy.h"

#include "kernels/bodies.h"
#include "kernels/common/rows.h"

namespace firstlight::kernels {
namespace {

struct Options final : Prepared {
  std::vector<int64_t> perm;
};

Result<std::unique_ptr<Prepared>> prepare(const PrepareInput& input) {
  auto options = std::make_unique<Options>();
  options->perm = input.signature.attributes.get_ints("perm");
  return std::unique_ptr<Prepared>(std::move(options));
}

void run(const KernelCall& call, Worker& worker) {
  const auto& options = static_cast<const Options&>(*call.prepared);
  const UnitAxes from = unit_axes(call.inputs[0]);
  const UnitAxes to = unit_axes(call.outputs[0]);
  StridedCopy copy;
  copy.rank = to.rank;
  copy.dims = to.dims;
  copy.to_strides = to.strides;
  copy.unit_bytes = to.unit_bytes;
  for (size_t i = 0; i < options.perm.size(); ++i) {
    copy.from_strides[i] = from.strides[static_cast<size_t>(options.perm[i])];
  }
  copy.from = call.inputs[0].as<const std::byte>();
  copy.to = call.outputs[0].as<std::byte>();
  run_strided_copy(copy, worker);
}

}  // namespace

KernelBody transpose_reference() {
  KernelBody body;
  body.symbol = "transpose_any_any_ref";
  body.prepare = prepare;
  body.run = run;
  return body;
}

}  // namespace firstlight::kernels
