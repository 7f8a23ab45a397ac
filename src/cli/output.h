// SPDX-License-Identifier: Apache-2.0
// What verbs print.
#pragma once

#include <memory>
#include <string>

#include "base/json_fwd.h"
#include "base/progress.h"

namespace firstlight::cli {

void print_json(const Json& document);

// A progress bar for loading weights, as ExecutorOptions::load_progress takes it; nothing is drawn for quick loads.
class LoadProgress {
 public:
  void operator()(uint64_t done, uint64_t total);

 private:
  std::shared_ptr<Progress> bar_;
  uint64_t last_ = 0;
};

}  // namespace firstlight::cli
