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

}  // namespace firstlight::ops
