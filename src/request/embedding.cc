// SPDX-License-Identifier: Apache-2.0
#include "request/embedding.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

namespace firstlight::request {
namespace {

constexpr std::array<std::pair<std::string_view, Pooling>, 4> kWords = {
    {{"last", Pooling::kLast}, {"mean", Pooling::kMean}, {"first", Pooling::kFirst}, {"cls", Pooling::kFirst}}};

}  // namespace

std::string_view pooling_name(Pooling pooling) {
  const auto found =
      std::find_if(kWords.begin(), kWords.end(), [&](const auto& word) { return word.second == pooling; });
  return found->first;
}

Result<Pooling> parse_pooling(std::string_view word) {
  for (const auto& [name, pooling] : kWords) {
    if (name == word) return pooling;
  }
  return invalid_argument("pooling '" + std::string(word.substr(0, 80)) + "', one of last, mean, first and cls wanted");
}

void Pooler::add(int64_t position, std::span<const float> row) {
  if (position == 0) num_rows_ = 0;
  const bool counts = pooling_ != Pooling::kFirst || position == 0;
  if (!counts) return;
  if (num_rows_ == 0 || pooling_ != Pooling::kMean) {
    sum_.assign(row.begin(), row.end());
    num_rows_ = 1;
    return;
  }
  for (size_t i = 0; i < row.size(); ++i) sum_[i] += static_cast<double>(row[i]);
  ++num_rows_;
}

std::vector<float> Pooler::result() const {
  std::vector<float> vector(sum_.size());
  for (size_t i = 0; i < vector.size(); ++i) vector[i] = static_cast<float>(sum_[i] / static_cast<double>(num_rows_));
  return vector;
}

Status finish_embedding(std::vector<float>& vector, int64_t dimensions, bool normalise) {
  if (dimensions > 0) vector.resize(std::min(vector.size(), static_cast<size_t>(dimensions)));
  double squares = 0;
  for (const float value : vector) squares += static_cast<double>(value) * static_cast<double>(value);
  if (!std::isfinite(squares)) return internal_error("the embedding has values that are no numbers");
  if (!normalise || squares == 0) return ok_status();
  const double scale = 1 / std::sqrt(squares);
  for (float& value : vector) value = static_cast<float>(static_cast<double>(value) * scale);
  return ok_status();
}

}  // namespace firstlight::request
