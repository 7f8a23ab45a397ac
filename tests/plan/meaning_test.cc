// SPDX-License-Identifier: Apache-2.0
// No pass may change what a graph means. Every graph of graphs/*.ir is run by the reference backend and by the CPU plan
// with all passes, with each optional pass left out, with none and with plain kernels, in float32.
//
// The bound: a sum of K terms in float32 errs by at most K u sum|terms| (u = 2^-24), and a run of n such operators,
// each feeding the next with a gain of about one (norms and drawn weights see to that), by at most n times as much: n K
// u, with K = 64, the longest row of the graphs. Wrong fusions err by four orders of magnitude more.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "ir/text.h"
#include "model.h"

namespace firstlight::plans {
namespace {

constexpr double kRounding = 1.0 / (1 << 24);
constexpr double kLongestSum = 64;

std::vector<std::string> graph_files() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(FL_SOURCE_DIR) + "/tests/plan/graphs")) {
    files.push_back(entry.path().stem());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string read_graph(const std::string& name) {
  std::stringstream text;
  text << std::ifstream(std::string(FL_SOURCE_DIR) + "/tests/plan/graphs/" + name + ".ir").rdbuf();
  return text.str();
}

class Meaning : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    auto model = make_model(read_graph(GetParam()), 11);
    ASSERT_TRUE(model.ok()) << model.status().message();
    model_.emplace(*std::move(model));
    auto judged = run_model(*model_, options_for(catalog::Backend::kReference), pool_);
    ASSERT_TRUE(judged.ok()) << judged.status().message();
    wanted_ = *std::move(judged);
    bound_ = kLongestSum * kRounding * static_cast<double>(model_->graph.nodes.size());
  }

  void expect_same(const compiler::CompileOptions& options, const std::string& what) {
    const auto found = run_model(*model_, options, pool_);
    ASSERT_TRUE(found.ok()) << what << ": " << found.status().message();
    EXPECT_LE(relative_difference(*found, wanted_), bound_) << what;
  }

  ThreadPool pool_{{.num_threads = 2, .pin = false}};
  std::optional<Model> model_;
  Outputs wanted_;
  double bound_ = 0;
};

TEST_P(Meaning, OutputsSayHowManyRowsTheyHave) {
  EXPECT_FALSE(wanted_.empty());
  for (const auto& [name, values] : wanted_) {
    EXPECT_FALSE(values.empty()) << name;
    EXPECT_NE(values.front(), values.back()) << name;
  }
}

TEST_P(Meaning, AllPasses) { expect_same(options_for(catalog::Backend::kCpu), "all passes"); }

TEST_P(Meaning, EachPassLeftOut) {
  for (const auto& pass : compiler::all_passes()) {
    if (!pass.optional) continue;
    auto options = options_for(catalog::Backend::kCpu);
    options.disabled_passes.insert(std::string(pass.name));
    expect_same(options, "without " + std::string(pass.name));
  }
}

TEST_P(Meaning, EachPassAlone) {
  for (const auto& alone : compiler::all_passes()) {
    auto options = options_for(catalog::Backend::kCpu);
    for (const auto& pass : compiler::all_passes()) {
      if (pass.optional && pass.name != alone.name) options.disabled_passes.insert(std::string(pass.name));
    }
    expect_same(options, std::string(alone.name) + " alone");
  }
}

TEST_P(Meaning, PlainKernels) {
  auto options = options_for(catalog::Backend::kCpu);
  options.plain_kernels = true;
  expect_same(options, "plain kernels");
}

// The instruction sets below the machine's own.
TEST_P(Meaning, TheBaselineCpu) {
  auto options = options_for(catalog::Backend::kCpu);
  options.features = {target::kAvx2};
  expect_same(options, "AVX2 alone");
}

// Eight bits of mantissa on both sides: 2^-8 per product, by the same count of operators in a row, random signs.
TEST_P(Meaning, Bf16IsNear) {
  auto options = options_for(catalog::Backend::kCpu);
  options.compute = catalog::ComputeMode::kBf16;
  const auto found = run_model(*model_, options, pool_);
  ASSERT_TRUE(found.ok()) << found.status().message();
  // A router may choose another expert, an indexer another row.
  if (GetParam() == "experts" || GetParam() == "weights" || GetParam() == "compressed") return;
  EXPECT_LE(relative_difference(*found, wanted_), std::sqrt(static_cast<double>(model_->graph.nodes.size())) / 64);
}

INSTANTIATE_TEST_SUITE_P(Graphs, Meaning, testing::ValuesIn(graph_files()),
                         [](const testing::TestParamInfo<std::string>& file) { return file.param; });

}  // namespace
}  // namespace firstlight::plans
