// SPDX-License-Identifier: Apache-2.0
#include "tensor/shape.h"

#include <array>
#include <charconv>
#include <utility>

#include "base/check.h"

namespace firstlight::tensor {
namespace {

constexpr std::array<std::pair<char, Symbol>, 4> kLetters = {
    {{'T', Symbol::kTokens}, {'O', Symbol::kOutputs}, {'S', Symbol::kSequences}, {'N', Symbol::kRows}}};

}  // namespace

int64_t SymbolValues::of(Symbol symbol) const {
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
  }
  return 1;
}

std::string Dim::to_string() const {
  for (const auto& [letter, letter_symbol] : kLetters) {
    if (letter_symbol == symbol) return (factor == 1 ? std::string() : std::to_string(factor)) + letter;
  }
  return std::to_string(factor);
}

std::optional<Dim> Dim::parse(std::string_view text) {
  if (text.empty()) return std::nullopt;
  Dim dim(1);
  for (const auto& [letter, letter_symbol] : kLetters) {
    if (text.back() == letter) dim.symbol = letter_symbol;
  }
  if (!dim.is_static()) text.remove_suffix(1);
  if (text.empty()) return dim;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), dim.factor);
  if (error != std::errc() || end != text.data() + text.size() || dim.factor < 0) return std::nullopt;
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
    if (!dim.is_static()) product.symbol = dim.symbol;
    if (__builtin_mul_overflow(product.factor, dim.factor, &product.factor)) return std::nullopt;
  }
  return product;
}

}  // namespace firstlight::tensor
