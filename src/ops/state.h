// SPDX-License-Identifier: Apache-2.0
// Declarations of state: what a sequence carries from one step to the next. One declaration covers every cache; paging,
// memory per token, quantisation, eviction and rewinding follow from it (module kv). Holds no storage.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/dtype.h"

namespace firstlight::ops {

enum class StateKind : uint8_t {
  kAppendLog,     // one row per token, kept
  kWindowLog,     // one row per token, the last `window` are visible
  kRateLog,       // one row per `rate` tokens
  kFixed,         // one f32 tensor per sequence and component, 0 when the sequence starts
  kTokenHistory,  // the ids of the last `window` tokens, kept as rows of one i32 component
  kShared,        // a reference on the state named `shared_with`
};

// How a state goes back to an earlier length.
enum class Rewind : uint8_t { kTruncate, kSnapshot, kReplay };

enum class StateOwner : uint8_t { kLayer, kGroup, kSequence };

// One of the row-parallel parts of a state ("k", "v", "latent"): `heads` blocks of `width` elements a row.
struct StateComponent {
  std::string name;
  int64_t heads = 1;
  int64_t width = 0;
  tensor::DType dtype = tensor::DType::kF32;  // as declared; the plan may store it in another (plan::StateGroup)
  friend bool operator==(const StateComponent&, const StateComponent&) = default;
};

struct StateDecl {
  std::string name;  // "kv.3"
  StateKind kind = StateKind::kAppendLog;
  StateOwner owner = StateOwner::kLayer;
  Rewind rewind = Rewind::kTruncate;
  int64_t window = 0;  // kWindowLog, kTokenHistory
  int64_t keep = 0;    // kWindowLog: the first rows, which stay visible beside the window
  int64_t rate = 1;    // kRateLog
  std::string shared_with;
  std::vector<StateComponent> components;
  friend bool operator==(const StateDecl&, const StateDecl&) = default;

  int component_index(std::string_view component) const {  // -1: no such component
    for (size_t i = 0; i < components.size(); ++i) {
      if (components[i].name == component) return static_cast<int>(i);
    }
    return -1;
  }
};

std::string_view state_kind_name(StateKind kind);
std::string_view rewind_name(Rewind rewind);
std::string_view state_owner_name(StateOwner owner);
std::optional<StateKind> state_kind_from_name(std::string_view name);
std::optional<Rewind> rewind_from_name(std::string_view name);
std::optional<StateOwner> state_owner_from_name(std::string_view name);

}  // namespace firstlight::ops
