// SPDX-License-Identifier: Apache-2.0
// The command line: parsed, the verb run, its Status made an exit status. The flags are in flags_*.cc.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "cli/command_line.h"
#include "cli/streams.h"

namespace {

using namespace firstlight;       // NOLINT: the composition root speaks to everything
using namespace firstlight::cli;  // NOLINT

int exit_status(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return 0;
    case StatusCode::kOutOfMemory:
    case StatusCode::kCancelled:
      return 1;
    case StatusCode::kInvalidArgument:
    case StatusCode::kInvalidData:
    case StatusCode::kNotFound:
    case StatusCode::kUnsupported:
      return 2;
    case StatusCode::kUnavailable:
    case StatusCode::kInternal:
      return 3;
  }
  return 3;
}

// Common flags are checked for every verb, also where it has no use for them.
Result<int> run_verb(const CommandLine& line) {
  FL_TRY(bring_up_options(line.common));
  try {
    return line.chosen();
  } catch (const std::bad_alloc&) {
    return out_of_memory("the system gave no more memory");
  } catch (const std::exception& error) {
    return internal_error(std::string("an exception nobody caught: ") + error.what());
  }
}

template <typename Integer>
bool is_whole(const std::string& word) {
  Integer number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  return error == std::errc() && end == word.data() + word.size();
}

// A value that is not there: an unset variable in a shell is "", and would be taken as if the flag were not given. A
// text to work on may be empty.
std::string refuse_empty(const std::string& word) { return word.empty() ? "an empty value" : ""; }
bool may_be_empty(const CLI::Option& option) {
  static constexpr const char* kTexts[] = {"--text", "--prompt", "--system", "--decode"};
  return std::any_of(std::begin(kTexts), std::end(kTexts), [&](const char* name) { return option.check_name(name); });
}

// The library bends what does not fit (beyond 64 bits to the largest, -1 to 2^64 - 1): such words are refused first.
void refuse_bent_words(CLI::App& app) {
  for (CLI::App* sub : app.get_subcommands([](CLI::App*) { return true; })) {
    refuse_bent_words(*sub);
    for (CLI::Option* option : sub->get_options()) {
      const std::string type = option->get_type_name();
      if (type.starts_with("TEXT") && !may_be_empty(*option)) option->check(refuse_empty);
      const bool natural = type.starts_with("UINT");
      if (!natural && !type.starts_with("INT")) continue;
      option->check([natural](const std::string& word) {
        if (natural ? is_whole<uint64_t>(word) : is_whole<int64_t>(word)) return std::string();
        return "'" + word + "' is no whole number" + (natural ? " from 0 up" : "") + " of 64 bits";
      });
    }
  }
}

void print_error(const Status& status) {
  const Json document = {{"error", {{"code", status_code_name(status.code())}, {"message", status.message()}}}};
  std::printf("%s\n", dump_json(document).c_str());
}

bool wants_json(int argc, char** argv) {
  return std::find(argv + 1, argv + argc, std::string_view("--json")) != argv + argc;
}

// A line that does not parse has told no flag yet, --json included.
int fail_to_parse(const CLI::App& app, const CLI::ParseError& error, int argc, char** argv) {
  constexpr std::string_view kTwice = ": At Most 1 required but received ";
  const std::string what = error.what();
  if (const size_t at = what.find(kTwice); at != std::string::npos) {
    const std::string times = what.substr(at + kTwice.size());
    const CLI::ArgumentMismatch clear(what.substr(0, at) + ": given " + times + " times, once wanted",
                                      CLI::ExitCodes::ArgumentMismatch);
    return fail_to_parse(app, clear, argc, argv);
  }
  if (app.exit(error) == 0) return 0;
  if (wants_json(argc, argv)) print_error(invalid_argument(error.what()));
  return 2;
}

int fail(const Status& status, bool json) {
  std::fprintf(stderr, "firstlight: %s\n", printable(status.to_string()).c_str());
  if (json) print_error(status);
  return exit_status(status.code());
}

// The parser would only say that a verb is missing, whatever stands in its place.
Status check_verb(const CLI::App& app, int argc, char** argv) {
  const CLI::App* at = &app;
  for (int i = 1; i < argc && argv[i][0] != '-'; ++i) {
    const auto verbs = at->get_subcommands([](const CLI::App*) { return true; });
    if (verbs.empty()) break;
    const auto found =
        std::find_if(verbs.begin(), verbs.end(), [&](const auto* verb) { return verb->get_name() == argv[i]; });
    if (found == verbs.end()) {
      const std::string of = at == &app ? "" : " of " + at->get_name();
      return invalid_argument("no verb" + of + " is called '" + std::string(argv[i]) + "'; --help lists them");
    }
    at = *found;
  }
  return ok_status();
}

// `--name=` is a name and an empty value; the parser would take the word behind it, which may be --json.
std::vector<const char*> with_empty_values(int argc, char** argv, std::deque<std::string>& names) {
  std::vector<const char*> words;
  for (int i = 0; i < argc; ++i) {
    const std::string_view word = argv[i];
    words.push_back(argv[i]);
    if (i == 0 || !word.starts_with("--") || word.size() < 4 || word.find('=') != word.size() - 1) continue;
    names.emplace_back(word.substr(0, word.size() - 1));
    words.back() = names.back().c_str();
    words.push_back("");
  }
  return words;
}

// Work that did not reach its reader is not done.
int finish(int status) {
  const Status arrived = flush_output();
  return arrived.ok() ? status : fail(arrived, false);
}

}  // namespace

int main(int argc, char** argv) {
  reserve_streams();
  std::deque<std::string> names;
  const std::vector<const char*> words = with_empty_values(argc, argv, names);
  std::signal(SIGPIPE, SIG_IGN);
  CommandLine line;
  CLI::App app("Firstlight: a newly released open-weight model, usable on the day of its release.");
  app.require_subcommand(1);
  app.set_version_flag("--version", FL_VERSION);
  add_running_verbs(app, line);
  add_serve_verb(app, line);
  add_looking_verbs(app, line);
  add_baseline_verbs(app, line);
  refuse_bent_words(app);
  if (const Status known = check_verb(app, argc, argv); !known.ok()) return fail(known, wants_json(argc, argv));
  try {
    app.parse(static_cast<int>(words.size()), words.data());
  } catch (const CLI::ParseError& error) {
    return finish(fail_to_parse(app, error, argc, argv));
  }
  const auto outcome = run_verb(line);
  return finish(outcome.ok() ? *outcome : fail(outcome.status(), line.common.json));
}
