// SPDX-License-Identifier: Apache-2.0
// A vote as JSON, as a table for a terminal, and as a page.
#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "align/page.h"
#include "align/vote.h"
#include "base/json.h"

namespace firstlight::align {
namespace {

using page::escaped;
using page::format;

const char* verdict_name(Verdict verdict) {
  return verdict == Verdict::kAgreed ? "agreed" : verdict == Verdict::kMajority ? "majority" : "no majority";
}

std::string listed(const std::vector<std::string>& words) {
  std::string out;
  for (size_t i = 0; i < words.size(); ++i) out += (i == 0 ? "" : i + 1 == words.size() ? " and " : ", ") + words[i];
  return out;
}

std::string names_of(const VoteResult& result, const std::vector<size_t>& voters) {
  std::vector<std::string> names;
  for (const size_t v : voters) names.push_back(result.names[v]);
  return listed(names);
}

bool holds(const std::vector<size_t>& list, size_t v) { return std::find(list.begin(), list.end(), v) != list.end(); }

// How far a voter is from the centre; null: it is the centre, or does not have the value.
const VotePair* from_centre(const VoteValue& value, size_t v) {
  return v == value.centre ? nullptr : value.pair(v, value.centre);
}

std::string where(const VoteResult& result, size_t value) {
  const TapInfo& info = result.values[value].info;
  const std::string layer = info.name.starts_with(info.layer) ? "" : " of " + info.layer;  // most names have it
  return info.name + (info.op.empty() ? "" : " (" + info.op + ")") + layer;
}

// The sentences that a vote ends with.
std::string outlier_sentence(const VoteResult& result, const Outlier& outlier) {
  const VoteValue& value = result.values[outlier.first];
  std::string out = result.names[outlier.voter] + " is the outlier from " + where(result, outlier.first) +
                    " on: " + format("%.2e from ", outlier.distance) + names_of(result, value.group) +
                    format(", %.2e allowed", outlier.allowed);
  const VotePair* pair = from_centre(value, outlier.voter);
  if (pair != nullptr && !pair->found.finite) out += ", another number of values that are not finite";
  out += outlier.last_agreed ? "; before, it agreed up to " + where(result, *outlier.last_agreed)
                             : "; it has nothing before that, so where the fault begins is not told";
  if (!outlier.together.empty()) {
    out += "; " + names_of(result, outlier.together) + (outlier.together.size() > 1 ? " agree" : " agrees") +
           " with it there: the same fault";
  }
  std::vector<std::string> own, back;
  size_t inherited = 0;
  for (const LaterValue& later : outlier.later) {
    if (!later.outside) back.push_back(result.values[later.value].info.name);
    if (later.outside && !later.inherits) own.push_back(result.values[later.value].info.name);
    inherited += later.inherits ? 1 : 0;
  }
  if (inherited > 0) out += format("; %zu later results (layers and logits) only inherit it", inherited);
  if (!own.empty()) out += "; more is added at " + listed(own) + ": a second fault may be there";
  if (!back.empty()) out += "; within rounding again at " + std::to_string(back.size()) + " later results";
  return out;
}

std::string open_sentence(const VoteResult& result) {
  const VoteValue& value = result.values[*result.first_open];
  std::vector<std::string> apart, between;
  for (const VotePair& pair : value.pairs) {
    if (pair.agree) continue;
    apart.push_back(result.names[pair.a] + " and " + result.names[pair.b] +
                    format(" %.2e (%.2e allowed)", pair.size(value.info.is_integer), pair.allowed));
  }
  for (const size_t v : value.voters) {
    const auto differs = [&](const VotePair& p) { return (p.a == v || p.b == v) && !p.agree; };
    if (std::none_of(value.pairs.begin(), value.pairs.end(), differs)) between.push_back(result.names[v]);
  }
  std::string out = "no majority at " + where(result, *result.first_open) + ": " + listed(apart);
  if (!between.empty()) {
    return out + "; " + listed(between) + " rounds too much to tell them apart";
  }
  return value.voters.size() == 2 ? out + "; of two voters neither is a majority" : out;
}

std::string conclusion(const VoteResult& result) {
  std::string out;
  for (const Outlier& outlier : result.outliers) out += outlier_sentence(result, outlier) + "\n";
  if (result.first_open) out += open_sentence(result) + "\n";
  if (!out.empty()) return out;
  return result.names.size() == 2 ? "the two agree within their rounding; a majority needs three voters\n"
                                  : "all voters agree within their rounding\n";
}

std::string cell(const VoteValue& value, size_t v) {
  if (!holds(value.voters, v)) return "";
  const VotePair* pair = from_centre(value, v);
  const bool mark =
      holds(value.outliers, v) || (value.verdict == Verdict::kNoMajority && pair != nullptr && !pair->agree);
  if (pair == nullptr) return v == value.centre ? "centre" : "?";
  return format("%.2e", pair->size(value.info.is_integer)) + (mark ? "*" : "");
}

std::vector<std::string> voter_lines(const VoteResult& result) {
  std::vector<std::string> lines;
  for (size_t v = 0; v < result.names.size(); ++v) {
    lines.push_back(format("%zu ", v + 1) + result.names[v] + ": " + result.descriptions[v] +
                    format("; a product rounds by %.1e", result.rounding[v].step));
  }
  return lines;
}

Json pair_json(const VoteValue& value, const VotePair& pair) {
  Json json = {{"a", pair.a},
               {"b", pair.b},
               {"allowed", pair.allowed},
               {"agree", pair.agree},
               {"estimated", pair.found.estimated},
               {"finite", pair.found.finite}};
  json[value.info.is_integer ? "mismatch" : "rel_l2"] = pair.size(value.info.is_integer);
  if (!value.info.is_integer) json["cosine"] = pair.found.cosine;
  return json;
}

Json value_json(const VoteValue& value) {
  Json pairs = Json::array();
  for (const VotePair& pair : value.pairs) pairs.push_back(pair_json(value, pair));
  return {{"name", value.info.name}, {"layer", value.info.layer},
          {"op", value.info.op},     {"layer_output", value.info.is_layer_output},
          {"voters", value.voters},  {"verdict", verdict_name(value.verdict)},
          {"group", value.group},    {"outliers", value.outliers},
          {"centre", value.centre},  {"pairs", std::move(pairs)}};
}

Json outlier_json(const VoteResult& result, const Outlier& outlier) {
  const TapInfo& info = result.values[outlier.first].info;
  Json later = Json::array();
  for (const LaterValue& value : outlier.later) {
    later.push_back({{"name", result.values[value.value].info.name},
                     {"distance", value.distance},
                     {"outside", value.outside},
                     {"inherits", value.inherits}});
  }
  Json last;
  if (outlier.last_agreed) last = result.values[*outlier.last_agreed].info.name;
  return {{"voter", result.names[outlier.voter]},
          {"first", {{"name", info.name}, {"layer", info.layer}, {"op", info.op}}},
          {"last_agreed", std::move(last)},
          {"distance", outlier.distance},
          {"allowed", outlier.allowed},
          {"together", outlier.together},
          {"only_inherits", outlier.only_inherits()},
          {"later", std::move(later)}};
}

// Through the places where a voter is at a distance: not where it is the centre, nor where it has no value.
std::string line_of(const page::Axes& axes, const std::vector<double>& values, const std::string& colour) {
  std::string points, last;
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] <= 0) continue;
    last = format("cx=\"%.1f\" cy=\"%.1f\"", axes.x(i), axes.y(values[i]));
    points += format("%.1f,%.1f ", axes.x(i), axes.y(values[i]));
  }
  const std::string end = last.empty() ? "" : "<circle r=\"2.5\" fill=\"" + colour + "\" " + last + "/>";
  return "<polyline fill=\"none\" stroke-width=\"1.5\" stroke=\"" + colour + "\" points=\"" + points + "\"/>" + end;
}

// Distances from the centre over depth, one line per voter.
std::string depth_plot(const VoteResult& result) {
  constexpr std::array kColours = {"#26c", "#c63", "#3a3", "#a3a", "#088", "#b80", "#666", "#e39"};
  std::vector<std::vector<double>> lines(result.names.size());
  std::string dots;
  page::Axes axes{.low = -9, .high = 0, .count = 0};
  double least = 1, most = page::kLowest;
  for (const VoteValue& value : result.values) {
    if (value.info.is_integer) continue;
    ++axes.count;
    for (size_t v = 0; v < lines.size(); ++v) {
      const VotePair* pair = from_centre(value, v);
      const double distance = pair != nullptr && std::isfinite(pair->found.rel_l2) ? pair->found.rel_l2 : 0;
      lines[v].push_back(distance);
      if (distance > 0) least = std::min(least, distance);
      most = std::max(most, distance);
    }
  }
  if (axes.count == 0) return "";
  axes.low = std::floor(std::log10(std::max(least, page::kLowest)));
  axes.high = std::max(std::ceil(std::log10(most)), axes.low + 1);
  std::string out =
      format("<svg viewBox=\"0 0 %.0f %.0f\" role=\"img\" aria-label=\"distance from the group over depth\">",
             page::kWidth, page::kHeight) +
      page::grid(axes);
  for (size_t v = 0; v < lines.size(); ++v) {
    const std::string colour = kColours[v % kColours.size()];
    out += line_of(axes, lines[v], colour);
    out += format("<text x=\"%.0f\" y=\"%.0f\" style=\"fill:%s\">", page::kLeft + 8,
                  page::kTop + 14 * static_cast<double>(v + 1), colour.c_str()) +
           escaped(result.names[v]) + "</text>";
    size_t at = 0;
    for (const VoteValue& value : result.values) {
      if (value.info.is_integer) continue;
      if (holds(value.outliers, v)) {
        dots +=
            format("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"#a00\"><title>", axes.x(at), axes.y(lines[v][at])) +
            escaped(result.names[v] + " at " + value.info.name) + format(": %.3e</title></circle>", lines[v][at]);
      }
      ++at;
    }
  }
  return out + dots +
         format(
             "<text x=\"%.0f\" y=\"%.0f\">values in the order they are computed; red: outside the group</text></svg>",
             page::kLeft, page::kHeight - 8);
}

std::string html_table(const VoteResult& result) {
  std::string out = "<div class=\"scroll\"><table><tr><th>value<th>operator";
  for (const std::string& name : result.names) out += "<th class=\"n\">" + escaped(name);
  out += "<th>verdict<th>pairs: distance (allowed)";
  for (const VoteValue& value : result.values) {
    out += "<tr><td>" +
           (value.info.is_layer_output ? "<b>" + escaped(value.info.name) + "</b>" : escaped(value.info.name)) +
           "<td>" + escaped(value.info.op);
    for (size_t v = 0; v < result.names.size(); ++v) {
      out += std::string(holds(value.outliers, v) ? "<td class=\"n no\">" : "<td class=\"n\">") + cell(value, v);
    }
    out += value.verdict == Verdict::kAgreed ? "<td class=\"yes\">agreed"
           : value.verdict == Verdict::kMajority
               ? "<td class=\"no\">outlier: " + escaped(names_of(result, value.outliers))
               : "<td class=\"no\">no majority";
    out += "<td>";
    for (const VotePair& pair : value.pairs) {
      out += format("<span class=\"%s\">%zu-%zu %.1e (%.1e)</span> ", pair.agree ? "yes" : "no", pair.a + 1, pair.b + 1,
                    pair.size(value.info.is_integer), pair.allowed);
    }
  }
  return out + "</table></div>";
}

}  // namespace

Json vote_json(const VoteResult& result) {
  Json voters = Json::array(), values = Json::array(), outliers = Json::array(), logits = Json::array(), open;
  for (size_t v = 0; v < result.names.size(); ++v) {
    voters.push_back(
        {{"name", result.names[v]}, {"what", result.descriptions[v]}, {"rounding", result.rounding[v].step}});
  }
  for (const VoteValue& value : result.values) values.push_back(value_json(value));
  for (const Outlier& outlier : result.outliers) outliers.push_back(outlier_json(result, outlier));
  for (const VoteLogits& pair : result.logits) {
    logits.push_back({{"a", pair.a},
                      {"b", pair.b},
                      {"rows", pair.found.rows},
                      {"top1", pair.found.top1},
                      {"top5", pair.found.top5},
                      {"kl_at_least", pair.found.kl_bound},
                      {"kl_worst", pair.found.kl_worst}});
  }
  if (result.first_open) open = value_json(result.values[*result.first_open]);
  return {{"agreed", result.agreed()},       {"voters", std::move(voters)},   {"outliers", std::move(outliers)},
          {"no_majority", std::move(open)},  {"values", std::move(values)},   {"logits", std::move(logits)},
          {"prompts", result.prompts},       {"not_voted", result.not_voted}, {"notes", result.notes},
          {"conclusion", conclusion(result)}};
}

std::string vote_text(const VoteResult& result, bool all) {
  std::set<std::string> layers;  // where somebody leaves: shown value by value
  for (const Outlier& outlier : result.outliers) layers.insert(result.values[outlier.first].info.layer);
  if (result.first_open) layers.insert(result.values[*result.first_open].info.layer);
  std::string out;
  for (const std::string& line : voter_lines(result)) out += line + "\n";
  out += format("\n%-44s %-11s", "value: distance from the group's centre", "operator");
  for (size_t v = 0; v < result.names.size(); ++v) out += format(" %9zu ", v + 1);
  out += "\n";
  for (const VoteValue& value : result.values) {
    const bool apart = value.verdict != Verdict::kAgreed && layers.contains(value.info.layer);
    const bool shown = all || apart || value.info.is_layer_output || value.info.name == "logits";
    if (!shown) continue;
    out += format("%-44s %-11s", value.info.name.c_str(), value.info.op.c_str());
    for (size_t v = 0; v < result.names.size(); ++v) out += format(" %10s", cell(value, v).c_str());
    out += value.verdict == Verdict::kNoMajority ? " no majority\n" : "\n";
  }
  for (const VoteLogits& pair : result.logits) {
    out += format(
        "logits of %zu and %zu: best token equal in %.1f %% of %lld rows, best five in %.1f %%; KL at least %.2e\n",
        pair.a + 1, pair.b + 1, 100 * pair.found.top1, static_cast<long long>(pair.found.rows), 100 * pair.found.top5,
        pair.found.kl_bound);
  }
  out += format("%zu values of %lld prompts voted on, %lld that one voter alone has\n", result.values.size(),
                static_cast<long long>(result.prompts), static_cast<long long>(result.not_voted));
  for (const std::string& note : result.notes) out += "  " + note + "\n";
  return out + conclusion(result);
}

std::string vote_html(const VoteResult& result) {
  std::string out =
      "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Firstlight: voters</title><style>" +
      std::string(page::kStyle) + "</style><h1>Reference voters</h1>";
  out += std::string("<p class=\"") + (result.agreed() ? "yes" : "no") + "\">";
  for (const char c : escaped(conclusion(result))) out += c == '\n' ? std::string("<br>") : std::string(1, c);
  out += "</p><ul>";
  for (const std::string& line : voter_lines(result)) out += "<li>" + escaped(line);
  for (const std::string& note : result.notes) out += "<li>" + escaped(note);
  out += "</ul><h2>Distance from the group over depth</h2>" + depth_plot(result) + "<h2>Logits</h2><ul>";
  for (const VoteLogits& pair : result.logits) {
    out +=
        "<li>" + escaped(result.names[pair.a]) + " and " + escaped(result.names[pair.b]) +
        format(
            ": best token equal in %.1f&nbsp;%% of %lld rows, best five in %.1f&nbsp;%%; KL divergence at least %.3e",
            100 * pair.found.top1, static_cast<long long>(pair.found.rows), 100 * pair.found.top5, pair.found.kl_bound);
  }
  return out + "</ul><h2>Values</h2>" + html_table(result) + "</html>\n";
}

}  // namespace firstlight::align
