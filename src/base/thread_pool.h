// SPDX-License-Identifier: Apache-2.0
// A pool of pinned threads that run one function together (SPMD) with barriers in between: a decode step is a few
// hundred short kernels, so the threads stay in one function for a whole step and meet at barriers that spin briefly,
// then park.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "base/core_share.h"
#include "base/status.h"

namespace firstlight {

class ThreadPool;

// One thread's part in a run.
class Worker {
 public:
  int index() const { return index_; }
  int count() const { return count_; }
  // Threads of the pool, whoever takes part: what a result may depend on, as count() changes with the machine's load.
  int most() const { return most_; }

  // Returns when all workers of the run have called it. What one wrote before, all see after.
  void barrier();

  // The half-open part of [0, total) that is this worker's, in units of `grain` (every worker gets a whole number of
  // grains, the last one the rest). Static, so that the same worker touches the same weights each time.
  struct Range {
    int64_t begin;
    int64_t end;
  };
  Range share(int64_t total, int64_t grain = 1) const;

  // Work stealing for uneven work: the next unclaimed index of [0, total), or -1. Call reset_tickets() (by all workers,
  // with its own barrier inside) before each loop.
  int64_t next_ticket(int64_t total);
  void reset_tickets();

  // Scratch memory of this worker alone, 64-byte aligned, at least `bytes` long, kept between runs.
  std::byte* scratch(size_t bytes);

 private:
  friend class ThreadPool;
  ThreadPool* pool_ = nullptr;
  int index_ = 0;
  int count_ = 1;
  int most_ = 1;
};

class ThreadPool {
 public:
  struct Options {
    int num_threads = 0;   // 0: the cores this process may use
    bool pin = true;       // bind thread i to the i-th allowed core
    int64_t spin_us = 50;  // how long a waiter spins before it parks
    // Leave threads out of runs while other processes take their cores: all of a run wait for the one that is kept
    // waiting, so a few alone are faster. Worker::count() is then what is left; 0 < count() <= num_threads().
    bool yields = false;
    int64_t (*run_delay)(int thread_id) = run_delay_ns;  // what it goes by; tests give their own
  };
  // Errors: kUnavailable where the system gives fewer threads.
  static Result<std::unique_ptr<ThreadPool>> create(const Options& options);
  // The same where that many threads are sure to be had; FL_CHECKs.
  explicit ThreadPool(const Options& options);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const;

  // Runs `body` on all threads (the caller is worker 0) and returns when all have returned. Not re-entrant.
  void run(const std::function<void(Worker&)>& body);

 private:
  friend class Worker;
  ThreadPool();
  Status start(const Options& options);

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace firstlight
