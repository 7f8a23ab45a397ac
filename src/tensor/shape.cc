// SPDX-License-Identifier: Apache-2.0
#include "tensor/shape.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "base/check.h"

namespace firstlight::tensor {
namespace {

constexpr std::array<std::pair<char, Symbol>, 4> kLetters = {
    {{'T', Symbol::kTokens}, {'O', Symbol::kOutputs}, {'S', Symbol::kSequences}, {'N', Symbol::kRows}}};

}  // namespace

int64_t SymbolValues::of(Symbol symbol, int64_t rate) const {
  switch (symbol) {
    case Symbol::kNone:
      return 1;
    case Symbol::kTokens:
      return tokens;
    case Symbol::kOutputs:
      return outputs;
    case Symbol::kSequences:
      return sequences;
    case Symbol::kRows:
      return rows;
    case Symbol::kGroups:
      return groups_of(rate);
  }
  return 1;
}

int64_t SymbolValues::groups_of(int64_t rate) const {
  for (const Groups& entry : groups) {
    if (entry.rate == rate) return entry.count;
  }
  // A sequence with n tokens here, and up to rate - 1 waiting from before, completes (n + rate - 1) / rate at most.
  return std::min(tokens, (tokens + std::min(sequences, tokens) * (rate - 1)) / rate);
}

bool SymbolValues::set_groups(int64_t rate, int64_t count) {
  for (Groups& entry : groups) {
    if (entry.rate != 0 && entry.rate != rate) continue;
    entry = {rate, count};
    return true;
  }
  return false;
}

std::string Dim::to_string() const {
  if (symbol == Symbol::kGroups) {
    return (factor == 1 ? std::string() : std::to_string(factor)) + "G" + std::to_string(rate);
  }
  for (const auto& [letter, letter_symbol] : kLetters) {
    if (letter_symbol == symbol) return (factor == 1 ? std::string() : std::to_string(factor)) + letter;
  }
  return std::to_string(factor);
}

std::optional<Dim> Dim::parse(std::string_view text) {
  if (text.empty()) return std::nullopt;
  Dim dim(1);
  const auto number = [](std::string_view digits, int64_t& out) {
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), out);
    return error == std::errc() && end == digits.data() + digits.size() && out >= 0;
  };
  if (const size_t place = text.find('G'); place != std::string_view::npos) {
    dim.symbol = Symbol::kGroups;
    if (!number(text.substr(place + 1), dim.rate) || dim.rate < 1) return std::nullopt;
    text = text.substr(0, place);
    if (!text.empty() && !number(text, dim.factor)) return std::nullopt;
    return dim;
  }
  for (const auto& [letter, letter_symbol] : kLetters) {
    if (text.back() == letter) dim.symbol = letter_symbol;
  }
  if (!dim.is_static()) text.remove_suffix(1);
  if (text.empty()) return dim;
  if (!number(text, dim.factor)) return std::nullopt;
  return dim;
}

std::string shape_to_string(const Shape& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + shape[i].to_string();
  return text + "]";
}

bool is_static(const Shape& shape) {
  for (const Dim& dim : shape) {
    if (!dim.is_static()) return false;
  }
  return true;
}

int64_t num_elements(const Shape& shape, const SymbolValues& values) {
  int64_t product = 1;
  for (const Dim& dim : shape) FL_CHECK(!__builtin_mul_overflow(product, dim.at(values), &product));
  return product;
}

std::optional<Dim> dim_product(const Shape& shape) {
  Dim product(1);
  for (const Dim& dim : shape) {
    if (!dim.is_static() && !product.is_static()) return std::nullopt;
    if (!dim.is_static()) {
      product.symbol = dim.symbol;
      product.rate = dim.rate;
    }
    if (__builtin_mul_overflow(product.factor, dim.factor, &product.factor)) return std::nullopt;
  }
  return product;
}

}  // namespace firstlight::tensor
