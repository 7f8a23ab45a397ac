// SPDX-License-Identifier: Apache-2.0
#include "intake/shrink.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <set>

#include "intake/probe.h"
#include "intake/trace.h"

namespace firstlight::intake {
namespace {

using Kind = ConfigNode::Kind;

constexpr int64_t kSizes[] = {2,  3,  4,  6,   8,   10,  12,  16,  18,  20,  24,  28,  32,  36,   40,   48,   56,
                              64, 80, 96, 112, 128, 160, 192, 256, 320, 384, 512, 640, 768, 1024, 1536, 2048, 4096};
constexpr int kMaxRounds = 6;
constexpr int64_t kLarge = 150'000;  // weights; below, no pairs of numbers are tried
constexpr size_t kMaxTail = 3;       // lists may go on for layers that predict further ahead

// Nothing smaller is tried: wide enough for blocks of 32 and for a head to turn; and a short text goes past a window.
int64_t floor_of(int64_t value, bool sizes_weights) {
  if (value >= 512) return sizes_weights ? 32 : 16;
  return value >= 32 ? 8 : 2;
}

// A whole number, or one that a list states for every layer. 0: neither.
int64_t number_of(const ConfigNode& node) {
  if (node.kind == Kind::kInt) return node.integer;
  if (node.kind != Kind::kList || node.items.empty() || node.items[0].kind != Kind::kInt) return 0;
  const bool same =
      std::all_of(node.items.begin(), node.items.end(), [&](const ConfigNode& item) { return item == node.items[0]; });
  return same ? node.items[0].integer : 0;
}

void set_number(ConfigNode& node, int64_t value) {
  if (node.kind == Kind::kInt) node.integer = value;
  for (ConfigNode& item : node.items) item.integer = value;
}

// Loaders of such configs refuse a width that its heads do not divide, also where heads have a size of their own.
bool heads_divide(const ConfigNode& config) {
  const ConfigNode *width = config.find("hidden_size"), *heads = config.find("num_attention_heads");
  if (width == nullptr || heads == nullptr || number_of(*width) < 1 || number_of(*heads) < 1) return true;
  return number_of(*width) % number_of(*heads) == 0;
}

// Whether everything in `wanted` is in `found`.
bool includes(const std::set<std::string>& found, const std::set<std::string>& wanted) {
  return std::includes(found.begin(), found.end(), wanted.begin(), wanted.end());
}

bool is_numeric(const ConfigNode& node) { return node.kind == Kind::kInt || node.kind == Kind::kFloat; }

// What of a config goes with its number of layers.
struct PerLayer {
  std::optional<ConfigLeaf> count;  // none: a list's length says it
  std::vector<ConfigLeaf> entries;  // lists and words with an entry, or a letter, for each layer
  std::vector<ConfigLeaf> indices;  // lists of layers
  bool from_one = false;            // those count from 1
};

PerLayer find_per_layer(ConfigNode& root, int64_t layers) {
  PerLayer found;
  const auto size = static_cast<size_t>(layers);
  for (ConfigLeaf& leaf : config_leaves(root)) {
    const ConfigNode& node = config_at(root, leaf);
    if (leaf.path.find("token") != std::string::npos) continue;
    if (node.kind == Kind::kString && node.text.size() == size && size > 8) found.entries.push_back(leaf);
    if (node.kind != Kind::kList || node.items.empty()) continue;
    const bool factors = node.items[0].kind == Kind::kFloat;  // of a rope
    if (node.items.size() >= size && node.items.size() <= size + kMaxTail && !factors) {
      found.entries.push_back(leaf);
      continue;
    }
    int64_t last = -1;
    bool rising = true;
    for (const ConfigNode& item : node.items) {
      rising = rising && item.kind == Kind::kInt && item.integer > last && item.integer <= layers;
      last = item.integer;
    }
    if (!rising) continue;
    found.from_one = found.from_one || last == layers;
    found.indices.push_back(leaf);
  }
  return found;
}

void drop_layer(ConfigNode& root, const PerLayer& per_layer, int64_t layers, int64_t layer) {
  if (per_layer.count) config_at(root, *per_layer.count) = ConfigNode::of_int(layers - 1);
  for (const ConfigLeaf& leaf : per_layer.entries) {
    ConfigNode& node = config_at(root, leaf);
    const auto at = static_cast<size_t>(layer);
    if (node.kind == Kind::kString) node.text.erase(at, 1);
    if (node.kind == Kind::kList) node.items.erase(node.items.begin() + layer);
  }
  const int64_t index = layer + (per_layer.from_one ? 1 : 0);
  for (const ConfigLeaf& leaf : per_layer.indices) {
    ConfigNode& list = config_at(root, leaf);
    std::erase_if(list.items, [&](const ConfigNode& item) { return item.integer == index; });
    for (ConfigNode& item : list.items) item.integer -= item.integer > index ? 1 : 0;
  }
}

// Long lists of numbers that are no layers (divisors of a rope) keep pace with a size: cut, or gone through again.
bool resize_lists(ConfigNode& root, const PerLayer& per_layer, int64_t times, int64_t part) {
  bool resized = false;
  for (const ConfigLeaf& leaf : config_leaves(root)) {
    ConfigNode& list = config_at(root, leaf);
    const auto size = static_cast<int64_t>(list.items.size());
    const bool other = std::any_of(per_layer.entries.begin(), per_layer.entries.end(),
                                   [&](const ConfigLeaf& entry) { return entry.path == leaf.path; });
    if (other || !std::all_of(list.items.begin(), list.items.end(), is_numeric)) continue;
    if (size < 2 || leaf.path.find("token") != std::string::npos || leaf.path.find("rope") == std::string::npos)
      continue;
    const int64_t wanted = size * times / part;
    if (size * times % part != 0 || wanted < 1 || wanted > 4096) continue;
    const std::vector<ConfigNode> items = list.items;
    list.items.clear();
    for (int64_t i = 0; i < wanted; ++i) list.items.push_back(items[static_cast<size_t>(i % size)]);
    resized = true;
  }
  return resized;
}

class Shrinker {
 public:
  Shrinker(SpecStore store, const ShrinkOptions& options) : store_(std::move(store)), options_(options) {}

  Result<Shrunk> run(const ConfigNode& config) {
    best_ = out_.config = config;
    leave_out_quantisation();
    FL_TRY(unwrap());
    out_.config = best_;
    const ConfigNode start = best_;
    const Trace base = FL_TRY(trace(best_));
    store_.use_text(base.spec, text_of(base.spec));  // the others need not be run again
    const Trace again = FL_TRY(trace(best_));        // so that jumps are those of this spec alone
    out_.original = current_ = features_of(again);
    vocabulary_ = std::min(options_.vocabulary, current_.logits_width);
    bool changed = true;
    for (int round = 0; changed && round < kMaxRounds; ++round) {
      changed = drop_layers();
      changed = shrink_numbers(base.config) || changed;
    }
    FL_TRY(restore_bound());
    note_changes(start);
    match_layers();
    out_.config = std::move(best_);
    out_.features = std::move(current_);
    return std::move(out_);
  }

 private:
  Result<Trace> trace(const ConfigNode& config) {
    ++out_.num_traces;
    TraceInput recorded = input();
    recorded.record_visits = true;
    return run_trace(recorded, config);
  }

  TraceInput input() const {
    return {.specs = &store_,
            .tensors = &tensors_,
            .quantisation = &quantisation_,
            .gguf = false,
            .read_floats = {},
            .limits = {.steps = options_.intake.step_limit, .memory_bytes = options_.intake.memory_limit_bytes},
            .probing = true};
  }

  // A config around that of the text model says nothing more of its graph: the inner one is a model of its own, and its
  // class needs no towers.
  Status unwrap() {
    const ConfigNode* inner = best_.find("text_config");
    if (inner == nullptr || inner->kind != Kind::kObject) return ok_status();
    ConfigNode text = *inner;
    for (const char* key :
         {"tie_word_embeddings", "dtype", "torch_dtype", "bos_token_id", "eos_token_id", "pad_token_id"}) {
      const ConfigNode* outer = best_.find(key);
      if (outer != nullptr && text.find(key) == nullptr) text.members.emplace_back(key, *outer);
    }
    const Features wrapped = features_of(FL_TRY(trace(best_)));
    const auto alone = trace(text);
    if (!alone.ok()) return ok_status();
    const auto without_jumps = [](std::set<std::string> all) {
      std::erase_if(all, [](const std::string& one) { return one.starts_with("jump "); });
      return all;
    };
    if (without_jumps(features_of(*alone).all) != without_jumps(wrapped.all)) return ok_status();
    best_ = std::move(text);
    out_.notes.emplace_back("text_config is the config: what surrounds it has no part in the graph");
    return ok_status();
  }

  // A number that became so small that another in its place changes nothing would be unknown to a load: it grows again.
  Status restore_bound() {
    for (int round = 0; round < kMaxRounds; ++round) {
      const std::set<std::string> unbound = FL_TRY(unbound_keys(best_));
      bool grown = false;
      for (const ConfigLeaf& leaf : config_leaves(best_)) {
        if (!unbound.contains(leaf.path) || !floors_.contains(leaf.path)) continue;
        grown = FL_TRY(grow(leaf)) || grown;
      }
      if (!grown) break;
    }
    return ok_status();
  }

  Result<bool> grow(const ConfigLeaf& leaf) {
    const int64_t value = number_of(config_at(best_, leaf));
    for (const int64_t size : kSizes) {
      if (size <= value) continue;
      ConfigNode larger = best_;
      set_number(config_at(larger, leaf), size);
      const auto found = trace(larger);
      if (!found.ok() || FL_TRY(unbound_keys(larger)).contains(leaf.path)) continue;
      Features features = features_of(*found);
      if (!includes(features.all, out_.original.all)) continue;
      best_ = std::move(larger);
      current_ = std::move(features);
      return true;
    }
    return false;
  }

  Result<std::set<std::string>> unbound_keys(const ConfigNode& config) {
    return find_unbound_keys(input(), config, FL_TRY(trace(config)), options_.intake.probe_threads);
  }

  std::string text_of(const std::string& path) const {
    for (const SpecText& spec : store_.specs()) {
      if (spec.path == path) return spec.text;
    }
    return "";
  }

  void leave_out_quantisation() {
    const auto leave = [&](ConfigNode& node, const std::string& where) {
      std::erase_if(node.members, [&](const auto& member) {
        if (member.first != "quantization_config" && member.first != "compression_config") return false;
        out_.notes.push_back(where + member.first + " is left out: the weights are BF16");
        return true;
      });
    };
    leave(best_, "");
    for (auto& [key, value] : best_.members) {
      if (key == "text_config") leave(value, "text_config.");
    }
  }

  // Takes the config when it has all features, costs less and has words enough.
  bool try_config(ConfigNode config) {
    if (heads_divide(out_.config) && !heads_divide(config)) return false;
    const auto found = trace(config);
    if (!found.ok()) return false;
    Features features = features_of(*found);
    if (features.cost >= current_.cost || features.logits_width < vocabulary_ ||
        !includes(features.all, out_.original.all)) {
      return false;
    }
    best_ = std::move(config);
    current_ = std::move(features);
    return true;
  }

  // Which leaf counts the layers: the one with which one layer less can be had.
  bool find_layers() {
    const int64_t layers = current_.num_layers;
    per_layer_ = find_per_layer(best_, layers);
    std::vector<std::optional<ConfigLeaf>> counts;
    for (ConfigLeaf& leaf : config_leaves(best_)) {
      const ConfigNode& node = config_at(best_, leaf);
      if (node.kind == Kind::kInt && node.integer == layers) counts.emplace_back(std::move(leaf));
    }
    counts.emplace_back(std::nullopt);
    for (auto& count : counts) {
      per_layer_.count = count;
      ConfigNode smaller = best_;
      drop_layer(smaller, per_layer_, layers, layers - 1);
      if (smaller == best_) continue;
      const auto found = trace(smaller);
      if (found.ok() && features_of(*found).num_layers == layers - 1) return true;
    }
    return false;
  }

  // The first few layers that have everything, then each layer that the others can do without.
  bool drop_layers() {
    if (current_.num_layers < 2) return false;
    if (!layers_known_ && !find_layers()) return false;
    layers_known_ = true;
    bool changed = false;
    for (int64_t wanted = 1; wanted < current_.num_layers; wanted += wanted < 12 ? 1 : wanted / 4) {
      if (!keep_first(wanted)) continue;
      changed = true;
      break;
    }
    for (int64_t layer = current_.num_layers - 1; layer >= 0 && current_.num_layers > 1; --layer) {
      changed = drop_one(layer) || changed;
    }
    return changed;
  }

  // Alone, or with one less in a number that may count layers of a kind ("the first three are dense").
  bool drop_one(int64_t layer) {
    ConfigNode smaller = best_;
    const int64_t left = current_.num_layers - 1;
    drop_layer(smaller, per_layer_, left + 1, layer);
    if (try_layers(smaller, left)) return true;
    for (const ConfigLeaf& leaf : config_leaves(smaller)) {
      const ConfigNode& node = config_at(smaller, leaf);
      const bool counts = per_layer_.count && per_layer_.count->path == leaf.path;
      if (node.kind != Kind::kInt || node.integer < 2 || node.integer > left || counts || idle_.contains(leaf.path)) {
        continue;
      }
      ConfigNode both = smaller;
      config_at(both, leaf).integer -= 1;
      if (try_layers(std::move(both), left)) return true;
    }
    return false;
  }

  bool keep_first(int64_t wanted) {
    ConfigNode smaller = best_;
    for (int64_t layers = current_.num_layers; layers > wanted; --layers) {
      drop_layer(smaller, per_layer_, layers, layers - 1);
    }
    if (!try_layers(std::move(smaller), wanted)) return false;
    return true;
  }

  bool try_layers(ConfigNode config, int64_t wanted) {
    const auto before = std::pair(best_, current_);
    if (!try_config(std::move(config))) return false;
    if (current_.num_layers == wanted) return true;
    std::tie(best_, current_) = before;
    return false;
  }

  // Whether another value in its place gives another cost, or no graph at all.
  bool matters(const ConfigLeaf& leaf, int64_t value) {
    ConfigNode changed = best_;
    set_number(config_at(changed, leaf), value * 2);
    const auto found = trace(changed);
    if (!found.ok()) return sizes_weights_ = true;
    const Features features = features_of(*found);
    sizes_weights_ = features.weights != current_.weights;
    return features.cost != current_.cost;
  }

  bool shrink_numbers(const ConfigRecord& record) {
    state_defaults(record);
    std::vector<ConfigLeaf> leaves;
    for (ConfigLeaf& leaf : config_leaves(best_)) {
      const int64_t value = number_of(config_at(best_, leaf));
      if (value < 3 || idle_.contains(leaf.path)) continue;
      const bool counts = per_layer_.count && per_layer_.count->path == leaf.path;
      if (waiver_of(record, leaf.path) != nullptr || counts) continue;
      if (matters(leaf, value)) {
        floors_.try_emplace(leaf.path, floor_of(value, sizes_weights_));
        leaves.push_back(std::move(leaf));
      } else {
        idle_.insert(leaf.path);
      }
    }
    bool changed = false;
    for (const ConfigLeaf& leaf : leaves) changed = shrink_together({leaf}) || changed;
    std::map<int64_t, std::vector<ConfigLeaf>> equal;
    for (const ConfigLeaf& leaf : leaves) equal[number_of(config_at(best_, leaf))].push_back(leaf);
    for (const auto& [value, group] : equal) {
      if (group.size() > 1) changed = shrink_together(group) || changed;
      for (size_t i = 0; i < group.size() && group.size() > 2; ++i) {
        for (size_t j = 0; j < i; ++j) changed = shrink_together({group[i], group[j]}) || changed;
      }
    }
    for (size_t i = 0; i < leaves.size() && current_.weights > kLarge; ++i) {
      for (size_t j = 0; j < i; ++j) changed = shrink_in_step(leaves[i], leaves[j]) || changed;
    }
    forget_idle_defaults();
    return changed;
  }

  // Both divided by one number: a width and the heads that it is split into.
  bool shrink_in_step(const ConfigLeaf& a, const ConfigLeaf& b) {
    for (const int64_t part : {32, 16, 8, 4, 2}) {
      ConfigNode smaller = best_;
      bool whole = true;
      for (const ConfigLeaf* leaf : {&a, &b}) {
        ConfigNode& node = config_at(smaller, *leaf);
        const int64_t value = number_of(node);
        whole = whole && value % part == 0 && value / part >= floors_.at(leaf->path);
        set_number(node, value / part);
      }
      if (whole && try_config(std::move(smaller))) return true;
    }
    return false;
  }

  // The same smaller number in all of the leaves, which are equal.
  bool shrink_together(const std::vector<ConfigLeaf>& leaves) {
    const int64_t value = number_of(config_at(best_, leaves[0]));
    for (const ConfigLeaf& leaf : leaves) {
      if (number_of(config_at(best_, leaf)) != value) return false;
    }
    std::vector<int64_t> sizes(std::begin(kSizes), std::end(kSizes));
    if (vocabulary_ > 0) sizes.insert(std::lower_bound(sizes.begin(), sizes.end(), vocabulary_), vocabulary_);
    for (const int64_t size : sizes) {
      if (size >= value) break;
      if (size < floors_.at(leaves[0].path)) continue;
      ConfigNode smaller = best_;
      for (const ConfigLeaf& leaf : leaves) set_number(config_at(smaller, leaf), size);
      if (try_config(smaller)) return true;
      for (const auto& [times, part] : {std::pair(size, value), {value, size}}) {
        ConfigNode resized = smaller;
        if (resize_lists(resized, per_layer_, times, part) && try_config(std::move(resized))) return true;
      }
    }
    return false;
  }

  // Sizes that the config leaves to the original's defaults are stated, so that they can be smaller.
  void state_defaults(const ConfigRecord& record) {
    for (const auto& [path, value] : record.defaults) {
      ConfigNode* object = &best_;
      const size_t dot = path.rfind('.');
      if (path.find('[') != std::string::npos) continue;
      if (dot != std::string::npos) {
        if (path.find('.') != dot) continue;
        const auto it = std::find_if(best_.members.begin(), best_.members.end(),
                                     [&](const auto& member) { return member.first == path.substr(0, dot); });
        if (it == best_.members.end()) continue;
        object = &it->second;
      }
      const std::string key = dot == std::string::npos ? path : path.substr(dot + 1);
      if (object->find(key) != nullptr || value < 3) continue;
      ConfigNode stated = best_;
      object->members.emplace_back(key, ConfigNode::of_int(value));
      const auto found = trace(best_);
      if (found.ok() && features_of(*found).cost == current_.cost &&
          includes(features_of(*found).all, out_.original.all)) {
        stated_.emplace(path, value);
      } else {
        best_ = std::move(stated);
      }
    }
  }

  void forget_idle_defaults() {
    for (const auto& [path, value] : stated_) {
      const size_t dot = path.rfind('.');
      ConfigNode* object = &best_;
      for (auto& [name, node] : best_.members) {
        if (dot != std::string::npos && name == path.substr(0, dot)) object = &node;
      }
      const std::string key = dot == std::string::npos ? path : path.substr(dot + 1);
      std::erase_if(object->members, [&, wanted = value](const auto& member) {
        return member.first == key && member.second == ConfigNode::of_int(wanted);
      });
    }
    stated_.clear();
  }

  void match_layers() {
    for (const LayerKind& kind : current_.kinds) {
      const auto same = std::find_if(out_.original.kinds.begin(), out_.original.kinds.end(),
                                     [&](const LayerKind& other) { return other.signature == kind.signature; });
      if (same == out_.original.kinds.end()) continue;
      for (size_t i = 0; i < kind.scopes.size(); ++i) {
        out_.layers[kind.scopes[i]] = same->scopes[std::min(i, same->scopes.size() - 1)];
      }
    }
  }

  void note_changes(ConfigNode start) {
    std::map<std::string, std::string> before;
    const auto shown = [](const ConfigNode& node) { return node.to_string(); };
    for (const ConfigLeaf& leaf : config_leaves(start)) before[leaf.path] = shown(config_at(start, leaf));
    for (const ConfigLeaf& leaf : config_leaves(best_)) {
      const std::string now = shown(config_at(best_, leaf));
      const auto it = before.find(leaf.path);
      if (it == before.end()) {
        out_.changes.push_back({leaf.path, "nothing", now});
      } else if (it->second != now) {
        out_.changes.push_back({leaf.path, it->second, now});
      }
    }
  }

  SpecStore store_;
  const ShrinkOptions& options_;
  const TensorTable tensors_ = TensorTable::open_ended();
  const Quantisation quantisation_;
  Shrunk out_;
  ConfigNode best_;
  Features current_;
  int64_t vocabulary_ = 0;
  PerLayer per_layer_;
  bool layers_known_ = false;
  std::set<std::string> idle_;             // leaves that do not change the graph's sizes
  bool sizes_weights_ = false;             // of the leaf that matters() saw last
  std::map<std::string, int64_t> floors_;  // of leaves
  std::map<std::string, int64_t> stated_;
};

}  // namespace

Result<Shrunk> shrink_config(const ConfigNode& config, const ShrinkOptions& options) {
  SpecStore store = FL_TRY(SpecStore::open(options.intake.architectures_dir));
  if (!options.intake.spec_file.empty()) FL_TRY(store.use_file(options.intake.spec_file));
  return Shrinker(std::move(store), options).run(config);
}

}  // namespace firstlight::intake
