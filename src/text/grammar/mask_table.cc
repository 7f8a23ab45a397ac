// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/mask_table.h"

#include <utility>

namespace firstlight::text::grammar {
namespace {

constexpr size_t kNodesPerCheck = 256;

void set_bit(TokenBits& bits, int32_t token) {
  bits.words[static_cast<size_t>(token) / 64] |= uint64_t{1} << (static_cast<size_t>(token) % 64);
  bits.any = true;
}

TokenBits no_tokens(const TokenTexts& texts) {
  return {.words = std::vector<uint64_t>(static_cast<size_t>(texts.vocab_size() + 63) / 64, 0)};
}

}  // namespace

MaskTable::MaskTable(std::shared_ptr<const Automaton> automaton, std::shared_ptr<const TokenTexts> texts,
                     std::shared_ptr<TableBudget> budget, MaskLimits limits)
    : texts_(std::move(texts)),
      budget_(std::move(budget)),
      limits_(limits),
      matcher_(std::move(automaton)),
      least_bytes_(matcher_.size_bytes()) {
  count_bytes();
}

MaskTable::~MaskTable() { budget_->used_bytes -= counted_bytes_; }

void MaskTable::count_bytes() {
  const size_t now =
      matcher_.size_bytes() + masks_.size() * (static_cast<size_t>(texts_->vocab_size()) / 8 + sizeof(TokenBits));
  budget_->used_bytes += now - counted_bytes_;  // wraps where it shrank, as it should
  counted_bytes_ = now;
}

bool MaskTable::is_full() const {
  const size_t own = counted_bytes_ - least_bytes_;
  // A table on its own share of an overdrawn budget still keeps some, or it would compute every mask anew.
  const size_t most = budget_->used_bytes > budget_->limit_bytes ? limits_.max_bytes / 16 : limits_.max_bytes;
  return own > most;
}

Result<const TokenBits*> MaskTable::allowed(StateId state, bool at_start) {
  const int64_t key = int64_t{state} * 2 + (at_start && texts_->differs_at_start() ? 1 : 0);
  auto found = masks_.find(key);
  if (found == masks_.end()) {
    auto bits = compute(state, at_start);
    count_bytes();
    if (!bits.ok()) return std::move(bits).status();
    found = masks_.emplace(key, std::move(*bits)).first;
  }
  return &found->second;
}

Result<TokenBits> MaskTable::compute(StateId state, bool at_start) {
  ++num_computed_;
  const TokenTrie& trie = texts_->trie(at_start);
  TokenBits bits = no_tokens(*texts_);
  const uint64_t work_before = matcher_.work();
  matcher_.clear_gave_up();
  std::vector<StateId> states(trie.max_depth() + 1, Matcher::kDead);
  states[0] = state;
  size_t check = 0;
  for (size_t node = 0; node < trie.num_nodes();) {
    const uint32_t depth = trie.depth(node);
    const StateId next = matcher_.step(states[depth - 1], trie.byte(node));
    if (++check % kNodesPerCheck == 0 &&
        (matcher_.work() - work_before > limits_.max_work ||
         matcher_.size_bytes() - least_bytes_ > 4 * limits_.max_bytes || matcher_.gave_up())) {
      break;
    }
    if (next == Matcher::kDead) {
      node = trie.next(node);
      continue;
    }
    states[depth] = next;
    for (const int32_t token : trie.tokens(node)) set_bit(bits, token);
    ++node;
  }
  if (matcher_.gave_up() || matcher_.work() - work_before > limits_.max_work ||
      matcher_.size_bytes() - least_bytes_ > 4 * limits_.max_bytes) {
    return invalid_argument("the constraint is too ambiguous to follow here: too many ways lead on");
  }
  return bits;
}

TokenBits allowed_plainly(Matcher& matcher, const TokenTexts& texts, StateId state, bool at_start) {
  TokenBits bits = no_tokens(texts);
  for (int32_t token = 0; token < texts.vocab_size(); ++token) {
    const std::string_view bytes = texts.bytes(token, at_start);
    if (!bytes.empty() && matcher.read(state, bytes) != Matcher::kDead) set_bit(bits, token);
  }
  return bits;
}

}  // namespace firstlight::text::grammar
