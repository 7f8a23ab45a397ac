// SPDX-License-Identifier: Apache-2.0
#include "intake/quantisation.h"

#include <gtest/gtest.h>

#include "intake/config_tree.h"
#include "intake/test/spec_fixture.h"
#include "ir/text.h"

namespace firstlight::intake {
namespace {

using tensor::DType;

std::string spec() {
  return "return architecture { matches = { model_type = { \"t\" } },"
         "\nparameters = function(c) return { layers = 1 } end,"
         "\nstate = function(p) return { kv = append { k = { 1, 4 }, v = { 1, 4 } } } end,"
         "\nforward = function(p, w, batch) local x = gather_rows(w(\"e\", { 8, 6 }), batch.output_rows)"
         "\nreturn { logits = linear(x, w(\"m.q.weight\", { 5, 6 })) } end }\n";
}

std::string config(const std::string& quantisation) {
  return R"({"model_type": "t", "quantization_config": )" + quantisation + "}";
}

const char* const kFp8 = R"({"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic",
                             "weight_block_size": [4, 4], "modules_to_not_convert": ["e"]})";

Result<Trace> run(const std::string& quantisation, const std::vector<TensorHeader>& headers) {
  SpecStore store = FL_TRY(SpecStore::open(""));
  store.use_text("test.lua", spec());
  const ConfigNode tree = FL_TRY(parse_config_tree(config(quantisation)));
  const TensorTable tensors = TensorTable::of(headers);
  ConfigRecord record;
  const Quantisation resolved = FL_TRY(resolve_quantisation({.config = tree, .tensors = tensors}, record));
  return run_trace({.specs = &store, .tensors = &tensors, .quantisation = &resolved}, tree);
}

const std::vector<TensorHeader> kGood = {
    {"e", DType::kBF16, {8, 6}}, {"m.q.weight", DType::kF8E4M3, {5, 6}}, {"m.q.weight_scale_inv", DType::kF32, {2, 2}}};

TEST(Quantisation, Fp8BlocksAreDequantisedWithPartialBlocks) {
  const auto trace = run(kFp8, kGood);
  ASSERT_TRUE(trace.ok()) << trace.status().to_string();
  const std::string text = ir::print(trace->graph);
  EXPECT_NE(text.find("assemble_weight"), std::string::npos);
  EXPECT_NE(text.find("block = [4, 4]"), std::string::npos) << text;
}

TEST(Quantisation, DisagreementsAreErrors) {
  auto headers = kGood;
  headers[2].shape = {2, 1};
  EXPECT_NE(run(kFp8, headers).status().message().find("wanted [2, 2]"), std::string::npos);
  headers.pop_back();
  EXPECT_NE(run(kFp8, headers).status().message().find("m.q.weight_scale_inv is missing"), std::string::npos);
  const std::string listed = R"({"quant_method": "fp8", "weight_block_size": [4, 4], "modules_to_not_convert": ["m"]})";
  EXPECT_NE(run(listed, kGood).status().message().find("not converted"), std::string::npos);
}

TEST(Quantisation, UnknownMethodsAreRefusedByName) {
  EXPECT_EQ(run(R"({"quant_method": "bitnet"})", kGood).code(), StatusCode::kUnsupported);
  EXPECT_NE(run(R"({"quant_method": "quanto"})", kGood).status().message().find("quanto"), std::string::npos);
  EXPECT_EQ(run(R"({"quant_method": "gptq", "bits": 3})", kGood).code(), StatusCode::kUnsupported);
  EXPECT_EQ(run(R"({"quant_method": "gptq", "bits": 4})", kGood).code(), StatusCode::kInvalidData);
  EXPECT_EQ(run(R"({"quant_method": "fp8"})", kGood).code(), StatusCode::kInvalidData);
  EXPECT_EQ(
      run(R"({"quant_method": "fp8", "weight_block_size": [4, 4], "activation_scheme": "asymmetric"})", kGood).code(),
      StatusCode::kUnsupported);
  EXPECT_EQ(run(R"({"quant_method": "modelopt", "quant_algo": "W4A8_AWQ"})", kGood).code(), StatusCode::kUnsupported);
  EXPECT_EQ(run(R"({"quant_method": "awq", "bits": 4, "version": "gemv"})", kGood).code(), StatusCode::kUnsupported);
  EXPECT_EQ(run(R"({"quant_method": "fp8", "weight_block_size": [4, 0]})", kGood).code(), StatusCode::kInvalidData);
  EXPECT_EQ(run(R"([])", kGood).code(), StatusCode::kInvalidData);
}

TEST(Quantisation, LongListsAreLookedUpAndHaveAnEnd) {
  const auto list = [](int count, const std::string& prefix) {
    std::string text = R"({"quant_method": "fp8", "weight_block_size": [4, 4], "modules_to_not_convert": ["e")";
    for (int i = 0; i < count; ++i) text += ",\"" + prefix + std::to_string(i) + "\"";
    return text + "]}";
  };
  EXPECT_TRUE(run(list(90'000, "other."), kGood).ok());
  const auto most = run(list(100'000, "other."), kGood);
  EXPECT_EQ(most.code(), StatusCode::kUnsupported);
  EXPECT_NE(most.status().message().find("quantization_config.modules_to_not_convert: more than 100000 names"),
            std::string::npos)
      << most.status().message();
  EXPECT_TRUE(run(list(1'900, "*other."), kGood).ok());
  EXPECT_EQ(run(list(2'100, "*other."), kGood).code(), StatusCode::kUnsupported);
}

// Looked up or tried one by one: the same.
TEST(Quantisation, AListMatchesWhatItsEntriesMatch) {
  NameList list;
  for (const char* entry :
       {"lm_head", "mlp.gate", "layers.1", "self_attn", "model.layers.*.mlp.up", "re:.*\\.vision", "lm_head", "a..b"}) {
    ASSERT_TRUE(list.add(NamePattern::parse(entry, true).value()).ok());
  }
  EXPECT_EQ(list.all().size(), 7u) << "each name once";
  int matched = 0;
  for (const char* module : {"lm_head",
                             "model.lm_head",
                             "my_lm_head",
                             "lm_head.x",
                             "model.layers.1.mlp",
                             "layers.11",
                             "model.layers.1",
                             "gate",
                             "mlp.gate",
                             "x.mlp.gate.y",
                             "mlp.gate_proj",
                             "model.layers.3.mlp.up",
                             "a.vision.b",
                             "vision",
                             "self_attn",
                             "self_attn.",
                             ".self_attn",
                             "a..b",
                             "",
                             ".",
                             "x.a..b.c"}) {
    const bool any =
        std::any_of(list.all().begin(), list.all().end(), [&](const auto& e) { return e.matches(module); });
    EXPECT_EQ(list.matches(module), any) << module;
    matched += any ? 1 : 0;
  }
  EXPECT_GE(matched, 9);
}

TEST(Quantisation, EntriesThatMatchNothingAreReported) {
  const ConfigNode tree = parse_config_tree(config(R"({"quant_method": "mxfp4",
                                   "modules_to_not_convert": ["m.*", "model.head", "lm", "l.*.self_attn"]})"))
                              .value();
  const TensorTable tensors = TensorTable::of({{"m.q.weight", DType::kBF16, {5, 6}},
                                               {"l.3.self_attn.q.weight", DType::kBF16, {1}},
                                               {"lm_head.weight", DType::kBF16, {1}}});
  ConfigRecord record;
  const Quantisation q = resolve_quantisation({.config = tree, .tensors = tensors}, record).value();
  EXPECT_EQ(q.num_unconverted_modules, 2);
  ASSERT_EQ(q.warnings.size(), 2u);
  EXPECT_TRUE(q.is_unconverted("l.12.self_attn.k_proj"));
  EXPECT_FALSE(q.is_unconverted("l.12.mlp"));
  EXPECT_TRUE(record.touched.contains("quantization_config.modules_to_not_convert"));
}

}  // namespace
}  // namespace firstlight::intake
