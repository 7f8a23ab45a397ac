// SPDX-License-Identifier: Apache-2.0
// slice: one strided copy.
#include "kernels/common/strided_copy.h"
#include "ops/infer.h"

#include "kernels/bodies.h"
#include "kernels/common/rows.h"

namespace firstlight::kernels {
namespace {

struct Options final : Prepared {
  ops::Attributes attributes;
};

Result<std::unique_ptr<Prepared>> prepare(const PrepareInput& input) {
  auto options = std::make_unique<Options>();
  options->attributes = input.signature.attributes;
  return std::unique_ptr<Prepared>(std::move(options));
}

void run(const KernelCall& call, Worker& worker) {
  const auto& options = static_cast<const Options&>(*call.prepared);
  const tensor::View& x = call.inputs[0];
  const UnitAxes from = unit_axes(x);
  const UnitAxes to = unit_axes(call.outputs[0]);
  const int axis = ops::resolve_axis(options.attributes.get_int("axis"), x.rank);
  const auto at = static_cast<size_t>(axis);
  const ops::SliceRange range = ops::slice_range(options.attributes, x.dims[at]);
  const int64_t unit = axis == x.rank - 1 ? from.unit_elements : 1;
  StridedCopy copy;
  copy.rank = to.rank;
  copy.dims = to.dims;
  copy.to_strides = to.strides;
  copy.from_strides = from.strides;
  copy.from_strides[at] *= range.step;
  copy.unit_bytes = to.unit_bytes;
  copy.from = x.as<const std::byte>() + range.start / unit * from.strides[at];
  copy.to = call.outputs[0].as<std::byte>();
  run_strided_copy(copy, worker);
}

}  // namespace

KernelBody slice_reference() {
  KernelBody body;
  body.symbol = "slice_any_any_ref";
  body.prepare = prepare;
  body.run = run;
  return body;
}

}  // namespace firstlight::kernels
