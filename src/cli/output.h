// SPDX-License-Identifier: Apache-2.0
// What verbs print. Heavy header (base/json.h): .cc files only.
#pragma once

#include <cstdio>
#include <memory>
#include <string>

#include "base/json.h"
#include "base/progress.h"

namespace firstlight::cli {

inline void print_json(const Json& document) { std::printf("%s\n", dump_json(document).c_str()); }

// A progress bar for loading weights, as ExecutorOptions::load_progress takes it; nothing is drawn for quick loads.
class LoadProgress {
 public:
  void operator()(uint64_t done, uint64_t total) {
    if (!bar_)
      bar_ = std::make_shared<Progress>("load", static_cast<int64_t>(total),
                                        ProgressOptions{.unit = ProgressUnit::kBytes});
    bar_->advance(static_cast<int64_t>(done - last_));
    last_ = done;
    if (done >= total) bar_->finish();
  }

 private:
  std::shared_ptr<Progress> bar_;
  uint64_t last_ = 0;
};

}  // namespace firstlight::cli
