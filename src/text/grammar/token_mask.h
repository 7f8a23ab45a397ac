// SPDX-License-Identifier: Apache-2.0
// A compiled constraint and the masks of its requests. See constraint.h for what they promise.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "text/grammar/constraint.h"
#include "text/grammar/mask_table.h"
#include "text/grammar/structure.h"

namespace firstlight::text::grammar {

// What ConstraintCompiler does before the vocabulary comes in, but for the control tokens of structures.
Result<Grammar> parse_constraint(const ConstraintSpec& spec, const ControlTokens& tokens = {});
Result<std::shared_ptr<const Automaton>> compile_automaton(const ConstraintSpec& spec,
                                                           const ControlTokens& tokens = {});

class CompiledConstraint final : public Constraint, public std::enable_shared_from_this<CompiledConstraint> {
 public:
  CompiledConstraint(std::shared_ptr<const Automaton> automaton, std::shared_ptr<const TokenTexts> texts,
                     std::shared_ptr<TableBudget> budget, MaskLimits limits = {});

  std::shared_ptr<request::TokenMask> make_mask(bool at_start) const override;
  size_t size_bytes() const { return automaton_->size_bytes(); }

 private:
  friend class ConstraintMask;

  std::shared_ptr<MaskTable> new_table() const;

  std::shared_ptr<const Automaton> automaton_;
  std::shared_ptr<const TokenTexts> texts_;
  std::shared_ptr<TableBudget> budget_;
  MaskLimits limits_;
  mutable std::mutex mutex_;  // of table_ and of what it points to, and of all tables before it
  mutable std::shared_ptr<MaskTable> table_;
};

class ConstraintMask final : public request::TokenMask {
 public:
  ConstraintMask(std::shared_ptr<const CompiledConstraint> constraint, bool at_start);

  void set_stop_tokens(std::span<const int32_t> ids) override { stops_.assign(ids.begin(), ids.end()); }
  Status apply(std::span<uint8_t> allowed) override;
  void accept(int32_t token) override;
  bool is_over() const override;

 private:
  void move_to_current_table();

  std::shared_ptr<const CompiledConstraint> constraint_;
  std::shared_ptr<MaskTable> table_;  // where state_ is at home
  StateId state_;
  bool at_start_;  // no token with bytes so far
  bool is_first_;  // no token so far, of a text that begins here
  std::vector<int32_t> stops_;
};

}  // namespace firstlight::text::grammar
