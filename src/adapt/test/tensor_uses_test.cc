// SPDX-License-Identifier: Apache-2.0
// Which matrices of golden models may be stored in fewer bits, and why the others stay.
#include "adapt/tensor_uses.h"

#include <gtest/gtest.h>

#include "adapt/test/golden_model.h"

namespace firstlight::adapt {
namespace {

std::map<std::string, TensorUse, std::less<>> uses_in(const std::string& golden) {
  const auto checkpoint = formats::Checkpoint::open(golden_path(golden));
  const auto model = intake::load_model(*checkpoint, {.probe_config = false});
  EXPECT_TRUE(model.ok()) << model.status().to_string();
  return tensor_uses(model->graph);
}

TEST(TensorUses, WhatStaysHasAReason) {
  auto llama = uses_in("llama");
  EXPECT_EQ(llama["model.layers.0.mlp.down_proj.weight"].why_kept, "");
  EXPECT_EQ(llama["model.embed_tokens.weight"].why_kept, "it is an embedding");
  EXPECT_EQ(llama["lm_head.weight"].why_kept, "it makes the logits");
  EXPECT_EQ(llama["model.norm.weight"].why_kept, "it is an operand of rms_norm");
  auto moe = uses_in("mixtral");
  EXPECT_EQ(moe["model.layers.0.block_sparse_moe.gate.weight"].why_kept, "it chooses experts or rows");
  EXPECT_EQ(moe["model.layers.0.block_sparse_moe.experts.2.w1.weight"].why_kept, "");
  auto mla = uses_in("deepseek_v3_no_q_lora");
  EXPECT_EQ(mla["model.layers.0.self_attn.kv_b_proj.weight"].why_kept, "") << "cut and absorbed, but by products alone";
  auto mamba = uses_in("mamba2");
  EXPECT_NE(mamba["backbone.layers.0.mixer.conv1d.weight"].why_kept, "") << "a convolution is no product";
}

TEST(TensorUses, StacksAreFollowedIntoTheExperts) {
  auto rows = uses_in("granitemoe"), columns = uses_in("llama4");
  const TensorUse plain = rows["model.layers.0.block_sparse_moe.input_linear.weight"];
  EXPECT_EQ(plain.why_kept, "");
  EXPECT_FALSE(plain.inputs_in_rows);
  const TensorUse turned = columns["model.layers.1.feed_forward.experts.gate_up_proj"];
  EXPECT_EQ(turned.why_kept, "");
  EXPECT_TRUE(turned.inputs_in_rows);
  auto biased = uses_in("gpt_oss");
  EXPECT_EQ(biased["model.layers.0.mlp.experts.down_proj_bias"].why_kept, "it is no weight of a product");
}

}  // namespace
}  // namespace firstlight::adapt
