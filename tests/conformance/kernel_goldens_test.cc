// SPDX-License-Identifier: Apache-2.0
// Kernels against operand and result tensors that another engine's own code gave (../shared/data/kernel-goldens: one
// folder per case, manifest.json with operator, arguments and tolerance, tensors as .npy, bfloat16 as 16-bit words).
// Every case whose mathematics our operators have is composed from them and run on both backends.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "device/cpu/detect.h"
#include "golden_case.h"
#include "case.h"
#include "judge/run_case.h"
#include "tensor/codec.h"

namespace firstlight::conformance {
namespace {

using ops::OpKind;
using tensor::DType;

class KernelGoldens : public testing::TestWithParam<catalog::Backend> {
 protected:
  void SetUp() override {
    if (!Golden::is_present()) GTEST_SKIP() << "needs shared data: kernel-goldens";
  }

  // Results of one operator on the backend under test.
  std::vector<Tensor> call(OpKind op, const std::string& attr, std::vector<Tensor> operands,
                           std::vector<State> state = {}) {
    Case c{"", op, attributes(attr), std::move(operands), std::move(state), {}};
    FL_CHECK(ops::check_attributes(ops::op_def(op), c.attributes).ok());
    const auto types = operand_types(c);
    const auto results = result_types(c);
    const auto* row =
        catalog::select_kernel(GetParam(), device::detect_cpu().features, {op, types, results, c.attributes});
    FL_CHECK(row != nullptr);
    return run_case(c, *row, catalog::ComputeMode::kF32, pool_).value().results;
  }
  Tensor map(const std::string& expr, std::vector<Tensor> operands) {
    return call(OpKind::kMap, "{expr = " + expr + "}", std::move(operands))[0];
  }
  Tensor reshape(const Tensor& x, const std::string& shape) {
    return call(OpKind::kReshape, "{shape = \"" + shape + "\"}", {x})[0];
  }
  Tensor rms_norm(const Golden& golden, const Tensor& x, const Tensor& weight, bool gemma) {
    const std::string eps = ops::exact_decimal(golden.args()["eps"].get<double>());
    return call(OpKind::kRmsNorm, "{eps = " + eps + ", offset = " + (gemma ? "1.0" : "0.0") + "}", {x, weight})[0];
  }

  ThreadPool pool_{{2, false, 20}};
};

std::string list_of(const std::vector<double>& values) {
  std::string text;
  for (const double v : values) text += (text.empty() ? "" : ", ") + ops::exact_decimal(v);
  return "[" + text + "]";
}

std::vector<double> plain_frequencies(double base, int64_t length) {
  std::vector<double> freqs;
  for (int64_t i = 0; i < length; i += 2)
    freqs.push_back(std::pow(base, -static_cast<double>(i) / static_cast<double>(length)));
  return freqs;
}

TEST_P(KernelGoldens, RmsNorm) {
  for (const char* name : {"rmsnorm_f32_8x128", "rmsnorm_bf16_8x128", "rmsnorm_gemma_bf16_8x128"}) {
    const Golden golden(name);
    golden.expect("out",
                  rms_norm(golden, golden.floats("x"), golden.tensor("weight"), golden.args()["gemma"].get<bool>()));
  }
  const Golden fused("rmsnorm_fused_residual_f32_8x128");
  const Tensor sum = map("add(x0, x1)", {fused.tensor("x"), fused.tensor("residual_in")});
  fused.expect("residual_out", sum);
  fused.expect("out", rms_norm(fused, sum, fused.tensor("weight"), false));
}

TEST_P(KernelGoldens, L2NormAsComposition) {
  const Golden golden("l2norm_f32_small");
  const Tensor x = golden.tensor("x");
  const Tensor sum = call(OpKind::kReduce, "{op = \"sum\"}", {map("mul(x0, x0)", {x})})[0];
  golden.expect("out", map("mul(x0, rsqrt(add(x1, 1e-06)))", {x, sum}));
}

TEST_P(KernelGoldens, SiluAndMul) {
  const Golden golden("silu_and_mul_bf16_8x256");
  const Tensor x = golden.tensor("x");
  const Tensor gate = call(OpKind::kSlice, "{axis = -1, stop = 128}", {x})[0];
  const Tensor up = call(OpKind::kSlice, "{axis = -1, start = 128}", {x})[0];
  golden.expect("out", map("mul(mul(x0, sigmoid(x0)), x1)", {gate, up}));
}

TEST_P(KernelGoldens, MatrixProduct) {
  const Golden golden("matmul_bf16_16x64x32");
  const Tensor weight = call(OpKind::kTranspose, "{perm = [1, 0]}", {golden.tensor("b")})[0];
  golden.expect("out", call(OpKind::kLinear, "", {golden.floats("a"), weight})[0]);
}

TEST_P(KernelGoldens, Embedding) {
  const Golden golden("embedding_bf16_32ids");
  golden.expect("out", call(OpKind::kGatherRows, "", {golden.tensor("table"), golden.tensor("ids")})[0]);
}

TEST_P(KernelGoldens, Router) {
  for (const char* name : {"moe_router_topk_f32_small", "moe_router_topk_f32_small_norenorm"}) {
    const Golden golden(name);
    const auto top = call(OpKind::kTopK, "{k = 2}", {call(OpKind::kSoftmax, "", {golden.tensor("logits")})[0]});
    Tensor weights = top[0];
    if (golden.args()["renormalize"].get<bool>()) {
      weights = map("div(x0, x1)", {weights, call(OpKind::kReduce, "{op = \"sum\"}", {weights})[0]});
    }
    golden.expect("topk_weights", weights);
    golden.expect("topk_ids", top[1]);
  }
}

TEST_P(KernelGoldens, Rope) {
  const Golden golden("rope_f32_pos_short");
  const std::string attr = "{length = 32, freqs = " + list_of(plain_frequencies(10000, 32)) + "}";
  for (const std::string x : {"q", "k"}) {
    const Tensor heads = reshape(golden.tensor(x + "_in"), "8,-1,64");
    golden.expect(x + "_out", call(OpKind::kRope, attr, {heads, golden.tensor("positions")})[0]);
  }
}

// The frequencies and the scale behind rows [first, first + rows) of a table of cosines and sines per position: the
// angle at position 1, sharpened at 2, 4, 8 … where errors of the table weigh less.
std::pair<std::vector<double>, double> frequencies_of(const Tensor& cache, size_t first, size_t rows) {
  const auto values = cache.values();
  const auto width = static_cast<size_t>(cache.type.shape[1].factor);
  const auto half = width / 2;
  std::vector<double> freqs(half, 0.0);
  for (size_t i = 0; i < half; ++i) {
    for (size_t p = 1; p < rows; p *= 2) {
      const double* row = values.data() + (first + p) * width;
      const double angle = std::atan2(row[half + i], row[i]);
      const double off = std::remainder(angle - static_cast<double>(p) * freqs[i], 2 * std::numbers::pi);
      freqs[i] += off / static_cast<double>(p);
    }
  }
  return {freqs, std::hypot(values[first * width], values[first * width + half])};
}

TEST_P(KernelGoldens, LongContextRope) {
  for (const char* name :
       {"long_rope_llama3_neox_f32_bands", "long_rope_llama3_neox_f32_equal_factors",
        "long_rope_phi3_neox_f32_mscale_override", "long_rope_phi3_neox_f32_short", "long_rope_yarn_mrope_f32_text_1d",
        "long_rope_yarn_neox_bf16", "long_rope_yarn_neox_f32_truncate"}) {
    const Golden golden(name);
    const Tensor cache = golden.tensor("cos_sin_cache");
    const bool two_sets =
        golden.args().contains("max_model_len");  // 32 rows of the short set, then 128 of the long one
    const auto [freqs, scale] = frequencies_of(cache, 0, two_sets ? 32 : 128);
    std::string attr = "{length = " + std::to_string(2 * freqs.size()) + ", freqs = " + list_of(freqs) +
                       ", scale = " + ops::exact_decimal(scale);
    State batch;
    batch.sequences = {{0, golden.tensor("positions").type.shape[0].factor, 128}};
    if (two_sets) {
      const auto [long_freqs, long_scale] = frequencies_of(cache, 32, 128);
      attr += ", switch_length = 32, long_freqs = " + list_of(long_freqs) +
              ", long_scale = " + ops::exact_decimal(long_scale);
      batch.sequences[0].planned_length = golden.args()["max_model_len"].get<int64_t>();
    }
    for (const std::string x : {"q", "k"}) {
      const std::string shape = "-1," +
                                std::to_string(golden.args()[x == "q" ? "num_q_heads" : "num_kv_heads"].get<int>()) +
                                "," + std::to_string(golden.args()["head_size"].get<int>());
      const Tensor heads = reshape(golden.floats(x + "_in"), shape);
      golden.expect(x + "_out", call(OpKind::kRope, attr + "}", {heads, golden.tensor("positions")}, {batch})[0]);
    }
  }
}

TEST_P(KernelGoldens, DynamicRope) {
  for (const char* name : {"long_rope_dynamic_factor1_neox_f32", "long_rope_dynamic_factor_gptj_bf16"}) {
    const Golden golden(name);
    const Json& rope = golden.args()["rope_parameters"];
    const double factor = rope["factor"].get<double>();
    const double trained = rope.value("max_trained_positions", golden.args()["max_position"].get<double>());
    const std::string attr = "{length = 8, freqs = " + list_of(plain_frequencies(10000, 8)) +
                             ", dynamic_base = 10000.0" + ", dynamic_factor = " + ops::exact_decimal(factor) +
                             ", dynamic_max = " + ops::exact_decimal(trained) + ", style = \"" +
                             (golden.args()["is_neox_style"].get<bool>() ? "half" : "interleaved") + "\"}";
    State batch;
    batch.sequences = {{0, 5, static_cast<int64_t>(trained * factor)}};
    for (const std::string x : {"q", "k"}) {
      const Tensor heads = reshape(golden.floats(x + "_in"), "5,-1,16");
      golden.expect(x + "_out", call(OpKind::kRope, attr, {heads, golden.tensor("positions")}, {batch})[0]);
    }
  }
}

TEST_P(KernelGoldens, GatedAttention) {
  const Golden golden("dense_attention_f32_small");
  const Tensor positions = golden.tensor("positions");
  const std::string rope = "{length = 4, freqs = " + list_of(plain_frequencies(10000, 4)) + "}";
  const auto prepared = [&](const std::string& name) {
    const Tensor normed = rms_norm(golden, golden.tensor(name), golden.tensor(name + "_norm_weight"), true);
    return call(OpKind::kRope, rope, {normed, positions})[0];
  };
  const auto k = prepared("k").values();
  const auto v = golden.tensor("v").values();
  State state;
  state.decl.name = "kv";
  state.decl.components = {{"k", 2, 8, DType::kF32}, {"v", 2, 8, DType::kF32}};
  state.page_rows = 4;
  state.sequences = {{0, 6, 6}};
  state.rows = {{{k.begin(), k.end()}}, {{v.begin(), v.end()}}};
  const std::string attr =
      "{scale = " + ops::exact_decimal(golden.args()["scale"].get<double>()) + ", key = \"k\", value = \"v\"}";
  const Tensor attn = call(OpKind::kAttend, attr, {prepared("q"), Data::state()}, {state})[0];
  golden.expect("attn", attn);
  golden.expect("out", map("mul(x0, sigmoid(x1))", {attn, golden.tensor("gate")}));
}

INSTANTIATE_TEST_SUITE_P(Backends, KernelGoldens, testing::Values(catalog::Backend::kReference, catalog::Backend::kCpu),
                         [](const auto& backend) { return std::string(catalog::backend_name(backend.param)); });

}  // namespace
}  // namespace firstlight::conformance
