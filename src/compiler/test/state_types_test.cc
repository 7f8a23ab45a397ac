// SPDX-License-Identifier: Apache-2.0
#include "compiler/state_types.h"

#include <gtest/gtest.h>

#include "ir/text.h"

namespace firstlight::compiler {
namespace {

using tensor::DType;

constexpr const char* kGraph = R"(graph @g {
  state kv.0 = append {owner = "layer", rewind = "truncate"} (k: f32[1 x 32], v: f32[1 x 32])
  state latent.0 = append {owner = "layer", rewind = "truncate"} (c: f32[1 x 32])
  state index.0 = append {owner = "layer", rewind = "truncate"} (k: f32[1 x 32])
  state conv.0 = fixed {owner = "layer", rewind = "snapshot"} (rows: f32[1 x 32])
  input %q : f32[T, 2, 32]
  input %k : f32[T, 1, 32]
  %0 = append $kv.0, %k, %k : state
  %1 = attend %q, %0 {key = "k", scale = 0.5, value = "v"} : f32[T, 2, 32]
  %2 = append $latent.0, %k : state
  %3 = attend %1, %2 {key = "c", scale = 0.5, value = "c"} : f32[T, 2, 32]
  %4 = append $index.0, %k : state
  %5 = index_scores %3, %4 {key = "k", top = 4} : i32[T, 1, 4]
  output y = %5
}
)";

std::vector<DType> stored_as(DType wanted) {
  const auto graph = ir::parse(kGraph);
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  auto states = graph->states;
  EXPECT_TRUE(store_states(*graph, {.backend = catalog::Backend::kCpu, .state_dtype = wanted}, states).ok());
  std::vector<DType> types;
  for (const auto& state : states) {
    for (const auto& part : state.components) types.push_back(part.dtype);
  }
  return types;
}

TEST(StateTypes, PlainTypesAreOfEveryLogAndNeverOfFixedStates) {
  EXPECT_EQ(stored_as(DType::kBF16),
            (std::vector{DType::kBF16, DType::kBF16, DType::kBF16, DType::kBF16, DType::kF32}));
}

TEST(StateTypes, BlocksAreOfWhatAttentionAloneReads) {
  EXPECT_EQ(stored_as(DType::kQ8_0), (std::vector{DType::kQ8_0, DType::kQ8_0, DType::kQ8_0, DType::kF16, DType::kF32}));
}

TEST(StateTypes, OfFourBitsKeysHaveTheFinerScales) {
  EXPECT_EQ(stored_as(DType::kQ4_1S),
            (std::vector{DType::kQ4_1S, DType::kQ4_1, DType::kQ4_1S, DType::kF16, DType::kF32}));
}

TEST(StateTypes, WhatNoKernelReadsIsRefusedByName) {
  const auto graph = ir::parse(kGraph);
  auto states = graph->states;
  const auto refused = [&](catalog::Backend backend, DType type) {
    return store_states(*graph, {.backend = backend, .state_dtype = type}, states);
  };
  EXPECT_EQ(refused(catalog::Backend::kOpencl, DType::kQ8_0).code(), StatusCode::kUnsupported);
  EXPECT_NE(refused(catalog::Backend::kOpencl, DType::kQ8_0).message().find("q8_0"), std::string::npos);
  EXPECT_EQ(refused(catalog::Backend::kCpu, DType::kQ4_K).code(), StatusCode::kUnsupported);
  EXPECT_TRUE(refused(catalog::Backend::kOpencl, DType::kBF16).ok());
}

}  // namespace
}  // namespace firstlight::compiler
