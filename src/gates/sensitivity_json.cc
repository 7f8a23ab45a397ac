// SPDX-License-Identifier: Apache-2.0
#include "gates/sensitivity_json.h"

#include <algorithm>
#include <map>

#include "base/json.h"

namespace firstlight::gates {
namespace {

Json json_of(const UnitFormat& format) {
  Json json = {{"format", format.choice.name()}};
  if (!format.obstacle.empty()) {
    json["obstacle"] = format.obstacle;
    return json;
  }
  json["bytes"] = format.bytes;
  json["relative_error"] = format.relative_error;
  json["kl"] = format.kl;
  json["measured"] = format.measured;
  if (format.measured) json.update(gates::json_of(format.effect));
  return json;
}

Json json_of(const Unit& unit) {
  Json formats = Json::array();
  for (const UnitFormat& format : unit.formats) formats.push_back(json_of(format));
  Json json = {{"name", unit.name}, {"layer", unit.layer}, {"kind", unit.kind}};
  json["tensors"] = unit.tensors.size();
  json["elements"] = unit.elements;
  json["bytes"] = unit.bytes;
  if (unit.w8a8_kl) json["w8a8_kl"] = *unit.w8a8_kl;
  json["formats"] = std::move(formats);
  return json;
}

class Reader {
 public:
  Reader(const Json& document, const adapt::QuantPlanner& planner) : document_(document), planner_(planner) {}

  Result<Sensitivity> run() {
    FL_TRY(read_head());
    const std::vector<Unit> known = FL_TRY(list_units(planner_, choices_, out_.granularity));
    std::map<std::string, const Unit*> by_name;
    for (const Unit& unit : known) by_name[unit.name] = &unit;
    for (const Json& entry : document_["units"]) {
      const std::string name = text(entry, "name");
      const auto it = by_name.find(name);
      if (it == by_name.end()) return invalid_data("unit '" + name + "' is none of this checkpoint, or comes twice");
      Unit unit = *it->second;
      by_name.erase(it);
      FL_TRY(read_unit(entry, unit).with_context("unit " + name));
      out_.units.push_back(std::move(unit));
    }
    if (!by_name.empty()) return invalid_data("unit '" + by_name.begin()->first + "' is missing");
    FL_TRY(read_wholes());
    return std::move(out_);
  }

 private:
  static std::string text(const Json& object, const char* key) {
    const bool there = object.is_object() && object.contains(key) && object[key].is_string();
    return there ? object[key].get<std::string>() : std::string();
  }
  static Result<double> number(const Json& object, const char* key) {
    if (object.is_object() && object.contains(key) && object[key].is_number()) return object[key].get<double>();
    return invalid_data(std::string("a number '") + key + "' wanted");
  }
  static Result<Variant> variant(const Json& object) {
    Variant variant;
    variant.effect.kl = FL_TRY(number(object, "kl"));
    variant.effect.top1 = FL_TRY(number(object, "top1"));
    variant.effect.perplexity = FL_TRY(number(object, "perplexity"));
    variant.bytes = static_cast<int64_t>(FL_TRY(number(object, "bytes")));
    return variant;
  }

  Status read_head() {
    const bool listed = document_.is_object() && document_.contains("units") && document_["units"].is_array() &&
                        !document_["units"].empty() && document_["units"][0].is_object() &&
                        document_["units"][0].contains("formats") && document_["units"][0]["formats"].is_array();
    if (!listed) return invalid_data("no list 'units': the output of validate --sensitivity --json wanted");
    const std::string by = text(document_, "by");
    bool known = false;
    for (const auto granularity : {Granularity::kModule, Granularity::kBlock, Granularity::kLayer}) {
      if (by != granularity_name(granularity)) continue;
      out_.granularity = granularity;
      known = true;
    }
    if (!known) return invalid_data("by: found '" + by + "', module, block or layer wanted");
    out_.formats_run = static_cast<int64_t>(FL_TRY(number(document_, "formats_run")));
    for (const Json& format : document_["units"][0]["formats"]) {
      choices_.push_back(FL_TRY(adapt::QuantChoice::parse(text(format, "format"))));
    }
    return ok_status();
  }

  Status read_unit(const Json& entry, Unit& unit) {
    const double elements = FL_TRY(number(entry, "elements")), bytes = FL_TRY(number(entry, "bytes"));
    if (elements != static_cast<double>(unit.elements) || bytes != static_cast<double>(unit.bytes)) {
      return invalid_data("other sizes than this checkpoint has");
    }
    if (!entry.contains("formats") || !entry["formats"].is_array() || entry["formats"].size() != unit.formats.size()) {
      return invalid_data("other formats than the first unit has");
    }
    if (entry.contains("w8a8_kl")) unit.w8a8_kl = FL_TRY(number(entry, "w8a8_kl"));
    for (size_t i = 0; i < unit.formats.size(); ++i) {
      UnitFormat& format = unit.formats[i];
      const Json& found = entry["formats"][i];
      if (text(found, "format") != format.choice.name()) return invalid_data("other formats than the first unit has");
      format.obstacle = text(found, "obstacle");
      if (!format.obstacle.empty()) continue;
      format.relative_error = FL_TRY(number(found, "relative_error"));
      format.kl = FL_TRY(number(found, "kl"));
      format.measured = found.contains("measured") && found["measured"] == true;
      if (format.measured) format.effect = FL_TRY(variant(found)).effect;
    }
    return ok_status();
  }

  Status read_wholes() {
    if (document_.contains("uniform") && document_["uniform"].is_array()) {
      for (const Json& entry : document_["uniform"]) {
        const auto choice = FL_TRY(adapt::QuantChoice::parse(text(entry, "format")));
        out_.wholes.push_back({choice, FL_TRY(variant(entry))});
      }
    }
    if (document_.contains("computed") && document_["computed"].is_object()) {
      for (const auto& [mode, entry] : document_["computed"].items()) {
        out_.computed.emplace_back(mode, FL_TRY(variant(entry)));
      }
    }
    return ok_status();
  }

  const Json& document_;
  const adapt::QuantPlanner& planner_;
  std::vector<adapt::QuantChoice> choices_;
  Sensitivity out_;
};

}  // namespace

Json json_of(const Effect& effect) {
  return {{"kl", effect.kl}, {"top1", effect.top1}, {"perplexity", effect.perplexity}};
}

Json json_of(const Variant& variant) {
  Json json = json_of(variant.effect);
  json["bytes"] = variant.bytes;
  return json;
}

Json json_of(const Sensitivity& sensitivity) {
  Json units = Json::array(), wholes = Json::array(), computed = Json::object();
  for (const Unit& unit : sensitivity.units) units.push_back(json_of(unit));
  for (const Whole& whole : sensitivity.wholes) {
    Json entry = {{"format", whole.choice.name()}};
    entry.update(json_of(whole.variant));
    wholes.push_back(std::move(entry));
  }
  for (const auto& [mode, variant] : sensitivity.computed) computed[mode] = json_of(variant);
  return {{"by", granularity_name(sensitivity.granularity)},
          {"formats_run", sensitivity.formats_run},
          {"units", std::move(units)},
          {"uniform", std::move(wholes)},
          {"computed", std::move(computed)}};
}

Result<Sensitivity> read_sensitivity(const Json& document, const adapt::QuantPlanner& planner) {
  return Reader(document, planner).run();
}

}  // namespace firstlight::gates
