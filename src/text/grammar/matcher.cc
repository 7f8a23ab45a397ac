// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/matcher.h"

#include <algorithm>
#include <string_view>
#include <tuple>
#include <utility>

namespace firstlight::text::grammar {
namespace {

uint64_t mix(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9E3779B97F4A7C15u + (hash << 6) + (hash >> 2);
  return hash * 0xBF58476D1CE4E5B9u;
}

uint64_t pair_key(NodeId node, int32_t context) {
  return (static_cast<uint64_t>(static_cast<uint32_t>(node)) << 32) | static_cast<uint32_t>(context);
}

}  // namespace

Matcher::Matcher(std::shared_ptr<const Automaton> automaton, Limits limits)
    : automaton_(std::move(automaton)),
      limits_(limits),
      num_classes_(automaton_->num_classes()),
      seen_epoch_(automaton_->num_nodes(), 0),
      seen_context_(automaton_->num_nodes(), 0) {
  intern_state({}, false);  // kDead
  std::fill(steps_.begin(), steps_.end(), kDead);
  std::vector<Entry> bottom = {{kEndOfText, 0, kBottom}};
  intern_context(bottom);
  ++epoch_;
  add(automaton_->root().start, kBottom);
  start_ = close();
}

StateId Matcher::read(StateId state, std::string_view bytes) {
  for (const char byte : bytes) {
    if (state == kDead) break;
    state = step(state, static_cast<uint8_t>(byte));
  }
  return state;
}

StateId Matcher::compute_step(StateId state, uint8_t byte) {
  ++epoch_;
  const State from = states_[static_cast<size_t>(state)];
  for (uint32_t i = 0; i < from.num_items; ++i) {
    const Item item = items_[from.first_item + i];
    for (const ByteEdge& edge : automaton_->bytes(item.node)) {
      if (edge.first <= byte && byte <= edge.last) add(edge.target, item.context);
    }
  }
  work_ += from.num_items;
  const StateId next = close();
  if (!gave_up_) steps_[static_cast<size_t>(state) * num_classes_ + automaton_->byte_class(byte)] = next;
  return next;
}

void Matcher::add(NodeId node, ContextId context) {
  const auto i = static_cast<size_t>(node);
  if (seen_epoch_[i] != epoch_) {
    seen_epoch_[i] = epoch_;
    seen_context_[i] = context;
  } else if (seen_context_[i] == context || !seen_more_.insert(pair_key(node, context)).second) {
    return;
  }
  ++places_;
  queue_.push_back({node, context});
}

StateId Matcher::close() {
  while (!queue_.empty() && places_ <= limits_.max_items) {
    const Item item = queue_.back();
    queue_.pop_back();
    visit(item);
  }
  work_ += places_;
  StateId state = kDead;
  if (places_ > limits_.max_items || !settle_contexts()) {
    gave_up_ = true;
  } else if (found_end_ || !found_.empty()) {
    for (Item& item : found_) {
      if (item.context < 0) item.context = gatherings_[static_cast<size_t>(~item.context)].id;
    }
    std::sort(found_.begin(), found_.end());
    found_.erase(std::unique(found_.begin(), found_.end()), found_.end());
    state = intern_state(found_, found_end_);
  }
  queue_.clear();
  seen_more_.clear();
  left_.clear();
  found_.clear();
  found_end_ = false;
  gatherings_.clear();
  gathering_of_.clear();
  places_ = 0;
  return state;
}

void Matcher::visit(Item item) {
  if (!automaton_->bytes(item.node).empty()) found_.push_back(item);
  // A rule that was called here and ends here read nothing: its callers have gone on without it already.
  if (automaton_->is_end(item.node) && item.context >= 0) leave(item.context);
  for (const NodeId target : automaton_->jumps(item.node)) add(target, item.context);
  for (const CallEdge& edge : automaton_->calls(item.node)) {
    if (edge.min == 0) add(edge.target, item.context);
    call(automaton_->call_number(edge), 0, item.context);
  }
}

void Matcher::call(int32_t number, int32_t count, ContextId context) {
  const int32_t rule = automaton_->call(number).rule;
  const auto [found, is_new] = gathering_of_.try_emplace(rule, static_cast<int32_t>(gatherings_.size()));
  if (is_new) {
    gatherings_.emplace_back();
    add(automaton_->rule(rule).start, ~found->second);
  }
  auto& list = gatherings_[static_cast<size_t>(found->second)].entries;
  list.push_back({number, count, context});
  ++places_;
}

void Matcher::leave(ContextId context) {
  if (!left_.insert(context).second) return;
  for (size_t i = 0; i < entries(context).size(); ++i) {
    const Entry entry = entries(context)[i];
    if (entry.call == kEndOfText) {
      found_end_ = true;
      continue;
    }
    const CallEdge& edge = automaton_->call(entry.call);
    const int32_t count = entry.count + 1;
    if (count >= edge.min) add(edge.target, entry.context);
    if (edge.max == kUnbounded) {
      call(entry.call, std::min(count, edge.min), entry.context);
    } else if (count < edge.max) {
      call(entry.call, count, entry.context);
    }
    ++places_;
  }
}

// Gives every gathered context its id, callers first. False where they hold more than may be.
bool Matcher::settle_contexts() {
  std::vector<size_t> stack;
  size_t total = 0;
  for (size_t g = 0; g < gatherings_.size(); ++g) {
    if (gatherings_[g].id == kUnknown) stack.push_back(g);
    while (!stack.empty()) {
      Gathering& gathering = gatherings_[stack.back()];
      bool waits = false;
      for (const Entry& entry : gathering.entries) {
        if (entry.context >= 0) continue;
        const auto caller = static_cast<size_t>(~entry.context);
        if (gatherings_[caller].id == kUnknown) {
          stack.push_back(caller);
          waits = true;
          break;
        }
      }
      if (waits) continue;
      if (gathering.id == kUnknown) gathering.id = settle(gathering);
      total += entries(gathering.id).size();
      if (total > limits_.max_items) return false;
      stack.pop_back();
    }
  }
  return true;
}

Matcher::ContextId Matcher::settle(Gathering& gathering) {
  std::vector<Entry> flat;
  for (Entry entry : gathering.entries) {
    if (entry.context < 0) entry.context = gatherings_[static_cast<size_t>(~entry.context)].id;
    const CallEdge& edge = automaton_->call(entry.call);
    // Nothing follows in the caller: return to its callers at once, so that lists do not pile up contexts.
    if (edge.max == 1 && automaton_->is_end(edge.target)) {
      const auto callers = entries(entry.context);
      flat.insert(flat.end(), callers.begin(), callers.end());
    } else {
      flat.push_back(entry);
    }
  }
  work_ += flat.size();
  return intern_context(flat);
}

Matcher::ContextId Matcher::intern_context(std::vector<Entry>& list) {
  // Of two counts that both may end here, the lower one allows whatever the higher does.
  std::sort(list.begin(), list.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.call, a.context, a.count) < std::tie(b.call, b.context, b.count);
  });
  size_t kept = 0;
  for (const Entry& entry : list) {
    if (kept > 0 && list[kept - 1].call == entry.call && list[kept - 1].context == entry.context &&
        (list[kept - 1].count == entry.count || list[kept - 1].count + 1 >= automaton_->call(entry.call).min)) {
      continue;
    }
    list[kept++] = entry;
  }
  list.resize(kept);
  uint64_t hash = list.size();
  for (const Entry& entry : list)
    hash = mix(mix(hash, pair_key(entry.call, entry.count)), static_cast<uint64_t>(entry.context));
  const auto [first, last] = context_index_.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    if (std::ranges::equal(entries(it->second), list)) return it->second;
  }
  const auto id = static_cast<ContextId>(contexts_.size());
  contexts_.push_back({static_cast<uint32_t>(entries_.size()), static_cast<uint32_t>(list.size())});
  entries_.insert(entries_.end(), list.begin(), list.end());
  context_index_.emplace(hash, id);
  return id;
}

StateId Matcher::intern_state(std::span<const Item> list, bool may_end) {
  uint64_t hash = may_end ? 1 : 0;
  for (const Item& item : list) hash = mix(hash, pair_key(item.node, item.context));
  const auto [first, last] = state_index_.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    if (states_[static_cast<size_t>(it->second)].may_end == may_end && std::ranges::equal(items(it->second), list)) {
      return it->second;
    }
  }
  const auto id = static_cast<StateId>(states_.size());
  states_.push_back({static_cast<uint32_t>(items_.size()), static_cast<uint32_t>(list.size()), may_end});
  items_.insert(items_.end(), list.begin(), list.end());
  steps_.resize(steps_.size() + num_classes_, kUnknown);
  state_index_.emplace(hash, id);
  return id;
}

// A context's entries name contexts that were made before it, so going by number meets each after what it names.
StateId Matcher::adopt(const Matcher& other, StateId state) {
  if (state == kDead || state == other.start_) return state == kDead ? kDead : start_;
  std::vector<ContextId> needed;
  std::unordered_set<ContextId> known = {kBottom};
  const auto need = [&](ContextId id) {
    if (known.insert(id).second) needed.push_back(id);
  };
  for (const Item& item : other.items(state)) need(item.context);
  for (size_t i = 0; i < needed.size(); ++i) {
    for (const Entry& entry : other.entries(needed[i])) need(entry.context);
  }
  std::sort(needed.begin(), needed.end());
  std::unordered_map<ContextId, ContextId> here = {{kBottom, kBottom}};
  for (const ContextId id : needed) {
    const auto theirs = other.entries(id);
    std::vector<Entry> list(theirs.begin(), theirs.end());
    for (Entry& entry : list) entry.context = here.at(entry.context);
    here[id] = intern_context(list);
  }
  const auto theirs = other.items(state);
  std::vector<Item> list(theirs.begin(), theirs.end());
  for (Item& item : list) item.context = here.at(item.context);
  std::sort(list.begin(), list.end());
  return intern_state(list, other.may_end(state));
}

size_t Matcher::size_bytes() const {
  constexpr size_t kIndexed = 40;  // of a hash index, per entry
  return states_.size() * (sizeof(State) + kIndexed) + items_.size() * sizeof(Item) + steps_.size() * sizeof(StateId) +
         contexts_.size() * (sizeof(Slice) + kIndexed) + entries_.size() * sizeof(Entry) +
         seen_epoch_.size() * (sizeof(uint32_t) + sizeof(ContextId));
}

}  // namespace firstlight::text::grammar
