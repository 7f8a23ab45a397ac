// SPDX-License-Identifier: Apache-2.0
// Which tokens may follow where a matcher stands, remembered by state: the part of a constraint that its requests
// share. Forgets everything when it has grown past its share of the budget; who still stands somewhere moves over.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "text/grammar/matcher.h"
#include "text/grammar/token_trie.h"

namespace firstlight::text::grammar {

// Memory of all tables that share it. Each table keeps what it needs; above the limit those that grow forget first.
struct TableBudget {
  size_t limit_bytes = size_t{256} << 20;
  std::atomic<size_t> used_bytes = 0;
};

// One bit per token.
struct TokenBits {
  std::vector<uint64_t> words;
  bool any = false;
};

struct MaskLimits {
  uint64_t max_work = 20'000'000;       // places a matcher may visit for one mask
  size_t max_bytes = size_t{24} << 20;  // of one table, beyond what the automaton needs
};

class MaskTable {
 public:
  MaskTable(std::shared_ptr<const Automaton> automaton, std::shared_ptr<const TokenTexts> texts,
            std::shared_ptr<TableBudget> budget, MaskLimits limits);
  ~MaskTable();
  MaskTable(const MaskTable&) = delete;
  MaskTable& operator=(const MaskTable&) = delete;

  Matcher& matcher() { return matcher_; }

  // The tokens that may follow. Errors: kInvalidArgument where finding out takes more than the limits.
  Result<const TokenBits*> allowed(StateId state, bool at_start);
  // Whether it should make room for a new one.
  bool is_full() const;
  void count_bytes();  // brings the budget up to date

  uint64_t num_computed() const { return num_computed_; }

 private:
  Result<TokenBits> compute(StateId state, bool at_start);

  std::shared_ptr<const TokenTexts> texts_;
  std::shared_ptr<TableBudget> budget_;
  MaskLimits limits_;
  Matcher matcher_;
  size_t least_bytes_;
  size_t counted_bytes_ = 0;
  std::unordered_map<int64_t, TokenBits> masks_;  // by state and whether at the start
  uint64_t num_computed_ = 0;
};

// The same without tries, memory or limits: token by token. What tests hold the table against.
TokenBits allowed_plainly(Matcher& matcher, const TokenTexts& texts, StateId state, bool at_start);

}  // namespace firstlight::text::grammar
