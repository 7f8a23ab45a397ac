// SPDX-License-Identifier: Apache-2.0
#include "cli/common_flags.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <optional>

namespace firstlight::cli {

CLI::App* add_verb(CLI::App& app, CommandLine& line, const char* name, const char* what,
                   std::function<Result<int>()> verb) {
  CLI::App* sub = app.add_subcommand(name, what);
  sub->callback([&line, verb = std::move(verb)] { line.chosen = verb; });
  sub->add_flag("--json", line.common.json, "one JSON document on stdout, nothing else there");
  sub->add_option("--backend", line.common.backend, "reference, cpu, simt, opencl, cuda or musa")
      ->capture_default_str();
  sub->add_option("--threads", line.common.threads, "0: all cores this process may use")->capture_default_str();
  sub->add_option("--warp", line.common.warp, "lanes of a warp (simt: 32, 64 or 128); 0: the device's own")
      ->capture_default_str();
  return sub;
}

void add_model(CLI::App* sub, CommonFlags& common) {
  sub->add_option("MODEL", common.model, "a Hugging Face style directory or a GGUF file")->required();
}

void add_spec_flags(CLI::App* sub, CommonFlags& common) {
  sub->add_option("--spec", common.spec, "run this spec instead of the one that matches");
  sub->add_option("--architectures", common.architectures,
                  "read specs from this directory instead of the built-in ones");
  sub->add_flag("--vendor-activations", common.vendor_activations,
                "round activations as the checkpoint's quantisation says (docs/numerics.md)");
  sub->add_option("--allow-unbound", common.allow_unbound, "admit one config key or tensor nobody uses (repeatable)");
}

void add_compute_flags(CLI::App* sub, CommonFlags& common) {
  sub->add_option("--compute", common.compute,
                  "auto (by each weight's type), f32, bf16, w8a8 (w4a8 is the same), w4a16 or fp8")
      ->capture_default_str();
  sub->add_option("--kv-dtype", common.kv_dtype,
                  "of keys and values: f32, f16, bf16, fp8, int8 or int4 (default: f16, bf16 where attention computes "
                  "in it; f32 on the reference)");
  sub->add_option("--evict", common.evict,
                  "sinks:N,window:M: full attention sees and keeps the first N tokens and the last M; default: all");
  sub->add_option("--no-pass", common.no_pass, "leave out this compiler pass (repeatable)");
  sub->add_flag("--no-tuned", common.no_tuned, "the plainest kernel of each step");
  auto* none = sub->add_flag("--no-generated", common.no_generated, "no generated kernels");
  sub->add_option(
         "--generated", common.generated,
         "cached (what an earlier run built), background or wait; default: cached, serve background, bench wait")
      ->excludes(none);
  sub->add_option("--canary", common.canary,
                  "compare every Nth batch with plain kernels and stop using one that differs; 0: never")
      ->capture_default_str();
  sub->add_option("--tp", common.tp, "ranks of tensor parallelism")->capture_default_str();
  sub->add_option("--pp", common.pp, "ranks of pipeline parallelism")->capture_default_str();
  sub->add_option("--ep", common.ep, "ranks of expert parallelism")->capture_default_str();
  add_spec_flags(sub, common);
}

void add_invariant_flag(CLI::App* sub, CommonFlags& common) {
  sub->add_flag("--invariant", common.invariant,
                "the same bytes for a request whatever else is computed, and in whatever pieces (docs/determinism.md)");
}

void add_speculate_flag(CLI::App* sub, std::string& speculate) {
  sub->add_option("--speculate", speculate,
                  "off (the default), ngram[:N]: up to N tokens guessed ahead from the text so far, or mtp[:N]: by the "
                  "checkpoint's own head; the same output");
}

void add_chat_flag(CLI::App* sub, CommonFlags& common) {
  sub->add_option("--prompt-from", common.prompt_from,
                  "template (the checkpoint's), spec (its render function) or auto: the template where there is one")
      ->capture_default_str();
}

void add_chat_variables_flag(CLI::App* sub, CommonFlags& common) {
  sub->add_option("--chat-variables", common.chat_variables,
                  "further variables of the prompt, as a JSON object: {\"enable_thinking\": false}");
}

CLI::Option* add_chat_format_flag(CLI::App* sub, std::string& chat_format) {
  return sub->add_option("--chat-format", chat_format,
                         "how answers are read: auto (default), none, a name or a file of docs/chat_formats.md");
}

void add_trace_flag(CLI::App* sub, CommonFlags& common) {
  sub->add_option("--trace", common.trace, "write step timers to this file (Chrome trace format)")
      ->check(writable_file());
}

WordCheck whole_from(int64_t least, int64_t most) {
  return [least, most](const std::string& word) -> std::string {
    int64_t number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    const bool whole = error == std::errc() && end == word.data() + word.size();
    if (whole && number >= least && number <= most) return "";
    return "'" + word + "' is no whole number from " + std::to_string(least) +
           (most == INT64_MAX ? " up" : " to " + std::to_string(most));
  };
}

WordCheck positive() {
  return [](const std::string& word) -> std::string {
    double number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    const bool whole = error == std::errc() && end == word.data() + word.size();
    return whole && number > 0 && std::isfinite(number) ? "" : "'" + word + "' is no number above 0";
  };
}

WordCheck seconds() {
  return [](const std::string& word) -> std::string {
    constexpr double kYear = 366.0 * 24 * 3600;
    double number = -1;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    const bool whole = error == std::errc() && end == word.data() + word.size();
    return whole && number >= 0 && number <= kYear ? "" : "'" + word + "': 0 to 31622400 seconds wanted";
  };
}

WordCheck writable_file() {
  return [](const std::string& word) -> std::string {
    std::error_code error;
    const std::filesystem::path path(word);
    const auto status = std::filesystem::status(path, error);
    if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
      return word + ": not a regular file";
    const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
    return ::access(folder.c_str(), W_OK | X_OK) == 0 ? "" : "cannot write " + word + ": " + std::strerror(errno);
  };
}

WordCheck writable_folder() {
  return [](const std::string& word) -> std::string {
    std::error_code error;
    std::filesystem::path there = std::filesystem::absolute(word, error);
    while (!std::filesystem::exists(there, error) && there != there.parent_path()) there = there.parent_path();
    return ::access((there / ".").c_str(), W_OK | X_OK) == 0 ? ""
                                                             : "cannot write to " + word + ": " + std::strerror(errno);
  };
}

namespace {

// Digits and perhaps a unit; the sizes' own reader takes a unit alone for one of it.
std::string check_size(const std::string& word) {
  const size_t digits = std::min(word.find_first_not_of("0123456789"), word.size());
  const std::string rest = word.substr(digits);
  const std::string unit = rest.substr(std::min(rest.find_first_not_of(' '), rest.size()));
  const bool is_one = digits > 0 && unit.empty() == rest.empty() &&
                      std::all_of(unit.begin(), unit.end(), [](unsigned char c) { return std::isalpha(c) != 0; });
  return is_one ? "" : "'" + word + "' is no whole number of bytes, KB, MB, ...";
}

}  // namespace

template <typename Bytes>
CLI::Option* add_bytes_flag(CLI::App* sub, const char* name, Bytes& bytes, const char* what, int64_t least) {
  // Of these the last one added is the first to look.
  return sub->add_option(name, bytes, what)
      ->transform(CLI::AsSizeValue(false))
      ->transform(CLI::Validator([](std::string& word) { return check_size(word); }, ""))
      ->check(whole_from(least));
}
template CLI::Option* add_bytes_flag(CLI::App*, const char*, int64_t&, const char*, int64_t);
template CLI::Option* add_bytes_flag(CLI::App*, const char*, uint64_t&, const char*, int64_t);
template CLI::Option* add_bytes_flag(CLI::App*, const char*, std::optional<int64_t>&, const char*, int64_t);

void add_server_flags(CLI::App* sub, std::string& host, int& port, std::string& api_key) {
  sub->add_option("--host", host)->capture_default_str();
  sub->add_option("--port", port, "0: any free one")->check(CLI::Range(0, 65535))->capture_default_str();
  sub->add_option("--api-key", api_key, "wanted as 'Authorization: Bearer KEY'");
}

}  // namespace firstlight::cli
