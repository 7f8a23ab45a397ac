// SPDX-License-Identifier: Apache-2.0
// Groups of tokens come out the same however the tokens are cut into batches: what waits in the state is what later
// groups need.
#include <gtest/gtest.h>

#include "kernels/kernel.h"

namespace firstlight::kernels {
namespace {

constexpr int64_t kWidth = 5;

// The value of a token's column, by sequence.
float value_of(size_t sequence, int64_t position, int64_t column) {
  return static_cast<float>(1000 * static_cast<int64_t>(sequence) + 10 * position + column);
}

class Stream {
 public:
  Stream(int64_t rate, bool overlap) : rate_(rate), rows_(overlap ? 2 * rate : rate) {
    decl_.kind = ops::StateKind::kFixed;
    decl_.components = {{"c", rows_, kWidth, tensor::DType::kF32}};
    attributes_.set("component", std::string("c"));
    attributes_.set("rate", rate);
    attributes_.set("overlap", overlap);
    attributes_.set("fill", -1.0);
    const catalog::Signature signature{ops::OpKind::kWindowEmit, {}, {}, attributes_};
    prepared_ = body_->prepare({signature, &decl_}).value();
    for (auto& page : memory_) page.assign(static_cast<size_t>(rows_ * kWidth), -99.0f);
  }

  // One batch: so many tokens of each of the two sequences. The groups that came out are checked on the spot.
  void feed(ThreadPool& pool, int64_t first, int64_t second) {
    const int64_t counts[2] = {first, second};
    std::vector<plan::SequenceSpan> spans;
    std::vector<float> x;
    for (size_t s = 0; s < 2; ++s) {
      spans.push_back({static_cast<int64_t>(x.size()) / kWidth, counts[s], length_[s], 0});
      for (int64_t i = 0; i < counts[s] * kWidth; ++i) x.push_back(value_of(s, length_[s] + i / kWidth, i % kWidth));
    }
    plan::Batch batch;
    batch.sequences = spans;
    const int64_t groups = plan::groups_completed(batch, rate_);
    std::vector<float> out(static_cast<size_t>(groups * rows_ * kWidth), -5.0f);
    std::vector<int32_t> positions(static_cast<size_t>(groups), -5);
    run(pool, batch, x, out, positions);
    size_t group = 0;
    for (size_t s = 0; s < 2; ++s) {
      for (int64_t g = 0; g < plan::groups_completed(spans[s], rate_); ++g, ++group) {
        const int64_t start = (length_[s] / rate_ + g) * rate_;
        EXPECT_EQ(positions[group], start);
        for (int64_t i = 0; i < rows_ * kWidth; ++i) {
          const int64_t position = start + rate_ - rows_ + i / kWidth;
          const float wanted = position < 0 ? -1.0f : value_of(s, position, i % kWidth);
          EXPECT_EQ(out[group * static_cast<size_t>(rows_ * kWidth) + static_cast<size_t>(i)], wanted) << position;
        }
      }
      length_[s] += counts[s];
    }
    num_groups_ += groups;
  }
  int64_t num_groups() const { return num_groups_; }

 private:
  void run(ThreadPool& pool, const plan::Batch& batch, std::vector<float>& x, std::vector<float>& out,
           std::vector<int32_t>& positions) {
    const plan::StateComponentView component{tensor::DType::kF32, rows_, kWidth, 0};
    std::byte* pages[2] = {reinterpret_cast<std::byte*>(memory_[0].data()),
                           reinterpret_cast<std::byte*>(memory_[1].data())};
    const std::span<std::byte* const> tables[2] = {{&pages[0], 1}, {&pages[1], 1}};
    const plan::StateView state{1, {&component, 1}, tables};
    const tensor::View inputs[] = {
        tensor::make_view(x.data(),
                          tensor::Type::tensor(tensor::DType::kF32, {static_cast<int64_t>(x.size()) / kWidth, kWidth})),
        {}};
    const auto groups = static_cast<int64_t>(positions.size());
    const tensor::View outputs[] = {
        tensor::make_view(out.data(), tensor::Type::tensor(tensor::DType::kF32, {groups, rows_, kWidth})),
        tensor::make_view(positions.data(), tensor::Type::tensor(tensor::DType::kI32, {groups}))};
    const KernelCall call{prepared_.get(), inputs, outputs, &batch, &state, {}};
    pool.run([&](Worker& worker) { body_->run(call, worker); });
  }

  const KernelBody* body_ = find_kernel("window_emit_f32_f32_ref");
  int64_t rate_;
  int64_t rows_;
  ops::StateDecl decl_;
  ops::Attributes attributes_;
  std::unique_ptr<Prepared> prepared_;
  std::vector<float> memory_[2];
  int64_t length_[2] = {0, 0};
  int64_t num_groups_ = 0;
};

TEST(WindowEmit, GroupsDoNotDependOnTheCutting) {
  for (const int threads : {1, 3}) {
    ThreadPool pool({threads, false, 20});
    for (const bool overlap : {false, true}) {
      for (const int64_t rate : {1, 3, 4}) {
        Stream whole(rate, overlap);
        whole.feed(pool, 29, 17);
        EXPECT_EQ(whole.num_groups(), 29 / rate + 17 / rate);
        Stream pieces(rate, overlap);
        for (const auto& [first, second] : {std::pair(2, 0), {0, 1}, {1, 1}, {1, 9}, {13, 0}, {0, 0}, {12, 6}}) {
          pieces.feed(pool, first, second);
        }
        EXPECT_EQ(pieces.num_groups(), whole.num_groups());
        Stream steps(rate, overlap);
        for (int i = 0; i < 17; ++i) steps.feed(pool, 1, 1);
        EXPECT_EQ(steps.num_groups(), 2 * (17 / rate));
      }
    }
  }
}

}  // namespace
}  // namespace firstlight::kernels
