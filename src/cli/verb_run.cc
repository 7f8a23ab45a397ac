// SPDX-License-Identifier: Apache-2.0
// run: one prompt, text to stdout.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <limits>
#include <optional>
#include <utility>

#include "base/file_map.h"
#include "base/json.h"
#include "cli/chat_formats.h"
#include "cli/generation.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "server/constraint_fields.h"
#include "text/grammar/constraint.h"

namespace firstlight::cli {
namespace {

Result<request::SamplingParams> sampling_params(const SamplingFlags& flags) {
  request::SamplingParams params{.repetition_penalty = flags.repetition_penalty,
                                 .presence_penalty = flags.presence_penalty,
                                 .frequency_penalty = flags.frequency_penalty,
                                 .temperature = flags.temperature,
                                 .top_k = flags.top_k,
                                 .top_p = flags.top_p,
                                 .min_p = flags.min_p,
                                 .seed = flags.seed,
                                 .num_logprobs = flags.logprobs};
  for (const std::string& word : flags.logit_bias) {
    const size_t equals = word.find('=');
    char* end = nullptr;
    const double bias = equals == std::string::npos ? 0 : std::strtod(word.c_str() + equals + 1, &end);
    if (end == nullptr || *end != '\0' || end == word.c_str() + equals + 1) {
      return invalid_argument("--logit-bias " + word + ": ID=VALUE wanted");
    }
    const auto ids = FL_TRY(parse_token_ids("--logit-bias", word.substr(0, equals)));
    if (ids.size() != 1) return invalid_argument("--logit-bias " + word + ": one ID=VALUE wanted");
    params.logit_bias[ids[0]] = bias;
  }
  return params;
}

// Flags that this combination of flags leaves without a meaning are named: nothing is ignored in silence.
void note_flags_without_effect(const CommonFlags& common, const RunFlags& flags) {
  const SamplingFlags& sampling = flags.sampling;
  if (sampling.temperature == 0 &&
      (sampling.top_k != 0 || sampling.top_p != 1 || sampling.min_p != 0 || sampling.seed)) {
    std::fprintf(stderr,
                 "note: --temperature 0 takes the likeliest token; --top-k, --top-p, --min-p and --seed change "
                 "nothing\n");
  }
  if (!common.chat_variables.empty() && (flags.raw || !flags.tokens.empty())) {
    std::fprintf(stderr, "note: --chat-variables is for chats; --raw and --tokens have no use for it\n");
  }
  if (sampling.logprobs >= 0 && !common.json) std::fprintf(stderr, "note: --logprobs shows with --json alone\n");
}

using text::grammar::ConstraintSpec;

// What the output has to be, where a flag says it.
Result<std::optional<ConstraintSpec>> constraint_of(const RunFlags& flags) {
  std::optional<ConstraintSpec> spec;
  const auto set = [&](ConstraintSpec::Kind kind, std::string text) -> Status {
    if (spec) return invalid_argument("one of --json-schema, --regex and --grammar wanted");
    spec = {kind, std::move(text)};
    return ok_status();
  };
  if (!flags.json_schema.empty()) {
    FL_TRY(set(ConstraintSpec::Kind::kJsonSchema, FL_TRY(read_text_file(flags.json_schema))));
  }
  if (!flags.regex.empty()) FL_TRY(set(ConstraintSpec::Kind::kRegex, flags.regex));
  if (!flags.grammar.empty()) FL_TRY(set(ConstraintSpec::Kind::kGrammar, FL_TRY(read_text_file(flags.grammar))));
  if (spec && flags.ignore_eos) {
    return invalid_argument("--ignore-eos beside --json-schema, --regex or --grammar, which say what ends the output");
  }
  return spec;
}

Json logprob_json(const request::TokenEvent& event) {
  Json top = Json::array();
  for (const auto& one : event.top_logprobs) top.push_back({{"token", one.token}, {"logprob", one.logprob}});
  return {{"token", *event.token}, {"logprob", event.logprob->logprob}, {"top", std::move(top)}};
}

Json demotions_json(const runtime::Executor& executor) {
  Json list = Json::array();
  for (const runtime::Demotion& d : executor.demotions()) {
    list.push_back({{"kernel", d.kernel}, {"to", d.to}, {"at", d.label}, {"error", d.error}});
  }
  return list;
}

int64_t evicted_tokens(const GenerationResult& result) {
  return result.events.empty() ? 0 : result.events.back().evicted_tokens;
}

Json result_json(const GenerationResult& result, const Session& session, bool with_logprobs) {
  Json document = {{"text", result.text},
                   {"tokens", result.tokens},
                   {"prompt_tokens", result.prompt_tokens},
                   {"finish_reason", result.finish_reason},
                   {"demotions", demotions_json(*session.loaded->executor)},
                   {"timing",
                    {{"load_s", session.loaded->total_seconds()},
                     {"ttft_s", result.ttft_s},
                     {"prompt_tps", result.prompt_tps},
                     {"decode_tps", result.decode_tps}}}};
  if (!result.reasoning.empty()) document["reasoning"] = result.reasoning;
  if (result.drafted_tokens > 0) {
    document["drafts"] = {{"tokens", result.drafted_tokens}, {"accepted", result.accepted_tokens}};
  }
  if (session.visible_tokens > 0) document["evicted_tokens"] = evicted_tokens(result);
  if (with_logprobs) {
    document["logprobs"] = Json::array();
    for (const auto& event : result.events) {
      if (event.logprob) document["logprobs"].push_back(logprob_json(event));
    }
  }
  return document;
}

// The answer to stdout, thoughts to stderr: what reads the one never meets the other.
class Screen {
 public:
  // False when nobody reads the answer any more.
  bool show(const server::ChoicePiece& piece) {
    if (!piece.reasoning.empty())
      std::fprintf(stderr, is_terminal_ ? "\x1b[2m%s\x1b[0m" : "%s", piece.reasoning.c_str());
    in_thoughts_ = in_thoughts_ || !piece.reasoning.empty();
    if (piece.text.empty()) return true;
    end_thoughts();
    std::fwrite(piece.text.data(), 1, piece.text.size(), stdout);
    return std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  }
  void end_thoughts() {
    if (std::exchange(in_thoughts_, false)) std::fprintf(stderr, "\n");
  }

 private:
  bool is_terminal_ = ::isatty(STDERR_FILENO) == 1;
  bool in_thoughts_ = false;
};

// The prompt of -p (and its end), and how its answer is read where it is a chat.
Status prepare_chat(const Session& session, const CommonFlags& common, const RunFlags& flags, request::Request& request,
                    std::shared_ptr<const server::ChatReading>& reading, std::string& end) {
  if (common.prompt_from != "auto" && !flags.raw && session.text.chat_template == nullptr) {
    return invalid_argument("--prompt-from " + common.prompt_from + ": " + session.text.chat_template_error);
  }
  request.prompt = FL_TRY(encode_prompt(
      session.text,
      {.system = flags.system, .user = flags.prompt, .variables = common.chat_variables, .raw = flags.raw}, &end));
  if (flags.raw || session.text.chat_template == nullptr) return ok_status();
  text::ChatFormat format = FL_TRY(choose_chat_format(session.text, flags.chat_format));
  reading =
      server::make_chat_reading(server::make_chat_profile(std::move(format), *session.text.tokenizer), Json(), end);
  return ok_status();
}

}  // namespace

Result<int> verb_run(const CommonFlags& common, const RunFlags& flags) {
  if (!flags.image.empty()) return unsupported("--image: this build reads text alone");
  const Speculation speculation = FL_TRY(parse_speculate(flags.speculate));
  if (flags.prompt.empty() && flags.tokens.empty()) return invalid_argument("-p TEXT or --tokens IDS wanted");
  request::Request request{.id = "run", .max_tokens = flags.max_tokens, .ignore_model_stops = flags.ignore_eos};
  request.sampling = FL_TRY(sampling_params(flags.sampling));
  // What can be seen before the model is loaded is; the vocabulary's size cannot.
  FL_TRY(request::check(request.sampling, std::numeric_limits<int32_t>::max()));
  if (flags.max_tokens < 1) {
    return invalid_argument("--max-tokens " + std::to_string(flags.max_tokens) + ": 1 or more wanted");
  }
  const auto constraint = FL_TRY(constraint_of(flags));
  note_flags_without_effect(common, flags);
  if (!flags.stop_ids.empty()) request.stop_token_ids = FL_TRY(parse_token_ids("--stop-ids", flags.stop_ids));
  if (!flags.tokens.empty()) request.prompt = FL_TRY(parse_token_ids("--tokens", flags.tokens));
  CommonFlags own = common;
  own.predict = speculation.predict;
  Session session = FL_TRY(open_session(own));
  std::shared_ptr<const server::ChatReading> reading;
  std::string prompt_end;
  if (flags.tokens.empty()) FL_TRY(prepare_chat(session, common, flags, request, reading, prompt_end));
  if (constraint) {
    const auto tokenizer = FL_TRY(session.text.require_tokenizer().with_context("a constraint"));
    text::grammar::ConstraintCompiler compiler(tokenizer);
    const std::string& file = flags.json_schema.empty() ? flags.grammar : flags.json_schema;
    const std::string name = file.empty() ? "--regex" : file;
    auto compiled = FL_TRY(compiler.compile(*constraint).with_context(name));
    if (reading != nullptr) {
      const auto framed = server::frame_text(*reading->profile->format, *constraint, prompt_end);
      compiled = FL_TRY(compiler.compile(framed).with_context(name));
    }
    request.mask = compiled->make_mask();
  }
  if (!flags.stop.empty()) FL_TRY(session.text.require_tokenizer().with_context("--stop"));
  Screen screen;
  const auto show = [&](const server::ChoicePiece& piece) { return screen.show(piece); };
  const auto result =
      FL_TRY(generate(session, std::move(request), flags.stop, common.json ? ShowPiece() : show,
                      {.context = flags.context, .draft_tokens = speculation.tokens, .reading = reading}));
  screen.end_thoughts();
  FL_TRY(session.finish(common));
  if (common.json) {
    print_json(result_json(result, session, flags.sampling.logprobs >= 0));
  } else {
    // A model without a tokenizer has no text to show: the ids, then.
    if (!session.text.tokenizer) std::printf("%s", dump_json(Json(result.tokens)).c_str());
    std::printf("\n");
    std::fflush(stdout);
    std::fprintf(stderr, "%lld prompt tokens at %.1f/s, %zu generated at %.1f/s, loaded in %.2f s (%s)\n",
                 static_cast<long long>(result.prompt_tokens), result.prompt_tps, result.tokens.size(),
                 result.decode_tps, session.loaded->total_seconds(), result.finish_reason.c_str());
    if (evicted_tokens(result) > 0) {
      std::fprintf(stderr, "note: attention saw the first and the last tokens, %lld between them no more\n",
                   static_cast<long long>(evicted_tokens(result)));
    }
  }
  return 0;
}

}  // namespace firstlight::cli
