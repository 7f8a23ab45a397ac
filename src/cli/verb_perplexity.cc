// SPDX-License-Identifier: Apache-2.0
// perplexity: of a text file, in windows that each begin with BOS where the tokenizer has one to add.
#include <cstdio>
#include "gates/perplexity.h"

#include "base/file_map.h"
#include "base/json.h"
#include "cli/output.h"
#include "cli/session.h"
#include "cli/verbs.h"

namespace firstlight::cli {

Result<int> verb_perplexity(const CommonFlags& common, const PerplexityFlags& flags) {
  const std::string content = FL_TRY(read_text_file(flags.file));
  const Session session = FL_TRY(open_session(common, scoring_buckets(0)));
  const text::Tokenizer tokenizer = FL_TRY(session.text.require_tokenizer());
  const auto tokens = FL_TRY(tokenizer.encode(content, {.add_special = false, .parse_special = false}));
  Progress bar("perplexity", static_cast<int64_t>(tokens.size()), {.unit_name = "tok"});
  int64_t last = 0;
  const auto result = FL_TRY(gates::perplexity(*session.loaded->executor, tokens,
                                               {.window = flags.window,
                                                .stride = flags.stride,
                                                .bos = tokenizer.adds_bos() ? tokenizer.bos_id() : std::nullopt,
                                                .progress = [&](int64_t done, int64_t) {
                                                  bar.advance(done - last);
                                                  last = done;
                                                }}));
  bar.finish();
  FL_TRY(session.finish(common));
  if (common.json) {
    print_json({{"perplexity", result.perplexity},
                {"tokens", tokens.size()},
                {"scored_tokens", result.scored_tokens},
                {"windows", result.num_windows},
                {"bos", tokenizer.adds_bos()}});
  } else {
    std::printf("perplexity %.4f over %lld of %zu tokens\n", result.perplexity,
                static_cast<long long>(result.scored_tokens), tokens.size());
  }
  return 0;
}

}  // namespace firstlight::cli
