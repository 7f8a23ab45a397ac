// SPDX-License-Identifier: Apache-2.0
// adapt: the main job. All gates, an answer, a report; then, if asked, a server.
#include <chrono>
#include <cstdio>

#include "base/json.h"
#include "cli/gate_output.h"
#include "cli/generation.h"
#include "cli/serving.h"
#include "cli/verbs.h"
#include "gates/gates.h"

namespace firstlight::cli {
namespace {

constexpr int64_t kAnswerTokens = 48;

// The model answers. A model without a tokenizer continues a few token ids. Fills in what the gate found.
Result<std::string> answer(Session& session, const AdaptFlags& flags, const gates::AdaptResult& result,
                           gates::Gate& gate) {
  request::Request request{.id = "adapt", .max_tokens = kAnswerTokens};
  request.sampling.temperature = 0;
  const bool has_text = session.text.tokenizer.has_value();
  if (has_text) {
    const bool chat = session.text.chat_template != nullptr;
    const std::string question = !flags.prompt.empty() ? flags.prompt
                                 : chat                ? "Why is the sky blue?"
                                                       : "The three states of matter are";
    request.prompt = FL_TRY(encode_prompt(session.text, {.user = question, .raw = !chat}));
  } else {
    request.prompt = result.golden.prompts.at(0).tokens;
  }
  const auto generated = FL_TRY(generate(session, std::move(request), {}, nullptr));
  std::string ids;
  for (const int32_t token : generated.tokens) ids += (ids.empty() ? "" : ",") + std::to_string(token);
  gate.passed = !generated.tokens.empty();
  char speed[96];
  std::snprintf(speed, sizeof(speed), "first token after %.3f s, then %.1f tokens/s", generated.ttft_s,
                generated.decode_tps);
  gate.summary = has_text ? speed : "no tokenizer (" + session.text.tokenizer_error + "); " + speed;
  gate.evidence = dump_json({{"tokens", generated.tokens},
                             {"finish_reason", generated.finish_reason},
                             {"ttft_s", generated.ttft_s},
                             {"prompt_tps", generated.prompt_tps},
                             {"decode_tps", generated.decode_tps}});
  return has_text ? generated.text : ids;
}

// The last gate. What goes wrong in answering closes it, as it does with the others; a fault of our own is an error.
Result<std::string> answer_gate(Session& session, const AdaptFlags& flags, gates::AdaptResult& result) {
  gates::Gate gate{.level = "answer", .evidence = "{}"};
  const auto start = std::chrono::steady_clock::now();
  const auto text = answer(session, flags, result, gate);
  gate.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!text.ok()) {
    if (text.status().code() == StatusCode::kInternal) return text.status();
    gate.summary = text.status().message();
    gate.evidence = dump_json(
        {{"error", {{"code", status_code_name(text.status().code())}, {"message", text.status().message()}}}});
  }
  result.passed = gate.passed;
  result.gates.push_back(std::move(gate));
  return text.ok() ? *text : "";
}

}  // namespace

Result<int> verb_adapt(const CommonFlags& common, const AdaptFlags& flags) {
  const auto options = FL_TRY(gate_options(common, flags.baseline, flags.targets, flags.budget));
  auto result = FL_TRY(gates::run_gates(common.model, options));
  Session session;
  std::string text;
  if (result.passed) {
    session.options = options.bring_up;
    session.loaded = std::move(result.loaded);
    session.text = std::move(result.text);
    text = FL_TRY(answer_gate(session, flags, result));
    print_gate(result.gates.back());
  }
  FL_TRY(show_result(common, flags.report, result, text));
  if (result.passed && flags.serve) {
    return serve(session,
                 {.server = {.host = flags.host, .port = flags.port, .api_key = flags.api_key}, .name = common.model},
                 std::move(result.golden));
  }
  return exit_status_of(result);
}

}  // namespace firstlight::cli
