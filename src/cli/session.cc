// SPDX-License-Identifier: Apache-2.0
#include "cli/session.h"
#include <cstdio>

#include <algorithm>

#include "cli/output.h"
#include "cli/streams.h"

namespace firstlight::cli {

Result<Session> open_session(const CommonFlags& flags, std::vector<compiler::BucketSize> buckets,
                             adapt::Hidden hidden) {
  adapt::BringUpOptions options = FL_TRY(bring_up_options(flags));
  const adapt::TextOptions text = FL_TRY(text_options(flags));
  if (!buckets.empty()) options.buckets = std::move(buckets);
  options.hidden = hidden;
  Session session;
  if (!flags.trace.empty()) session.trace = std::make_unique<Trace>(TraceOptions{.keep_events = true});
  options.trace = session.trace.get();
  options.load_progress = LoadProgress();
  options.on_demotion = [](const runtime::Demotion& d) {
    std::fprintf(stderr, "warning: kernel %s differs from %s by %.2g at '%s' on %s: the latter runs from now on\n",
                 d.kernel.c_str(), d.to.c_str(), d.error, d.label.c_str(), d.signature.c_str());
  };
  if (options.evict) session.visible_tokens = options.evict->sinks + options.evict->window;
  session.loaded = FL_TRY(adapt::bring_up(flags.model, options));
  session.options = options;
  const Status& generated = session.loaded->executor->generated_status();
  if (options.generated == runtime::GeneratedMode::kWait && !generated.ok())
    std::fprintf(stderr, "warning: no generated kernels: %s\n", generated.message().c_str());
  session.text = adapt::load_text_assets(flags.model, session.loaded->checkpoint.get(), text);
  for (const std::string& warning : session.loaded->checkpoint->warnings()) {
    std::fprintf(stderr, "warning: %s\n", printable(warning).c_str());
  }
  for (const std::string& warning : session.loaded->model.warnings)
    std::fprintf(stderr, "warning: %s\n", printable(warning).c_str());
  return session;
}

Status Session::finish(const CommonFlags& flags) const {
  if (trace == nullptr) return ok_status();
  return trace->write_chrome_trace(flags.trace);
}

std::vector<compiler::BucketSize> scoring_buckets(int64_t chunk) {
  constexpr int64_t kMostRows = 128;  // a row of logits per token: with 262,144 entries each, 128 MiB
  const int64_t rows = chunk > 0 ? std::min(chunk, kMostRows) : kMostRows;
  return {{.max_tokens = rows, .max_outputs = rows, .max_sequences = 1}};
}

}  // namespace firstlight::cli
