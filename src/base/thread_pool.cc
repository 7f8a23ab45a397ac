// SPDX-License-Identifier: Apache-2.0
// The pool: a word of generation and number of active threads starts a run, one phase counter is the barrier. Waiters
// spin for a while, then sleep on the counter, so that a process that takes one of our cores costs its share and no
// more.
#include "base/thread_pool.h"

#include <immintrin.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <utility>
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
  std::atomic<int> thread_id{0};
  int64_t run_delay = 0;  // when the window began
};

// The word that starts a run: its generation, and how many threads take part. In one, so that a thread that was left
// out and wakes late cannot take the number of another run.
constexpr uint32_t kActiveBits = 12;
constexpr uint32_t kActiveMask = (uint32_t{1} << kActiveBits) - 1;

}  // namespace

struct ThreadPool::State {
  int count = 1;
  bool pin = false;
  int64_t spin_ns = 0;
  std::vector<int> cores;
  std::vector<std::unique_ptr<Place>> places;
  std::vector<std::thread> threads;

  alignas(kLine) std::atomic<uint32_t> start{0};
  const std::function<void(Worker&)>* body = nullptr;  // published by start
  std::atomic<int> active{1};                          // threads of the runs to come; those left out sleep on it
  std::atomic<bool> stop{false};
  std::atomic<bool> running{false};

  alignas(kLine) std::atomic<int> arrived{0};
  alignas(kLine) std::atomic<uint32_t> phase{0};
  alignas(kLine) std::atomic<int64_t> ticket{0};

  std::unique_ptr<CoreShare> core_share;  // null: all threads take part always
  int64_t (*run_delay_of)(int thread_id) = nullptr;
  int64_t ran_ns = 0;  // in the runs of this window, after which the share is looked at

  int core_of(int index) const { return cores[static_cast<size_t>(index) % cores.size()]; }

  void barrier(int taking_part, bool reset_tickets) {
    if (taking_part == 1) {
      if (reset_tickets) ticket.store(0, std::memory_order_relaxed);
      return;
    }
    const uint32_t current = phase.load(std::memory_order_relaxed);
    if (arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == taking_part) {
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
    places[static_cast<size_t>(worker.index())]->thread_id.store(gettid(), std::memory_order_relaxed);
    while (true) {
      wait_for_change(start, seen, spin_ns);
      seen = start.load(std::memory_order_acquire);
      if (stop.load(std::memory_order_relaxed)) return;
      worker.count_ = static_cast<int>(seen & kActiveMask);
      if (worker.index() < worker.count_) {
        (*body)(worker);
        barrier(worker.count_, false);
        continue;
      }
      int left = active.load(std::memory_order_acquire);
      for (; left <= worker.index(); left = active.load(std::memory_order_acquire)) {
        active.wait(left, std::memory_order_acquire);
      }
    }
  }

  void begin(int num_active) {
    const uint32_t generation = (start.load(std::memory_order_relaxed) >> kActiveBits) + 1;
    start.store(generation << kActiveBits | static_cast<uint32_t>(num_active), std::memory_order_seq_cst);
    start.notify_all();
  }

  // A window begins with a run, and again with another caller: what threads waited for before, as in loading, says
  // nothing of runs.
  void begin_window(int caller) {
    places[0]->thread_id.store(caller, std::memory_order_relaxed);
    ran_ns = 0;
    for (const auto& place : places) {
      place->run_delay = run_delay_of(place->thread_id.load(std::memory_order_relaxed));
    }
  }

  // The share of the cores that the window's runs had, and how many threads the next ones get for it.
  void look_at_share() {
    std::vector<int64_t> delays;
    for (int i = 0; i < core_share->active(); ++i) {
      const Place& place = *places[static_cast<size_t>(i)];
      delays.push_back(run_delay_of(place.thread_id.load(std::memory_order_relaxed)) - place.run_delay);
    }
    if (!core_share->look(std::exchange(ran_ns, 0), delays, now_ns())) return;
    active.store(core_share->active(), std::memory_order_release);
    active.notify_all();
  }
};

void Worker::barrier() { pool_->state_->barrier(count_, false); }

void Worker::reset_tickets() { pool_->state_->barrier(count_, true); }

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
  state.active.store(state.count, std::memory_order_relaxed);
  if (options.yields && state.count > 1 && options.run_delay(gettid()) >= 0) {
    state.core_share = std::make_unique<CoreShare>(state.count);
    state.run_delay_of = options.run_delay;
  }
  for (int i = 1; i < state.count; ++i) {
    Worker worker;
    worker.pool_ = this;
    worker.index_ = i;
    worker.most_ = state.count;
    const std::string what = "thread " + std::to_string(i + 1) + " of " + std::to_string(state.count);
    state.threads.push_back(FL_TRY(start_thread(what, [&state, worker] { state.serve(worker); })));
  }
  return ok_status();
}

ThreadPool::~ThreadPool() {
  state_->stop.store(true, std::memory_order_relaxed);
  state_->active.store(state_->count, std::memory_order_release);
  state_->active.notify_all();
  state_->begin(0);
  for (std::thread& thread : state_->threads) thread.join();
}

int ThreadPool::num_threads() const { return state_->count; }

void ThreadPool::run(const std::function<void(Worker&)>& body) {
  State& state = *state_;
  FL_CHECK(!state.running.exchange(true, std::memory_order_acquire));
  Worker worker;
  worker.pool_ = this;
  worker.index_ = 0;
  worker.most_ = state.count;
  worker.count_ = state.core_share ? state.core_share->active() : state.count;
  // The caller keeps its own affinity outside of runs: threads it starts would inherit a pinned one. Alone it is not
  // pinned: the system may find it a free core.
  cpu_set_t before;
  const bool pinned = state.pin && worker.count_ > 1 && sched_getaffinity(0, sizeof before, &before) == 0;
  if (pinned) pin_to(state.core_of(0));
  const int64_t begin = state.core_share ? now_ns() : 0;
  if (state.core_share &&
      (state.ran_ns == 0 || state.places[0]->thread_id.load(std::memory_order_relaxed) != gettid())) {
    state.begin_window(gettid());
  }
  state.body = &body;
  if (worker.count_ > 1) state.begin(worker.count_);
  body(worker);
  state.barrier(worker.count_, false);
  if (pinned) static_cast<void>(sched_setaffinity(0, sizeof before, &before));
  if (state.core_share) {
    state.ran_ns += now_ns() - begin;
    if (state.ran_ns >= CoreShare::kWindow) state.look_at_share();
  }
  state.running.store(false, std::memory_order_release);
}

}  // namespace firstlight
