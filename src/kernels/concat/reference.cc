// SPDX-License-Identifier: Apache-2.0
// concat: one strided copy per operand.
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
  std::byte* place = out.as<std::byte>();
  for (const tensor::View& x : call.inputs) {
    const UnitAxes from = unit_axes(x);
    StridedCopy copy;
    copy.rank = from.rank;
    copy.dims = from.dims;
    copy.from_strides = from.strides;
    copy.to_strides = to.strides;
    copy.unit_bytes = from.unit_bytes;
    copy.from = x.as<const std::byte>();
    copy.to = place;
    run_strided_copy(copy, worker);
    place += from.dims[axis] * to.strides[axis];
  }
}

}  // namespace

KernelBody concat_reference() {
  KernelBody body;
  body.symbol = "concat_any_any_ref";
  body.prepare = prepare;
  body.run = run;
  return body;
}

}  // namespace firstlight::kernels
