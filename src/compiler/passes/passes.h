// SPDX-License-Identifier: Apache-2.0
// The passes, one file each, in the order in which pipeline.cc runs them.
#pragma once

#include "compiler/compile.h"

namespace firstlight::compiler {

// Takes only the wanted rows of every per-token output: logits[T, V] becomes logits[O, V]. Part of what a run means.
Status select_output_rows(ir::Graph& graph, const CompileOptions& options);

// Full attention sees the first tokens and the last ones alone, where an eviction is asked for.
Status evict_rows(ir::Graph& graph, const CompileOptions& options);

// Puts everything that depends on weights alone in front, in order.
Status hoist_weight_nodes(ir::Graph& graph, const CompileOptions& options);

// The types of all values anew from the operators' rules.
Status infer_shapes(ir::Graph& graph, const CompileOptions& options);

// Drops what formulas, reshapes and constants need not compute.
Status fold_constants(ir::Graph& graph, const CompileOptions& options);

// Computes once what is written twice.
Status merge_duplicates(ir::Graph& graph, const CompileOptions& options);

// Recognises norms, softmax and rope written out in primitives.
Status select_composites(ir::Graph& graph, const CompileOptions& options);

// Moves formulas on weights and constant factors to where they cost nothing.
Status fold_weights(ir::Graph& graph, const CompileOptions& options);

// Drops what no output needs.
Status remove_dead_code(ir::Graph& graph, const CompileOptions& options);

// Turns small weights (norms, biases) into float32 at load.
Status decode_small_weights(ir::Graph& graph, const CompileOptions& options);

// Moves the row selection up through operators that work row by row, so that the last layers' work and the vocabulary
// projection happen for the wanted rows only.
Status narrow_to_outputs(ir::Graph& graph, const CompileOptions& options);

// A product of which only slices are read becomes a product per slice.
Status split_products(ir::Graph& graph, const CompileOptions& options);

// One step for a router of experts.
Status fuse_routers(ir::Graph& graph, const CompileOptions& options);

// One step for the norms of heads, ropes and the append in front of an attend.
Status fuse_rope_appends(ir::Graph& graph, const CompileOptions& options);

// Inlines element-wise formulas into their only user.
Status fuse_maps(ir::Graph& graph, const CompileOptions& options);

// Writes every plain matrix product in the form that fusion works on.
Status widen_linears(ir::Graph& graph, const CompileOptions& options);

// Gives matrix products the element-wise formula that follows them as their epilogue (gated units, residual adds).
Status fuse_epilogues(ir::Graph& graph, const CompileOptions& options);

// One step for several matrix products of the same input (query, key and value).
Status merge_sibling_linears(ir::Graph& graph, const CompileOptions& options);

// Lets matrix products normalise their own input.
Status fuse_norms(ir::Graph& graph, const CompileOptions& options);

// Reshapes of formulas become formulas of reshapes, so that formulas meet what is computed along the new rows.
Status raise_reshapes(ir::Graph& graph, const CompileOptions& options);

// One step for reductions along rows and the formulas around them.
Status fuse_rows(ir::Graph& graph, const CompileOptions& options);

// Chooses the layout of weights: repacks at load for the kernels that want them so.
Status pack_weights(ir::Graph& graph, const CompileOptions& options);

}  // namespace firstlight::compiler
