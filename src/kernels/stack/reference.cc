// SPDX-License-Identifier: Apache-2.0
// stack: one strided copy per operand.
#include "kernels/common/strided_copy.h"
#include "ops/infer.h"

#include "kernels/bodies.h"
#include "kernels/common/rows.h"

namespace firstlight::kernels {
namespace {

struct Options final : Prepared {
  int64_t axis = 0;
};

Result<std::unique_ptr<Prepared>> prepare(const PrepareInput& input) {
  auto options = std::make_unique<Options>();
  options->axis = input.signature.attributes.get_int("axis");
  return std::unique_ptr<Prepared>(std::move(options));
}

void run(const KernelCall& call, Worker& worker) {
  const tensor::View& out = call.outputs[0];
  const auto axis = static_cast<size_t>(ops::resolve_axis(static_cast<const Options&>(*call.prepared).axis, out.rank));
  const UnitAxes to = unit_axes(out);
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const UnitAxes from = unit_axes(call.inputs[i]);
    StridedCopy copy;
    copy.rank = from.rank;
    copy.dims = from.dims;
    copy.from_strides = from.strides;
    for (size_t a = 0; a < static_cast<size_t>(from.rank); ++a) copy.to_strides[a] = to.strides[a < axis ? a : a + 1];
    copy.unit_bytes = to.unit_bytes;
    copy.from = call.inputs[i].as<const std::byte>();
    copy.to = out.as<std::byte>() + static_cast<int64_t>(i) * to.strides[axis];
    run_strided_copy(copy, worker);
  }
}

}  // namespace

KernelBody stack_reference() {
  KernelBody body;
  body.symbol = "stack_any_any_ref";
  body.prepare = prepare;
  body.run = run;
  return body;
}

}  // namespace firstlight::kernels
