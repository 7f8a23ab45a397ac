// SPDX-License-Identifier: Apache-2.0
// Flags that many verbs share, and what they mean to the modules below.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "adapt/bring_up.h"
#include "adapt/text_assets.h"
#include "base/status.h"

namespace firstlight::cli {

struct CommonFlags {
  std::string model;
  bool json = false;
  std::string backend = "cpu";
  int threads = 0;
  int warp = 0;  // lanes of a warp, where the device has several widths
  std::string compute = "auto";
  std::string kv_dtype;
  std::string evict;  // "sinks:4,window:1020"
  int tp = 1, pp = 1, ep = 1;
  std::vector<std::string> no_pass;
  bool no_tuned = false;
  bool no_generated = false;
  std::string generated;  // "", "cached", "background" or "wait"; "": the verb's own choice
  int64_t canary = 0;
  bool invariant = false;
  bool predict = false;  // --speculate mtp
  std::vector<std::string> allow_unbound;
  bool vendor_activations = false;
  std::string spec;
  std::string architectures;
  std::string prompt_from = "auto";
  std::string chat_variables;  // a JSON object
  std::string trace;           // file for the step timers of the run, in the Chrome trace format
};

// Errors: kInvalidArgument for a value nobody knows, kUnsupported for one that this build can not do yet.
Result<adapt::BringUpOptions> bring_up_options(const CommonFlags& flags);

// What --speculate says: tokens guessed ahead at most (0: none), and whether by the checkpoint's own head.
struct Speculation {
  int64_t tokens = 0;
  bool predict = false;
};
// Errors: kInvalidArgument.
Result<Speculation> parse_speculate(const std::string& text);

// How the model's chats become prompts. Errors: kInvalidArgument.
Result<adapt::TextOptions> text_options(const CommonFlags& flags);

// "sinks:N,window:M", the sinks optional; empty: nothing. Errors: kInvalidArgument.
Result<std::optional<compiler::Eviction>> parse_eviction(const std::string& text);

// "1,2,3" as numbers. Errors: kInvalidArgument naming the flag and the word.
Result<std::vector<int64_t>> parse_integers(const std::string& flag, const std::string& text);
Result<std::vector<int32_t>> parse_token_ids(const std::string& flag, const std::string& text);

}  // namespace firstlight::cli
