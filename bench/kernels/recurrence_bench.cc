// SPDX-License-Identifier: Apache-2.0
// The CPU's recurrences against the roofs of the machine, measured in the same run:
//   recurrence_bench [--threads N] [--form avx2|avx512] [--tokens N] [--clock cpu]
// Shapes of a large hybrid model: 32 heads of 128 x 128. Prompts count operations of the token-by-token form (6 per
// state element and token for delta, 4 for gla, so that a form is not praised for work it adds), decoding counts the
// state read and written, over more states than the caches hold. --clock cpu counts the time that one thread computes,
// for a machine that others use too.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <random>
#include <string>
#include <vector>

#include "kernels/kernel.h"
#include "ops/infer.h"
#include "roof.h"

namespace firstlight::bench {
namespace {

struct Options {
  int threads = 2;
  int64_t tokens = 0;
  std::string form = "avx512";
  bool cpu_clock = false;
};

constexpr int64_t kHeads = 32, kGroups = 16, kKey = 128, kValue = 128;

bool g_cpu_clock = false;

double seconds_now() {
  if (g_cpu_clock) return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// A call of recur_gla or recur_delta on `sequences` sequences of `tokens` tokens each.
class Recurrence {
 public:
  Recurrence(bool delta, bool by_key, int64_t sequences, int64_t tokens, const std::string& form)
      : rows_(sequences * tokens) {
    const tensor::Shape decay = by_key ? tensor::Shape{rows_, kHeads, kKey} : tensor::Shape{rows_, kHeads};
    add({rows_, kGroups, kKey}, 0.09f);
    add({rows_, kGroups, kKey}, 0.08f);
    add({rows_, kHeads, kValue}, 1.0f);
    add(decay, 0.1f);
    for (float& v : data_.back()) v = -std::fabs(v);
    if (delta) add({rows_, kHeads}, 0.5f);
    for (float& v : data_.back()) v = delta ? std::min(std::fabs(v), 1.0f) : v;
    types_.push_back(tensor::Type::state());
    y_.resize(static_cast<size_t>(rows_ * kHeads * kValue));
    state_.resize(static_cast<size_t>(sequences * kHeads * kKey * kValue));
    for (int64_t s = 0; s < sequences; ++s) {
      spans_.push_back({s * tokens, tokens, 0, tokens});
      pages_.push_back({reinterpret_cast<std::byte*>(state_.data() + s * kHeads * kKey * kValue)});
    }
    for (const auto& pages : pages_) page_spans_.emplace_back(pages);
    decl_.kind = ops::StateKind::kFixed;
    decl_.components = {{"s", kHeads * kKey, kValue}};
    components_ = {{tensor::DType::kF32, kHeads * kKey, kValue, 0}};
    view_ = {1, components_, page_spans_};
    attributes_.set("component", std::string("s"));
    body_ = kernels::find_kernel((delta ? "recur_delta_f32_f32_" : "recur_gla_f32_f32_") + form);
    const catalog::Signature signature{
        delta ? ops::OpKind::kRecurDelta : ops::OpKind::kRecurGla, types_, {}, attributes_};
    prepared_ = body_->prepare({signature, &decl_}).value();
    for (size_t i = 0; i < data_.size(); ++i) inputs_.push_back(tensor::make_view(data_[i].data(), types_[i]));
    inputs_.emplace_back();
    outputs_ = {tensor::make_view(y_.data(), types_[2]), {}};
    batch_.sequences = spans_;
  }

  double run(ThreadPool& pool) {
    const double start = seconds_now();
    pool.run([&](Worker& worker) { body_->run({prepared_.get(), inputs_, outputs_, &batch_, &view_, {}}, worker); });
    return seconds_now() - start;
  }
  double state_bytes() const { return static_cast<double>(state_.size()) * sizeof(float); }
  double state_elements() const { return static_cast<double>(kHeads * kKey * kValue) * static_cast<double>(rows_); }

 private:
  void add(tensor::Shape shape, float scale) {
    std::normal_distribution<float> normal(0.0f, scale);
    auto& values = data_.emplace_back(static_cast<size_t>(tensor::num_elements(shape)));
    for (float& v : values) v = normal(random_);
    types_.push_back(ops::f32(std::move(shape)));
  }

  int64_t rows_;
  std::mt19937 random_{1};
  std::vector<std::vector<float>> data_;
  std::vector<tensor::Type> types_;
  std::vector<float> y_, state_;
  std::vector<plan::SequenceSpan> spans_;
  std::vector<std::vector<std::byte*>> pages_;
  std::vector<std::span<std::byte* const>> page_spans_;
  std::vector<plan::StateComponentView> components_;
  plan::StateView view_;
  plan::Batch batch_;
  ops::StateDecl decl_;
  ops::Attributes attributes_;
  const kernels::KernelBody* body_ = nullptr;
  std::unique_ptr<kernels::Prepared> prepared_;
  std::vector<tensor::View> inputs_, outputs_;
};

void bench_one(const Options& options, bool delta, bool by_key, int64_t sequences, int64_t tokens, ThreadPool& pool) {
  Recurrence recurrence(delta, by_key, sequences, tokens, options.form);
  static std::vector<std::byte> memory(size_t{256} << 20, std::byte{1});
  double best = 1e9, roof = 0;
  const double until = seconds_now() + 1.0;
  do {
    best = std::min(best, recurrence.run(pool));
    roof =
        std::max(roof, tokens > 1 ? compute_roof(pool, Unit::kFloat32) : read_roof(pool, memory.data(), memory.size()));
  } while (seconds_now() < until);
  std::printf("%-5s %-7s %3ld x %-4ld tokens %9.3f ms, %8.0f tokens/s a layer, ", delta ? "delta" : "gla",
              by_key ? "by key" : "by head", sequences, tokens, best * 1e3,
              static_cast<double>(sequences * tokens) / best);
  if (tokens > 1) {
    const double operations = (delta ? 6 : 4) * recurrence.state_elements();
    std::printf("%6.1f Gop/s, %4.1f %% of %.0f\n", operations / best * 1e-9, 100 * operations / best / roof,
                roof * 1e-9);
  } else {
    const double bytes = 2 * recurrence.state_bytes();
    std::printf("%6.1f GB/s, %4.1f %% of %.1f read\n", bytes / best * 1e-9, 100 * bytes / best / roof, roof * 1e-9);
  }
  std::fflush(stdout);
}

int run(const Options& options) {
  g_cpu_clock = options.cpu_clock;
  ThreadPool pool(ThreadPool::Options{.num_threads = options.threads});
  for (const bool delta : {false, true}) {
    for (const bool by_key : {false, true}) {
      for (const int64_t tokens : {int64_t{512}, int64_t{32}, int64_t{8}, int64_t{1}}) {
        if (options.tokens != 0 && options.tokens != tokens) continue;
        bench_one(options, delta, by_key, tokens > 8 ? 1 : 64, tokens, pool);
      }
    }
  }
  return 0;
}

}  // namespace
}  // namespace firstlight::bench

int main(int argc, char** argv) {
  firstlight::bench::Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--threads") == 0) options.threads = std::atoi(argv[i + 1]);
    if (std::strcmp(argv[i], "--tokens") == 0) options.tokens = std::atol(argv[i + 1]);
    if (std::strcmp(argv[i], "--form") == 0) options.form = argv[i + 1];
    if (std::strcmp(argv[i], "--clock") == 0) options.cpu_clock = std::strcmp(argv[i + 1], "cpu") == 0;
  }
  return firstlight::bench::run(options);
}
