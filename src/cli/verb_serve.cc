// SPDX-License-Identifier: Apache-2.0
// serve: an OpenAI-compatible server for one model.
#include "cli/serving.h"
#include "cli/verbs.h"

namespace firstlight::cli {

Result<int> verb_serve(const CommonFlags& common, const ServeFlags& flags) {
  if (flags.context < 0) return invalid_argument("--context " + std::to_string(flags.context) + ": 1 or more wanted");
  CommonFlags own = common;
  if (own.generated.empty() && own.backend == "cpu" && !own.no_generated) own.generated = "background";
  Session session = FL_TRY(open_session(own));
  const int status = FL_TRY(serve(session,
                                  {.host = flags.host,
                                   .port = flags.port,
                                   .api_key = flags.api_key,
                                   .name = common.model,
                                   .context = flags.context,
                                   .max_sequences = flags.max_sequences},
                                  std::nullopt));
  FL_TRY(session.finish(common));
  return status;
}

}  // namespace firstlight::cli
