// SPDX-License-Identifier: Apache-2.0
#include "server/work_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

namespace firstlight::server {
namespace {

TEST(WorkQueue, RunsWhatIsPostedAndRefusesWhatDoesNotFit) {
  std::promise<void> release;
  const std::shared_future<void> released = release.get_future().share();
  std::promise<void> begun;
  std::atomic<int> done{0};
  WorkQueue queue(1, 2);
  ASSERT_TRUE(queue.post([&] {
    begun.set_value();
    released.wait();
    ++done;
  }));
  begun.get_future().wait();
  EXPECT_TRUE(queue.post([&] { ++done; }));
  std::promise<void> last;
  EXPECT_TRUE(queue.post([&] {
    ++done;
    last.set_value();
  }));
  EXPECT_FALSE(queue.post([&] { ++done; }));
  release.set_value();
  last.get_future().wait();
  EXPECT_EQ(done, 3);
}

TEST(WorkQueue, DropsWhatHasNotBegunWhenItEnds) {
  std::promise<void> release;
  const std::shared_future<void> released = release.get_future().share();
  std::promise<void> begun;
  std::atomic<int> done{0};
  auto queue = std::make_unique<WorkQueue>(1, 10);
  queue->post([&] {
    begun.set_value();
    released.wait();
  });
  begun.get_future().wait();
  queue->post([&] { ++done; });
  std::thread releaser([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    release.set_value();
  });
  queue = nullptr;
  releaser.join();
  EXPECT_EQ(done, 0);
}

TEST(WorkQueue, WithoutThreadsRunsAtOnce) {
  WorkQueue queue(0, 1);
  int done = 0;
  EXPECT_TRUE(queue.post([&] { ++done; }));
  EXPECT_EQ(done, 1);
}

}  // namespace
}  // namespace firstlight::server
