// SPDX-License-Identifier: Apache-2.0
#include "ops/state.h"

#include "base/check.h"

namespace firstlight::ops {

std::string_view state_kind_name(StateKind kind) {
  switch (kind) {
    case StateKind::kAppendLog:
      return "append";
    case StateKind::kWindowLog:
      return "window";
    case StateKind::kRateLog:
      return "rate";
    case StateKind::kFixed:
      return "fixed";
    case StateKind::kTokenHistory:
      return "token_history";
    case StateKind::kShared:
      return "shared";
  }
  FL_CHECK(false);
}

std::string_view rewind_name(Rewind rewind) {
  switch (rewind) {
    case Rewind::kTruncate:
      return "truncate";
    case Rewind::kSnapshot:
      return "snapshot";
    case Rewind::kReplay:
      return "replay";
  }
  FL_CHECK(false);
}

std::string_view state_owner_name(StateOwner owner) {
  switch (owner) {
    case StateOwner::kLayer:
      return "layer";
    case StateOwner::kGroup:
      return "group";
    case StateOwner::kSequence:
      return "sequence";
  }
  FL_CHECK(false);
}

namespace {

// The enumerator below `count` with that name.
template <typename Enum>
std::optional<Enum> from_name(std::string_view name, int count, std::string_view (*name_of)(Enum)) {
  for (int i = 0; i < count; ++i) {
    if (name_of(static_cast<Enum>(i)) == name) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

}  // namespace

std::optional<StateKind> state_kind_from_name(std::string_view name) {
  return from_name(name, static_cast<int>(StateKind::kShared) + 1, state_kind_name);
}
std::optional<Rewind> rewind_from_name(std::string_view name) {
  return from_name(name, static_cast<int>(Rewind::kReplay) + 1, rewind_name);
}
std::optional<StateOwner> state_owner_from_name(std::string_view name) {
  return from_name(name, static_cast<int>(StateOwner::kSequence) + 1, state_owner_name);
}

}  // namespace firstlight::ops
