// SPDX-License-Identifier: Apache-2.0
#include "cli/output.h"

#include <cstdio>

#include "base/json.h"

namespace firstlight::cli {

void print_json(const Json& document) { std::printf("%s\n", dump_json(document).c_str()); }

void LoadProgress::operator()(uint64_t done, uint64_t total) {
  if (!bar_) {
    bar_ =
        std::make_shared<Progress>("load", static_cast<int64_t>(total), ProgressOptions{.unit = ProgressUnit::kBytes});
  }
  bar_->advance(static_cast<int64_t>(done - last_));
  last_ = done;
  if (done >= total) bar_->finish();
}

}  // namespace firstlight::cli
