// SPDX-License-Identifier: Apache-2.0
// take: one strided copy per chosen place.
#include "kernels/bodies.h"
#include "kernels/common/rows.h"
#include "kernels/common/strided_copy.h"
#include "ops/infer.h"

namespace firstlight::kernels {
namespace {

struct Options final : Prepared {
  int64_t axis = 0;
  std::vector<int64_t> indices;
};

Result<std::unique_ptr<Prepared>> prepare(const PrepareInput& input) {
  auto options = std::make_unique<Options>();
  options->axis = input.signature.attributes.get_int("axis");
  options->indices = input.signature.attributes.get_ints("indices");
  return std::unique_ptr<Prepared>(std::move(options));
}

void run(const KernelCall& call, Worker& worker) {
  const auto& options = static_cast<const Options&>(*call.prepared);
  const UnitAxes from = unit_axes(call.inputs[0]);
  const UnitAxes to = unit_axes(call.outputs[0]);
  const auto at = static_cast<size_t>(ops::resolve_axis(options.axis, call.inputs[0].rank));
  for (size_t i = 0; i < options.indices.size(); ++i) {
    StridedCopy copy;
    copy.rank = to.rank;
    copy.dims = to.dims;
    copy.dims[at] = 1;
    copy.to_strides = to.strides;
    copy.from_strides = from.strides;
    copy.unit_bytes = to.unit_bytes;
    copy.from = call.inputs[0].as<const std::byte>() + options.indices[i] * from.strides[at];
    copy.to = call.outputs[0].as<std::byte>() + static_cast<int64_t>(i) * to.strides[at];
    run_strided_copy(copy, worker);
  }
}

}  // namespace

KernelBody take_reference() {
  KernelBody body;
  body.symbol = "take_any_any_ref";
  body.prepare = prepare;
  body.run = run;
  return body;
}

}  // namespace firstlight::kernels
