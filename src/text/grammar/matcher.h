// SPDX-License-Identifier: Apache-2.0
// Reads bytes against an automaton, all ways at once. Where it stands is a state: nodes, each with the context its rule
// was called from. A context is the set of places to return to, each with a context of its own. Calls of one rule at
// one place share one context, so states stay small where the ways are many (as in Earley's method). States and
// contexts are kept once each and their steps remembered: what was read before in like surroundings costs one look-up
// per byte.
//
// A state that needs more than Limits::max_items places is given up: step() then gives kDead and gave_up() holds.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "text/grammar/automaton.h"

namespace firstlight::text::grammar {

using StateId = int32_t;

// One thread at a time.
class Matcher {
 public:
  struct Limits {
    size_t max_items = 16'384;
  };
  static constexpr StateId kDead = 0;

  explicit Matcher(std::shared_ptr<const Automaton> automaton) : Matcher(std::move(automaton), Limits()) {}
  Matcher(std::shared_ptr<const Automaton> automaton, Limits limits);

  StateId start() const { return start_; }
  StateId step(StateId state, uint8_t byte) {
    const StateId known = steps_[static_cast<size_t>(state) * num_classes_ + automaton_->byte_class(byte)];
    return known != kUnknown ? known : compute_step(state, byte);
  }
  StateId read(StateId state, std::string_view bytes);
  bool may_end(StateId state) const { return states_[static_cast<size_t>(state)].may_end; }
  bool may_go_on(StateId state) const { return states_[static_cast<size_t>(state)].num_items > 0; }

  // The state of another matcher of the same automaton, here.
  StateId adopt(const Matcher& other, StateId state);

  size_t size_bytes() const;
  uint64_t work() const { return work_; }  // places visited so far, as a measure of time
  bool gave_up() const { return gave_up_; }
  void clear_gave_up() { gave_up_ = false; }
  size_t num_states() const { return states_.size(); }

 private:
  using ContextId = int32_t;
  static constexpr StateId kUnknown = -1;
  static constexpr ContextId kBottom = 0;    // of the root: returning from it ends the text
  static constexpr int32_t kEndOfText = -1;  // as an Entry's call

  // Where to go on when a called rule ends: after call edge `call`, whose rule has been read `count` times before.
  struct Entry {
    int32_t call;
    int32_t count;
    ContextId context;
    auto operator<=>(const Entry&) const = default;
  };
  struct Item {
    NodeId node;
    ContextId context;
    auto operator<=>(const Item&) const = default;
  };
  struct Slice {
    uint32_t begin = 0;
    uint32_t size = 0;
  };
  struct State {
    uint32_t first_item = 0;
    uint32_t num_items = 0;
    bool may_end = false;
  };
  // A context that is still being gathered: of a rule called at the place a closure stands at. Named ~index by items.
  struct Gathering {
    std::vector<Entry> entries;
    ContextId id = kUnknown;
  };

  StateId compute_step(StateId state, uint8_t byte);
  StateId close();  // the state of seeds_
  void add(NodeId node, ContextId context);
  void visit(Item item);
  void call(int32_t number, int32_t count, ContextId context);
  void leave(ContextId context);
  bool settle_contexts();
  ContextId settle(Gathering& gathering);
  ContextId intern_context(std::vector<Entry>& entries);
  StateId intern_state(std::span<const Item> items, bool may_end);
  std::span<const Entry> entries(ContextId id) const {
    return std::span(entries_).subspan(contexts_[static_cast<size_t>(id)].begin,
                                       contexts_[static_cast<size_t>(id)].size);
  }
  std::span<const Item> items(StateId id) const {
    return std::span(items_).subspan(states_[static_cast<size_t>(id)].first_item,
                                     states_[static_cast<size_t>(id)].num_items);
  }

  std::shared_ptr<const Automaton> automaton_;
  Limits limits_;
  size_t num_classes_;
  StateId start_ = kDead;

  std::vector<State> states_;
  std::vector<Item> items_;
  std::vector<StateId> steps_;  // [state][byte class]
  std::unordered_multimap<uint64_t, StateId> state_index_;
  std::vector<Slice> contexts_;
  std::vector<Entry> entries_;
  std::unordered_multimap<uint64_t, ContextId> context_index_;

  // Of the closure under way.
  uint32_t epoch_ = 0;
  std::vector<uint32_t> seen_epoch_;     // by node
  std::vector<ContextId> seen_context_;  // by node: the first one seen
  std::unordered_set<uint64_t> seen_more_;
  std::unordered_set<ContextId> left_;  // contexts returned to
  std::vector<Item> queue_;
  std::vector<Item> found_;
  bool found_end_ = false;
  std::vector<Gathering> gatherings_;
  std::unordered_map<int32_t, int32_t> gathering_of_;  // by rule
  uint64_t work_ = 0;
  size_t places_ = 0;  // of this closure
  bool gave_up_ = false;
};

}  // namespace firstlight::text::grammar
