// SPDX-License-Identifier: Apache-2.0
#include "gates/perplexity.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "engine/sampler.h"
#include "engine/scorer.h"

namespace firstlight::gates {

namespace {

// Rows of the one beside, kept for a window, and what they differ by.
class Beside {
 public:
  explicit Beside(runtime::Executor* executor) : executor_(executor) {}
  bool is_there() const { return executor_ != nullptr; }

  Status read(const std::vector<int32_t>& window, int64_t first_row) {
    rows_.clear();
    Status sound = ok_status();
    FL_TRY(engine::score(*executor_, window, {.first_row = first_row}, [&](int64_t row, std::span<const float> logits) {
      if (row + 1 >= static_cast<int64_t>(window.size())) return;
      if (sound.ok()) sound = engine::check_logits(logits);
      const auto next = static_cast<size_t>(window[static_cast<size_t>(row) + 1]);
      loss_ += engine::log_sum_exp(logits) - logits[next];
      rows_.emplace(row, std::vector<float>(logits.begin(), logits.end()));
    }));
    return sound;
  }

  void compare(int64_t row, std::span<const float> logits) {
    const std::vector<float>& wanted = rows_.at(row);
    const double wanted_sum = engine::log_sum_exp(wanted), found_sum = engine::log_sum_exp(logits);
    double kl = 0;
    for (size_t i = 0; i < wanted.size(); ++i) {
      const double log_p = static_cast<double>(wanted[i]) - wanted_sum;
      kl += std::exp(log_p) * (log_p - (static_cast<double>(logits[i]) - found_sum));
    }
    kls_.push_back(kl);
    const auto top = [](auto values) { return std::max_element(values.begin(), values.end()) - values.begin(); };
    same_top_ += top(std::span<const float>(wanted)) == top(logits);
  }

  Divergence result() {
    std::sort(kls_.begin(), kls_.end());
    const auto count = static_cast<double>(kls_.size());
    Divergence all{.perplexity = std::exp(loss_ / count), .same_top = static_cast<double>(same_top_) / count};
    for (const double kl : kls_) all.mean_kl += kl / count;
    all.p99_kl = kls_[(kls_.size() - 1) * 99 / 100];
    return all;
  }

 private:
  runtime::Executor* executor_;
  std::map<int64_t, std::vector<float>> rows_;
  std::vector<double> kls_;
  int64_t same_top_ = 0;
  double loss_ = 0;
};

}  // namespace

Result<Perplexity> perplexity(runtime::Executor& executor, std::span<const int32_t> tokens,
                              const PerplexityOptions& options) {
  const auto total = static_cast<int64_t>(tokens.size());
  const int64_t prefix = options.bos ? 1 : 0;
  const int64_t room = options.window - prefix;  // text tokens per window
  if (total < 2) return invalid_argument("the text has " + std::to_string(total) + " tokens, at least 2 wanted");
  if (room < 1 || options.window < 2 || options.stride < 1 || options.stride > options.window) {
    return invalid_argument("window " + std::to_string(options.window) + " and stride " +
                            std::to_string(options.stride) +
                            ": a window of 2 or more and a stride from 1 to the window wanted");
  }
  const int64_t stride = std::min(options.stride, room);
  Perplexity result;
  Beside beside(options.beside);
  double sum = 0;
  Status sound = ok_status();
  int64_t scored_to = 0;  // text tokens before it are scored, or have nothing in front of them
  for (int64_t start = 0; scored_to < total; start += stride) {
    const int64_t end = std::min(start + room, total);
    std::vector<int32_t> window;
    window.reserve(static_cast<size_t>(end - start + prefix));
    if (options.bos) window.push_back(*options.bos);
    window.insert(window.end(), tokens.begin() + start, tokens.begin() + end);
    // Row r of the logits predicts window[r + 1].
    const int64_t first_scored = std::max(scored_to - start + prefix, int64_t{1});
    if (beside.is_there()) FL_TRY(beside.read(window, first_scored - 1));
    FL_TRY(engine::score(executor, window, {.first_row = first_scored - 1},
                         [&](int64_t row, std::span<const float> logits) {
                           if (row + 1 >= static_cast<int64_t>(window.size())) return;
                           if (sound.ok()) sound = engine::check_logits(logits);
                           const auto next = static_cast<size_t>(window[static_cast<size_t>(row) + 1]);
                           sum += engine::log_sum_exp(logits) - logits[next];
                           ++result.scored_tokens;
                           if (beside.is_there()) beside.compare(row, logits);
                         }));
    if (!sound.ok()) return sound;
    scored_to = end;
    ++result.num_windows;
    if (options.progress) options.progress(end, total);
  }
  result.perplexity = std::exp(sum / static_cast<double>(result.scored_tokens));
  if (beside.is_there()) result.divergence = beside.result();
  return result;
}

}  // namespace firstlight::gates
