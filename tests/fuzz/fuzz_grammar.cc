// SPDX-License-Identifier: Apache-2.0
// Fuzz target of constrained output: any bytes as a regular expression, a grammar, a JSON Schema or a list of choices
// compile within bounds or are refused with a message; what compiles is read along, and every state that is not dead
// leads somewhere or may end.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "text/grammar/token_mask.h"

namespace {

constexpr size_t kLongest = 1 << 14;
constexpr uint64_t kMostWork = 200'000;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace firstlight::text::grammar;  // NOLINT: one function
  if (size < 1 || size > kLongest) return 0;
  // The first byte is the language: 'r', 'g', 's', 'c', or by its number.
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  constexpr std::string_view kLetters = "rgsc";
  constexpr ConstraintSpec::Kind kKinds[] = {ConstraintSpec::Kind::kRegex, ConstraintSpec::Kind::kGrammar,
                                             ConstraintSpec::Kind::kJsonSchema, ConstraintSpec::Kind::kChoice};
  const size_t letter = kLetters.find(static_cast<char>(data[0]));
  const auto automaton =
      compile_automaton({kKinds[letter == std::string_view::npos ? data[0] % 4 : letter], std::string(text)});
  if (!automaton.ok()) {
    FL_CHECK(!automaton.status().message().empty());
    return 0;
  }
  Matcher matcher(*automaton);
  StateId state = matcher.start();
  // Follows the input where it can, else the lowest byte that can follow.
  for (size_t i = 0; i < 64 && matcher.work() < kMostWork && !matcher.gave_up(); ++i) {
    FL_CHECK(state != Matcher::kDead);
    StateId next = matcher.step(state, text.empty() ? uint8_t{0} : static_cast<uint8_t>(text[i % text.size()]));
    for (int byte = 0; byte < 256 && next == Matcher::kDead && !matcher.gave_up(); ++byte) {
      next = matcher.step(state, static_cast<uint8_t>(byte));
    }
    if (matcher.gave_up()) return 0;
    if (next == Matcher::kDead) {
      FL_CHECK(matcher.may_end(state));
      return 0;
    }
    state = next;
  }
  Matcher other(*automaton);
  const StateId moved = other.adopt(matcher, state);
  FL_CHECK(other.may_end(moved) == matcher.may_end(state) && other.may_go_on(moved) == matcher.may_go_on(state));
  return 0;
}
