// SPDX-License-Identifier: Apache-2.0
// Which compute mode a matrix product runs in.
#pragma once

#include <string_view>

#include "compiler/compile.h"
#include "ir/graph.h"

namespace firstlight::compiler {

// A node's own wish ("f32" or "bf16": no less precise than that; else the choice is left), then the options, then the
// stored type of the weight: block formats w8a8, what bfloat16 holds exactly bf16, everything else f32.
catalog::ComputeMode compute_mode_for(const CompileOptions& options, std::string_view node_wish, tensor::DType weight);

// Matrix products, and the stored type of the weight that one reads; f32 for everything else.
bool is_product(ops::OpKind op);
tensor::DType product_weight(const ir::Graph& graph, const ir::Node& node);

// Whether some product of the graph rounds its operands.
bool rounds_products(const ir::Graph& graph, const CompileOptions& options);

// How attention computes: in bf16 where products round theirs too and the state holds no more bits (bfloat16, or
// blocks of a quantised cache), so that nothing is lost that was there; else in f32.
catalog::ComputeMode attend_mode(const ir::Graph& graph, const CompileOptions& options);

// What logs are stored as when nobody says: f32 on the reference, bf16 where attention then computes in it, else f16.
tensor::DType usual_state_dtype(const ir::Graph& graph, const CompileOptions& options);

}  // namespace firstlight::compiler
