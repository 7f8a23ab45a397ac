// SPDX-License-Identifier: Apache-2.0
#include "locate/trials.h"

#include <algorithm>
#include <map>

#include "locate/edit.h"

namespace firstlight::locate {
namespace {

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

// Six digits: what a factor of float32 rows is known to.
double rounded(double value) {
  const double unit = std::pow(10.0, std::floor(std::log10(std::abs(value))) - 5);
  return std::round(value / unit) * unit;
}

}  // namespace

std::string without_digits(std::string text) {
  std::erase_if(text, [](char c) { return c >= '0' && c <= '9'; });
  return text;
}

Status measure(const ir::Graph& graph, const Suspect& suspect, const Pack& baseline, const LocateOptions& options,
               Measured& out) {
  const auto cut = FL_TRY(cut_out(graph, suspect.tap, suspect.known));
  out.pack = FL_TRY(run_cut(cut, suspect.tap, suspect.rows, baseline, options.run, options.reference));
  const auto comparison = FL_TRY(compare(suspect.baseline, out.pack));
  const ValueComparison& value = comparison.values[0];
  out.error = value.info.is_integer ? value.found.mismatch : value.found.rel_l2;
  if (!value.found.finite) out.error = INFINITY;
  out.allowed = value.allowed;
  return ok_status();
}

Status apply(const Trial& trial, ir::Graph& graph) {
  for (const ir::NodeId id : trial.nodes) FL_TRY(trial.hypothesis.apply(graph, id));
  return put_in_order(graph);
}

// Equal for nodes that a spec makes by the same line; with `by_attributes`: by the same number of the config.
std::string kin(const ir::Graph& graph, ir::NodeId id, bool by_attributes) {
  const ir::Node& node = graph.node(id);
  ops::Attributes attributes = node.attributes;
  attributes.erase("offset");  // of a rotation: queries and keys have them at other places
  std::string key = std::string(ops::op_name(node.op)) + ops::attributes_to_string(attributes);
  if (by_attributes) return key;
  key += "|" + without_digits(node.scope);
  for (const ir::ValueId operand : node.operands) {
    const ir::Value& value = graph.value(operand);
    if (value.kind == ir::Value::Kind::kWeight) key += "|" + without_digits(value.name);
  }
  return key;
}

double rows_that_agree(const Pack& baseline, const Pack& tested) {
  constexpr double kAgrees = 1e-4;
  int64_t rows = 0, right = 0;
  for (size_t p = 0; p < baseline.prompts.size() && p < tested.prompts.size(); ++p) {
    const TapRecord &a = baseline.prompts[p].taps[0], &b = tested.prompts[p].taps[0];
    if (a.rows.size() != b.rows.size() || a.row_ids.empty()) continue;
    const size_t width = a.rows.size() / a.row_ids.size();
    for (size_t r = 0; r < a.row_ids.size(); ++r) {
      double difference = 0, norm = 0;
      for (size_t i = r * width; i < (r + 1) * width; ++i) {
        const double x = a.rows[i], y = b.rows[i];
        difference += (x - y) * (x - y);
        norm += x * x;
      }
      ++rows;
      right += difference <= kAgrees * kAgrees * norm ? 1 : 0;
    }
  }
  return rows == 0 ? 1 : static_cast<double>(right) / static_cast<double>(rows);
}

Trials::Trials(const ir::Graph& graph, const Suspect& suspect, const Pack& baseline, const LocateOptions& options)
    : graph_(graph), suspect_(suspect), baseline_(baseline), options_(options), hints_(options.hints) {
  hints_.routing = routing_nodes(graph_);
  for (const ir::NodeId id : suspect.region) add_nodes(id, nodes_);
}

// The node and what stands in its regions.
void Trials::add_nodes(ir::NodeId id, std::vector<ir::NodeId>& out) const {
  out.push_back(id);
  for (const ir::Region& region : graph_.node(id).regions) {
    for (const ir::NodeId inner : region.nodes) add_nodes(inner, out);
  }
}

std::map<std::string, std::vector<ir::NodeId>> Trials::kin_of_region() const {
  std::map<std::string, std::vector<ir::NodeId>> kin_of;
  for (const ir::NodeId id : nodes_) kin_of[kin(graph_, id)].push_back(id);
  return kin_of;
}

std::vector<Trial> Trials::all() const {
  auto kin_of = kin_of_region();
  std::vector<Trial> trials;
  for (const ir::NodeId id : nodes_) {
    const auto& family = kin_of[kin(graph_, id)];
    for (Hypothesis& hypothesis : hypotheses(graph_, id, hints_)) {
      if (!hypothesis.of_weights && family.size() > 1 && family[0] == id)
        trials.push_back({.hypothesis = hypothesis, .nodes = family});
      if (family.size() > 1) ++hypothesis.rank;
      trials.push_back({.hypothesis = std::move(hypothesis), .nodes = {id}});
    }
  }
  const ir::NodeId maker = graph_.value(suspect_.tap.value).producer;
  const Fit fit = best_factor(suspect_.baseline, suspect_.measured.pack);
  constexpr double kExplained = 1e-4;
  if (fit.rest < kExplained && std::isfinite(fit.factor))
    trials.push_back({.hypothesis = missing_factor(rounded(fit.factor), hints_, graph_, maker), .nodes = {maker}});
  std::stable_sort(trials.begin(), trials.end(),
                   [](const Trial& a, const Trial& b) { return a.hypothesis.rank < b.hypothesis.rank; });
  return trials;
}

void Trials::try_out(Trial& trial) {
  ++tried_;
  ir::Graph changed = graph_;
  if (!apply(trial, changed).ok()) return;
  Measured measured;
  const bool ran = measure(changed, suspect_, baseline_, options_, measured).ok();
  trial.error = ran ? measured.error : INFINITY;
  trial.heals = ran && measured.agrees();
}

// The first that heals, or one a little behind it that heals much better; else a number that heals, else two at once.
std::vector<Trial> Trials::best() {
  constexpr int kBehind = 6;
  constexpr double kBetter = 0.1;
  std::optional<Trial> best;
  auto trials = all();
  for (Trial& trial : trials) {
    if (best && trial.hypothesis.rank > best->hypothesis.rank + kBehind) break;
    try_out(trial);
    if (trial.heals && (!best || trial.error < kBetter * best->error)) best = trial;
    if (!nearest_ || trial.error < nearest_->error) nearest_ = trial;
  }
  if (!best) best = best_number();
  if (best) return {*best};
  return best_pair(trials);
}

// Numbers of the region over eight powers of ten, and finer where that helps.
std::optional<Trial> Trials::best_number() {
  for (const auto& [key, family] : kin_of_region()) {
    for (const Dial& dial : dials(graph_, family[0], hints_)) {
      const auto at = [&](double log_factor) {
        Trial trial{.hypothesis = dial.with(std::exp(log_factor)), .nodes = family};
        try_out(trial);
        return trial;
      };
      if (auto trial = minimum(at, suspect_.measured.error)) return trial;
    }
  }
  return std::nullopt;
}

std::optional<Trial> Trials::minimum(const std::function<Trial(double)>& at, double own) {
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

std::vector<Trial> Trials::best_pair(std::vector<Trial>& trials) {
  constexpr size_t kAmong = 50;
  const auto computes = std::count_if(suspect_.region.begin(), suspect_.region.end(), [&](ir::NodeId id) {
    return graph_.node(id).op != ops::OpKind::kReshape && graph_.node(id).op != ops::OpKind::kStack;
  });
  if (computes < 2) return {};
  std::erase_if(trials, [&](const Trial& trial) {
    return !std::isfinite(trial.error) || trial.error == suspect_.measured.error;
  });
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
      ++tried_;
      if (!apply(both, changed).ok() || !apply(other, changed).ok()) continue;
      Measured measured;
      if (!measure(changed, suspect_, baseline_, options_, measured).ok() || !measured.agrees()) continue;
      both.error = measured.error;
      std::vector<Trial> pair = {std::move(both), other};
      pair[1].error = measured.error;
      return pair;
    }
  }
  return {};
}

}  // namespace firstlight::locate
