// SPDX-License-Identifier: Apache-2.0
// Every vendor's spelling of one weight [16, 64]: what it becomes in the graph, and that nothing may be missing or of
// another shape.
#include "intake/stored_weight.h"

#include <gtest/gtest.h>

#include "intake/config_tree.h"
#include "intake/intake.h"
#include "intake/spec_store.h"
#include "intake/trace.h"
#include "ir/text.h"

namespace firstlight::intake {
namespace {

using tensor::DType;

constexpr const char* kSpec =
    "return architecture { matches = { model_type = { \"t\" } },"
    "\nparameters = function(c) return { layers = 1 } end,"
    "\nstate = function(p) return { kv = append { k = { 1, 4 } } } end,"
    "\nforward = function(p, w, batch) local x = gather_rows(w(\"e\", { 8, 64 }), batch.output_rows)"
    "\nreturn { logits = linear(x, w(\"m.q.weight\", { 16, 64 })) } end }\n";

struct Vendor {
  const char* name;
  std::string config;
  std::vector<TensorHeader> parts;
  std::string wanted;       // in the graph's text
  size_t num_optional = 0;  // at the end of `parts`: what may be absent or of any shape
};

std::string compressed(const std::string& weights, const std::string& rest = "") {
  return R"({"quant_method": "compressed-tensors", "ignore": ["lm_head"], "config_groups": {"group_0": {"targets": ["Linear"],
             "weights": )" +
         weights + "}}" + rest + "}";
}

std::vector<Vendor> vendors() {
  const std::string q = "m.q.weight";
  const auto words = [](std::string name, std::vector<int64_t> shape) {
    return TensorHeader{std::move(name), DType::kI32, std::move(shape)};
  };
  const TensorHeader input{"m.q.input_scale", DType::kF32, {}};
  const TensorHeader fp8{q, DType::kF8E4M3, {16, 64}};
  return {
      {"fp8 blocks",
       R"({"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [8, 32]})",
       {fp8, {q + "_scale_inv", DType::kF32, {2, 2}}},
       R"(block = [8, 32], codes = "e4m3", columns = 0, format = "fp8g")"},
      {"fp8 blocks of powers, DeepSeek's names",
       R"({"quant_method": "fp8", "scale_fmt": "ue8m0", "weight_block_size": [8, 32]})",
       {fp8, {"m.q.scale", DType::kF8E8M0, {2, 2}}},
       R"(format = "fp8g")"},
      {"fp8 in odd blocks",
       R"({"quant_method": "fp8", "weight_block_size": [8, 20]})",
       {fp8, {q + "_scale_inv", DType::kF32, {2, 4}}},
       R"(format = "f32")"},
      {"fp8 per tensor",
       R"({"quant_method": "fp8", "activation_scheme": "static"})",
       {fp8, {q + "_scale", DType::kF32, {1}}, input},
       R"(block = [16, 64], codes = "e4m3", columns = 0, format = "fp8g")",
       1},
      {"fbgemm",
       R"({"quant_method": "fbgemm_fp8", "activation_scale_ub": 1200.0})",
       {fp8, {q + "_scale", DType::kF32, {16, 1}}},
       R"(block = [1, 64])"},
      {"fp4 beside fp8",
       R"({"quant_method": "fp8", "weight_block_size": [8, 32]})",
       {{q, DType::kI8, {16, 32}}, {"m.q.scale", DType::kF8E8M0, {16, 2}}},
       R"(format = "mxfp4")"},
      {"modelopt fp8",
       R"({"quant_method": "modelopt", "quant_algo": "FP8", "ignore": ["lm_head"]})",
       {fp8, {q + "_scale", DType::kF32, {}}, input, {"m.k_scale", DType::kF32, {}}},
       R"(format = "fp8g")",
       2},
      {"modelopt mxfp8",
       R"({"quant_method": "modelopt", "quant_algo": "MXFP8"})",
       {fp8, {q + "_scale", DType::kU8, {16, 2}}},
       R"(block = [1, 32])"},
      {"modelopt nvfp4",
       R"({"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16})",
       {{q, DType::kU8, {16, 32}}, {q + "_scale", DType::kF8E4M3, {16, 4}}, {q + "_scale_2", DType::kF32, {}}, input},
       R"(format = "nvfp4", global = "multiplies")",
       1},
      {"compressed nvfp4",
       compressed(R"({"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16})"),
       {{q + "_packed", DType::kU8, {16, 32}},
        {q + "_scale", DType::kF8E4M3, {16, 4}},
        {q + "_global_scale", DType::kF32, {1}},
        {"m.q.input_global_scale", DType::kF32, {1}}},
       R"(format = "nvfp4", global = "divides")",
       1},
      {"compressed mxfp4",
       compressed(R"({"num_bits": 4, "type": "float", "strategy": "group", "group_size": 32})"),
       {{q + "_packed", DType::kU8, {16, 32}}, {q + "_scale", DType::kU8, {16, 2}}},
       R"(format = "mxfp4")"},
      {"compressed fp8 channels",
       compressed(R"({"num_bits": 8, "type": "float", "strategy": "channel"})"),
       {fp8, {q + "_scale", DType::kBF16, {16, 1}}},
       R"(block = [1, 64])"},
      {"compressed int4",
       compressed(R"({"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32})"),
       {words(q + "_packed", {16, 8}), {q + "_scale", DType::kBF16, {16, 2}}, {q + "_shape", DType::kI64, {2}}},
       R"(format = "int4g", global = "none", ordered = false, zero = "middle")",
       1},
      {"compressed int4 with zeros",
       compressed(R"({"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32, "symmetric": false})"),
       {words(q + "_packed", {16, 8}), {q + "_scale", DType::kBF16, {16, 2}}, words(q + "_zero_point", {2, 2})},
       R"(zero = "stored")"},
      {"compressed int4 in another order",
       compressed(R"({"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32, "actorder": "group"})"),
       {words(q + "_packed", {16, 8}), {q + "_scale", DType::kBF16, {16, 2}}, words(q + "_g_idx", {64})},
       R"(format = "f32", global = "none", ordered = true)"},
      {"compressed int8",
       compressed(R"({"num_bits": 8, "type": "int", "strategy": "channel"})"),
       {{q, DType::kI8, {16, 64}}, {q + "_scale", DType::kF32, {16, 1}}},
       R"(codes = "i8", columns = 0, format = "int8g")"},
      {"gptq",
       R"({"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": false, "sym": true})",
       {words("m.q.qweight", {8, 16}),
        {"m.q.scales", DType::kF16, {2, 16}},
        words("m.q.qzeros", {2, 2}),
        words("m.q.g_idx", {64})},
       R"(zero = "stored_minus_one")",
       2},
      {"gptq v2 in another order",
       R"({"quant_method": "gptq", "bits": 8, "group_size": 32, "desc_act": true, "sym": false, "checkpoint_format": "gptq_v2"})",
       {words("m.q.qweight", {16, 16}),
        {"m.q.scales", DType::kF16, {2, 16}},
        words("m.q.qzeros", {2, 4}),
        words("m.q.g_idx", {64})},
       R"(ordered = true, zero = "stored")"},
      {"awq",
       R"({"quant_method": "awq", "bits": 4, "group_size": 64, "zero_point": true, "version": "gemm"})",
       {words("m.q.qweight", {64, 2}), {"m.q.scales", DType::kF16, {1, 16}}, words("m.q.qzeros", {1, 2})},
       R"(codes = "awq", columns = 0, format = "int4g")"},
  };
}

Result<std::string> trace(const Vendor& vendor, const std::vector<TensorHeader>& parts,
                          bool vendor_activations = false) {
  std::vector<TensorHeader> headers = parts;
  headers.push_back({"e", DType::kBF16, {8, 64}});
  ModelDescription description{.config = R"({"model_type": "t", "quantization_config": )" + vendor.config + "}",
                               .config_name = "config"};
  SpecStore store = FL_TRY(SpecStore::open(""));
  store.use_text("test.lua", kSpec);
  const ConfigNode tree = FL_TRY(parse_config_tree(description.config));
  const TensorTable tensors = TensorTable::of(headers);
  ConfigRecord record;
  const Quantisation quantisation = FL_TRY(
      resolve_quantisation({.config = tree, .tensors = tensors, .vendor_activations = vendor_activations}, record));
  const Trace traced = FL_TRY(run_trace({.specs = &store, .tensors = &tensors, .quantisation = &quantisation}, tree));
  if (!traced.missing_tensors.empty()) return invalid_data(traced.missing_tensors[0] + " is missing");
  for (const TensorHeader& part : parts) {
    const bool waived = traced.waived_tensors.contains(part.name);
    bool bound = false;
    for (const auto& [name, source] : traced.graph.weight_sources) bound = bound || source.tensor == part.name;
    if (!waived && !bound) return invalid_data(part.name + " is neither used nor waived");
  }
  for (const ConfigLeaf& leaf : config_leaves(tree)) {
    if (leaf.path != "model_type" && !record.touched.contains(leaf.path) && !record.waived.contains(leaf.path)) {
      return invalid_data("config key " + leaf.path + " is neither read nor waived");
    }
  }
  return ir::print(traced.graph);
}

TEST(StoredWeight, EveryVendorsPartsAreFound) {
  for (const Vendor& vendor : vendors()) {
    const auto text = trace(vendor, vendor.parts);
    ASSERT_TRUE(text.ok()) << vendor.name << ": " << text.status().to_string();
    EXPECT_NE(text->find("assemble_weight"), std::string::npos) << vendor.name;
    EXPECT_NE(text->find(vendor.wanted), std::string::npos) << vendor.name << "\n" << *text;
  }
}

TEST(StoredWeight, NothingMayBeMissing) {
  for (const Vendor& vendor : vendors()) {
    for (size_t i = 0; i + vendor.num_optional < vendor.parts.size(); ++i) {
      auto parts = vendor.parts;
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i));
      EXPECT_EQ(trace(vendor, parts).code(), StatusCode::kInvalidData)
          << vendor.name << " without " << vendor.parts[i].name;
    }
  }
}

// Another type of a part is refused by the name of a part; floats may be of any
// length, and powers of two stored as bytes or as E8M0.
void check_types(const Vendor& vendor, size_t i) {
  const auto is_float = [](DType type) { return type == DType::kF32 || type == DType::kF16 || type == DType::kBF16; };
  const auto is_power = [](DType type) { return type == DType::kU8 || type == DType::kF8E8M0; };
  const DType stored = *vendor.parts[i].dtype;
  const bool scale_of_fp8 = i > 0 && *vendor.parts[0].dtype == DType::kF8E4M3;
  for (const DType type :
       {DType::kF64, DType::kF32, DType::kF16, DType::kBF16, DType::kF8E4M3, DType::kF8E5M2, DType::kF8E8M0, DType::kU8,
        DType::kI8, DType::kI16, DType::kI32, DType::kI64, DType::kBool}) {
    if (type == stored) continue;
    auto parts = vendor.parts;
    parts[i].dtype = type;
    const auto traced = trace(vendor, parts);
    const std::string where =
        std::string(vendor.name) + ", " + parts[i].name + " as " + std::string(tensor::dtype_name(type));
    if (traced.ok()) {
      const bool same = i == 0 || (is_float(stored) && is_float(type)) || (is_power(stored) && is_power(type)) ||
                        (scale_of_fp8 && (is_float(type) || is_power(type)));
      EXPECT_TRUE(same) << where << " is taken";
    } else {
      const std::string message = traced.status().message();
      const bool named = message.find("m.q.") != std::string::npos;
      EXPECT_TRUE(named) << where << ": " << message;
    }
  }
}

TEST(StoredWeight, NoPartMayHaveAnotherShapeOrType) {
  for (const Vendor& vendor : vendors()) {
    for (size_t i = 0; i + vendor.num_optional < vendor.parts.size(); ++i) {
      const std::string where = std::string(vendor.name) + ", " + vendor.parts[i].name;
      for (size_t axis = 0; axis < vendor.parts[i].shape.size(); ++axis) {
        for (const int64_t size : {vendor.parts[i].shape[axis] + 1, int64_t{0}, int64_t{1} << 40, INT64_MAX}) {
          auto parts = vendor.parts;
          parts[i].shape[axis] = size;
          EXPECT_FALSE(trace(vendor, parts).ok()) << where << ", axis " << axis << ": " << size;
        }
      }
      auto parts = vendor.parts;
      parts[i].shape.insert(parts[i].shape.begin(), 3);
      EXPECT_FALSE(trace(vendor, parts).ok()) << where << ", another axis";
      parts = vendor.parts;
      parts[i].shape.insert(parts[i].shape.begin(), 8, 1);
      EXPECT_FALSE(trace(vendor, parts).ok()) << where << ", eight axes of one more";
      parts = vendor.parts;
      parts[i].dtype = DType::kI64;
      EXPECT_FALSE(trace(vendor, parts).ok()) << where << ", another type";
      parts[i].dtype = std::nullopt;
      EXPECT_FALSE(trace(vendor, parts).ok()) << where << ", an unknown type";
      check_types(vendor, i);
    }
  }
}

TEST(StoredWeight, TheRightGroupIsTaken) {
  Vendor mixed{"mixed",
               R"({"quant_method": "compressed-tensors", "ignore": [], "config_groups": {
                   "group_0": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float", "strategy": "tensor"}},
                   "group_1": {"targets": ["re:.*\\.q$"], "weights": {"num_bits": 8, "type": "float", "strategy": "channel"}}}})",
               {{"m.q.weight", DType::kF8E4M3, {16, 64}}, {"m.q.weight_scale", DType::kF32, {16, 1}}},
               ""};
  EXPECT_TRUE(trace(mixed, mixed.parts).ok()) << trace(mixed, mixed.parts).status().to_string();
  mixed.parts[1].shape = {1};
  EXPECT_NE(trace(mixed, mixed.parts).status().message().find("one scale per row"), std::string::npos);
  mixed.config = R"({"quant_method": "compressed-tensors", "ignore": ["re:m.*"], "config_groups": {
                   "group_0": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float", "strategy": "tensor"}}}})";
  EXPECT_NE(trace(mixed, mixed.parts).status().message().find("not converted"), std::string::npos);
  mixed.config = R"({"quant_method": "compressed-tensors", "config_groups": {
                   "group_0": {"targets": ["other"], "weights": {"num_bits": 8, "type": "float", "strategy": "tensor"}}}})";
  EXPECT_NE(trace(mixed, mixed.parts).status().message().find("no group"), std::string::npos);
  mixed.config = R"({"quant_method": "compressed-tensors", "ignore": ["re:(("], "config_groups": {}})";
  EXPECT_EQ(trace(mixed, mixed.parts).code(), StatusCode::kInvalidData);
}

TEST(StoredWeight, ActivationsAreRoundedWhereThatIsAskedFor) {
  for (const Vendor& vendor : vendors()) {
    EXPECT_EQ(trace(vendor, vendor.parts).value().find("fake_quant"), std::string::npos) << vendor.name;
  }
  const auto text = [](size_t i) {
    const Vendor vendor = vendors()[i];
    const auto traced = trace(vendor, vendor.parts, true);
    return traced.ok() ? *traced : traced.status().to_string();
  };
  EXPECT_NE(text(0).find(R"({block = 32, format = "e4m3")"), std::string::npos) << text(0);
  EXPECT_NE(text(1).find(R"(scale_format = "ue8m0")"), std::string::npos) << text(1);
  EXPECT_NE(text(3).find("m.q.input_scale"), std::string::npos) << text(3);
  EXPECT_NE(text(4).find("activation_scale_ub"), std::string::npos) << text(4);
  EXPECT_NE(text(8).find(R"(block = 16, format = "e2m1")"), std::string::npos) << text(8);
}

}  // namespace
}  // namespace firstlight::intake
