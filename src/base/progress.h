// SPDX-License-Identifier: Apache-2.0
// Progress of long work: on a terminal a bar with rate and time left, redrawn in place; elsewhere a plain line now and
// then, or nothing. It writes to stderr, since stdout belongs to results.
//
//   Progress progress("load", total_bytes, {.unit = ProgressUnit::kBytes});
//   progress.advance(chunk_bytes);      // from any thread
//   progress.finish();                  // or the destructor
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

namespace firstlight {

enum class ProgressMode : uint8_t {
  kAuto,    // kBar when stderr is a terminal, else kLines
  kBar,     // redrawn in place, at most ten times a second
  kLines,   // a plain line every ten seconds and one at the end if there was any
  kSilent,  // nothing
};

enum class ProgressUnit : uint8_t { kItems, kBytes };

struct ProgressOptions {
  ProgressMode mode = ProgressMode::kAuto;
  ProgressUnit unit = ProgressUnit::kItems;
  std::string unit_name = "it";                      // for kItems: "40.0 tok/s"
  std::function<void(std::string_view)> write = {};  // default: stderr
  std::function<int64_t()> clock_ns = {};            // default: now_ns (base/trace.h)
};

class Progress {
 public:
  // `total` 0 means that the end is not known: count and rate only.
  Progress(std::string label, int64_t total, ProgressOptions options = {});
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() { finish(); }

  void advance(int64_t amount);  // thread-safe and cheap: most calls only add
  void finish();                 // the last state and a line end; a second call does nothing

 private:
  std::string text(int64_t now) const;
  void draw(int64_t now, bool last);

  const std::string label_;
  const int64_t total_;
  ProgressOptions options_;
  int64_t start_ns_ = 0;
  std::atomic<int64_t> done_{0};
  std::atomic<int64_t> next_draw_ns_{0};
  std::mutex mutex_;  // guards the three below
  bool finished_ = false;
  bool drawn_ = false;
  size_t last_width_ = 0;
};

// "1.5 GiB", "640 B"
std::string format_bytes(double bytes);
// "0:07", "12:34", "1:02:03"; "?" when negative or not a number
std::string format_seconds(double seconds);

}  // namespace firstlight
