// SPDX-License-Identifier: Apache-2.0
// Shapes whose sizes may depend on the batch. A dimension is a constant or a multiple of one symbol; a plan is made
// once and holds for every value the symbols take inside its bucket.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace firstlight::tensor {

enum class Symbol : uint8_t {
  kNone,
  kTokens,     // T: tokens in the batch, of all sequences together
  kOutputs,    // O: rows for which logits are wanted
  kSequences,  // S: sequences in the batch
  kRows,       // N: rows routed to one expert, inside a per_expert region; at most T
};

// What the symbols stand for in one run.
struct SymbolValues {
  int64_t tokens = 0;
  int64_t outputs = 0;
  int64_t sequences = 0;
  int64_t rows = 0;

  int64_t of(Symbol symbol) const;
};

// factor * symbol, or the constant `factor`. Printed "576", "T", "4T".
struct Dim {
  int64_t factor = 0;
  Symbol symbol = Symbol::kNone;

  Dim() = default;
  Dim(int64_t constant) : factor(constant) {}  // NOLINT: implicit on purpose
  Dim(int64_t times, Symbol of) : factor(times), symbol(of) {}

  bool is_static() const { return symbol == Symbol::kNone; }
  int64_t at(const SymbolValues& values) const { return is_static() ? factor : factor * values.of(symbol); }
  std::string to_string() const;
  static std::optional<Dim> parse(std::string_view text);
  friend bool operator==(const Dim&, const Dim&) = default;
};

// Outermost first. An empty shape is a scalar.
using Shape = std::vector<Dim>;

std::string shape_to_string(const Shape& shape);  // "[T, 576]"
bool is_static(const Shape& shape);
// Product of the dimensions; for static shapes `values` may be left out.
int64_t num_elements(const Shape& shape, const SymbolValues& values = {});
// The product as one Dim; nullopt when two symbols meet.
std::optional<Dim> dim_product(const Shape& shape);

}  // namespace firstlight::tensor
