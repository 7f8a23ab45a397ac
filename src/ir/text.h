// SPDX-License-Identifier: Apache-2.0
// The text form of a graph: complete (parsing the printed text gives the same graph back) and meant to be read.
//
//   graph @llama {max_positions = 2048} {
//     state kv.0 = append {owner = "layer", rewind = "truncate"} (k: f32[3 x 64], v: f32[3 x 64])
//     input %tokens : i32[T]
//     weight @model.embed_tokens.weight : q8_0[49152, 576] from "token_embd.weight"
//     %0 = gather_rows @model.embed_tokens.weight, %tokens : f32[T, 576]
//     %3 = append $kv.0, %1, %2 : state  # model.layers.0.self_attn
//     output logits = %99
//   }
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "ir/graph.h"

namespace firstlight::ir {

std::string print(const Graph& graph);

// Errors: kInvalidData with line and column. The result is verified.
Result<Graph> parse(std::string_view text);

// A hash of what the graph computes and needs (its text without scopes and value numbers' gaps): equal for equal
// graphs.
uint64_t fingerprint(const Graph& graph);

}  // namespace firstlight::ir
