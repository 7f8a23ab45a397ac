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
  std::optional<Session> beside;
  if (!flags.beside_kv.empty()) {
    CommonFlags other = common;
    other.kv_dtype = flags.beside_kv;
    beside = FL_TRY(open_session(other, scoring_buckets(0)));
  }
  Progress bar("perplexity", static_cast<int64_t>(tokens.size()), {.unit_name = "tok"});
  int64_t last = 0;
  const auto result = FL_TRY(gates::perplexity(*session.loaded->executor, tokens,
                                               {.window = flags.window,
                                                .stride = flags.stride,
                                                .bos = tokenizer.adds_bos() ? tokenizer.bos_id() : std::nullopt,
                                                .progress =
                                                    [&](int64_t done, int64_t) {
                                                      bar.advance(done - last);
                                                      last = done;
                                                    },
                                                .beside = beside ? beside->loaded->executor.get() : nullptr}));
  bar.finish();
  FL_TRY(session.finish(common));
  if (common.json) {
    Json json = {{"perplexity", result.perplexity},
                 {"tokens", tokens.size()},
                 {"scored_tokens", result.scored_tokens},
                 {"windows", result.num_windows},
                 {"bos", tokenizer.adds_bos()}};
    if (const auto& d = result.divergence) {
      json["beside"] = {{"kv_dtype", flags.beside_kv},
                        {"perplexity", d->perplexity},
                        {"mean_kl", d->mean_kl},
                        {"p99_kl", d->p99_kl},
                        {"same_top", d->same_top}};
    }
    print_json(json);
  } else {
    std::printf("perplexity %.4f over %lld of %zu tokens\n", result.perplexity,
                static_cast<long long>(result.scored_tokens), tokens.size());
    if (const auto& d = result.divergence) {
      std::printf(
          "beside --kv-dtype %s: perplexity %.4f, KL mean %.3g, of 99 in 100 rows at most %.3g, same top %.2f %%\n",
          flags.beside_kv.c_str(), d->perplexity, d->mean_kl, d->p99_kl, 100 * d->same_top);
    }
  }
  return 0;
}

}  // namespace firstlight::cli
