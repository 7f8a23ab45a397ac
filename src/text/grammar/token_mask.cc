// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/token_mask.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace firstlight::text::grammar {
namespace {

// The eight bytes, 0 or 1, of eight bits.
constexpr std::array<std::array<uint8_t, 8>, 256> kSpread = [] {
  std::array<std::array<uint8_t, 8>, 256> table{};
  for (size_t bits = 0; bits < 256; ++bits) {
    for (size_t i = 0; i < 8; ++i) table[bits][i] = static_cast<uint8_t>((bits >> i) & 1);
  }
  return table;
}();

void spread(const std::vector<uint64_t>& words, std::span<uint8_t> out) {
  size_t at = 0;
  for (const uint64_t word : words) {
    for (size_t part = 0; part < 8 && at < out.size(); ++part) {
      const auto& bytes = kSpread[(word >> (8 * part)) & 0xFF];
      const size_t count = std::min<size_t>(8, out.size() - at);
      std::memcpy(out.data() + at, bytes.data(), count);
      at += count;
    }
  }
  std::fill(out.begin() + static_cast<std::ptrdiff_t>(at), out.end(), uint8_t{0});
}

}  // namespace

CompiledConstraint::CompiledConstraint(std::shared_ptr<const Automaton> automaton,
                                       std::shared_ptr<const TokenTexts> texts, std::shared_ptr<TableBudget> budget,
                                       MaskLimits limits)
    : automaton_(std::move(automaton)),
      texts_(std::move(texts)),
      budget_(std::move(budget)),
      limits_(limits),
      table_(new_table()) {}

std::shared_ptr<MaskTable> CompiledConstraint::new_table() const {
  return std::make_shared<MaskTable>(automaton_, texts_, budget_, limits_);
}

std::shared_ptr<request::TokenMask> CompiledConstraint::make_mask(bool at_start) const {
  const std::scoped_lock lock(mutex_);
  return std::make_shared<ConstraintMask>(shared_from_this(), at_start);
}

ConstraintMask::ConstraintMask(std::shared_ptr<const CompiledConstraint> constraint, bool at_start)
    : constraint_(std::move(constraint)),
      table_(constraint_->table_),
      state_(table_->matcher().start()),
      at_start_(at_start),
      is_first_(at_start) {}

void ConstraintMask::move_to_current_table() {
  if (constraint_->table_->is_full()) constraint_->table_ = constraint_->new_table();
  if (table_ == constraint_->table_) return;
  state_ = constraint_->table_->matcher().adopt(table_->matcher(), state_);
  table_ = constraint_->table_;
}

Status ConstraintMask::apply(std::span<uint8_t> allowed) {
  const std::scoped_lock lock(constraint_->mutex_);
  move_to_current_table();
  const TokenBits& bits = *FL_TRY(table_->allowed(state_, at_start_));
  spread(bits.words, allowed);
  bool any = bits.any;
  if (is_first_) {
    for (const int32_t token : constraint_->texts_->empty_at_start()) {
      if (static_cast<size_t>(token) < allowed.size()) allowed[static_cast<size_t>(token)] = 1;
    }
  }
  const bool may_end = table_->matcher().may_end(state_);
  for (const int32_t token : stops_) {
    if (token < 0 || static_cast<size_t>(token) >= allowed.size()) continue;
    // A mark of the structure itself ends some outputs; as text it would be part of it.
    const bool is_wanted = may_end || (allowed[static_cast<size_t>(token)] != 0 && constraint_->texts_->is_mark(token));
    allowed[static_cast<size_t>(token)] = is_wanted ? 1 : 0;
    any = any || may_end;
  }
  if (!any) return invalid_argument("the constraint wants text that no token of the vocabulary can spell");
  return ok_status();
}

void ConstraintMask::accept(int32_t token) {
  const std::scoped_lock lock(constraint_->mutex_);
  move_to_current_table();
  const TokenTexts& texts = *constraint_->texts_;
  const std::string_view bytes = texts.bytes(token, at_start_);
  state_ = table_->matcher().read(state_, bytes);
  at_start_ = at_start_ && is_first_ && bytes.empty() && texts.starts_after_empty();
  is_first_ = false;
}

bool ConstraintMask::is_over() const {
  const std::scoped_lock lock(constraint_->mutex_);
  Matcher& matcher = table_->matcher();
  return matcher.may_end(state_) && !matcher.may_go_on(state_);
}

}  // namespace firstlight::text::grammar
