// SPDX-License-Identifier: Apache-2.0
#include "intake/probe.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <mutex>
#include <thread>

#include "base/start_thread.h"
#include "ir/text.h"

namespace firstlight::intake {
namespace {

enum class Outcome : uint8_t { kSame, kChanged, kRefused };

struct Probe {
  Outcome outcome;
  std::string reason;  // of the refusal
};

// What a load with this config comes to, beside one of the graph `base`.
Probe probe(const TraceInput& input, const ConfigNode& config, const std::string& path, uint64_t base) {
  Quantisation quantisation;
  TraceInput changed = input;
  if (path.find("quantization_config") != std::string::npos || path.starts_with("compression_config")) {
    ConfigRecord record;
    auto resolved = resolve_quantisation(
        {.config = config, .tensors = *input.tensors, .vendor_activations = input.quantisation->vendor_activations},
        record);
    if (!resolved.ok()) return {Outcome::kRefused, ""};
    quantisation = std::move(resolved).value();
    changed.quantisation = &quantisation;
  }
  const auto trace = run_trace(changed, config);
  if (!trace.ok()) return {Outcome::kRefused, trace.status().message()};
  const bool differs = !trace->missing_tensors.empty() || ir::fingerprint(trace->graph) != base;
  return {differs ? Outcome::kChanged : Outcome::kSame, ""};
}

bool is_name_part(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Words of a Lua text that can be values: those in quotation marks, and names of fields ("known.silu", "silu =").
void add_words(std::string_view text, std::vector<std::string>& words) {
  constexpr size_t kLongest = 60;
  const auto add = [&](std::string_view word) {
    if (word.empty() || word.size() > kLongest) return;
    if (std::find(words.begin(), words.end(), word) == words.end()) words.emplace_back(word);
  };
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"' || text[i] == '\'') {
      const size_t end = text.find(text[i], i + 1);
      if (end == std::string_view::npos) return;
      add(text.substr(i + 1, end - i - 1));
      i = end;
    } else if (text.substr(i, 2) == "--") {
      i = std::min(text.find('\n', i), text.size() - 1);
    } else if (is_name_part(text[i])) {
      size_t end = i;
      while (end < text.size() && is_name_part(text[end])) ++end;
      const bool field = i > 0 && text[i - 1] == '.';
      if (field || (text.substr(end, 3) == " = ")) add(text.substr(i, end - i));
      i = end - 1;
    }
  }
}

// The words of the Lua files that a refusal names, innermost first.
std::vector<std::string> words_behind(const std::string& refusal, const SpecStore& specs) {
  constexpr std::string_view kMark = ".lua:";
  std::vector<std::string> words;
  std::set<std::string_view> seen;
  for (size_t at = refusal.find(kMark); at != std::string::npos; at = refusal.find(kMark, at + 1)) {
    const size_t space = refusal.find_last_of(" (", at);
    const size_t begin = space == std::string::npos ? 0 : space + 1;
    const SpecText* file = specs.find(std::string_view(refusal).substr(begin, at + 4 - begin));
    if (file != nullptr && seen.insert(file->path).second) add_words(file->text, words);
  }
  return words;
}

// "architectures/std/rope.lua:31": where a refusal was raised.
std::string_view place_of(std::string_view refusal) {
  const size_t colon = refusal.find(".lua:");
  return colon == std::string_view::npos ? refusal
                                         : refusal.substr(0, refusal.find_first_not_of("0123456789", colon + 5));
}

// `value` with a word in its place, or in the place of its first or last item.
std::vector<ConfigNode> with_word(const ConfigNode& value, const std::string& word) {
  if (value.kind == ConfigNode::Kind::kString) return {ConfigNode::of_string(word)};
  constexpr size_t kLongest = 10'000;  // a copy of the list for each word
  std::vector<ConfigNode> out;
  if (value.kind != ConfigNode::Kind::kList || value.items.empty() || value.items.size() > kLongest) return out;
  for (const size_t i : {size_t{0}, value.items.size() - 1}) {
    if (value.items[i].kind != ConfigNode::Kind::kString) continue;
    out.push_back(value);
    out.back().items[i].text = word;
  }
  return out;
}

bool holds_names(const ConfigNode& value) {
  return value.kind == ConfigNode::Kind::kString ||
         std::any_of(value.items.begin(), value.items.end(),
                     [](const ConfigNode& item) { return item.kind == ConfigNode::Kind::kString; });
}

bool is_bound(const TraceInput& input, const ConfigNode& config, const ConfigLeaf& leaf, uint64_t base, bool pinned) {
  ConfigNode changed = config;
  const ConfigNode value = config_at(changed, leaf);
  std::string refusal;  // of a value that is made up
  bool refused = false;
  for (ConfigNode& other : changed_values(value)) {
    config_at(changed, leaf) = std::move(other);
    Probe found = probe(input, changed, leaf.path, base);
    if (found.outcome == Outcome::kChanged) return true;
    if (found.outcome == Outcome::kSame) continue;
    if (pinned || !holds_names(value)) return true;
    refused = true;
    if (refusal.empty()) refusal = std::move(found.reason);
  }
  bool accepted = !refused;
  for (const std::string& word : words_behind(refusal, *input.specs)) {
    for (ConfigNode& other : with_word(value, word)) {
      if (other == value) continue;
      config_at(changed, leaf) = std::move(other);
      const Probe found = probe(input, changed, leaf.path, base);
      if (found.outcome == Outcome::kChanged) return true;
      // One that is known, and refused elsewhere for what it wants besides, has an effect too.
      if (found.outcome == Outcome::kRefused && place_of(found.reason) != place_of(refusal)) return true;
      accepted = accepted || found.outcome == Outcome::kSame;
    }
  }
  return !accepted;
}

}  // namespace

const std::string* waiver_of(const ConfigRecord& record, const std::string& path) {
  const auto exact = record.waived.find(path);
  if (exact != record.waived.end()) return &exact->second;
  for (const auto& [object, reason] : record.waived_objects) {
    if (path.starts_with(object + ".") || path.starts_with(object + "[") || path == object) return &reason;
  }
  return nullptr;
}

Result<std::set<std::string>> find_unbound_keys(const TraceInput& input, const ConfigNode& config, const Trace& base,
                                                int threads) {
  std::vector<ConfigLeaf> leaves;
  for (ConfigLeaf& leaf : config_leaves(config)) {
    if (base.config.touched.contains(leaf.path) && waiver_of(base.config, leaf.path) == nullptr) {
      leaves.push_back(std::move(leaf));
    }
  }
  TraceInput probing = input;
  probing.probing = true;
  const uint64_t fingerprint = ir::fingerprint(FL_TRY(run_trace(probing, config)).graph);
  std::set<std::string> unbound;
  std::mutex mutex;
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < leaves.size(); i = next++) {
      const bool pinned = base.config.pinned.contains(leaves[i].path);
      if (is_bound(probing, config, leaves[i], fingerprint, pinned)) continue;
      const std::lock_guard lock(mutex);
      unbound.insert(leaves[i].path);
    }
  };
  std::vector<std::thread> workers;
  const size_t wanted = std::min(static_cast<size_t>(std::max(threads, 1)), leaves.size());
  for (size_t i = 1; i < wanted; ++i) {
    auto started = start_thread("a probing thread", work);
    if (!started.ok()) break;  // slower with fewer, not wrong
    workers.push_back(*std::move(started));
  }
  work();
  for (std::thread& worker : workers) worker.join();
  return unbound;
}

}  // namespace firstlight::intake
