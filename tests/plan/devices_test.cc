// SPDX-License-Identifier: Apache-2.0
// What whole graphs compute on devices: every graph of graphs/ on simt and, where there is a platform, on OpenCL, in
// the batches of model.h, against the reference backend. Experts, branches, windows, latent attention, recurrences.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "device/open.h"
#include "model.h"

namespace firstlight::plans {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> graph_names() {
  std::vector<std::string> names;
  for (const auto& file : fs::directory_iterator(FL_GRAPHS_DIR)) {
    if (file.path().extension() == ".ir") names.push_back(file.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string text_of(const std::string& name) {
  std::ifstream file(fs::path(FL_GRAPHS_DIR) / (name + ".ir"));
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

class OnDevices : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    auto model = make_model(text_of(GetParam()), 11);
    ASSERT_TRUE(model.ok()) << model.status().message();
    model_.emplace(*std::move(model));
    auto wanted = run_model(*model_, options_for(catalog::Backend::kReference), pool_);
    ASSERT_TRUE(wanted.ok()) << wanted.status().message();
    wanted_ = *std::move(wanted);
  }

  void expect_same(device::Device& device, catalog::Backend backend) {
    const auto found = run_model(*model_, options_for(backend), pool_, {.device = &device});
    ASSERT_TRUE(found.ok()) << found.status().message();
    EXPECT_LE(relative_difference(*found, wanted_), 5e-5);
  }

  ThreadPool pool_{{.num_threads = 2, .pin = false}};
  std::optional<Model> model_;
  Outputs wanted_;
};

TEST_P(OnDevices, Simt) {
  auto device =
      device::open_device(target::DeviceKind::kSimt, {.cache_dir = FL_CACHE_DIR, .warp_width = 64, .checked = true});
  ASSERT_TRUE(device.ok()) << device.status().message();
  expect_same(**device, catalog::Backend::kSimt);
}

TEST_P(OnDevices, Opencl) {
  auto device = device::open_device(target::DeviceKind::kOpencl, {.cache_dir = FL_CACHE_DIR});
  if (!device.ok()) GTEST_SKIP() << device.status().message();
  expect_same(**device, catalog::Backend::kOpencl);
  EXPECT_EQ((*device)->bytes_in_use(), 0) << "memory of the plan is given back";
}

INSTANTIATE_TEST_SUITE_P(Graphs, OnDevices, testing::ValuesIn(graph_names()),
                         [](const testing::TestParamInfo<std::string>& name) { return name.param; });

}  // namespace
}  // namespace firstlight::plans
