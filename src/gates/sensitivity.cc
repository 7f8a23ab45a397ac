// SPDX-License-Identifier: Apache-2.0
#include "gates/sensitivity.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "adapt/quantise.h"

namespace firstlight::gates {
namespace {

using adapt::QuantChoice;
using adapt::QuantJob;

bool is_number(std::string_view word) {
  return !word.empty() && std::all_of(word.begin(), word.end(), [](char c) { return c >= '0' && c <= '9'; });
}

struct UnitName {
  std::string whole, layer, kind;
};

// The first number is the layer's, later ones count experts.
UnitName name_of(const std::string& module, Granularity granularity) {
  UnitName name;
  std::string* part = &name.layer;
  bool in_layer = false;
  int behind = 0;  // components behind the layer
  for (size_t at = 0; at <= module.size();) {
    const size_t end = std::min(module.find('.', at), module.size());
    std::string word = module.substr(at, end - at);
    const bool wanted =
        !in_layer || granularity == Granularity::kModule || (granularity == Granularity::kBlock && behind < 1);
    if (in_layer) ++behind;
    if (in_layer && is_number(word)) word = "*";
    if (wanted) *part += (part->empty() ? "" : ".") + word;
    if (!in_layer && is_number(word)) {
      in_layer = true;
      part = &name.kind;
    }
    at = end + 1;
  }
  if (!in_layer) std::swap(name.layer, name.kind);
  name.whole = name.layer + (name.layer.empty() || name.kind.empty() ? "" : ".") + name.kind;
  return name;
}

adapt::QuantPolicy policy_for(const Unit& unit, const QuantChoice& choice) {
  return {{{.modules = unit.name, .choice = choice, .said = "sensitivity"}}};
}

// The first and then the most different ones.
std::vector<size_t> order_of_runs(const Unit& unit) {
  std::vector<size_t> order;
  for (size_t i = 0; i < unit.formats.size(); ++i) {
    if (unit.formats[i].obstacle.empty()) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return unit.formats[a].relative_error > unit.formats[b].relative_error; });
  return order;
}

// The measured format whose error is nearest, as a ratio.
const UnitFormat* nearest_measured(const Unit& unit, double error) {
  const UnitFormat* best = nullptr;
  const auto far = [&](const UnitFormat& format) { return std::abs(std::log(format.relative_error / error)); };
  for (const UnitFormat& format : unit.formats) {
    if (!format.measured || format.relative_error <= 0) continue;
    if (best == nullptr || far(format) < far(*best)) best = &format;
  }
  return best;
}

class Meter {
 public:
  Meter(const adapt::QuantPlanner& planner, VariantRunner& runner, const SensitivityOptions& options)
      : planner_(planner), runner_(runner), options_(options) {}

  Result<Sensitivity> run() {
    FL_TRY(choose_granularity());
    const auto num_units = static_cast<int64_t>(out_.units.size());
    const auto most = static_cast<int64_t>(options_.choices.size());
    out_.formats_run = std::clamp(options_.max_runs / num_units, int64_t{1}, most);
    total_ = num_units * (out_.formats_run + (options_.activations ? 1 : 0)) + most + 2;
    for (Unit& unit : out_.units) FL_TRY(measure(unit).with_context(unit.name));
    FL_TRY(measure_wholes());
    const auto weight = [](const Unit& unit) {
      const UnitFormat* format = unit.roughest();
      return format == nullptr ? 0 : format->kl / static_cast<double>(std::max<int64_t>(1, unit.bytes - format->bytes));
    };
    std::stable_sort(out_.units.begin(), out_.units.end(),
                     [&](const Unit& a, const Unit& b) { return weight(a) > weight(b); });
    return std::move(out_);
  }

 private:
  Status choose_granularity() {
    for (const Granularity granularity : {Granularity::kModule, Granularity::kBlock, Granularity::kLayer}) {
      if (options_.granularity && granularity != *options_.granularity) continue;
      out_.granularity = granularity;
      out_.units = FL_TRY(list_units(planner_, options_.choices, granularity));
      if (static_cast<int64_t>(out_.units.size()) <= options_.max_runs) break;
    }
    return out_.units.empty() ? invalid_argument("no weight can be stored in any of these formats") : ok_status();
  }

  Status measure(Unit& unit) {
    FL_TRY(measure_errors(unit));
    const std::vector<size_t> order = order_of_runs(unit);
    for (size_t i = 0; i < std::min(order.size(), static_cast<size_t>(out_.formats_run)); ++i) {
      UnitFormat& format = unit.formats[order[i]];
      const auto variant = runner_.run(policy_for(unit, format.choice));
      advance();
      const StatusCode code = variant.ok() ? StatusCode::kOk : variant.status().code();
      if (code == StatusCode::kInvalidData || code == StatusCode::kUnsupported) {
        format.obstacle = variant.status().message();  // no loader takes it, or the logits are no numbers
        continue;
      }
      format.effect = FL_TRY(variant).effect;
      format.kl = format.effect.kl;
      format.measured = true;
    }
    for (UnitFormat& format : unit.formats) {
      if (format.measured || !format.obstacle.empty()) continue;
      const UnitFormat* near = nearest_measured(unit, format.relative_error);
      if (near != nullptr) format.kl = near->kl * std::pow(format.relative_error / near->relative_error, 2);
    }
    if (!options_.activations) return ok_status();
    const QuantChoice int8{.format = adapt::QuantFormat::kInt8};
    unit.w8a8_kl = FL_TRY(runner_.run(policy_for(unit, int8), catalog::ComputeMode::kInt8)).effect.kl;
    advance();
    return ok_status();
  }

  Status measure_errors(Unit& unit) {
    for (UnitFormat& format : unit.formats) {
      if (!format.obstacle.empty()) continue;
      double sum = 0;
      for (const QuantJob& job : FL_TRY(planner_.plan(policy_for(unit, format.choice)))) {
        if (!job.choice) continue;
        const double error = FL_TRY(adapt::measure_rounding(planner_, job)).relative_l2;
        sum += error * error * static_cast<double>(job.record->num_elements());
      }
      format.relative_error = std::sqrt(sum / static_cast<double>(std::max<int64_t>(1, unit.elements)));
    }
    return ok_status();
  }

  Status measure_wholes() {
    for (const QuantChoice& choice : options_.choices) {
      const adapt::QuantPolicy policy = adapt::uniform_policy(choice, {});
      // Where no matrix fits a format, that is no fault of the others.
      if (planner_.plan(policy).ok()) out_.wholes.push_back({choice, FL_TRY(runner_.run(policy))});
      advance();
    }
    const Effect rounded = FL_TRY(runner_.run_computed(catalog::ComputeMode::kBf16));
    advance();
    out_.computed.emplace_back("bf16", Variant{rounded, runner_.untouched().bytes});
    const adapt::QuantPolicy int8 = adapt::uniform_policy({.format = adapt::QuantFormat::kInt8}, {});
    out_.computed.emplace_back("w8a8", FL_TRY(runner_.run(int8, catalog::ComputeMode::kInt8)));
    advance();
    return ok_status();
  }

  void advance() {
    if (options_.progress) options_.progress(++done_, total_);
  }

  const adapt::QuantPlanner& planner_;
  VariantRunner& runner_;
  const SensitivityOptions& options_;
  Sensitivity out_;
  int64_t done_ = 0, total_ = 0;
};

}  // namespace

const char* granularity_name(Granularity granularity) {
  return granularity == Granularity::kModule ? "module" : granularity == Granularity::kBlock ? "block" : "layer";
}

const UnitFormat* Unit::roughest() const {
  const UnitFormat* found = nullptr;
  for (const UnitFormat& format : formats) {
    if (format.measured && (found == nullptr || format.relative_error > found->relative_error)) found = &format;
  }
  return found;
}

Result<std::vector<Unit>> list_units(const adapt::QuantPlanner& planner, const std::vector<QuantChoice>& choices,
                                     Granularity granularity) {
  std::vector<Unit> units;
  std::map<std::string, size_t> places;
  for (const auto& [name, record] : planner.source().checkpoint.tensors()) {
    std::vector<std::string> obstacles;
    for (const QuantChoice& choice : choices) obstacles.push_back(FL_TRY(planner.obstacle(record, choice)));
    if (std::none_of(obstacles.begin(), obstacles.end(), [](const auto& why) { return why.empty(); })) continue;
    const UnitName parts = name_of(adapt::module_of(name), granularity);
    const auto [it, fresh] = places.try_emplace(parts.whole, units.size());
    if (fresh) {
      units.push_back({.name = parts.whole, .layer = parts.layer, .kind = parts.kind});
      for (size_t i = 0; i < choices.size(); ++i) {
        units.back().formats.push_back({.choice = choices[i], .obstacle = obstacles[i]});
      }
    }
    Unit& unit = units[it->second];
    unit.tensors.push_back(name);
    unit.elements += record.num_elements();
    unit.bytes += static_cast<int64_t>(record.size_bytes);
    for (size_t i = 0; i < choices.size(); ++i) {
      if (obstacles[i].empty()) unit.formats[i].obstacle.clear();
      unit.formats[i].bytes +=
          obstacles[i].empty() ? planner.bytes_of(record, choices[i]) : static_cast<int64_t>(record.size_bytes);
    }
  }
  return units;
}

Result<Sensitivity> measure_sensitivity(const adapt::QuantPlanner& planner, VariantRunner& runner,
                                        const SensitivityOptions& options) {
  if (options.choices.empty()) return invalid_argument("no formats to measure");
  return Meter(planner, runner, options).run();
}

}  // namespace firstlight::gates
