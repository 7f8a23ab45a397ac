// SPDX-License-Identifier: Apache-2.0
// A model of two layers for the tests of this module: attention in the first one, a matrix product in the second one,
// which attends to the first one's state as well where `shared` is set.
#pragma once

#include <string>

#include "ir/text.h"

namespace firstlight::align {

inline ir::Graph tiny_graph(bool shared = false) {
  const std::string attend =
      " {causal = true, chunk = 0, key = \"k\", mask = (), scale = 0.5, score = (), value = \"v\", value_width = 0, "
      "window = 0} : f32[T, 1, 4]";
  const std::string second =
      shared ? "  %7 = attend %2, %3" + attend +
                   "  # model.layers.1.mlp\n  %8 = reshape %7 {shape = \"T,4\"} : f32[T, 4]  # model.layers.1.mlp\n"
             : "  %7 = map %6 {expr = mul(x0, 0.5)} : f32[T, 4]  # model.layers.1.mlp\n"
               "  %8 = linear %7, @model.layers.1.mlp.down_proj.weight {compute = \"auto\"} : f32[T, 4]  # "
               "model.layers.1.mlp\n";
  const std::string text =
      "graph @tiny {} {\n"
      "  state kv.0 = append {owner = \"layer\", rewind = \"truncate\"} (k: f32[1 x 4], v: f32[1 x 4])\n"
      "  input %tokens : i32[T]\n"
      "  input %positions : i32[T]\n"
      "  weight @model.embed_tokens.weight : f32[8, 4]\n"
      "  weight @model.layers.0.self_attn.k_proj.weight : f32[4, 4]\n"
      "  weight @model.layers.1.mlp.down_proj.weight : f32[4, 4]\n"
      "  %0 = gather_rows @model.embed_tokens.weight, %tokens : f32[T, 4]\n"
      "  %1 = linear %0, @model.layers.0.self_attn.k_proj.weight {compute = \"auto\"} : f32[T, 4]  # "
      "model.layers.0.self_attn\n"
      "  %2 = reshape %1 {shape = \"T,1,4\"} : f32[T, 1, 4]  # model.layers.0.self_attn\n"
      "  %3 = append $kv.0, %2, %2 : state  # model.layers.0.self_attn\n"
      "  %4 = attend %2, %3" +
      attend +
      "  # model.layers.0.self_attn\n"
      "  %5 = reshape %4 {shape = \"T,4\"} : f32[T, 4]  # model.layers.0.self_attn\n"
      "  %6 = map %0, %5 {expr = add(x0, x1)} : f32[T, 4]  # model.layers.0.self_attn\n" +
      second +
      "  %9 = map %6, %8 {expr = add(x0, x1)} : f32[T, 4]  # model.layers.1.mlp\n"
      "  %10 = linear %9, @model.embed_tokens.weight {compute = \"auto\"} : f32[T, 8]\n"
      "  output logits = %10\n"
      "}\n";
  return ir::parse(text).value();
}

}  // namespace firstlight::align
