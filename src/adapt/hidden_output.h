// SPDX-License-Identifier: Apache-2.0
// The last hidden state as an output of a model's graph, for embeddings: the value that enters the output head,
// whatever the family, found in the graph itself.
#pragma once

#include "base/status.h"
#include "ir/graph.h"

namespace firstlight::adapt {

// Adds the output "hidden", f32 or wider [T, D]: a row for every token of the batch, not only for those whose logits
// are wanted. It is the operand of the last product with a weight on the way to the logits (behind that may come what
// works on single logits: a factor, a cap); of a model without a head, its output. `keep_logits` off: "hidden" becomes
// the only output, and the metadata gets "vocabulary", the number of token ids. Plans of such graphs are compiled with
// CompileOptions::every_row. Errors: kUnsupported where the graph has no such value, with what was met instead.
Status add_hidden_output(ir::Graph& graph, bool keep_logits);

}  // namespace firstlight::adapt
