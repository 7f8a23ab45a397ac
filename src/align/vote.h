// SPDX-License-Identifier: Apache-2.0
// Several recordings of the same prompts that do not agree: who is right? Value by value the largest group whose
// members agree within their rounding, who stands outside it, where each of those left and whether what follows is only
// inherited. A majority is no proof: voters that share code share its faults, and the report says which do.
// docs/voters.md has the rules.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "align/pack.h"
#include "align/pair.h"
#include "base/json_fwd.h"

namespace firstlight::align {

struct Voter {
  std::string name;  // unique
  Pack pack;
};
inline constexpr size_t kMostVoters = 16;

struct VotePair {
  size_t a = 0, b = 0;  // voters, a < b
  Distance found;
  double allowed = 0;  // of rel_l2, or of the mismatch of integers
  bool agree = false;
  double size(bool integer) const { return integer ? found.mismatch : found.rel_l2; }
};

enum class Verdict : uint8_t {
  kAgreed,      // all that have the value
  kMajority,    // one largest group, more than half of them; the others are outliers
  kNoMajority,  // they differ, and no group is larger than half, or several are as large
};

struct VoteValue {
  TapInfo info;
  std::vector<size_t> voters;  // that have it in this shape, ascending; two at least
  std::vector<VotePair> pairs;
  Verdict verdict = Verdict::kAgreed;
  std::vector<size_t> group;     // the largest one; empty without a majority
  std::vector<size_t> outliers;  // of `voters`, with a majority
  size_t centre = 0;             // the voter that is nearest to all of the group (without a majority: to all)
  const VotePair* pair(size_t a, size_t b) const;
};

// A layer's result, or the logits, behind the place where an outlier left.
struct LaterValue {
  size_t value = 0;     // into VoteResult::values
  double distance = 0;  // from the group's centre
  bool outside = false;
  bool inherits = false;  // outside, and no further than a layer lets an error grow
};

struct Outlier {
  size_t voter = 0;
  size_t first = 0;                   // into values: where it leaves the group
  std::optional<size_t> last_agreed;  // the value before in its own list, where it was in the group; null: none
  double distance = 0, allowed = 0;   // there, from the group's centre
  std::vector<size_t> together;       // other outliers that agree with it there: they share the fault
  std::vector<LaterValue> later;
  bool only_inherits() const;  // nothing behind `first` needs a second fault
};

struct VoteLogits {
  size_t a = 0, b = 0;
  LogitsComparison found;
};

struct VoteResult {
  std::vector<std::string> names;         // of the voters
  std::vector<std::string> descriptions;  // what they ran
  std::vector<PackRounding> rounding;
  std::vector<VoteValue> values;     // in the order they are computed
  std::vector<Outlier> outliers;     // by where they leave
  std::optional<size_t> first_open;  // the first value without a majority
  std::vector<VoteLogits> logits;
  int64_t prompts = 0;
  int64_t not_voted = 0;           // values that one voter alone has
  std::vector<std::string> notes;  // prompts left out, other shapes, shared code, ...
  bool agreed() const { return outliers.empty() && !first_open; }
};

// Errors: kInvalidArgument, naming the voter: fewer than two or more than kMostVoters, two of one name, none of the
// prompts that the others have, no value in common with another.
Result<VoteResult> vote(const std::vector<Voter>& voters);

Json vote_json(const VoteResult& result);
// A table for a terminal: layers, and what is not agreed in those where somebody leaves; `all`: every value.
std::string vote_text(const VoteResult& result, bool all);
// One page without anything outside it.
std::string vote_html(const VoteResult& result);

}  // namespace firstlight::align
