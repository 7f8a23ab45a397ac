// SPDX-License-Identifier: Apache-2.0
#include "planner/dry_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace firstlight::planner {
namespace {

namespace fs = std::filesystem;

const fs::path kGolden = fs::path(FL_SOURCE_DIR) / "tests/golden/data/llama";
const std::string kShared = std::string(FL_SOURCE_DIR) + "/../shared/data/";

fs::path fresh_folder(const std::string& name) {
  const fs::path folder = fs::path(testing::TempDir()) / ("dry_run_" + name);
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

bool says(const DryRun& run, const std::string& words) {
  return std::any_of(run.unknown.begin(), run.unknown.end(),
                     [&](const std::string& line) { return line.find(words) != std::string::npos; });
}

TEST(DryRun, FilesThatEndBehindTheirHeadersSayTheSame) {
  const auto whole = dry_run(kGolden.string(), {});
  ASSERT_TRUE(whole.ok() && whole->model) << whole.status().message();
  EXPECT_TRUE(whole->unknown.empty());
  const fs::path folder = fresh_folder("headers");
  fs::copy_file(kGolden / "config.json", folder / "config.json");
  std::ifstream from(kGolden / "model.safetensors", std::ios::binary);
  uint64_t header = 0;
  from.read(reinterpret_cast<char*>(&header), sizeof(header));
  std::string text(header + 8, ' ');
  from.seekg(0);
  from.read(text.data(), static_cast<std::streamsize>(text.size()));
  std::ofstream(folder / "model.safetensors", std::ios::binary) << text;
  EXPECT_FALSE(dry_run(folder.string(), {}).ok()) << "a file cut short, unless it was asked for";
  const auto headers = dry_run(folder.string(), {.headers_only = true});
  ASSERT_TRUE(headers.ok() && headers->model) << headers.status().message();
  EXPECT_EQ(headers->parameters, whole->parameters);
  EXPECT_EQ(headers->bytes, whole->bytes);
  EXPECT_EQ(headers->model->graph.nodes.size(), whole->model->graph.nodes.size());
}

TEST(DryRun, AConfigAloneIsTakenAsItsSpecWantsIt) {
  const auto whole = dry_run(kGolden.string(), {});
  const fs::path folder = fresh_folder("config");
  fs::copy_file(kGolden / "config.json", folder / "config.json");
  auto alone = dry_run(folder.string(), {});
  ASSERT_TRUE(alone.ok() && alone->model) << alone.status().message();
  EXPECT_TRUE(alone->is_assumed && says(*alone, "in BF16"));
  EXPECT_EQ(alone->parameters, whole->parameters);
  EXPECT_EQ(alone->tensors, whole->tensors);
  EXPECT_EQ(alone->bytes, 2 * alone->parameters);
  std::ofstream(folder / "model.safetensors.index.json")
      << R"({"metadata": {"total_size": 12345}, "weight_map": {"a": "model-1.safetensors"}})";
  alone = dry_run(folder.string(), {});
  ASSERT_TRUE(alone.ok()) << alone.status().message();
  EXPECT_EQ(alone->bytes, 12345) << "what the index states";
  EXPECT_TRUE(says(*alone, "states 12345 bytes") && says(*alone, "names 1 tensors"));
}

TEST(DryRun, AModelWithoutASpecHasItsTotals) {
  const fs::path folder = fresh_folder("unknown");
  std::ofstream(folder / "config.json") << R"({"model_type": "never_heard_of"})";
  std::ofstream(folder / "list.json") << R"({"tensors": [{"name": "w", "shape": [3, 5], "dtype": "BF16"}]})";
  const auto run = dry_run(folder.string(), {.tensors_file = (folder / "list.json").string()});
  ASSERT_TRUE(run.ok()) << run.status().message();
  EXPECT_FALSE(run->model);
  EXPECT_EQ(run->parameters, 15);
  EXPECT_EQ(run->bytes, 30);
  EXPECT_TRUE(says(*run, "never_heard_of"));
}

TEST(DryRun, ListsOfRealCheckpointsAreBoundWhole) {
  if (!fs::exists(kShared + "tensor-manifests")) GTEST_SKIP() << "needs shared data: tensor-manifests, configs";
  for (const auto& [config, list, parameters, bytes] :
       {std::tuple("DeepSeek-V3.2", "DeepSeek-V3.2.json", 685396921376, 689471107200),
        {"Kimi-Linear-48B-A3B-Instruct", "Kimi-Linear-48B-A3B.json", 49122681728, 98245528576}}) {
    const auto run = dry_run(kShared + "configs/" + config,
                             {.tensors_file = kShared + "tensor-manifests/" + list, .intake = {.probe_config = false}});
    ASSERT_TRUE(run.ok()) << run.status().message();
    EXPECT_TRUE(run->model) << run->refusal.message();
    EXPECT_EQ(run->parameters, parameters);
    EXPECT_EQ(run->bytes, bytes);
  }
}

}  // namespace
}  // namespace firstlight::planner
