// SPDX-License-Identifier: Apache-2.0
#include "text/stop_strings.h"

#include <algorithm>
#include <utility>

namespace firstlight::text {

StopStrings::StopStrings(std::vector<std::string> stops) : stops_(std::move(stops)) {
  std::erase_if(stops_, [](const std::string& stop) { return stop.empty(); });
}

// Where the held text's longest end that is the beginning of a stop string starts; its size where there is none.
size_t StopStrings::open_start() const {
  size_t longest = 0;
  for (const std::string& stop : stops_) {
    for (size_t length = std::min(stop.size() - 1, held_.size()); length > longest; --length) {
      if (std::string_view(held_).ends_with(std::string_view(stop).substr(0, length))) longest = length;
    }
  }
  return held_.size() - longest;
}

// Ends the text at the stop string that begins first (of several there: the one listed first), if there is one.
std::string StopStrings::end_at_match() {
  size_t first = std::string::npos;
  for (const std::string& stop : stops_) {
    const size_t at = held_.find(stop);
    if (at < first) {
      first = at;
      matched_ = stop;
    }
  }
  if (!stopped()) return "";
  std::string shown = held_.substr(0, first);
  held_.clear();
  return shown;
}

std::string StopStrings::push(std::string_view piece) {
  if (stopped()) return "";
  held_ += piece;
  const size_t open = open_start();
  size_t first = std::string::npos;
  for (const std::string& stop : stops_) first = std::min(first, held_.find(stop));
  // A stop string that begins before the whole one may still be on its way: then that one decides.
  if (first != std::string::npos && first <= open) return end_at_match();
  std::string shown = held_.substr(0, open);
  held_.erase(0, open);
  return shown;
}

std::string StopStrings::flush() {
  if (stopped()) return "";
  std::string shown = end_at_match();
  return stopped() ? shown : std::exchange(held_, "");
}

}  // namespace firstlight::text
