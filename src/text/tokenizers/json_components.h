// SPDX-License-Identifier: Apache-2.0
// The components of tokenizer.json besides the model: normalizer, pre-tokenizer, decoder, post-processor. Each reader
// takes the component's JSON (nothing: the component is absent). Errors: kUnsupported naming an unknown type,
// kInvalidData.
#pragma once

#include <optional>
#include <vector>

#include "text/tokenizers/decoder.h"
#include "text/tokenizers/json_fields.h"
#include "text/tokenizers/normalizer.h"
#include "text/tokenizers/pre_tokenizer.h"

namespace firstlight::text {

Result<Normalizer> read_normalizer(const std::optional<JsonElement>& component);
Result<PreTokenizer> read_pre_tokenizer(const std::optional<JsonElement>& component);
Result<Decoder> read_decoder(const std::optional<JsonElement>& component);

struct PostProcessor {
  std::vector<int64_t> prefix_ids;
  std::vector<int64_t> suffix_ids;
};
Result<PostProcessor> read_post_processor(const std::optional<JsonElement>& component);

// How many components may stand in a sequence, nested ones counted.
inline constexpr size_t kMaxComponents = 64;

// Calls `read(component)` for a component and for all members of nested {"type": "Sequence", <key>: [...]}, in order.
template <typename Read>
Status for_each_component(const JsonElement& component, std::string_view what, std::string_view key, size_t& budget,
                          Read& read) {
  if (budget-- == 0) return invalid_data(std::string(what) + ": more than 64 components");
  const std::string type = FL_TRY(type_of(component, what));
  if (type != "Sequence") return read(component);
  const std::vector<JsonElement> items = FL_TRY(array_field(component, key).with_context(what));
  for (const JsonElement& item : items) {
    FL_TRY(for_each_component(item, what, key, budget, read));
    if (budget == 0) return invalid_data(std::string(what) + ": more than 64 components");
  }
  return ok_status();
}

// A {"String": ...} or {"Regex": ...} pattern (or a plain string).
struct JsonPattern {
  std::string text;
  bool is_regex = false;
};
Result<JsonPattern> read_pattern(const JsonElement& component, std::string_view what);

}  // namespace firstlight::text
