// SPDX-License-Identifier: Apache-2.0
// Experts in stacks of three axes, and checkpoints with several formats beside each other: what is written loads, and
// gives the logits of the rounded values.
#include <gtest/gtest.h>

#include <algorithm>

#include "adapt/quantise.h"
#include "adapt/quantise_plan.h"
#include "adapt/test/golden_model.h"
#include "engine/scorer.h"
#include "formats/overlay.h"
#include "formats/safetensors.h"
#include "tensor/codec.h"

namespace firstlight::adapt {
namespace {

namespace fs = std::filesystem;
using tensor::DType;

std::vector<float> floats(const formats::Checkpoint& checkpoint, const std::string& name) {
  const formats::TensorRecord* record = checkpoint.find(name);
  EXPECT_NE(record, nullptr) << name;
  std::vector<float> out(static_cast<size_t>(record->num_elements()));
  EXPECT_TRUE(tensor::decode_to_f32(*record->dtype, *checkpoint.bytes(*record), out).ok());
  return out;
}

std::vector<float> logits(const std::string& model) {
  BringUpOptions options = quick_options();
  options.intake.probe_config = false;
  auto loaded = bring_up(model, options);
  EXPECT_TRUE(loaded.ok()) << loaded.status().to_string();
  if (!loaded.ok()) return {};
  std::vector<float> all;
  const auto keep = [&](int64_t, std::span<const float> row) { all.insert(all.end(), row.begin(), row.end()); };
  const Status status = engine::score(*(*loaded)->executor, std::vector<int32_t>{1, 7, 3, 9, 4, 2, 8, 11, 5}, {}, keep);
  EXPECT_TRUE(status.ok()) << status.to_string();
  return all;
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double off = 0, size = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    off += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
    size += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(off / size);
}

// A checkpoint of F32 with `change` applied to each tensor.
void write_plain(const std::string& from, const std::string& to,
                 const std::function<std::vector<float>(const std::string&, std::vector<float>)>& change) {
  const auto checkpoint = formats::Checkpoint::open(from);
  fs::create_directories(to);
  fs::copy_file(from + "/config.json", to + "/config.json", fs::copy_options::overwrite_existing);
  std::vector<formats::TensorPlan> plans;
  for (const auto& [name, record] : checkpoint->tensors()) plans.push_back({name, DType::kF32, record.shape});
  auto writer = formats::SafetensorsWriter::create(to, plans);
  for (const auto& [name, record] : checkpoint->tensors()) {
    const auto values = change(name, floats(*checkpoint, name));
    EXPECT_TRUE(writer->append(name, std::as_bytes(std::span(values))).ok());
  }
  EXPECT_TRUE(writer->finish().ok());
}

class Stacks : public testing::Test {
 protected:
  QuantisedCheckpoint made(const std::string& source, const std::string& name, const QuantPolicy& policy) {
    QuantiseOptions options{.policy = policy};
    options.intake.probe_config = false;
    auto result = quantise(source, folder_ / name, options);
    EXPECT_TRUE(result.ok()) << result.status().to_string();
    return result.ok() ? std::move(*result) : QuantisedCheckpoint{};
  }
  // The rounded values as plain floats, rounded here matrix by matrix.
  std::string plain(const std::string& source, const std::string& name, const QuantPolicy& policy) {
    const auto opened = open_quant_source(source, {.probe_config = false});
    const QuantPlanner planner(*opened);
    const auto jobs = planner.plan(policy);
    write_plain(source, folder_ / name, [&](const std::string& tensor, std::vector<float> values) {
      const auto job =
          std::find_if(jobs->begin(), jobs->end(), [&](const auto& j) { return j.record->name == tensor; });
      if (!job->choice) return values;
      const auto size = static_cast<size_t>(job->record->shape.end()[-2] * job->record->shape.back());
      for (size_t at = 0; at < values.size(); at += size) {
        const std::span<float> matrix(values.data() + at, size);
        const QuantisedRows rows = quantise_rows(job->format, matrix);
        std::copy(rows.values.begin(), rows.values.end(), matrix.begin());
      }
      return values;
    });
    return folder_ / name;
  }
  static QuantPolicy uniform(const std::string& choice) {
    return uniform_policy(QuantChoice::parse(choice).value(), {});
  }

  TestFolder folder_;
};

TEST_F(Stacks, OfExpertsInEveryFormat) {
  const std::pair<const char*, const char*> cases[] = {
      {"granitemoe", "int8:32"}, {"granitemoe", "int4"}, {"granitemoe", "fp8"}, {"granitemoe", "mxfp4"},
      {"gemma4", "int4:32"},     {"minimax_m3", "fp8"},  {"llama4", "int8"},    {"llama4", "fp8"},
      {"gpt_oss", "int4"},       {"llama4", "mxfp4"},    {"mixtral", "int4"}};
  for (const auto& [model, word] : cases) {
    const std::string name = std::string(model) + "-" + word;
    const auto result = made(golden_path(model), name, uniform(word));
    int64_t stacks = 0;
    for (const auto& tensor : result.tensors) {
      const bool expert =
          tensor.name.find("expert") != std::string::npos || tensor.name.find("_linear") != std::string::npos;
      if (!tensor.kept_because.empty() || !expert) continue;
      ++stacks;
      EXPECT_GT(tensor.sqnr_db, 10) << tensor.name;
      EXPECT_LT(tensor.relative_l2, 0.3) << tensor.name;
    }
    EXPECT_GT(stacks, 0) << name;
    const auto found = logits(folder_ / name);
    // Decoded stacks are float32 values, but scale * code is rounded once more where a plain weight is not.
    EXPECT_LT(distance(found, logits(plain(golden_path(model), name + "-plain", uniform(word)))), 1e-6) << name;
    EXPECT_GT(distance(found, logits(golden_path(model))), 1e-4) << name;
  }
}

// The values of a released MXFP4 checkpoint, written out and converted back, are the same, in the same names.
TEST_F(Stacks, GptOssBlocksAreTheReleases) {
  const std::string released = golden_path("gpt_oss_mxfp4");
  const auto before = formats::Checkpoint::open(released);
  Json config = read_json_file(released + "/config.json");
  config.erase("quantization_config");
  const std::string exact = folder_ / "exact";
  fs::create_directories(exact);
  write_text(exact + "/config.json", config.dump());
  std::vector<formats::TensorPlan> plans;
  std::vector<std::vector<float>> contents;
  for (const auto& [name, record] : before->tensors()) {
    if (name.ends_with("_scales")) continue;
    if (!name.ends_with("_blocks")) {
      plans.push_back({name, DType::kF32, record.shape});
      contents.push_back(floats(*before, name));
      continue;
    }
    const std::string base = name.substr(0, name.size() - 7);
    const auto codes = *before->bytes(record), scales = *before->bytes(*before->find(base + "_scales"));
    const int64_t experts = record.shape[0], rows = record.shape[1], columns = record.shape[2] * 32;
    std::vector<float> values(static_cast<size_t>(experts * rows * columns));
    for (int64_t i = 0; i < experts * rows * columns; ++i) {
      const int64_t e = i / (rows * columns), r = i / columns % rows, c = i % columns;
      const auto byte = static_cast<uint8_t>(codes[static_cast<size_t>(i / 2)]);
      const float value = tensor::f4e2m1_to_f32(static_cast<uint8_t>(byte >> (i % 2 * 4) & 15));
      const auto scale = static_cast<int>(scales[static_cast<size_t>(i / 32)]);
      values[static_cast<size_t>((e * columns + c) * rows + r)] = std::ldexp(value, scale - 127);
    }
    plans.push_back({base, DType::kF32, {experts, columns, rows}});
    contents.push_back(std::move(values));
  }
  auto writer = formats::SafetensorsWriter::create(exact, plans);
  for (size_t i = 0; i < plans.size(); ++i) {
    ASSERT_TRUE(writer->append(plans[i].name, std::as_bytes(std::span(contents[i]))).ok());
  }
  ASSERT_TRUE(writer->finish().ok());

  const auto result = made(exact, "again", uniform("mxfp4"));
  int64_t blocks = 0;
  for (const auto& tensor : result.tensors) {
    if (!tensor.kept_because.empty()) continue;
    ++blocks;
    EXPECT_EQ(tensor.relative_l2, 0) << tensor.name;
    EXPECT_TRUE(tensor.name.ends_with("_proj")) << tensor.name;
  }
  EXPECT_EQ(blocks, 2 * config["num_hidden_layers"].get<int64_t>());
  const auto after = formats::Checkpoint::open(folder_ / "again");
  for (const auto& [name, record] : before->tensors()) {
    ASSERT_NE(after->find(name), nullptr) << name;
    EXPECT_EQ(after->find(name)->shape, record.shape) << name;
  }
  EXPECT_EQ(read_json_file(folder_ / "again/config.json")["quantization_config"]["quant_method"], "mxfp4");
  EXPECT_LT(distance(logits(folder_ / "again"), logits(released)), 1e-6);
}

TEST_F(Stacks, SeveralFormatsBesideEachOther) {
  const auto policy = parse_policy(R"(
version = 1
[[rule]]
store = "keep"
modules = ["model.layers.0.self_attn"]
[[rule]]
store = "fp8"
modules = ["model.layers.0.block_sparse_moe.input_linear", "re:.*1\\.self_attn\\.q_proj"]
[[rule]]
store = "mxfp4"
modules = ["model.layers.1.self_attn.o_proj"]
[[rule]]
store = "int4"
group = 32
modules = ["*.1.*"]
)",
                                   "p.toml");
  ASSERT_TRUE(policy.ok()) << policy.status().to_string();
  const std::string source = golden_path("granitemoe");
  const auto result = made(source, "mixed", *policy);
  std::map<std::string, std::string> formats;
  for (const auto& tensor : result.tensors) formats[tensor.name] = tensor.kept_because.empty() ? tensor.format : "kept";
  EXPECT_EQ(formats["model.layers.0.self_attn.q_proj.weight"], "kept");
  EXPECT_EQ(formats["model.layers.0.block_sparse_moe.output_linear.weight"], "kept");
  EXPECT_EQ(formats["model.layers.0.block_sparse_moe.input_linear.weight"], "fp8 e4m3, blocks of 128 x 128");
  EXPECT_EQ(formats["model.layers.1.self_attn.q_proj.weight"], "fp8 e4m3, blocks of 128 x 128");
  EXPECT_EQ(formats["model.layers.1.self_attn.o_proj.weight"], "mxfp4");
  EXPECT_EQ(formats["model.layers.1.self_attn.k_proj.weight"], "int4, groups of 32");
  EXPECT_EQ(formats["model.layers.1.block_sparse_moe.router.layer.weight"], "kept");
  const Json config = read_json_file(folder_ / "mixed/config.json")["quantization_config"];
  EXPECT_EQ(config["format"], "mixed-precision");
  EXPECT_LT(distance(logits(folder_ / "mixed"), logits(plain(source, "plain", *policy))), 1e-6);

  // The same from the changed tensors alone, laid over the source.
  const auto opened = open_quant_source(source, {.probe_config = false});
  const QuantPlanner planner(*opened);
  const auto jobs = planner.plan(*policy);
  const auto file = write_variant(planner, *jobs, folder_.path());
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  std::set<std::string, std::less<>> hidden;
  for (const QuantJob& job : *jobs) {
    if (job.choice) hidden.insert(job.record->name);
  }
  const auto laid = formats::overlay(formats::Checkpoint::open(source).value(), hidden, *file);
  ASSERT_TRUE(laid.ok()) << laid.status().to_string();
  const auto whole = formats::Checkpoint::open(folder_ / "mixed");
  EXPECT_EQ(laid->total_bytes(), whole->total_bytes());
  ASSERT_EQ(laid->tensors().size(), whole->tensors().size());
  for (const auto& [name, record] : whole->tensors()) {
    const auto wanted = *whole->bytes(record), found = *laid->bytes(*laid->find(name));
    EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), found.begin(), found.end())) << name;
  }
  EXPECT_FALSE(formats::overlay(formats::Checkpoint::open(source).value(), {}, source + "/model.safetensors").ok());
}

TEST_F(Stacks, RulesThatCanNotBeFollowed) {
  const auto refused = [&](const std::string& model, const std::string& rules) {
    const auto policy = parse_policy("version = 1\n" + rules, "p.toml");
    EXPECT_TRUE(policy.ok()) << policy.status().to_string();
    QuantiseOptions options{.policy = *policy};
    options.intake.probe_config = false;
    const auto result = quantise(golden_path(model), folder_ / "r", options);
    EXPECT_FALSE(fs::exists(folder_ / "r"));
    return result.ok() ? "(written)" : result.status().message();
  };
  const std::string rule = "[[rule]]\nstore = \"mxfp4\"\nmodules = [\"model.layers.0.mlp.up_proj\", \"";
  EXPECT_NE(refused("llama", rule + "model.layers.9.mlp\"]\n").find("model.layers.9.mlp matches no module"),
            std::string::npos);
  EXPECT_NE(refused("llama", rule + "model.embed_tokens\"]\n").find("it is an embedding"), std::string::npos);
  EXPECT_NE(refused("llama", rule + "model.norm\"]\n").find("model.norm can not be stored as mxfp4"),
            std::string::npos);
  // Members of one stack are stored alike, or the loader refuses them.
  EXPECT_NE(refused("mixtral", "[[rule]]\nstore = \"int8\"\nmodules = [\"re:.*experts\\\\.0\\\\..*\"]\n")
                .find("does not load"),
            std::string::npos);
}

}  // namespace
}  // namespace firstlight::adapt
