// SPDX-License-Identifier: Apache-2.0
// The recurrences, conv1d and shift over 131,072 tokens: 64 sampled rows and the states at the end against the formulas
// in float64, in one run and in pieces, and as 256 sequences of 512.
#include <gtest/gtest.h>

#include <algorithm>

#include "recurrences.h"

namespace firstlight::long_tests {
namespace {

constexpr int64_t kTokens = kRecurrenceTokens;

size_t at(int64_t i) { return static_cast<size_t>(i); }

// Tokens first .. first + count - 1 of an operand.
Tensor piece_of(const Tensor& whole, int64_t first, int64_t count) {
  const auto bytes = static_cast<int64_t>(whole.data.size()) / kTokens;
  Tensor piece{whole.type, {whole.data.begin() + first * bytes, whole.data.begin() + (first + count) * bytes}};
  piece.type.shape[0] = tensor::Dim(count);
  return piece;
}

// The states of all sequences, and the tokens run so far.
class Runner {
 public:
  explicit Runner(const RecurrenceProblem& p)
      : problem_(p), count_(kTokens / p.length), state_(at(count_ * p.state_heads * p.state_width), 0.0f) {
    declaration_.name = "s.0";
    declaration_.kind = ops::StateKind::kFixed;
    declaration_.rewind = ops::Rewind::kSnapshot;
    declaration_.components = {{"s", p.state_heads, p.state_width, DType::kF32}};
    component_ = {DType::kF32, p.state_heads, p.state_width, 0};
    for (int64_t s = 0; s < count_; ++s) {
      page_.push_back(reinterpret_cast<std::byte*>(state_.data() + s * p.state_heads * p.state_width));
    }
    for (std::byte*& page : page_) pages_.emplace_back(&page, 1);
    view_ = {1, {&component_, 1}, pages_};
  }
  // `count` tokens of the one sequence, or of all that there are.
  KernelRun call(int64_t count) {
    KernelRun run{problem_.op, problem_.attributes, {}, {&declaration_}, {&view_}, {}};
    if (count_ == 1) run.spans = {{0, count, done_, kTokens}};
    for (int64_t s = 0; count_ > 1 && s < count_; ++s) {
      run.spans.push_back({s * problem_.length, problem_.length, 0, problem_.length});
    }
    for (size_t i = 0; i < problem_.operands.size(); ++i) {
      run.operands.push_back(problem_.is_per_token[i] ? piece_of(problem_.operands[i], done_, count)
                                                      : problem_.operands[i]);
    }
    return run;
  }
  void advance(int64_t count, const catalog::KernelRow& row, ThreadPool& pool, const RecurrenceAnswer& wanted,
               Tally& tally) {
    const auto y = run(call(count), row, pool)[0];
    const size_t width = y.size() / at(count);
    for (size_t r = 0; r < sampled_tokens().size(); ++r) {
      const int64_t token = sampled_tokens()[r] - done_;
      if (token < 0 || token >= count) continue;
      for (size_t i = 0; i < width; ++i) {
        tally.add(static_cast<double>(y[at(token) * width + i]), wanted.y[r][i], wanted.y_bound[r][i]);
      }
    }
    done_ += count;
  }
  void expect_state(const RecurrenceAnswer& wanted, Tally& tally) const {
    ASSERT_EQ(state_.size(), wanted.state.size());
    for (size_t i = 0; i < state_.size(); ++i) {
      tally.add(static_cast<double>(state_[i]), wanted.state[i], wanted.state_bound[i]);
    }
  }

 private:
  const RecurrenceProblem& problem_;
  int64_t count_;
  std::vector<float> state_;
  ops::StateDecl declaration_;
  plan::StateComponentView component_;
  std::vector<std::byte*> page_;
  std::vector<std::span<std::byte* const>> pages_;
  plan::StateView view_;
  int64_t done_ = 0;
};

class RecurrenceLong : public testing::TestWithParam<MakeRecurrenceProblem> {};

TEST_P(RecurrenceLong, SampledRowsAndTheStateAreWhatTheFormulaSays) {
  RecurrenceProblem p = GetParam()();
  ASSERT_TRUE(ops::check_attributes(ops::op_def(p.op), p.attributes).ok());
  const RecurrenceAnswer wanted = judge_recurrence(p);
  ASSERT_EQ(wanted.y.size(), 64u);
  ThreadPool pool({1, false, 20});
  for (const catalog::KernelRow* row : host_rows(Runner(p).call(4), is_full())) {
    Tally whole_tally, pieces_tally;
    Runner whole(p);
    whole.advance(kTokens, *row, pool, wanted, whole_tally);
    whole.expect_state(wanted, whole_tally);
    whole_tally.conclude(p.name, place_of(*row));
    Runner pieces(p);  // the last 97 tokens one by one
    const int64_t end = kTokens - 97;
    for (int64_t done = 0; done < end; done += 4099) {
      pieces.advance(std::min<int64_t>(4099, end - done), *row, pool, wanted, pieces_tally);
    }
    for (int64_t i = 0; i < 97; ++i) pieces.advance(1, *row, pool, wanted, pieces_tally);
    pieces.expect_state(wanted, pieces_tally);
    pieces_tally.conclude(p.name + ", in pieces", place_of(*row));
  }
}

TEST_P(RecurrenceLong, SequencesOf512In256) {
  RecurrenceProblem p = GetParam()();
  ASSERT_TRUE(ops::check_attributes(ops::op_def(p.op), p.attributes).ok());
  p.length = 512;
  const RecurrenceAnswer wanted = judge_recurrence(p);
  ThreadPool pool({2, false, 20});
  for (const catalog::KernelRow* row : host_rows(Runner(p).call(kTokens), is_full())) {
    Tally tally;
    Runner all(p);
    all.advance(kTokens, *row, pool, wanted, tally);
    all.expect_state(wanted, tally);
    tally.conclude("256 x 512: " + p.name, place_of(*row));
  }
}

INSTANTIATE_TEST_SUITE_P(RecurrenceProblems, RecurrenceLong, testing::ValuesIn(recurrence_problems()));

}  // namespace
}  // namespace firstlight::long_tests
