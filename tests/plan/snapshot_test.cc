// SPDX-License-Identifier: Apache-2.0
// A prompt's recurrent state copied and brought back, on hosts and devices: what follows the prompt, said twice from
// the snapshot, is the same bit for bit, also in another sequence.
#include <gtest/gtest.h>

#include <array>

#include "device/open.h"
#include "kv/state_cache.h"
#include "model.h"

namespace firstlight::plans {
namespace {

constexpr std::string_view kGraph = R"(graph @recurrent {
  state s.0 = fixed {owner = "layer", rewind = "snapshot"} (conv: f32[2 x 16], s: f32[16 x 8])
  input %tokens : i32[T]
  input %output_rows : i32[O]
  weight @embed : f32[48, 16]
  weight @taps : f32[16, 3]
  weight @norm : f32[16]
  weight @head : f32[48, 16]
  %x = gather_rows @embed, %tokens : f32[T, 16]
  %c, %s1 = conv1d %x, @taps, $s.0 {component = "conv", dilation = 1} : f32[T, 16], state
  %n = rms_norm %c, @norm {eps = 1e-06, offset = 0.0} : f32[T, 16]
  %k0 = slice %n {axis = 1, start = 0, stop = 8} : f32[T, 8]
  %k1 = reshape %k0 {shape = "T,1,8"} : f32[T, 1, 8]
  %k = map %k1 {expr = mul(x0, 0.35)} : f32[T, 1, 8]
  %v = reshape %n {shape = "T,2,8"} : f32[T, 2, 8]
  %g0 = slice %n {axis = 1, start = 0, stop = 2} : f32[T, 2]
  %decay = map %g0 {expr = sub(0.0, mul(0.05, exp(x0)))} : f32[T, 2]
  %beta = map %g0 {expr = sigmoid(x0)} : f32[T, 2]
  %y, %s2 = recur_delta %k, %k, %v, %decay, %beta, %s1 {component = "s"} : f32[T, 2, 8], state
  %y2 = reshape %y {shape = "T,16"} : f32[T, 16]
  %o = gather_rows %y2, %output_rows : f32[O, 16]
  %logits = linear %o, @head {compute = "auto"} : f32[O, 48]
  output logits = %logits
}
)";

class Snapshots : public testing::TestWithParam<catalog::Backend> {
 protected:
  void SetUp() override {
    if (GetParam() == catalog::Backend::kSimt || GetParam() == catalog::Backend::kOpencl) {
      const bool simt = GetParam() == catalog::Backend::kSimt;
      auto opened = device::open_device(simt ? target::DeviceKind::kSimt : target::DeviceKind::kOpencl,
                                        {.cache_dir = FL_CACHE_DIR, .warp_width = simt ? 64 : 0});
      if (!opened.ok()) GTEST_SKIP() << opened.status().message();
      device_ = *std::move(opened);
    }
    model_.emplace(make_model(kGraph, 5).value());
    auto plan = compiler::compile(model_->graph, options_for(GetParam()));
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    executor_ =
        runtime::Executor::create(*std::move(plan), model_->checkpoint, pool_, {.device = device_.get()}).value();
  }

  // The logits after each of these tokens.
  std::vector<float> feed(kv::StateCache& cache, kv::SequenceId id, std::span<const int32_t> tokens) {
    const std::array ids = {id};
    std::vector<float> all;
    for (const int32_t token : tokens) {
      const auto at = static_cast<int32_t>(cache.length(id));
      FL_CHECK(cache.extend(id, at + 1).ok());
      const int32_t row = 0;
      const plan::SequenceSpan span{.first_row = 0, .num_tokens = 1, .start_position = at, .planned_length = 64};
      const Status ran = executor_->run(
          {.tokens = {&token, 1}, .positions = {&at, 1}, .output_rows = {&row, 1}, .sequences = {&span, 1}},
          cache.views(ids));
      EXPECT_TRUE(ran.ok()) << ran.message();
      const auto* logits = executor_->output("logits").as<float>();
      all.insert(all.end(), logits, logits + 48);
    }
    return all;
  }

  ThreadPool pool_{{.num_threads = 2, .pin = false}};
  std::unique_ptr<device::Device> device_;
  std::optional<Model> model_;
  std::unique_ptr<runtime::Executor> executor_;
};

TEST_P(Snapshots, AreContinuedTwiceAlike) {
  auto cache = kv::StateCache::create(executor_->plan().states, {.storage = executor_->page_storage()}).value();
  const kv::SequenceId id = cache.add_sequence();
  const std::vector<int32_t> prompt = {3, 9, 41, 7, 7, 20, 5, 33, 12}, rest = {8, 1, 44, 30, 2};
  feed(cache, id, prompt);
  const kv::SnapshotId taken = cache.take_snapshot(id).value();
  const std::vector<float> first = feed(cache, id, rest);
  EXPECT_NE(feed(cache, id, rest), first) << "the state matters";
  ASSERT_TRUE(cache.restore(id, taken).ok());
  EXPECT_EQ(feed(cache, id, rest), first);
  const kv::SequenceId other = cache.add_sequence();
  ASSERT_TRUE(cache.restore(other, taken).ok());  // no logs: the snapshot is all there is
  EXPECT_EQ(feed(cache, other, rest), first);
}

INSTANTIATE_TEST_SUITE_P(Backends, Snapshots,
                         testing::Values(catalog::Backend::kReference, catalog::Backend::kCpu, catalog::Backend::kSimt,
                                         catalog::Backend::kOpencl),
                         [](const testing::TestParamInfo<catalog::Backend>& backend) {
                           return std::string(catalog::backend_name(backend.param));
                         });

}  // namespace
}  // namespace firstlight::plans
