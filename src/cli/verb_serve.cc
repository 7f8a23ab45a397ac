// SPDX-License-Identifier: Apache-2.0
// serve: an OpenAI-compatible server for one model.
#include "cli/embedding.h"
#include "cli/serving.h"
#include "cli/verbs.h"

namespace firstlight::cli {

namespace {

// With the flag, and of models that are made for it.
Result<std::optional<server::ServedEmbeddings>> served_embeddings(const CommonFlags& common, const ServeFlags& flags) {
  const auto config = FL_TRY(embedding_config(common, {.pooling = flags.pooling, .no_normalise = flags.no_normalise}));
  const bool is_tuned = !flags.pooling.empty() || flags.no_normalise || flags.shorten_embeddings;
  if (!flags.embeddings && config.source.empty()) {
    if (is_tuned) return invalid_argument("--pooling, --no-normalise and --shorten-embeddings want --embeddings");
    return std::optional<server::ServedEmbeddings>();
  }
  return std::optional(server::ServedEmbeddings{
      .pooling = config.pooling, .normalise = config.normalise, .may_shorten = flags.shorten_embeddings});
}

constexpr int64_t kMostSequences = 512;

// The usual ones, and where more requests run together ones with a row of logits for each.
std::vector<compiler::BucketSize> serving_buckets(int64_t max_sequences) {
  if (max_sequences <= 16) return {};
  return {{16, 16}, {max_sequences, max_sequences}, {512, max_sequences}};
}

}  // namespace

Result<int> verb_serve(const CommonFlags& common, const ServeFlags& flags) {
  CommonFlags own = common;
  if (own.generated.empty() && own.backend == "cpu" && !own.no_generated && !own.invariant)
    own.generated = "background";
  const kv::SwapOptions swap{.host_bytes = static_cast<int64_t>(flags.swap_memory),
                             .disk_bytes = static_cast<int64_t>(flags.swap_disk),
                             .folder = flags.swap_folder};
  if (!flags.swap_folder.empty() && flags.swap_disk == 0) {
    return invalid_argument("--swap-folder is of no use without --swap-disk");
  }
  FL_TRY(kv::SwapSpace::create(swap).with_context("--swap-disk"));  // before the model is loaded
  if (flags.max_sequences > kMostSequences) {
    return invalid_argument("--max-sequences " + std::to_string(flags.max_sequences) + ": 1 to " +
                            std::to_string(kMostSequences) + " wanted");
  }
  const Speculation speculation = FL_TRY(parse_speculate(flags.speculate));
  own.predict = speculation.predict;
  std::optional<gates::Golden> golden;
  if (!flags.baseline.empty()) golden = FL_TRY(gates::read_golden(flags.baseline));
  const auto embeddings = FL_TRY(served_embeddings(common, flags));
  Session session = FL_TRY(open_session(own, serving_buckets(flags.max_sequences),
                                        embeddings ? adapt::Hidden::kBeside : adapt::Hidden::kNone));
  const int status =
      FL_TRY(serve(session,
                   {.server = {.host = flags.host,
                               .port = flags.port,
                               .api_key = flags.api_key,
                               .max_body_bytes = flags.max_body,
                               .max_connections = static_cast<size_t>(flags.max_connections),
                               .request_timeout_s = flags.request_timeout,
                               .drain_timeout_s = flags.drain_timeout,
                               .trace_requests = flags.trace_requests},
                    .log_json = flags.log_format == "json",
                    .name = common.model,
                    .context = flags.context,
                    .chat_format = flags.chat_format,
                    .embeddings = embeddings,
                    .engine = {.max_sequences = flags.max_sequences,
                               .max_waiting = flags.max_waiting,
                               .step_tokens = flags.step_tokens,
                               .state_capacity_bytes = static_cast<int64_t>(flags.state_bytes),
                               .admission = flags.reserve ? engine::Admission::kReserved : engine::Admission::kOnDemand,
                               .swap = swap,
                               .reuse_prefixes = !flags.no_prefix_reuse,
                               .draft_tokens = speculation.tokens}},
                   std::move(golden)));
  FL_TRY(session.finish(common));
  return status;
}

}  // namespace firstlight::cli
