// SPDX-License-Identifier: Apache-2.0
// logits: float32 logits of given token ids.
#include <cstdio>
#include "base/json.h"
#include "cli/output.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include "engine/scorer.h"
#include "formats/npy.h"

namespace firstlight::cli {

Result<int> verb_logits(const CommonFlags& common, const LogitsFlags& flags) {
  const auto tokens = FL_TRY(parse_token_ids("--tokens", flags.tokens));
  const int64_t chunk = flags.stepwise ? 1 : flags.chunk;
  const Session session = FL_TRY(open_session(common, scoring_buckets(chunk)));
  const auto total = static_cast<int64_t>(tokens.size());
  std::vector<float> rows;
  int64_t vocab = 0;
  FL_TRY(engine::score(*session.loaded->executor, tokens, {.chunk = chunk, .first_row = flags.last ? total - 1 : 0},
                       [&](int64_t, std::span<const float> logits) {
                         vocab = static_cast<int64_t>(logits.size());
                         rows.insert(rows.end(), logits.begin(), logits.end());
                       }));
  const int64_t num_rows = vocab == 0 ? 0 : static_cast<int64_t>(rows.size()) / vocab;
  if (!flags.output.empty()) {
    const std::vector<int64_t> shape = {num_rows, vocab};
    FL_TRY(formats::write_npy(flags.output, shape, rows));
  }
  FL_TRY(session.finish(common));
  if (common.json) {
    Json list = Json::array();
    for (int64_t r = 0; r < num_rows; ++r) {
      list.push_back(std::vector<float>(rows.begin() + r * vocab, rows.begin() + (r + 1) * vocab));
    }
    print_json({{"vocab", vocab}, {"logits", std::move(list)}});
  } else if (flags.output.empty()) {
    for (int64_t r = 0; r < num_rows; ++r) {
      for (int64_t i = 0; i < vocab; ++i) {
        std::printf("%s%.9g", i == 0 ? "" : " ", static_cast<double>(rows[static_cast<size_t>(r * vocab + i)]));
      }
      std::printf("\n");
    }
  }
  return 0;
}

}  // namespace firstlight::cli
