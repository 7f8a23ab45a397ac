// SPDX-License-Identifier: Apache-2.0
// adapt: the main job. All gates, an answer, a report; then, if asked, a server.
#include <chrono>
#include <cstdio>

#include "base/json.h"
#include "cli/generation.h"
#include "cli/output.h"
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
    request.prompt = result.golden.tokens;
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

void print_gate(const gates::Gate& gate) {
  std::fprintf(stderr, "%-8s %-6s %7.2f s  %s\n", gate.level.c_str(), gate.passed ? "passed" : "FAILED", gate.seconds,
               gate.summary.c_str());
}

// The status a failed gate stands for: bad input is 2, as everywhere; a verdict is 1.
int exit_status_of(const gates::AdaptResult& result) {
  if (result.passed) return 0;
  const std::string& level = result.gates.back().level;
  const auto evidence = parse_json(result.gates.back().evidence);
  const bool has_error = evidence.ok() && evidence->contains("error");
  const bool too_large = has_error && (*evidence)["error"]["code"] == "out of memory";
  return has_error && !too_large && level != "answer" ? 2 : 1;
}

}  // namespace

Result<int> verb_adapt(const CommonFlags& common, const AdaptFlags& flags) {
  if (!flags.targets.empty()) return unsupported("--targets: this build has no performance gate yet; bench measures");
  gates::GateOptions options;
  options.bring_up = FL_TRY(bring_up_options(common));
  options.bring_up.load_progress = LoadProgress();
  options.baseline = flags.baseline;
  options.gate_done = print_gate;
  auto result = FL_TRY(gates::run_gates(common.model, options));
  Session session;
  std::string text;
  if (result.passed) {
    session.loaded = std::move(result.loaded);
    session.text = std::move(result.text);
    text = FL_TRY(answer_gate(session, flags, result));
    print_gate(result.gates.back());
  }
  std::string page;
  if (!flags.report.empty()) page = FL_TRY(gates::write_report(flags.report, common.model, result, text));
  if (common.json) {
    print_json(gates::report_json(result, page, text));
  } else {
    if (!text.empty()) std::printf("%s\n", text.c_str());
    if (!page.empty()) std::fprintf(stderr, "report: %s\n", page.c_str());
  }
  if (result.passed && flags.serve) {
    return serve(session, {.host = flags.host, .port = flags.port, .api_key = flags.api_key, .name = common.model},
                 std::move(result.golden));
  }
  return exit_status_of(result);
}

}  // namespace firstlight::cli
