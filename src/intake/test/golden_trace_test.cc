// SPDX-License-Identifier: Apache-2.0
// Every golden checkpoint traces with full coverage, in both spellings of its config; and the coverage proof: each
// config key of each shipped family changed in turn gives another graph or a refused load.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/file_map.h"
#include "base/json.h"
#include "intake/intake.h"
#include "ir/text.h"

namespace firstlight::intake {
namespace {

const std::string kData = std::string(FL_SOURCE_DIR) + "/tests/golden/data/";

std::vector<TensorHeader> headers_of(const formats::Checkpoint& checkpoint) {
  std::vector<TensorHeader> headers;
  for (const auto& [name, record] : checkpoint.tensors()) headers.push_back({name, record.dtype, record.shape});
  return headers;
}

std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kData)) {
    if (std::filesystem::exists(entry.path() / "config.json")) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

TEST(GoldenTrace, EveryCheckpointTracesInBothSpellings) {
  const auto names = golden_names();
  ASSERT_GE(names.size(), 20u);
  for (const std::string& name : names) {
    const auto checkpoint = formats::Checkpoint::open(kData + name);
    ASSERT_TRUE(checkpoint.ok()) << name << ": " << checkpoint.status().to_string();
    const auto model = load_model(*checkpoint);
    ASSERT_TRUE(model.ok()) << name << ": " << model.status().to_string();
    EXPECT_TRUE(model->coverage.complete()) << name;
    EXPECT_EQ(model->coverage.tensors.bound.size() + model->coverage.tensors.waived.size(),
              checkpoint->tensors().size());
    EXPECT_FALSE(model->tokens.eos.empty()) << name;
    const auto parsed = ir::parse(ir::print(model->graph));
    ASSERT_TRUE(parsed.ok()) << name << ": " << parsed.status().to_string();
    EXPECT_EQ(ir::fingerprint(*parsed), ir::fingerprint(model->graph)) << name;

    const std::string old_path = kData + name + "/config.old.json";
    if (!std::filesystem::exists(old_path)) continue;
    const auto headers = headers_of(*checkpoint);
    const auto old = trace_model({.config = read_text_file(old_path).value(), .config_name = old_path}, &headers);
    ASSERT_TRUE(old.ok()) << old.status().to_string();
    EXPECT_EQ(ir::fingerprint(old->graph), ir::fingerprint(model->graph)) << name << ": the old spelling differs";
  }
}

// Other values to put in a key's place; the graph must change (or the load be refused) for one of them.
std::vector<Json> others(const Json& value) {
  if (value.is_boolean()) return {!value.get<bool>()};
  if (value.is_number_integer()) {
    const auto n = value.get<int64_t>();
    return {n + 1, n + 2, n * 5 + 3, n - 1};
  }
  if (value.is_number()) return {value.get<double>() * 1.5 + 0.1, value.get<double>() * 0.01, value.get<double>() * 77};
  if (value.is_string()) return {value.get<std::string>() + "x"};
  if (value.is_null()) return {5, true, "x", 0.25};
  if (value.is_array() && !value.empty()) {
    Json changed = value;
    changed[0] = others(value[0])[0];
    Json shorter = value;
    shorter.erase(shorter.size() - 1);
    return {changed, shorter};
  }
  if (value.is_array()) return {Json::array({0}), Json::array({"x"})};
  return {};
}

class CoverageProof : public testing::TestWithParam<std::string> {};

TEST_P(CoverageProof, EachKeyInTurn) {
  const std::string directory = kData + GetParam();
  const auto checkpoint = formats::Checkpoint::open(directory);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().to_string();
  const auto headers = headers_of(*checkpoint);
  const Json config = parse_json(read_text_file(directory + "/config.json").value()).value();
  const auto base = trace_model({.config = dump_json(config)}, &headers);
  ASSERT_TRUE(base.ok()) << base.status().to_string();
  const uint64_t fingerprint = ir::fingerprint(base->graph);
  size_t keys = 0;
  for (const std::string& path : base->coverage.config.bound) {
    std::string pointer = "/" + path;
    std::replace(pointer.begin(), pointer.end(), '.', '/');
    std::replace(pointer.begin(), pointer.end(), '[', '/');
    std::erase(pointer, ']');
    bool changes = false;
    for (const Json& other : others(config.at(Json::json_pointer(pointer)))) {
      Json changed = config;
      changed[Json::json_pointer(pointer)] = other;
      const auto model = trace_model({.config = dump_json(changed)}, &headers, {.probe_config = false});
      changes = changes || !model.ok() || ir::fingerprint(model->graph) != fingerprint;
    }
    EXPECT_TRUE(changes) << GetParam() << ": " << path << " does not reach the graph";
    ++keys;
  }
  EXPECT_GE(keys, 14u);
  for (const auto& [key, reason] : base->coverage.config.waived) EXPECT_GE(reason.size(), 8u) << key;
}

INSTANTIATE_TEST_SUITE_P(Goldens, CoverageProof, testing::ValuesIn(golden_names()),
                         [](const auto& entry) { return entry.param; });

}  // namespace
}  // namespace firstlight::intake
