// SPDX-License-Identifier: Apache-2.0
// Recurrences over 131,072 tokens, as one sequence or as 256 of 512: their operands, and what the formulas say of
// sampled rows and of the states afterwards.
#pragma once

#include <string>
#include <vector>

#include "kernel_run.h"

namespace firstlight::long_tests {

inline constexpr int64_t kRecurrenceTokens = 131072;

struct RecurrenceProblem {
  std::string name;
  ops::OpKind op;
  ops::Attributes attributes;
  std::vector<Tensor> operands;
  std::vector<bool> is_per_token;
  int64_t state_heads = 1, state_width = 1;
  int64_t length = kRecurrenceTokens;  // of a sequence: the tokens are one of 131,072 or 256 of 512
};

// What the formula says of sampled rows and of the state after all tokens, and how far off each may be.
struct RecurrenceAnswer {
  std::vector<std::vector<double>> y, y_bound;
  std::vector<double> state, state_bound;  // one sequence after the other
};

// 64 of them, ascending: both ends, both sides of the ends of chunks and pieces, the rest anywhere.
const std::vector<int64_t>& sampled_tokens();

using MakeRecurrenceProblem = RecurrenceProblem (*)();
std::vector<MakeRecurrenceProblem> recurrence_problems();

// The formula token by token in float64, and beside it the recurrence of the error (docs/numerics.md, "Long
// recurrences").
RecurrenceAnswer judge_recurrence(const RecurrenceProblem& problem);

}  // namespace firstlight::long_tests
