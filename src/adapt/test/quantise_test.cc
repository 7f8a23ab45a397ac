// SPDX-License-Identifier: Apache-2.0
// Golden checkpoints quantised to every format: what is written loads, and its logits are bit for bit those of a plain
// checkpoint with the values that the report's writer says a reader sees, put together here from the files alone.
#include "adapt/quantise.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <set>

#include "adapt/bring_up.h"
#include "base/file_map.h"
#include "base/json.h"
#include "engine/scorer.h"
#include "formats/safetensors.h"
#include "tensor/codec.h"

namespace firstlight::adapt {
namespace {

namespace fs = std::filesystem;
using tensor::DType;

std::string golden(const std::string& name) { return std::string(FL_SOURCE_DIR) + "/tests/golden/data/" + name; }

std::vector<float> floats(const formats::Checkpoint& checkpoint, const std::string& name) {
  const formats::TensorRecord* record = checkpoint.find(name);
  EXPECT_NE(record, nullptr) << name;
  std::vector<float> out(static_cast<size_t>(record->num_elements()));
  EXPECT_TRUE(tensor::decode_to_f32(*record->dtype, *checkpoint.bytes(*record), out).ok());
  return out;
}

std::vector<float> logits(const std::string& model) {
  BringUpOptions options{.backend = catalog::Backend::kReference, .num_threads = 1, .buckets = {{16, 16}}};
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

QuantPolicy uniform(QuantFormat format, const std::vector<std::string>& keep = {}) {
  return uniform_policy(QuantChoice::make(format, std::nullopt).value(), keep);
}

class Quantise : public testing::Test {
 protected:
  Quantise() : folder_(fs::temp_directory_path() / ("firstlight-quantise-" + std::to_string(::getpid()))) {
    fs::create_directories(folder_);
  }
  ~Quantise() override {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  // The values of a quantised tensor by the words of docs/weight_formats.md.
  static std::vector<float> decoded(const formats::Checkpoint& checkpoint, const std::string& name,
                                    std::vector<int64_t> shape, QuantFormat format) {
    const auto rows = static_cast<size_t>(shape[0]), columns = static_cast<size_t>(shape[1]);
    const bool fp8 = format == QuantFormat::kFp8;
    const formats::TensorRecord& codes = *checkpoint.find(name + (fp8 ? "" : "_packed"));
    const auto bytes = *checkpoint.bytes(codes);
    const auto stride = static_cast<size_t>(codes.size_bytes) / rows;
    const auto scales = floats(checkpoint, name + (fp8 ? "_scale_inv" : "_scale"));
    const auto scale_columns = static_cast<size_t>(checkpoint.find(name + (fp8 ? "_scale_inv" : "_scale"))->shape[1]);
    std::vector<float> out(rows * columns);
    for (size_t r = 0; r < rows; ++r) {
      for (size_t c = 0; c < columns; ++c) {
        const auto byte = [&](size_t i) { return static_cast<uint8_t>(bytes[r * stride + i]); };
        const uint8_t nibble = static_cast<uint8_t>(byte(c / 2) >> (c % 2 * 4) & 15);
        float value = 0;
        size_t group = scale_columns == 1 ? 0 : c / 128;
        if (format == QuantFormat::kInt4) {
          value = static_cast<float>(nibble) - 8;
        } else if (format == QuantFormat::kInt8) {
          value = static_cast<float>(byte(c)) - 128;
        } else if (format == QuantFormat::kMxfp4) {
          value = tensor::f4e2m1_to_f32(nibble);
          group = c / 32;
        } else {
          value = tensor::f8e4m3_to_f32(byte(c));
        }
        const size_t at = (fp8 ? r / 128 : r) * scale_columns + group;
        const float scale =
            format == QuantFormat::kMxfp4 ? std::ldexp(1.0F, static_cast<int>(scales[at]) - 127) : scales[at];
        out[r * columns + c] = value * scale;
      }
    }
    return out;
  }

  // The checkpoint with its quantised tensors as plain F32.
  std::string plain(const std::string& model, const std::string& original, QuantFormat format,
                    const std::string& name) {
    const auto before = formats::Checkpoint::open(original), after = formats::Checkpoint::open(model);
    fs::create_directories(path(name));
    fs::copy_file(original + "/config.json", path(name) + "/config.json");
    std::vector<formats::TensorPlan> plans;
    for (const auto& [tensor, record] : before->tensors()) plans.push_back({tensor, DType::kF32, record.shape});
    auto writer = formats::SafetensorsWriter::create(path(name), plans);
    for (const auto& [tensor, record] : before->tensors()) {
      const bool kept = after->find(tensor) != nullptr && after->find(tensor)->dtype == record.dtype;
      const auto values = kept ? floats(*after, tensor) : decoded(*after, tensor, record.shape, format);
      EXPECT_TRUE(writer->append(tensor, std::as_bytes(std::span(values))).ok());
    }
    EXPECT_TRUE(writer->finish().ok());
    return path(name);
  }

  QuantisedCheckpoint made(const std::string& original, const std::string& name, QuantiseOptions options) {
    options.intake.probe_config = false;
    auto result = quantise(original, path(name), options);
    EXPECT_TRUE(result.ok()) << result.status().to_string();
    return result.ok() ? std::move(*result) : QuantisedCheckpoint{};
  }

  fs::path folder_;
};

TEST_F(Quantise, LogitsAreThoseOfTheValues) {
  const std::pair<const char*, QuantFormat> formats[] = {{"int8", QuantFormat::kInt8},
                                                         {"int4", QuantFormat::kInt4},
                                                         {"fp8", QuantFormat::kFp8},
                                                         {"mxfp4", QuantFormat::kMxfp4}};
  for (const char* model : {"llama_bias", "qwen3_moe", "deepseek_v3_no_q_lora"}) {
    const auto exact = logits(golden(model));
    for (const auto& [word, format] : formats) {
      if (std::string_view(model) == "qwen3_moe" && format == QuantFormat::kInt8) continue;  // below
      if (std::string_view(model) == "deepseek_v3_no_q_lora" && format != QuantFormat::kFp8) continue;
      const std::string name = std::string(model) + "-" + word;
      const auto result = made(golden(model), name, {.policy = uniform(format)});
      int64_t count = 0;
      for (const auto& tensor : result.tensors) {
        if (!tensor.kept_because.empty()) continue;
        ++count;
        EXPECT_GT(tensor.sqnr_db, tensor.format.starts_with("int4") || format == QuantFormat::kMxfp4 ? 10 : 25)
            << tensor.name;
        EXPECT_LT(tensor.bytes_after, tensor.bytes_before) << tensor.name;
      }
      EXPECT_GT(count, 0) << name;
      const auto found = logits(path(name));
      EXPECT_EQ(found, logits(plain(path(name), golden(model), format, name + "-plain"))) << name;
      EXPECT_NE(found, exact) << name;
    }
  }
}

TEST_F(Quantise, ReportsWhatRoundingDid) {
  const auto result = made(golden("llama_bias"), "a", {.policy = uniform(QuantFormat::kInt4)});
  const auto before = formats::Checkpoint::open(golden("llama_bias")), after = formats::Checkpoint::open(path("a"));
  const std::string name = "model.layers.0.mlp.up_proj.weight";
  const auto entry =
      std::find_if(result.tensors.begin(), result.tensors.end(), [&](const auto& t) { return t.name == name; });
  ASSERT_NE(entry, result.tensors.end());
  const auto exact = floats(*before, name),
             rounded = decoded(*after, name, before->find(name)->shape, QuantFormat::kInt4);
  double most = 0, error = 0, size = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    const double off = static_cast<double>(rounded[i]) - static_cast<double>(exact[i]);
    most = std::max(most, std::abs(off));
    error += off * off;
    size += static_cast<double>(exact[i]) * static_cast<double>(exact[i]);
  }
  EXPECT_DOUBLE_EQ(entry->max_abs, most);
  EXPECT_NEAR(entry->relative_l2, std::sqrt(error / size), 1e-12);
  EXPECT_NEAR(entry->sqnr_db, 10 * std::log10(size / error), 1e-9);
}

TEST_F(Quantise, EmbeddingsHeadsRoutersAndWhatIsAskedForStay) {
  const auto result =
      made(golden("qwen3_moe"), "a", {.policy = uniform(QuantFormat::kInt8, {"re:.*q_proj", "model.layers.1.*"})});
  for (const auto& tensor : result.tensors) {
    const bool asked = tensor.name.find("q_proj") != std::string::npos || tensor.name.starts_with("model.layers.1.");
    const bool never = tensor.name.find("embed") != std::string::npos || tensor.name.ends_with("gate.weight") ||
                       tensor.name.starts_with("lm_head") || tensor.name.find("norm") != std::string::npos;
    EXPECT_EQ(tensor.kept_because.empty(), !asked && !never) << tensor.name << ": " << tensor.kept_because;
  }
  EXPECT_NE(logits(path("a")), std::vector<float>{});
}

TEST_F(Quantise, GroupsAndShards) {
  const auto result = made(golden("llama_bias"), "a",
                           {.policy = uniform_policy({QuantFormat::kInt4, 32}, {}), .max_shard_bytes = 8192});
  EXPECT_TRUE(fs::exists(path("a") + "/model.safetensors.index.json"));
  EXPECT_GT(result.files.size(), 4u);
  bool groups = false;
  for (const auto& tensor : result.tensors) groups = groups || tensor.format == "int4, groups of 32";
  EXPECT_TRUE(groups);
  EXPECT_FALSE(logits(path("a")).empty());
}

TEST_F(Quantise, Refusals) {
  const auto refused = [&](const std::string& model, const QuantiseOptions& options) {
    const auto result = quantise(model, path("r"), options);
    EXPECT_FALSE(fs::exists(path("r"))) << "nothing stays";
    return result.ok() ? "(it worked)" : result.status().to_string();
  };
  EXPECT_NE(refused(golden("quant_gptq"), {.policy = uniform(QuantFormat::kInt8)}).find("quantised already"),
            std::string::npos);
  EXPECT_NE(
      refused(golden("llama_bias"), {.policy = uniform(QuantFormat::kInt8, {"nobody"})}).find("matches no module"),
      std::string::npos);
  EXPECT_NE(QuantChoice::make(QuantFormat::kInt4, 40).status().message().find("multiple of 32"), std::string::npos);
}

}  // namespace
}  // namespace firstlight::adapt
