// SPDX-License-Identifier: Apache-2.0
#include "engine/waiting_queue.h"

#include <gtest/gtest.h>

namespace firstlight::engine {
namespace {

using std::chrono::seconds;

class WaitingQueueTest : public testing::Test {
 protected:
  void push(int64_t priority, const std::string& client = "", seconds waited = seconds(0), bool admitted = false) {
    request::Request request;
    request.priority = priority;
    request.client = client;
    queue.push(std::make_unique<Sequence>(Sequence{.ticket = next_ticket++,
                                                   .request = std::move(request),
                                                   .sink = {},
                                                   .sampler = Sampler({}, {}),
                                                   .submitted = now - waited,
                                                   .tokens = {},
                                                   .saved = {},
                                                   .admitted = admitted}));
  }
  std::vector<Ticket> order() {
    std::vector<Ticket> tickets;
    while (const Sequence* next = queue.next(now)) tickets.push_back(queue.take(*next)->ticket);
    return tickets;
  }
  using Tickets = std::vector<Ticket>;

  Clock::time_point now = Clock::now();
  Ticket next_ticket = 1;
  WaitingQueue queue{10};
};

TEST_F(WaitingQueueTest, PriorityThenArrival) {
  push(0);
  push(2);
  push(0);
  push(2);
  push(-1);
  EXPECT_EQ(order(), (Tickets{2, 4, 1, 3, 5}));
}

TEST_F(WaitingQueueTest, WhoIsHeldLetsOthersPass) {
  push(1);
  push(0);
  push(0);
  const auto held = [](const Sequence& sequence) { return sequence.ticket < 3; };
  EXPECT_EQ(queue.next(now, held)->ticket, 3u);
  EXPECT_EQ(queue.next(now)->ticket, 1u);
  EXPECT_EQ(queue.next(now, [](const Sequence&) { return true; }), nullptr);
}

TEST_F(WaitingQueueTest, WaitingMakesUpForPriority) {
  push(1);
  push(0, "", seconds(9));
  push(-1, "", seconds(39));
  EXPECT_EQ(order(), (Tickets{3, 1, 2}));
  WaitingQueue strict(0);
  std::swap(queue, strict);
  push(1);
  push(0, "", seconds(100000));
  EXPECT_EQ(order(), (Tickets{4, 5}));
}

TEST_F(WaitingQueueTest, WhoWasPutOutGoesBeforeThoseThatNeverRan) {
  push(0);
  push(0, "", seconds(0), true);
  EXPECT_EQ(order(), (Tickets{2, 1}));
}

// One client with many requests and one with few: they take turns by the tokens they were given.
TEST_F(WaitingQueueTest, ClientsGetEqualShares) {
  for (int i = 0; i < 6; ++i) push(0, "many");
  push(0, "few");
  push(0, "few");
  Tickets served;
  while (const Sequence* next = queue.next(now)) {
    const auto taken = queue.take(*next);
    served.push_back(taken->ticket);
    queue.charge_prompt(taken->request.client, 100);
    queue.charge_output(taken->request.client, 10);
  }
  EXPECT_EQ(served, (Tickets{1, 7, 2, 8, 3, 4, 5, 6}));
}

TEST_F(WaitingQueueTest, ClientsWithoutEndAreNotRemembered) {
  push(0, "stays");
  queue.charge_prompt("stays", 5);
  for (int i = 0; i < 10000; ++i) {
    push(0, "client " + std::to_string(i));
    queue.charge_prompt("client " + std::to_string(i), 9);
    queue.take(*queue.all().back());
  }
  EXPECT_LE(queue.num_clients(), 4100u);
  push(0, "new");
  EXPECT_EQ(queue.next(now)->request.client, "stays") << "what it was served is still known: no more than new ones";
}

TEST_F(WaitingQueueTest, WhoComesLaterHasNothingSavedUp) {
  push(0, "old");
  queue.charge_prompt("old", 1000);
  push(0, "new");
  EXPECT_EQ(queue.next(now)->ticket, 1u) << "equal: the first come";
  queue.charge_prompt("old", 1);
  EXPECT_EQ(queue.next(now)->ticket, 2u);
}

}  // namespace
}  // namespace firstlight::engine
