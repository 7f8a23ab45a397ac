// SPDX-License-Identifier: Apache-2.0
#include "base/progress.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

#include "base/trace.h"

namespace firstlight {
namespace {

constexpr int64_t kBarIntervalNs = 100'000'000;
constexpr int64_t kLineIntervalNs = 10'000'000'000;
constexpr int kBarCells = 24;

void write_stderr(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

template <typename... Args>
std::string formatted(const char* pattern, Args... args) {
  std::array<char, 96> buffer{};
  std::snprintf(buffer.data(), buffer.size(), pattern, args...);
  return buffer.data();
}

std::string format_items(double count) {
  if (count >= 1e9) return formatted("%.2fG", count / 1e9);
  if (count >= 1e6) return formatted("%.2fM", count / 1e6);
  if (count >= 1e4) return formatted("%.1fk", count / 1e3);
  return formatted(count == std::floor(count) ? "%.0f" : "%.1f", count);
}

}  // namespace

std::string format_bytes(double bytes) {
  constexpr std::array<const char*, 6> kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  return formatted(unit == 0 ? "%.0f %s" : "%.1f %s", bytes, kUnits[unit]);
}

std::string format_seconds(double seconds) {
  if (!(seconds >= 0) || seconds > 1e9) return "?";
  const int64_t whole = std::llround(seconds);
  const int hours = static_cast<int>(whole / 3600);
  const int minutes = static_cast<int>(whole / 60 % 60);
  const int rest = static_cast<int>(whole % 60);
  if (hours > 0) return formatted("%d:%02d:%02d", hours, minutes, rest);
  return formatted("%d:%02d", minutes, rest);
}

Progress::Progress(std::string label, int64_t total, ProgressOptions options)
    : label_(std::move(label)), total_(std::max<int64_t>(total, 0)), options_(std::move(options)) {
  if (options_.mode == ProgressMode::kAuto) {
    options_.mode = ::isatty(STDERR_FILENO) != 0 ? ProgressMode::kBar : ProgressMode::kLines;
  }
  if (!options_.write) options_.write = write_stderr;
  if (!options_.clock_ns) options_.clock_ns = now_ns;
  start_ns_ = options_.clock_ns();
  const int64_t wait = options_.mode == ProgressMode::kBar ? kBarIntervalNs : kLineIntervalNs;
  next_draw_ns_.store(start_ns_ + wait, std::memory_order_relaxed);
}

void Progress::advance(int64_t amount) {
  done_.fetch_add(amount, std::memory_order_relaxed);
  if (options_.mode == ProgressMode::kSilent) return;
  const int64_t now = options_.clock_ns();
  if (now < next_draw_ns_.load(std::memory_order_relaxed)) return;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock.owns_lock() && !finished_) draw(now, false);
}

void Progress::finish() {
  const std::lock_guard lock(mutex_);
  if (std::exchange(finished_, true)) return;
  // Work that was over before the first line was due needs no line.
  if (options_.mode == ProgressMode::kSilent || !drawn_) return;
  draw(options_.clock_ns(), true);
}

std::string Progress::text(int64_t now) const {
  const bool bytes = options_.unit == ProgressUnit::kBytes;
  const auto amount = [bytes](double x) { return bytes ? format_bytes(x) : format_items(x); };
  const auto done = static_cast<double>(done_.load(std::memory_order_relaxed));
  const auto total = static_cast<double>(total_);
  const double seconds = static_cast<double>(now - start_ns_) / 1e9;
  const double rate = seconds > 0 ? done / seconds : 0;
  std::string out = label_ + " ";
  if (total_ > 0) {
    const double share = std::clamp(done / total, 0.0, 1.0);
    if (options_.mode == ProgressMode::kBar) {
      const int full = static_cast<int>(share * kBarCells);
      out += "[" + std::string(static_cast<size_t>(full), '#') +
             std::string(static_cast<size_t>(kBarCells - full), '.') + "] ";
    }
    out += formatted("%3.0f%% ", share * 100) + amount(done) + " of " + amount(total);
  } else {
    out += amount(done);
  }
  if (!bytes) out += " " + options_.unit_name;
  out += ", " + amount(rate) + (bytes ? "" : " " + options_.unit_name) + "/s";
  if (total_ > 0 && done < total) out += ", " + format_seconds(rate > 0 ? (total - done) / rate : -1) + " left";
  if (total_ == 0 || done >= total) out += ", " + format_seconds(seconds);
  return out;
}

void Progress::draw(int64_t now, bool last) {
  std::string line = text(now);
  drawn_ = true;
  if (options_.mode == ProgressMode::kLines) {
    next_draw_ns_.store(now + kLineIntervalNs, std::memory_order_relaxed);
    options_.write(line + "\n");
    return;
  }
  next_draw_ns_.store(now + kBarIntervalNs, std::memory_order_relaxed);
  const size_t width = line.size();
  if (width < last_width_) line.append(last_width_ - width, ' ');  // wipe the tail of a longer line
  last_width_ = width;
  options_.write("\r" + line + (last ? "\n" : ""));
}

}  // namespace firstlight
