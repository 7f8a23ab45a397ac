// SPDX-License-Identifier: Apache-2.0
// A verb that is interrupted leaves nothing half written: Ctrl-C, SIGTERM and a closed terminal remove what it has put
// into its output directory so far, and then end the program as they always do.
#pragma once

#include <string>
#include <thread>

namespace firstlight::cli {

class RemoveOnInterrupt {
 public:
  // `directory` is about to be filled: new or empty. One that holds something is left alone. To be made before other
  // threads are: they inherit that these signals are taken here. Signals that the caller ignores stay ignored.
  explicit RemoveOnInterrupt(std::string directory);
  RemoveOnInterrupt(const RemoveOnInterrupt&) = delete;
  RemoveOnInterrupt& operator=(const RemoveOnInterrupt&) = delete;
  ~RemoveOnInterrupt();  // the signals do what they did before

 private:
  void watch(int signals, int stop) const;
  void remove() const;

  std::string directory_;
  bool existed_ = false;
  int signals_ = -1, stop_ = -1;
  std::thread watcher_;
};

}  // namespace firstlight::cli
