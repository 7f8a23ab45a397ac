// SPDX-License-Identifier: Apache-2.0
#include "align/locate.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "align/sketch.h"
#include "ir/text.h"

namespace firstlight::align {
namespace {

std::string without_digits(std::string text) {
  std::erase_if(text, [](char c) { return c >= '0' && c <= '9'; });
  return text;
}

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

struct Fit {
  double factor = 1;
  double rest = 1;  // share of the baseline's norm that the factor does not explain
};

// The factor of the tested value's rows that comes closest to the baseline's.
Fit best_factor(const Pack& baseline, const Pack& tested) {
  double product = 0, squares = 0, wanted = 0;
  for (size_t p = 0; p < baseline.prompts.size() && p < tested.prompts.size(); ++p) {
    const TapRecord &a = baseline.prompts[p].taps[0], &b = tested.prompts[p].taps[0];
    const bool whole = a.rows.size() == b.rows.size() && !a.rows.empty();
    const auto& x = whole ? a.rows : a.sketch;
    const auto& y = whole ? b.rows : b.sketch;
    for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
      if (!is_plain(x[i]) || !is_plain(y[i])) continue;
      product += static_cast<double>(x[i]) * static_cast<double>(y[i]);
      squares += static_cast<double>(y[i]) * static_cast<double>(y[i]);
      wanted += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    }
  }
  Fit fit;
  if (squares <= 0 || wanted <= 0) return fit;
  fit.factor = product / squares;
  fit.rest = std::sqrt(std::max(0.0, 1 - product * product / (squares * wanted)));
  return fit;
}

// One hypothesis on some nodes.
struct Trial {
  Hypothesis hypothesis;
  std::vector<ir::NodeId> nodes;
  double error = INFINITY;
  bool heals = false;
};

struct Suspect {
  size_t tap = 0;
  std::set<ir::ValueId> known;  // values whose rows are at hand
  KnownRows rows;               // those of them that are read
  std::vector<ir::NodeId> region;
  Pack baseline;  // of the one value
  Pack tested;
  double error = 0, allowed = 0;
};

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
      Suspect suspect{.tap = t, .known = known, .rows = {}, .region = {}, .baseline = {}, .tested = {}};
      suspect.known.erase(taps_[t].value);
      std::set<ir::ValueId> read;
      suspect.region = nodes_behind(graph_, taps_[t].value, suspect.known, &read);
      const bool inherits = std::any_of(suspect.region.begin(), suspect.region.end(), [&](ir::NodeId id) {
        const auto& results = graph_.node(id).results;
        return std::any_of(results.begin(), results.end(),
                           [&](ir::ValueId v) { return v != taps_[t].value && wrong.contains(v); });
      });
      if (inherits) continue;
      FL_TRY(fill_rows(read, suspect.rows));
      suspect.baseline = only_tap(baseline_, taps_[t].name);
      FL_TRY(measure(graph_, suspect, suspect.tested, suspect.error, suspect.allowed));
      if (suspect.error > suspect.allowed || std::isnan(suspect.error)) return std::optional(std::move(suspect));
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

  Status measure(const ir::Graph& graph, const Suspect& suspect, Pack& tested, double& error, double& allowed) {
    const Tap& tap = taps_[suspect.tap];
    const auto cut = FL_TRY(cut_out(graph, tap, suspect.known));
    tested = FL_TRY(run_cut(cut, tap, suspect.rows, baseline_, options_.run, options_.reference));
    const auto comparison = FL_TRY(compare(suspect.baseline, tested));
    const ValueComparison& value = comparison.values[0];
    error = value.info.is_integer ? value.found.mismatch : value.found.rel_l2;
    if (!value.found.finite) error = INFINITY;
    allowed = value.allowed;
    return ok_status();
  }

  // The node and what stands in its regions.
  void add_nodes(ir::NodeId id, std::vector<ir::NodeId>& out) const {
    out.push_back(id);
    for (const ir::Region& region : graph_.node(id).regions) {
      for (const ir::NodeId inner : region.nodes) add_nodes(inner, out);
    }
  }

  // Equal for nodes that a spec makes by the same line; with `by_attributes`: by the same number of the config.
  std::string kin(ir::NodeId id, bool by_attributes = false) const {
    const ir::Node& node = graph_.node(id);
    ops::Attributes attributes = node.attributes;
    attributes.erase("offset");  // of a rotation: queries and keys have them at other places
    std::string key = std::string(ops::op_name(node.op)) + ops::attributes_to_string(attributes);
    if (by_attributes) return key;
    key += "|" + without_digits(node.scope);
    for (const ir::ValueId operand : node.operands) {
      const ir::Value& value = graph_.value(operand);
      if (value.kind == ir::Value::Kind::kWeight) key += "|" + without_digits(value.name);
    }
    return key;
  }

  std::vector<Trial> trials_for(const Suspect& suspect) {
    std::vector<ir::NodeId> nodes;
    for (const ir::NodeId id : suspect.region) add_nodes(id, nodes);
    std::map<std::string, std::vector<ir::NodeId>> kin_of;
    for (const ir::NodeId id : nodes) kin_of[kin(id)].push_back(id);
    Hints hints = options_.hints;
    hints.routing = routing_nodes(graph_);
    std::vector<Trial> trials;
    for (const ir::NodeId id : nodes) {
      const auto& family = kin_of[kin(id)];
      for (Hypothesis& hypothesis : hypotheses(graph_, id, hints)) {
        if (!hypothesis.of_weights && family.size() > 1 && family[0] == id)
          trials.push_back({.hypothesis = hypothesis, .nodes = family});
        if (family.size() > 1) ++hypothesis.rank;
        trials.push_back({.hypothesis = std::move(hypothesis), .nodes = {id}});
      }
    }
    const ir::NodeId maker = graph_.value(taps_[suspect.tap].value).producer;
    const Fit fit = best_factor(suspect.baseline, suspect.tested);
    constexpr double kExplained = 1e-4;
    if (fit.rest < kExplained && std::isfinite(fit.factor))
      trials.push_back({.hypothesis = missing_factor(rounded(fit.factor), hints, graph_, maker), .nodes = {maker}});
    std::stable_sort(trials.begin(), trials.end(),
                     [](const Trial& a, const Trial& b) { return a.hypothesis.rank < b.hypothesis.rank; });
    return trials;
  }

  // Six digits: what a factor of float32 rows is known to.
  static double rounded(double value) {
    const double unit = std::pow(10.0, std::floor(std::log10(std::abs(value))) - 5);
    return std::round(value / unit) * unit;
  }

  static Status apply(const Trial& trial, ir::Graph& graph) {
    for (const ir::NodeId id : trial.nodes) FL_TRY(trial.hypothesis.apply(graph, id));
    return ok_status();
  }

  void try_out(const Suspect& suspect, Trial& trial) {
    ir::Graph changed = graph_;
    if (!apply(trial, changed).ok()) return;
    Pack tested;
    double allowed = 0;
    if (!measure(changed, suspect, tested, trial.error, allowed).ok()) trial.error = INFINITY;
    trial.heals = trial.error <= allowed;
  }

  // The first that heals, or one a little behind it that heals much better; else a number that heals, else two at once.
  std::vector<Trial> best_trials(const Suspect& suspect, int64_t& tried, std::optional<Trial>& nearest) {
    constexpr int kBehind = 6;
    constexpr double kBetter = 0.1;
    std::optional<Trial> best;
    auto trials = trials_for(suspect);
    for (Trial& trial : trials) {
      if (best && trial.hypothesis.rank > best->hypothesis.rank + kBehind) break;
      try_out(suspect, trial);
      ++tried;
      if (trial.heals && (!best || trial.error < kBetter * best->error)) best = trial;
      if (!nearest || trial.error < nearest->error) nearest = trial;
    }
    if (!best) best = best_number(suspect, tried);
    if (best) return {*best};
    return best_pair(suspect, trials, tried);
  }

  // Numbers of the region over eight powers of ten, and finer where that helps.
  std::optional<Trial> best_number(const Suspect& suspect, int64_t& tried) {
    std::vector<ir::NodeId> nodes;
    for (const ir::NodeId id : suspect.region) add_nodes(id, nodes);
    std::map<std::string, std::vector<ir::NodeId>> kin_of;
    for (const ir::NodeId id : nodes) kin_of[kin(id)].push_back(id);
    Hints hints = options_.hints;
    hints.routing = routing_nodes(graph_);
    for (const auto& [key, family] : kin_of) {
      for (const Dial& dial : dials(graph_, family[0], hints)) {
        const auto at = [&](double log_factor) {
          Trial trial{.hypothesis = dial.with(std::exp(log_factor)), .nodes = family};
          try_out(suspect, trial);
          ++tried;
          return trial;
        };
        if (auto trial = minimum(at, suspect.error)) return trial;
      }
    }
    return std::nullopt;
  }

  static std::optional<Trial> minimum(const std::function<Trial(double)>& at, double own) {
    constexpr double kStep = 0.5, kReach = 9.5, kHelps = 0.9, kGolden = 0.381966;
    double place = 0, least = own;
    for (double x = -kReach; x <= kReach; x += kStep) {
      const Trial trial = at(x);
      if (trial.error < least) place = x, least = trial.error;
    }
    if (least > kHelps * own) return std::nullopt;
    double low = place - kStep, high = place + kStep;
    for (int i = 0; i < 40; ++i) {
      const double a = low + kGolden * (high - low), b = high - kGolden * (high - low);
      if (at(a).error < at(b).error) {
        high = b;
      } else {
        low = a;
      }
    }
    Trial trial = at((low + high) / 2);
    if (!trial.heals) return std::nullopt;
    return trial;
  }

  std::vector<Trial> best_pair(const Suspect& suspect, std::vector<Trial>& trials, int64_t& tried) {
    constexpr size_t kAmong = 50;
    const auto computes = std::count_if(suspect.region.begin(), suspect.region.end(), [&](ir::NodeId id) {
      return graph_.node(id).op != ops::OpKind::kReshape && graph_.node(id).op != ops::OpKind::kStack;
    });
    if (computes < 2) return {};
    std::erase_if(trials,
                  [&](const Trial& trial) { return !std::isfinite(trial.error) || trial.error == suspect.error; });
    std::stable_sort(trials.begin(), trials.end(), [](const Trial& a, const Trial& b) { return a.error < b.error; });
    std::set<double> seen;  // the same change by another name
    std::erase_if(trials, [&](const Trial& trial) { return !seen.insert(trial.error).second; });
    if (trials.size() > kAmong) trials.resize(kAmong);
    for (size_t sum = 1; sum < 2 * trials.size(); ++sum) {
      for (size_t i = 0; 2 * i < sum; ++i) {
        if (sum - i >= trials.size()) continue;
        Trial both = trials[i];
        const Trial& other = trials[sum - i];
        ir::Graph changed = graph_;
        ++tried;
        if (!apply(both, changed).ok() || !apply(other, changed).ok()) continue;
        Pack tested;
        double error = 0, allowed = 0;
        if (!measure(changed, suspect, tested, error, allowed).ok() || !(error <= allowed)) continue;
        both.error = error;
        std::vector<Trial> pair = {std::move(both), other};
        pair[1].error = error;
        return pair;
      }
    }
    return {};
  }

  // All nodes that a spec makes by the same lines as the trial's.
  Trial everywhere(const Trial& trial, bool by_attributes) const {
    std::set<std::string> wanted;
    for (const ir::NodeId id : trial.nodes) wanted.insert(kin(id, by_attributes));
    Trial wide = trial;
    wide.nodes.clear();
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const auto id = static_cast<ir::NodeId>(i);
      if (wanted.contains(kin(id, by_attributes))) wide.nodes.push_back(id);
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
    const Tap& tap = taps_[suspect.tap];
    if (options_.progress) options_.progress("looking at " + tap.name);
    Finding finding;
    finding.value = tap.name;
    finding.error = suspect.error;
    finding.allowed = suspect.allowed;
    finding.of_layer = !operators_;
    finding.reproduction = reproduction(suspect);
    std::optional<Trial> nearest;
    const auto best = best_trials(suspect, finding.hypotheses, nearest);
    if (best.empty()) {
      guess(suspect, nearest, finding);
      blamed_.insert(suspect.tap);
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
      Trial kept;
      FL_TRY(keep(trial, kept));
      for (const ir::NodeId id : kept.nodes) note_layer(id, found);
    }
    return ok_status();
  }

  void guess(const Suspect& suspect, const std::optional<Trial>& nearest, Finding& finding) {
    ir::NodeId blamed = graph_.value(taps_[suspect.tap].value).producer;
    finding.cause = usual_cause(graph_, blamed, routing_nodes(graph_));
    constexpr double kNear = 0.3;
    if (nearest && nearest->error < kNear * suspect.error) {
      blamed = nearest->nodes[0];
      finding.cause = nearest->hypothesis.cause;
      finding.healed = nearest->error;
      finding.what = "nearest: " + nearest->hypothesis.what;
    }
    finding.fix = cause_advice(finding.cause);
    name(blamed, finding);
    note_layer(blamed, finding);
  }

  void name(ir::NodeId id, Finding& finding) const {
    finding.op = ops::op_name(graph_.node(id).op);
    finding.scope = graph_.node(id).scope;
    finding.layer = layer_name(id);
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
    const Tap& tap = taps_[suspect.tap];
    auto cut = cut_out(graph_, tap, suspect.known);
    if (!cut.ok()) return std::nullopt;
    Reproduction out{.graph = ir::print(*cut), .inputs = {}, .shapes = {}, .expected = {}, .width = tap.width()};
    for (const ir::Value& value : cut->values) {
      for (const auto& [id, rows] : suspect.rows) {
        if (value.name != cut_input_name(id)) continue;
        out.inputs.emplace_back(value.name, rows);
        out.shapes.emplace_back(value.name, value.type.to_string());
      }
    }
    for (const PromptRecord& prompt : suspect.baseline.prompts) {
      const TapRecord& record = prompt.taps[0];
      if (static_cast<int64_t>(record.row_ids.size()) == record.num_rows) out.expected.push_back(record.rows);
    }
    return out;
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

}  // namespace firstlight::align
