// SPDX-License-Identifier: Apache-2.0
// The pool: one generation counter starts a run, one phase counter is the barrier. Waiters spin for a while, then sleep
// on the counter, so that a process that takes one of our cores costs its share and no more.
#include "base/thread_pool.h"

#include <immintrin.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/start_thread.h"

namespace firstlight {
namespace {

constexpr size_t kLine = 64;
constexpr size_t kHugePage = size_t{2} << 20;

std::vector<int> allowed_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(static_cast<size_t>(core), &set)) cores.push_back(core);
    }
  }
  if (cores.empty()) cores.push_back(0);
  return cores;
}

void pin_to(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<size_t>(core), &set);
  // A failure (a container that forbids it) leaves the thread where it is: slower, not wrong.
  static_cast<void>(sched_setaffinity(0, sizeof set, &set));
}

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Waits until a counter leaves `old`: spins for `spin_ns`, then sleeps. The budget is fixed on purpose: one that shrank
// after vain spins made a thread on a contended core sleep at every barrier, and each waking there waits for the other
// process's time slice (41 against 113 decode steps a second beside a busy process, 2026-11-30).
void wait_for_change(const std::atomic<uint32_t>& counter, uint32_t old, int64_t spin_ns) {
  if (counter.load(std::memory_order_acquire) != old) return;
  if (spin_ns > 0) {
    const int64_t deadline = now_ns() + spin_ns;
    do {
      for (int i = 0; i < 16; ++i) {
        if (counter.load(std::memory_order_acquire) != old) return;
        _mm_pause();
      }
    } while (now_ns() < deadline);
  }
  while (counter.load(std::memory_order_acquire) == old) counter.wait(old, std::memory_order_acquire);
}

struct Free {
  void operator()(std::byte* memory) const { std::free(memory); }
};

// What belongs to one worker; on lines of its own.
struct alignas(kLine) Place {
  std::unique_ptr<std::byte, Free> scratch;
  size_t scratch_bytes = 0;
};

}  // namespace

struct ThreadPool::State {
  int count = 1;
  bool pin = false;
  int64_t spin_ns = 0;
  std::vector<int> cores;
  std::vector<std::unique_ptr<Place>> places;
  std::vector<std::thread> threads;

  alignas(kLine) std::atomic<uint32_t> generation{0};
  const std::function<void(Worker&)>* body = nullptr;  // published by generation
  std::atomic<bool> stop{false};
  std::atomic<bool> running{false};

  alignas(kLine) std::atomic<int> arrived{0};
  alignas(kLine) std::atomic<uint32_t> phase{0};
  alignas(kLine) std::atomic<int64_t> ticket{0};

  int core_of(int index) const { return cores[static_cast<size_t>(index) % cores.size()]; }

  void barrier(bool reset_tickets) {
    if (count == 1) {
      if (reset_tickets) ticket.store(0, std::memory_order_relaxed);
      return;
    }
    const uint32_t current = phase.load(std::memory_order_relaxed);
    if (arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == count) {
      if (reset_tickets) ticket.store(0, std::memory_order_relaxed);
      arrived.store(0, std::memory_order_relaxed);
      phase.store(current + 1, std::memory_order_seq_cst);
      phase.notify_all();
    } else {
      wait_for_change(phase, current, spin_ns);
    }
  }

  void serve(Worker worker) {
    uint32_t seen = 0;
    if (pin) pin_to(core_of(worker.index()));
    while (true) {
      wait_for_change(generation, seen, spin_ns);
      ++seen;
      if (stop.load(std::memory_order_relaxed)) return;
      (*body)(worker);
      barrier(false);
    }
  }
};

void Worker::barrier() { pool_->state_->barrier(false); }

void Worker::reset_tickets() { pool_->state_->barrier(true); }

Worker::Range Worker::share(int64_t total, int64_t grain) const {
  const int64_t grains = total / grain;
  const int64_t begin = grains * index_ / count_ * grain;
  const int64_t end = index_ + 1 == count_ ? total : grains * (index_ + 1) / count_ * grain;
  return {begin, end};
}

int64_t Worker::next_ticket(int64_t total) {
  const int64_t ticket = pool_->state_->ticket.fetch_add(1, std::memory_order_relaxed);
  return ticket < total ? ticket : -1;
}

std::byte* Worker::scratch(size_t bytes) {
  Place& place = *pool_->state_->places[static_cast<size_t>(index_)];
  if (place.scratch_bytes < bytes || !place.scratch) {
    const bool large = bytes >= kHugePage;
    const size_t unit = large ? kHugePage : size_t{4096};
    const size_t rounded = (std::max(bytes, size_t{1}) + unit - 1) / unit * unit;
    place.scratch.reset();  // before the new one: the old contents are not kept
    auto* memory = static_cast<std::byte*>(std::aligned_alloc(unit, rounded));
    FL_CHECK(memory != nullptr);
    if (large) static_cast<void>(madvise(memory, rounded, MADV_HUGEPAGE));  // advice: a refusal changes nothing
    place.scratch.reset(memory);
    place.scratch_bytes = rounded;
  }
  return place.scratch.get();
}

Result<std::unique_ptr<ThreadPool>> ThreadPool::create(const Options& options) {
  std::unique_ptr<ThreadPool> pool(new ThreadPool);
  FL_TRY(pool->start(options));
  return pool;
}

ThreadPool::ThreadPool() : state_(std::make_unique<State>()) {}

ThreadPool::ThreadPool(const Options& options) : ThreadPool() { FL_CHECK(start(options).ok()); }

Status ThreadPool::start(const Options& options) {
  State& state = *state_;
  state.cores = allowed_cores();
  state.count = options.num_threads > 0 ? options.num_threads : static_cast<int>(state.cores.size());
  state.pin = options.pin && state.count > 1;
  // With more threads than cores a spinning waiter keeps the one it waits for from running.
  const bool oversubscribed = static_cast<size_t>(state.count) > state.cores.size();
  state.spin_ns = oversubscribed ? 0 : std::max<int64_t>(options.spin_us, 0) * 1000;
  for (int i = 0; i < state.count; ++i) state.places.push_back(std::make_unique<Place>());
  for (int i = 1; i < state.count; ++i) {
    Worker worker;
    worker.pool_ = this;
    worker.index_ = i;
    worker.count_ = state.count;
    const std::string what = "thread " + std::to_string(i + 1) + " of " + std::to_string(state.count);
    state.threads.push_back(FL_TRY(start_thread(what, [&state, worker] { state.serve(worker); })));
  }
  return ok_status();
}

ThreadPool::~ThreadPool() {
  state_->stop.store(true, std::memory_order_relaxed);
  state_->generation.fetch_add(1, std::memory_order_seq_cst);
  state_->generation.notify_all();
  for (std::thread& thread : state_->threads) thread.join();
}

int ThreadPool::num_threads() const { return state_->count; }

void ThreadPool::run(const std::function<void(Worker&)>& body) {
  State& state = *state_;
  FL_CHECK(!state.running.exchange(true, std::memory_order_acquire));
  Worker worker;
  worker.pool_ = this;
  worker.index_ = 0;
  worker.count_ = state.count;
  // The caller keeps its own affinity outside of runs: threads it starts would inherit a pinned one.
  cpu_set_t before;
  const bool pinned = state.pin && sched_getaffinity(0, sizeof before, &before) == 0;
  if (pinned) pin_to(state.core_of(0));
  state.body = &body;
  state.generation.fetch_add(1, std::memory_order_seq_cst);
  state.generation.notify_all();
  body(worker);
  state.barrier(false);
  if (pinned) static_cast<void>(sched_setaffinity(0, sizeof before, &before));
  state.running.store(false, std::memory_order_release);
}

}  // namespace firstlight
