// SPDX-License-Identifier: Apache-2.0
// Quantised layers of real models with what another engine made of them (../shared/data/quant-layers): found by the
// names that vendors use, put together, multiplied on both backends.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "device/cpu/detect.h"
#include "formats/tensor_file.h"
#include "intake/config_tree.h"
#include "intake/intake.h"
#include "intake/stored_weight.h"
#include "case.h"
#include "judge/run_case.h"
#include "tensor/codec.h"

namespace firstlight::conformance {
namespace {

using ops::OpKind;
using tensor::DType;

const std::string kLayers = std::string(FL_SOURCE_DIR) + "/../shared/data/quant-layers/";

class QuantLayers : public testing::TestWithParam<catalog::Backend> {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kLayers)) GTEST_SKIP() << "needs shared data: quant-layers";
  }

  void open(const std::string& file, const std::string& config) {
    checkpoint_.emplace(formats::Checkpoint::open(kLayers + file).value());
    const intake::ConfigNode tree = intake::parse_config_tree("{\"quantization_config\": " + config + "}").value();
    headers_.clear();
    for (const auto& [name, record] : checkpoint_->tensors())
      headers_.push_back({"m." + name, record.dtype, record.shape});
    intake::ConfigRecord record;
    const auto tensors = intake::TensorTable::of(headers_);
    quantisation_ =
        intake::resolve_quantisation({.config = tree, .tensors = tensors, .vendor_activations = true}, record).value();
  }

  Tensor stored(const std::string& name) {
    const formats::TensorRecord* record = checkpoint_->find(name);
    FL_CHECK(record != nullptr && record->dtype.has_value());
    const auto bytes = checkpoint_->bytes(*record).value();
    tensor::Shape shape;
    for (const int64_t size : record->shape) shape.emplace_back(size);
    return {tensor::Type::tensor(*record->dtype, std::move(shape)), {bytes.begin(), bytes.end()}};
  }

  // As float32, the leading axes together.
  Tensor rows(const std::string& name) {
    Tensor t = stored(name);
    const auto count = static_cast<size_t>(tensor::num_elements(t.type.shape));
    std::vector<float> values(count);
    FL_CHECK(tensor::decode_to_f32(t.type.dtype, t.data, values).ok());
    const int64_t columns = t.type.shape.back().factor;
    return Data::from({static_cast<int64_t>(count) / columns, columns}, values);
  }

  Tensor call(OpKind op, ops::Attributes attributes, std::vector<Tensor> operands) {
    Case c{"", op, std::move(attributes), std::move(operands), {}, {}};
    FL_CHECK(ops::check_attributes(ops::op_def(op), c.attributes).ok());
    const auto types = operand_types(c);
    const auto results = result_types(c);
    const auto* row =
        catalog::select_kernel(GetParam(), device::detect_cpu().features, {op, types, results, c.attributes});
    FL_CHECK(row != nullptr);
    return run_case(c, *row, catalog::ComputeMode::kF32, pool_).value().results[0];
  }

  // A weight, in the format it is kept in.
  Tensor weight(const std::string& name, std::string_view format) {
    const auto found =
        intake::find_stored_weight(intake::TensorTable::of(headers_), quantisation_, "m." + name, std::nullopt);
    FL_CHECK(found.ok() && found->has_value());
    EXPECT_EQ((*found)->attributes.get_string("format"), format);
    std::vector<Tensor> parts;
    for (const auto& part : (*found)->parts) parts.push_back(stored(part.name.substr(2)));
    Tensor w = call(OpKind::kAssembleWeight, (*found)->attributes, std::move(parts));
    w.type.shape = {w.type.shape[w.type.shape.size() - 2], w.type.shape.back()};
    return w;
  }
  Tensor linear(const Tensor& x, const Tensor& w) { return call(OpKind::kLinear, {}, {x, w}); }

  // Within `close` + `close` * |wanted| per element (what upstream asks), and within `norm` in the relative L2 norm
  // (what the 8 bits of the stored results explain).
  void expect_result(const Tensor& found, double close, double norm) {
    const std::vector<double> y = found.values();
    const std::vector<double> wanted = rows("ref_output").values();
    ASSERT_EQ(y.size(), wanted.size());
    double error = 0;
    double size = 0;
    for (size_t i = 0; i < y.size(); ++i) {
      ASSERT_LE(std::fabs(y[i] - wanted[i]), close + close * std::fabs(wanted[i])) << i;
      error += (y[i] - wanted[i]) * (y[i] - wanted[i]);
      size += wanted[i] * wanted[i];
    }
    EXPECT_LE(std::sqrt(error / size), norm);
  }

  ThreadPool pool_{{2, false, 20}};
  std::optional<formats::Checkpoint> checkpoint_;
  std::vector<intake::TensorHeader> headers_;
  intake::Quantisation quantisation_;
};

std::string compressed(const std::string& weights, const std::string& activations) {
  return R"({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"targets": ["Linear"], "weights": )" +
         weights + ", \"input_activations\": " + activations + "}}}";
}

TEST_P(QuantLayers, Awq) {
  open("awq/linear.safetensors",
       R"({"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": true, "version": "gemm"})");
  expect_result(linear(rows("input"), weight("weight", "int4g")), 1e-3, 3e-3);
}

TEST_P(QuantLayers, PackedInt4WithZeros) {
  open("compressed_tensors/linear_wna16.safetensors",
       compressed(R"({"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128, "symmetric": false})",
                  "null"));
  expect_result(linear(rows("input"), weight("weight", "int4g")), 1e-3, 3e-3);
}

TEST_P(QuantLayers, Fp8PerChannel) {
  open("compressed_tensors/linear_w8a8fp8.safetensors",
       compressed(R"({"num_bits": 8, "type": "float", "strategy": "channel"})",
                  R"({"num_bits": 8, "type": "float", "strategy": "token", "dynamic": true})"));
  expect_result(linear(rows("input"), weight("weight", "fp8g")), 1e-3, 3e-3);
}

// Activations as they are, and rounded by the stored scale as this layer was run: within 2 % either way.
TEST_P(QuantLayers, Fp8StaticActivations) {
  open("compressed_tensors/linear_w8a8fp8_static_per_channel.safetensors",
       compressed(R"({"num_bits": 8, "type": "float", "strategy": "channel"})",
                  R"({"num_bits": 8, "type": "float", "strategy": "tensor", "dynamic": false})"));
  const Tensor w = weight("weight", "fp8g");
  const Tensor x = rows("input");
  expect_result(linear(x, w), 2e-2, 2e-2);
  const Tensor rounded = call(OpKind::kFakeQuant, attributes("{format = \"e4m3\"}"), {x, stored("input_scale")});
  EXPECT_NE(rounded.data, x.data);
  expect_result(linear(rounded, w), 2e-2, 2e-2);
}

// All experts of this file are the same one, and their weights sum to one.
TEST_P(QuantLayers, Fp8BlocksOfExperts) {
  open("fp8/moe.safetensors", R"({"quant_method": "fp8", "weight_block_size": [128, 128]})");
  const Tensor both = linear(rows("hidden_states"), weight("w13_weight", "fp8g"));
  const auto half = [&](int64_t start) {
    ops::Attributes attr = attributes("{axis = 1}");
    attr.set("start", start);
    attr.set("stop", start + both.type.shape[1].factor / 2);
    return call(OpKind::kSlice, attr, {both});
  };
  const Tensor gate = half(0);
  const Tensor up = half(both.type.shape[1].factor / 2);
  const Tensor act = call(OpKind::kMap, attributes("{expr = mul(mul(x0, sigmoid(x0)), x1)}"), {gate, up});
  expect_result(linear(act, weight("w2_weight", "fp8g")), 1e-3, 6e-3);
}

INSTANTIATE_TEST_SUITE_P(Backends, QuantLayers, testing::Values(catalog::Backend::kReference, catalog::Backend::kCpu),
                         [](const auto& row) { return std::string(catalog::backend_name(row.param)); });

}  // namespace
}  // namespace firstlight::conformance
