// SPDX-License-Identifier: Apache-2.0
// Honest rounding: how much a plan's arithmetic rounds, in numbers; and a graph that rounds the same operands the same
// way when the reference backend runs it, so that rounding is measured, not guessed.
#pragma once

#include "compiler/compile.h"
#include "ir/graph.h"
#include "plan/plan.h"

namespace firstlight::align {

struct Rounding {
  double step = 0;                // root mean square relative error that one matrix product and the state leave
  double products_per_layer = 9;  // whose errors are independent
};
Rounding rounding_of(const plan::Plan& plan);

// `graph` with the operands of matrix products rounded as `options` has them computed: bf16 to bfloat16, int8 to blocks
// of 32 whole numbers of 8 bits. Values keep their ids. To be run on the reference backend, with the state type of
// `options`. Errors: kInternal when that gives no legal graph.
Result<ir::Graph> with_rounded_products(const ir::Graph& graph, const compiler::CompileOptions& options);

}  // namespace firstlight::align
