// SPDX-License-Identifier: Apache-2.0
// Shapes whose sizes may depend on the batch. A dimension is a constant or a multiple of one symbol; a plan is made
// once and holds for every value the symbols take inside its bucket.
#pragma once

#include <array>
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
  kGroups,     // G<r>: groups of r tokens that the batch completes, of all sequences together; at most T
};

// What the symbols stand for in one run.
struct SymbolValues {
  int64_t tokens = 0;
  int64_t outputs = 0;
  int64_t sequences = 0;
  int64_t rows = 0;

  // How many groups of `rate` tokens are completed. Rate 0: an unused place.
  struct Groups {
    int64_t rate = 0;
    int64_t count = 0;
  };
  static constexpr int kMaxRates = 8;
  std::array<Groups, kMaxRates> groups{};

  int64_t of(Symbol symbol, int64_t rate = 1) const;
  // The count that was set for `rate`; where none was, the most that `tokens` tokens of `sequences` sequences can
  // complete.
  int64_t groups_of(int64_t rate) const;
  // False when there are kMaxRates other rates already.
  bool set_groups(int64_t rate, int64_t count);
};

// factor * symbol, or the constant `factor`. Printed "576", "T", "4T"; groups with their rate, "G128", "2G4".
struct Dim {
  int64_t factor = 0;
  Symbol symbol = Symbol::kNone;
  int64_t rate = 1;  // kGroups: tokens in a group

  Dim() = default;
  Dim(int64_t constant) : factor(constant) {}  // NOLINT: implicit on purpose
  Dim(int64_t times, Symbol of) : factor(times), symbol(of) {}
  static Dim groups(int64_t rate) {
    Dim dim(1, Symbol::kGroups);
    dim.rate = rate;
    return dim;
  }

  bool is_static() const { return symbol == Symbol::kNone; }
  int64_t at(const SymbolValues& values) const { return is_static() ? factor : factor * values.of(symbol, rate); }
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
