// SPDX-License-Identifier: Apache-2.0
// Stop strings on a stream of text: nothing of a stop string is ever shown, and nothing else is held back but an end
// that may yet become one. The text ends where the stop string that begins first begins, however the stream was cut.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace firstlight::text {

class StopStrings {
 public:
  // Empty strings are ignored.
  explicit StopStrings(std::vector<std::string> stops);

  // What can be shown after this piece. Nothing more comes once stopped() is true.
  std::string push(std::string_view piece);
  // The stream is over: what was held back, up to a stop string in it.
  std::string flush();

  bool stopped() const { return !matched_.empty(); }
  const std::string& matched() const { return matched_; }  // the stop string that ended the text

 private:
  size_t open_start() const;
  std::string end_at_match();

  std::vector<std::string> stops_;
  std::string held_;
  std::string matched_;
};

}  // namespace firstlight::text
