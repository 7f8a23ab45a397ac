// SPDX-License-Identifier: Apache-2.0
// A grammar as a machine over bytes: per rule a small non-deterministic automaton whose edges read a byte, call a rule
// (once, or counted times), or read nothing. What can never come to an end is cut out, so that whatever state is
// reached, some text finishes it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "text/grammar/grammar.h"

namespace firstlight::text::grammar {

using NodeId = int32_t;

struct ByteEdge {
  uint8_t first;
  uint8_t last;
  NodeId target;
};

struct CallEdge {
  int32_t rule;
  NodeId target;
  int32_t min = 1;  // times; 0 where the rule takes the empty text
  int32_t max = 1;  // kUnbounded
};

class Automaton {
 public:
  struct Limits {
    size_t max_nodes = 400'000;
  };

  // Errors: kInvalidArgument for a rule that is called and not defined, a rule that begins with itself (left
  // recursion), a grammar that no text matches, and what is beyond the limits; they name the rule.
  static Result<Automaton> compile(const Grammar& grammar, Limits limits);
  static Result<Automaton> compile(const Grammar& grammar) { return compile(grammar, Limits()); }

  struct RuleNodes {
    NodeId start;
    NodeId end;  // no edge leaves it
    bool takes_empty = false;
  };

  std::span<const ByteEdge> bytes(NodeId node) const { return slice(bytes_, byte_begin_, node); }
  std::span<const CallEdge> calls(NodeId node) const { return slice(calls_, call_begin_, node); }
  std::span<const NodeId> jumps(NodeId node) const { return slice(jumps_, jump_begin_, node); }
  int32_t call_number(const CallEdge& edge) const { return static_cast<int32_t>(&edge - calls_.data()); }
  const CallEdge& call(int32_t number) const { return calls_[static_cast<size_t>(number)]; }
  bool is_end(NodeId node) const { return is_end_[static_cast<size_t>(node)]; }
  const RuleNodes& rule(RuleId id) const { return rules_[static_cast<size_t>(id)]; }
  const RuleNodes& root() const { return rule(root_); }
  size_t num_nodes() const { return is_end_.size(); }
  size_t num_rules() const { return rules_.size(); }
  size_t size_bytes() const;

  // Bytes that no edge tells apart are of one class.
  uint8_t byte_class(uint8_t byte) const { return class_of_[byte]; }
  uint8_t byte_of_class(size_t c) const { return byte_of_[c]; }
  size_t num_classes() const { return num_classes_; }

 private:
  friend class AutomatonBuilder;

  template <typename T>
  static std::span<const T> slice(const std::vector<T>& all, const std::vector<uint32_t>& begin, NodeId node) {
    const auto i = static_cast<size_t>(node);
    return std::span(all).subspan(begin[i], begin[i + 1] - begin[i]);
  }

  std::vector<ByteEdge> bytes_;
  std::vector<CallEdge> calls_;
  std::vector<NodeId> jumps_;
  std::vector<uint32_t> byte_begin_, call_begin_, jump_begin_;
  std::vector<bool> is_end_;
  std::vector<RuleNodes> rules_;
  RuleId root_ = 0;
  std::array<uint8_t, 256> class_of_{};
  std::array<uint8_t, 256> byte_of_{};
  size_t num_classes_ = 0;
};

// Byte sequences of one to four ranges that together spell exactly the code points of a tidy range.
struct ByteRangeSequence {
  int length = 0;
  std::array<uint8_t, 4> first{};
  std::array<uint8_t, 4> last{};
};
std::vector<ByteRangeSequence> utf8_sequences(const std::vector<CharRange>& ranges);

}  // namespace firstlight::text::grammar
