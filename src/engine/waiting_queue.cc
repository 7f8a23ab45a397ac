// SPDX-License-Identifier: Apache-2.0
#include "engine/waiting_queue.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "base/check.h"

namespace firstlight::engine {
namespace {

constexpr size_t kMostClients = 4096;  // that are remembered while nobody of theirs waits

}  // namespace

int64_t WaitingQueue::served(const std::string& client) const {
  const auto found = served_.find(client);
  return found == served_.end() ? 0 : found->second;
}

void WaitingQueue::push(std::unique_ptr<Sequence> sequence) {
  const std::string& client = sequence->request.client;
  const auto of_client = [&](const auto& other) { return other->request.client == client; };
  if (served_.size() > kMostClients) {  // names come from outside
    std::set<std::string_view> there;
    for (const auto& other : waiting_) there.insert(other->request.client);
    std::erase_if(served_, [&](const auto& entry) { return !there.contains(entry.first); });
  }
  if (!waiting_.empty() && std::none_of(waiting_.begin(), waiting_.end(), of_client)) {
    int64_t least = served(waiting_.front()->request.client);
    for (const auto& other : waiting_) least = std::min(least, served(other->request.client));
    int64_t& own = served_[client];
    own = std::max(own, least);
  }
  waiting_.push_back(std::move(sequence));
}

int64_t WaitingQueue::priority(const Sequence& sequence, Clock::time_point now) const {
  int64_t grown = 0;
  if (aging_seconds_ > 0) {
    grown = static_cast<int64_t>(std::chrono::duration<double>(now - sequence.submitted).count() / aging_seconds_);
  }
  return sequence.request.priority + grown;
}

bool WaitingQueue::goes_before(const Sequence& a, const Sequence& b, Clock::time_point now) const {
  const auto key = [&](const Sequence& s) {
    return std::tuple(-priority(s, now), s.admitted ? 0 : 1, s.admitted ? 0 : served(s.request.client), s.ticket);
  };
  return key(a) < key(b);
}

Sequence* WaitingQueue::next(Clock::time_point now, const std::function<bool(const Sequence&)>& is_held) const {
  Sequence* first = nullptr;
  for (const auto& sequence : waiting_) {
    if (first != nullptr && !goes_before(*sequence, *first, now)) continue;
    if (!is_held || !is_held(*sequence)) first = sequence.get();
  }
  return first;
}

std::unique_ptr<Sequence> WaitingQueue::take(const Sequence& sequence) {
  const auto place =
      std::find_if(waiting_.begin(), waiting_.end(), [&](const auto& other) { return other.get() == &sequence; });
  FL_CHECK(place != waiting_.end());
  auto taken = std::move(*place);
  waiting_.erase(place);
  return taken;
}

void WaitingQueue::drop_finished() {
  std::erase_if(waiting_, [](const auto& sequence) { return sequence->finished; });
}

}  // namespace firstlight::engine
