// SPDX-License-Identifier: Apache-2.0
// Embeddings: which rows of the last hidden state make the vector of a text, and what is done to it afterwards.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace firstlight::request {

enum class Pooling : uint8_t { kLast, kMean, kFirst };

std::string_view pooling_name(Pooling pooling);  // "last", "mean", "first"
// "cls" is another word for "first". Errors: kInvalidArgument naming the word and the known ones.
Result<Pooling> parse_pooling(std::string_view word);

// Takes the rows of a text in order and in pieces; from a row at position 0 on it begins anew.
class Pooler {
 public:
  Pooler() = default;
  explicit Pooler(Pooling pooling) : pooling_(pooling) {}
  // The row of the token at `position`. Rows of a mean are summed in float64.
  void add(int64_t position, std::span<const float> row);
  std::vector<float> result() const;

 private:
  Pooling pooling_ = Pooling::kLast;
  int64_t num_rows_ = 0;
  std::vector<double> sum_;
};

// Cut to the first `dimensions` (0: all), then divided by its length in the sense of L2 where that is wanted; zeros
// stay zeros. Errors: kInternal where a value is no number.
Status finish_embedding(std::vector<float>& vector, int64_t dimensions, bool normalise);

}  // namespace firstlight::request
