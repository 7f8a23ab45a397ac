// SPDX-License-Identifier: Apache-2.0
#include "locate/locate.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "locate/trials.h"

namespace firstlight::locate {
namespace {

std::string group_of(const std::string& name) { return name.substr(0, name.find('#')); }

bool has_operators(const Pack& pack) {
  return std::any_of(pack.taps.begin(), pack.taps.end(),
                     [](const TapInfo& tap) { return !tap.is_layer_output && tap.name != "logits"; });
}

// Values of which the two have another number under one name can not be told from each other: a step is missing or too
// much there. They are left out.
Pack comparable(const Pack& baseline, const std::vector<Tap>& taps) {
  std::map<std::string, int> theirs, ours;
  for (const TapInfo& tap : baseline.taps) ++theirs[group_of(tap.name)];
  for (const Tap& tap : taps) ++ours[group_of(tap.name)];
  Pack out = baseline;
  out.taps.clear();
  for (PromptRecord& prompt : out.prompts) prompt.taps.clear();
  // Integers last: rows whose experts differ are left out of what is compared after them.
  for (const bool integer : {false, true}) {
    for (size_t t = 0; t < baseline.taps.size(); ++t) {
      const std::string group = group_of(baseline.taps[t].name);
      if (baseline.taps[t].is_integer != integer || theirs[group] != ours[group]) continue;
      out.taps.push_back(baseline.taps[t]);
      for (size_t p = 0; p < out.prompts.size(); ++p) out.prompts[p].taps.push_back(baseline.prompts[p].taps[t]);
    }
  }
  return out;
}

class Locator {
 public:
  Locator(const ir::Graph& graph, const Pack& baseline, const Pack& head, const LocateOptions& options)
      : original_(graph), graph_(graph), head_(head), options_(options) {
    operators_ = has_operators(baseline);
    taps_ = find_taps(graph, operators_);
    baseline_ = comparable(baseline, taps_);
    for (const LayerRun& run : find_layer_runs(graph)) {
      for (const ir::NodeId id : run.nodes) layer_of_[id] = run.layer;
    }
    for (size_t t = 0; t < taps_.size(); ++t) tap_of_name_[taps_[t].name] = t;
    for (const PromptRecord& prompt : baseline_.prompts) prompts_.push_back(prompt.tokens);
  }

  Status run(Location& location) {
    if (baseline_.taps.empty()) return invalid_argument("the pack and the model have no value in common");
    FL_TRY(look());
    location.passed = failed_.empty();
    while (static_cast<int64_t>(location.findings.size()) < 4 * options_.most_findings) {
      auto suspect = FL_TRY(next_suspect());
      if (!suspect) break;
      FL_TRY(explain(*suspect, location));
    }
    location.healed = failed_.empty();
    merge(location.findings);
    if (!location.healed && location.findings.empty())
      location.notes.push_back("every value's own error is within its bound: errors add up, none is a fault by itself");
    if (!operators_)
      location.notes.push_back("the pack has layers alone: one recorded with --operators tells operators apart");
    return ok_status();
  }

 private:
  Result<Comparison> compared(const ir::Graph& graph) {
    RecordOptions record = {
        .operators = operators_, .full = {}, .greedy = 0, .run = options_.run, .run_instead = &graph};
    const auto made = FL_TRY(record_like(original_, baseline_, head_, record, options_.reference));
    const bool hashed = !baseline_.weights_hash.empty() && !made.pack.weights_hash.empty();
    same_weights_ = hashed && baseline_.weights_hash == made.pack.weights_hash;
    weights_alone_ = hashed && !same_weights_ && baseline_.spec_hash == made.pack.spec_hash;
    return compare(baseline_, made.pack);
  }

  void judge(const Comparison& comparison) {
    passed_.clear();
    failed_.clear();
    for (const ValueComparison& value : comparison.values) {
      const auto tap = tap_of_name_.find(value.info.name);
      if (tap == tap_of_name_.end()) continue;
      (value.passed ? passed_ : failed_).insert(tap->second);
    }
    own_rows_.clear();
  }

  Status look() {
    judge(FL_TRY(compared(graph_)));
    return ok_status();
  }

  // The first wrong value whose operands are right, or can be replaced by the baseline's.
  Result<std::optional<Suspect>> next_suspect() {
    std::set<ir::ValueId> known, wrong;
    for (const size_t t : passed_) known.insert(taps_[t].value);
    for (const size_t t : failed_) {
      if (baseline_rows(t).empty()) {
        wrong.insert(taps_[t].value);
      } else {
        known.insert(taps_[t].value);
      }
    }
    for (const size_t t : failed_) {
      if (blamed_.contains(t)) continue;
      Suspect suspect{.tap = taps_[t], .known = known, .rows = {}, .region = {}, .baseline = {}, .measured = {}};
      suspect.known.erase(taps_[t].value);
      std::set<ir::ValueId> read;
      suspect.region = nodes_behind(graph_, taps_[t].value, suspect.known, &read);
      const bool inherits = std::any_of(suspect.region.begin(), suspect.region.end(), [&](ir::NodeId id) {
        const auto& results = graph_.node(id).results;
        return std::any_of(results.begin(), results.end(),
                           [&](ir::ValueId v) { return v != taps_[t].value && wrong.contains(v); });
      });
      if (inherits) continue;
      for (const Tap& tap : taps_) {  // hypotheses may read other values of the layer
        if (tap.layer == taps_[t].layer && suspect.known.contains(tap.value)) read.insert(tap.value);
      }
      FL_TRY(fill_rows(read, suspect.rows));
      suspect.baseline = only_tap(baseline_, taps_[t].name);
      FL_TRY(measure(graph_, suspect, baseline_, options_, suspect.measured));
      if (!suspect.measured.agrees()) {
        place_ = t;
        return std::optional(std::move(suspect));
      }
      blamed_.insert(t);  // inherited, or two small errors
    }
    return std::optional<Suspect>();
  }

  const RowTable& baseline_rows(size_t tap) {
    const auto found = baseline_rows_.find(tap);
    if (found != baseline_rows_.end()) return found->second;
    return baseline_rows_[tap] = whole_rows_of(baseline_, taps_[tap]);
  }

  // The baseline's rows where it has all, else our own, which agree with it.
  Status fill_rows(const std::set<ir::ValueId>& read, KnownRows& rows) {
    std::vector<Tap> missing;
    for (size_t t = 0; t < taps_.size(); ++t) {
      if (!read.contains(taps_[t].value)) continue;
      if (const RowTable& table = baseline_rows(t); !table.empty()) {
        rows[taps_[t].value] = table;
      } else if (!own_rows_.contains(taps_[t].value)) {
        missing.push_back(taps_[t]);
      }
    }
    own_rows_.merge(FL_TRY(whole_rows(graph_, missing, prompts_, options_.run, options_.reference)));
    for (const ir::ValueId id : read) {
      if (!rows.contains(id) && own_rows_.contains(id)) rows[id] = own_rows_.at(id);
    }
    return ok_status();
  }

  // All nodes that a spec makes by the same lines as the trial's.
  Trial everywhere(const Trial& trial, bool by_attributes) const {
    std::set<std::string> wanted;
    for (const ir::NodeId id : trial.nodes) wanted.insert(kin(graph_, id, by_attributes));
    Trial wide = trial;
    wide.nodes.clear();
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const auto id = static_cast<ir::NodeId>(i);
      if (wanted.contains(kin(graph_, id, by_attributes))) wide.nodes.push_back(id);
    }
    return wide;
  }

  // Keeps the change where it is, or wherever the spec does the same, whichever leaves less that is wrong.
  Status keep(const Trial& trial, Trial& kept) {
    kept = trial;
    ir::Graph best = graph_;
    FL_TRY(apply(trial, best));
    judge(FL_TRY(compared(best)));
    auto passed = passed_, failed = failed_;
    for (const bool by_attributes : {false, true}) {
      if (failed.empty() || (by_attributes && trial.hypothesis.of_weights)) break;
      Trial wide = everywhere(trial, by_attributes);
      ir::Graph changed = graph_;
      if (wide.nodes.size() <= kept.nodes.size() || !apply(wide, changed).ok()) continue;
      const auto all = compared(changed);
      if (!all.ok()) continue;
      judge(*all);
      if (failed_.size() >= failed.size()) continue;
      kept = std::move(wide);
      best = std::move(changed);
      passed = passed_;
      failed = failed_;
    }
    passed_ = std::move(passed);
    failed_ = std::move(failed);
    graph_ = std::move(best);
    return ok_status();
  }

  Status explain(const Suspect& suspect, Location& location) {
    const Tap& tap = suspect.tap;
    if (options_.progress) options_.progress("looking at " + tap.name);
    Finding finding;
    finding.value = tap.name;
    finding.error = suspect.measured.error;
    finding.allowed = suspect.measured.allowed;
    finding.of_layer = !operators_;
    finding.reproduction = reproduction(suspect);
    Trials trials(graph_, suspect, baseline_, options_);
    const auto best = trials.best();
    finding.hypotheses = trials.tried();
    if (best.empty()) {
      guess(suspect, trials.nearest(), finding);
      blamed_.insert(place_);
      location.findings.push_back(std::move(finding));
    }
    for (const Trial& trial : best) {
      Finding& found = location.findings.emplace_back(finding);
      found.is_guess = false;
      found.cause = trial.hypothesis.cause;
      found.what = trial.hypothesis.what;
      found.fix = trial.hypothesis.fix;
      found.healed = trial.error;
      name(trial.nodes[0], found);
      if (!trial.hypothesis.of_weights) found.concerns = concerned_keys(trial.hypothesis, options_.hints);
      if (found.concerns.empty()) found.concerns = concerned_tensors(graph_, trial.nodes[0]);
      Trial kept;
      FL_TRY(keep(trial, kept));
      for (const ir::NodeId id : kept.nodes) note_layer(id, found);
    }
    return ok_status();
  }

  void guess(const Suspect& suspect, const std::optional<Trial>& nearest, Finding& finding) {
    ir::NodeId blamed = graph_.value(suspect.tap.value).producer;
    const auto routing = routing_nodes(graph_);
    const auto chooses = std::find_if(suspect.region.begin(), suspect.region.end(), [&](ir::NodeId id) {
      return graph_.node(id).op == ops::OpKind::kTopK && routing.contains(id);
    });
    const double right = rows_that_agree(suspect.baseline, suspect.measured.pack);
    if (chooses != suspect.region.end() && right > 0 && right < 1) blamed = *chooses;  // other experts for some tokens
    finding.cause = usual_cause(graph_, blamed, routing);
    // Of the same files no tensor is another one: the step that changes most towards the baseline is more likely.
    const double kNear = same_weights_ && finding.cause == Cause::kWeight ? 0.9 : 0.3;
    if (nearest && nearest->error < kNear * suspect.measured.error) {
      blamed = nearest->nodes[0];
      finding.cause = nearest->hypothesis.cause;
      finding.healed = nearest->error;
      finding.what = "nearest: " + nearest->hypothesis.what;
    }
    name(blamed, finding);
    finding.concerns = concerned_tensors(graph_, blamed);
    if (weights_alone_ && !finding.concerns.empty()) finding.cause = Cause::kWeight;  // nothing else is another one
    finding.fix = cause_advice(finding.cause);
    note_layer(blamed, finding);
  }

  void name(ir::NodeId id, Finding& finding) const {
    finding.op = ops::op_name(graph_.node(id).op);
    finding.scope = graph_.node(id).scope;
    finding.layer = layer_name(id);
    finding.made_at = graph_.node(id).made_at;
  }

  std::string layer_name(ir::NodeId id) const {
    const auto found = layer_of_.find(id);
    if (found != layer_of_.end()) return found->second;
    for (const auto& [other, layer] : layer_of_) {  // it stands in a region, or on weights alone
      if (graph_.node(other).scope == graph_.node(id).scope) return layer;
    }
    return graph_.node(id).scope;
  }

  void note_layer(ir::NodeId id, Finding& finding) const {
    const std::string layer = layer_name(id);
    if (std::find(finding.layers.begin(), finding.layers.end(), layer) == finding.layers.end())
      finding.layers.push_back(layer);
  }

  std::optional<Reproduction> reproduction(const Suspect& suspect) const {
    auto cut = cut_out(graph_, suspect.tap, suspect.known);
    if (!cut.ok()) return std::nullopt;
    return Reproduction{.graph = std::move(*cut),
                        .rows = suspect.rows,
                        .expected = suspect.baseline,
                        .allowed = suspect.measured.allowed};
  }

  // The same of several layers is one finding.
  static void merge(std::vector<Finding>& findings) {
    std::vector<Finding> out;
    for (Finding& finding : findings) {
      const auto same = std::find_if(out.begin(), out.end(), [&](const Finding& other) {
        return other.op == finding.op && other.cause == finding.cause && other.is_guess == finding.is_guess &&
               without_digits(other.scope) == without_digits(finding.scope) &&
               without_digits(other.value) == without_digits(finding.value) &&
               without_digits(other.what) == without_digits(finding.what);
      });
      if (same == out.end()) {
        out.push_back(std::move(finding));
      } else {
        same->layers.insert(same->layers.end(), finding.layers.begin(), finding.layers.end());
      }
    }
    findings = std::move(out);
  }

  const ir::Graph& original_;
  ir::Graph graph_;  // with what has been healed
  Pack baseline_;
  const Pack& head_;
  const LocateOptions& options_;
  bool operators_ = false;
  std::vector<Tap> taps_;
  std::map<std::string, size_t> tap_of_name_;
  std::map<ir::NodeId, std::string> layer_of_;
  Prompts prompts_;
  std::set<size_t> passed_, failed_, blamed_;
  bool same_weights_ = false;   // the baseline is of the same files
  bool weights_alone_ = false;  // it is of other files and the same graph
  size_t place_ = 0;            // of the suspect, in taps_
  std::map<size_t, RowTable> baseline_rows_;
  std::map<ir::ValueId, RowTable> own_rows_;
};

}  // namespace

Result<Location> locate(const ir::Graph& graph, const Pack& baseline, const Pack& head, const LocateOptions& options) {
  Location location;
  FL_TRY(Locator(graph, baseline, head, options).run(location));
  if (options.backend != nullptr) FL_TRY(locate_in_backend(graph, baseline, head, options, location));
  return location;
}

}  // namespace firstlight::locate
