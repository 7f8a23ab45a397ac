// SPDX-License-Identifier: Apache-2.0
#include "gates/report_html.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/json.h"
#include "gates/svg_plot.h"

namespace firstlight::gates {
namespace {

constexpr std::string_view kStyle = R"(
:root{color-scheme:light dark;--fg:#1c2430;--dim:#5b6675;--bg:#fff;--card:#f5f7fa;--rule:#d9dfe7;--blue:#2a6fdb;
--red:#c62f2f;--green:#1c7c3c;--amber:#9a6700;--violet:#7a4fd0}
@media(prefers-color-scheme:dark){:root{--fg:#e3e8ef;--dim:#9aa6b5;--bg:#12161c;--card:#1b212a;--rule:#323b47;
--blue:#6aa5ff;--red:#ff7b72;--green:#56d364;--amber:#e3b341;--violet:#b794f6}}
*{box-sizing:border-box}
body{font:16px/1.5 system-ui,sans-serif;color:var(--fg);background:var(--bg);max-width:54rem;margin:0 auto;padding:1rem}
h1{font-size:1.3rem;margin:.2em 0;overflow-wrap:anywhere}h2{font-size:1.1rem;margin:2.2em 0 .4em}h3{font-size:1rem;margin:1.4em 0 .2em}
a{color:var(--blue)}p{margin:.5em 0}.dim{color:var(--dim)}.yes{color:var(--green)}.no{color:var(--red);font-weight:600}.maybe{color:var(--amber)}
.verdict{border-left:.3rem solid;padding:.3rem .8rem;background:var(--card)}
.gates{list-style:none;padding:0;margin:1rem 0}
.gates li{display:grid;grid-template-columns:7.5rem 4.5rem 4.5rem 1fr;gap:0 .6rem;padding:.45rem 0;border-bottom:1px solid var(--rule)}
.gates .s{text-align:right;color:var(--dim);font-variant-numeric:tabular-nums}.gates .t{overflow-wrap:anywhere}
.scroll{overflow-x:auto}
table{border-collapse:collapse;font-size:.85rem;min-width:100%}
td,th{border-bottom:1px solid var(--rule);padding:.25rem .6rem .25rem 0;text-align:left;vertical-align:top}
th{color:var(--dim);font-weight:500}.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
.w{max-width:22rem;overflow-wrap:anywhere}.k{white-space:nowrap}
figure{margin:.8rem 0;max-width:44rem}figcaption{font-size:.85rem;color:var(--dim)}
svg{width:100%;height:auto;display:block;background:var(--card);border-radius:4px}
svg text{font:12px system-ui,sans-serif;fill:var(--dim)}svg .g{stroke:var(--rule)}svg .m{stroke:var(--dim);stroke-dasharray:2 3}
svg .b{fill:var(--rule)}svg .w{stroke:var(--fg);stroke-width:2}
.key{white-space:nowrap;margin-right:.9em}.key i{display:inline-block;margin-right:.35em;vertical-align:middle}
.key .l,.key .d{width:1.4em;border-top:2px solid}.key .d{border-top-style:dashed}.key .o{width:.55em;height:.55em;border-radius:50%;background:currentColor}
details{margin:.5rem 0}summary{cursor:pointer;color:var(--dim)}
pre{background:var(--card);padding:.7rem;overflow:auto;font-size:.8rem;max-height:30rem;white-space:pre-wrap;overflow-wrap:anywhere}
@media(max-width:40rem){.gates li{grid-template-columns:1fr auto auto}.gates .t{grid-column:1/-1;color:var(--dim);font-size:.9rem}}
)";

std::string format(const char* pattern, auto... values) {
  char text[400];
  std::snprintf(text, sizeof(text), pattern, values...);
  return text;
}

// Members of evidence that may be absent, or of another kind than they should be.
double number(const Json& json, const char* key, double otherwise = 0) {
  const auto found = json.is_object() ? json.find(key) : json.end();
  if (!json.is_object() || found == json.end()) return otherwise;
  if (found->is_null()) return std::nan("");  // what JSON makes of no number
  return found->is_number() ? found->get<double>() : otherwise;
}
std::string text_of(const Json& json, const char* key) {
  if (!json.is_object() || !json.contains(key)) return "";
  return json[key].is_string() ? json[key].get<std::string>() : dump_json(json[key]);
}
bool truth(const Json& json, const char* key) {
  return json.is_object() && json.contains(key) && json[key].is_boolean() && json[key].get<bool>();
}
const Json& list(const Json& json, const char* key) {
  static const Json none = Json::array();
  return json.is_object() && json.contains(key) && json[key].is_array() ? json[key] : none;
}

std::string small(double value) {
  if (std::isnan(value)) return "no number";
  return value == 0 ? "0" : format(value >= 0.01 && value < 1000 ? "%.3f" : "%.1e", value);
}
std::string cell(const std::string& text) { return "<td class=\"n\">" + html_escaped(text); }
std::string verdict(bool passed, const char* yes = "passed", const char* no = "failed") {
  return passed ? std::string("<span class=\"yes\">") + yes + "</span>"
                : std::string("<span class=\"no\">") + no + "</span>";
}

// What is found beside what is allowed.
std::string beside(const Json& json, const char* found, const char* allowed) {
  const double a = number(json, found), b = number(json, allowed);
  return std::string("<td class=\"n") + (a <= b ? "\">" : " no\">") + small(a) + " <span class=\"dim\">/ " + small(b) +
         "</span>";
}

std::string operator_section(const Json& evidence) {
  const Json& kernels = list(evidence, "kernels");
  if (kernels.empty()) return "";
  std::string out =
      "<div class=\"scroll\"><table><tr><th>operator<th>kernel<th class=\"n\">calls<th class=\"n\">rows<th "
      "class=\"n\">worst, of the bound<th class=\"n\">relative L2<th>verdict";
  for (const Json& kernel : kernels) {
    out += "<tr><td>" + html_escaped(text_of(kernel, "op")) + "<td class=\"w\">" +
           html_escaped(text_of(kernel, "kernel")) + cell(format("%.0f", number(kernel, "calls"))) +
           cell(format("%.0f", number(kernel, "rows_judged"))) + cell(small(number(kernel, "worst_of_bound"))) +
           cell(small(number(kernel, "worst_rel_l2"))) + "<td>" + verdict(truth(kernel, "passed"));
    if (kernel.contains("failure")) out += " " + html_escaped(text_of(kernel["failure"], "what"));
  }
  out += "</table></div>";
  const Json& rest = list(evidence, "not_judged");
  if (rest.empty()) return out;
  out += "<details><summary>" + format("%zu not judged", rest.size()) + "</summary><ul>";
  for (const Json& one : rest)
    out += "<li>" + html_escaped(text_of(one, "kernel")) + ": " + html_escaped(text_of(one, "why"));
  return out + "</ul></details>";
}

// The values of every kind of layer, one behind the other, in one mode.
PlotSeries layer_series(const Json& kinds, const char* mode, const char* key, const std::string& name,
                        const std::string& colour, bool dashed, bool line) {
  PlotSeries series{.name = name, .colour = colour, .points = {}, .line = line, .dashed = dashed};
  double at = 0;
  for (const Json& kind : kinds) {
    for (const Json& one : list(kind, "modes")) {
      if (text_of(one, "mode") != mode) continue;
      for (const Json& value : list(one, "values")) {
        at += 1;
        if (value.contains(key) && value.contains("rel_l2")) series.points.emplace_back(at, number(value, key));
      }
    }
  }
  return series;
}

std::string layer_section(const Json& evidence) {
  const Json& kinds = list(evidence, "kinds");
  if (kinds.empty()) return "";
  std::string out = log_plot({layer_series(kinds, "prefill", "allowed", "allowed", "--red", true, true),
                              layer_series(kinds, "prefill", "rounding", "honest rounding", "--green", false, true),
                              layer_series(kinds, "prefill", "rel_l2", "prefill", "--blue", false, true),
                              layer_series(kinds, "chunked", "rel_l2", "chunked", "--violet", false, false),
                              layer_series(kinds, "decode", "rel_l2", "token by token", "--amber", false, false)},
                             {}, "values of the layer kinds, in the order of depth", "error over depth");
  out +=
      "<div class=\"scroll\"><table><tr><th>layer<th class=\"n\">stands for<th>mode<th class=\"n\">worst relative L2 / "
      "allowed<th>verdict";
  for (const Json& kind : kinds) {
    for (const Json& mode : list(kind, "modes")) {
      const Json* worst = nullptr;
      const auto share = [](const Json& value) {
        return number(value, "rel_l2") / std::max(number(value, "allowed"), 1e-30);
      };
      for (const Json& value : list(mode, "values")) {
        if (value.contains("rel_l2") && (worst == nullptr || share(value) > share(*worst))) worst = &value;
      }
      out += "<tr><td class=\"w\">" + html_escaped(text_of(kind, "layer")) +
             cell(format("%zu", std::max<size_t>(1, list(kind, "stands_for").size()))) + "<td>" +
             html_escaped(text_of(mode, "mode")) + (worst != nullptr ? beside(*worst, "rel_l2", "allowed") : "<td>") +
             "<td>" + verdict(truth(mode, "passed"));
    }
  }
  return out + "</table></div>";
}

std::string prompt_table(const Json& prompts) {
  std::string out =
      "<div class=\"scroll\"><table><tr><th>prompt<th>fed<th>verdict<th class=\"n\">rows<th class=\"n\">relative L2 / "
      "allowed<th class=\"n\">worst row / allowed<th class=\"n\">KL / allowed<th class=\"n\">top 1<th class=\"n\">top "
      "5<th class=\"n\">perplexity (wanted)";
  for (const Json& prompt : prompts) {
    const Json& paths = list(prompt, "paths");
    for (const Json& path : paths) {
      out += "<tr>";
      if (&path == &paths.front()) {
        out += format("<td class=\"k\" rowspan=\"%zu\">", paths.size()) + html_escaped(text_of(prompt, "name"));
      }
      out += "<td class=\"k\">" + html_escaped(text_of(path, "path")) + "<td>" + verdict(truth(path, "passed")) +
             cell(format("%.0f", number(path, "rows"))) + beside(path, "rel_l2", "allowed_rel_l2") +
             beside(path, "worst_rel_l2", "allowed_worst_rel_l2") + beside(path, "kl", "allowed_kl") +
             cell(format("%.1f %%", 100 * number(path, "top1"))) + cell(format("%.1f %%", 100 * number(path, "top5")));
      out += path.contains("perplexity")
                 ? cell(format("%.3f (%.3f)", number(path, "perplexity"), number(path, "wanted_perplexity")))
                 : "<td>";
    }
  }
  return out + "</table></div>";
}

std::string prompt_plots(const Json& prompt, const std::vector<PlotMark>& marks) {
  PlotSeries distance{.name = "relative L2 of a row", .colour = "--blue", .points = {}, .line = false};
  PlotSeries kl{.name = "KL divergence", .colour = "--violet", .points = {}, .line = false};
  for (const Json& row : list(prompt, "row_list")) {
    distance.points.emplace_back(number(row, "position"), number(row, "rel_l2"));
    kl.points.emplace_back(number(row, "position"), number(row, "kl"));
  }
  if (distance.points.empty()) return "";
  const double first = distance.points.front().first, last = distance.points.back().first;
  const Json& paths = list(prompt, "paths");
  std::vector<PlotSeries> series = {distance, kl};
  if (!paths.empty()) {
    for (const auto& [key, name, colour] : {std::tuple{"allowed_worst_rel_l2", "allowed for a row", "--red"},
                                            std::tuple{"allowed_kl", "allowed for the mean KL", "--amber"}}) {
      const double allowed = number(paths[0], key);
      series.push_back({.name = name, .colour = colour, .points = {{first, allowed}, {last, allowed}}, .dashed = true});
    }
  }
  return "<h3>" + html_escaped(text_of(prompt, "name")) + "</h3>" +
         log_plot(series, marks, "position", "error over positions");
}

std::string ulp_histogram(const Json& prompts) {
  std::vector<std::pair<std::string, double>> bins;
  for (const Json& prompt : prompts) {
    const Json& counts = list(prompt, "ulps");
    if (bins.size() < counts.size()) bins.resize(counts.size());
    for (size_t i = 0; i < counts.size(); ++i) bins[i].second += counts[i].is_number() ? counts[i].get<double>() : 0;
  }
  for (size_t i = 0; i < bins.size(); ++i) bins[i].first = i < 2 ? format("%zu", i) : format("2^%zu", i - 1);
  const std::string plot = histogram_plot(bins, "distance in representable numbers");
  return plot.empty() ? "" : "<h3>Logits, in representable float32 numbers apart</h3>" + plot;
}

std::string sights(const Json& evidence) {
  if (!evidence.contains("sees") || !evidence["sees"].is_object()) return "";
  std::string out = "<h3>What this baseline can see</h3><ul>";
  for (const auto& [kind, sight] : evidence["sees"].items()) {
    out += "<li>faults of the " + html_escaped(kind) + ": " +
           (truth(sight, "sees") ? "<span class=\"yes\">seen</span>, " : "<span class=\"maybe\">not seen</span>, ") +
           html_escaped(text_of(sight, "why"));
  }
  return out + "</ul>";
}

std::string model_section(const Json& evidence) {
  const Json& prompts = list(evidence, "prompts");
  if (prompts.empty()) return "";
  std::string out = "<p>Baseline: " + html_escaped(text_of(evidence, "baseline")) + "</p>" + prompt_table(prompts);
  std::vector<PlotMark> marks;
  for (const Json& horizon : list(evidence, "horizons")) {
    if (!truth(horizon, "passed")) continue;
    const double at = number(horizon, "length");
    const std::string name = text_of(horizon, "what");
    const auto same = std::find_if(marks.begin(), marks.end(), [&](const PlotMark& mark) { return mark.x == at; });
    same == marks.end() ? marks.push_back({at, name}) : void(same->name += ", " + name);
  }
  const Json& left_out = list(evidence, "left_out");
  if (!left_out.empty()) {
    out += "<p class=\"maybe\">Left out:</p><ul>";
    for (const Json& one : left_out)
      out += "<li>" + html_escaped(one.is_string() ? one.get<std::string>() : dump_json(one));
    out += "</ul>";
  }
  for (const Json& prompt : prompts) {
    if (list(prompt, "row_list").size() > 24) out += prompt_plots(prompt, marks);
  }
  return out + ulp_histogram(prompts) + sights(evidence);
}

std::string performance_section(const Json& evidence) {
  const Json& points = list(evidence, "points");
  std::string out = "<p>Judged by: " + html_escaped(text_of(evidence, "judged_by")) + ".";
  if (evidence.contains("roof")) {
    const Json& roof = evidence["roof"];
    out += format(
        " This machine, in the same rounds: reading %.1f GB/s; float32 %.2f, bfloat16 %.2f Tflop/s; int8 %.2f Top/s.",
        number(roof, "read_gbps"), number(roof, "f32_tflops"), number(roof, "bf16_tflops"), number(roof, "int8_tops"));
  }
  out += "</p>";
  std::vector<PlotBar> bars;
  std::string table =
      "<div class=\"scroll\"><table><tr><th>point<th>measured<th class=\"n\">found<th class=\"n\">wanted<th "
      "class=\"n\">share of the roof<th>bound<th>verdict";
  for (const Json& point : points) {
    const std::string name = format("prompt %.0f, depth %.0f, batch %.0f", number(point, "prompt"),
                                    number(point, "depth"), number(point, "batch"));
    for (const Json& figure : list(point, "figures")) {
      const bool judged = truth(figure, "judged");
      const double share = number(figure, "share"), wanted = number(figure, "wanted_share");
      const std::string what = text_of(figure, "what");
      table +=
          "<tr><td class=\"k\">" + name + "<td>" + html_escaped(what) + cell(format("%.4g", number(figure, "found")));
      table += figure.contains("wanted") && figure["wanted"].is_number()
                   ? cell(format("%.4g", number(figure, "wanted")))
               : wanted > 0 ? cell(format("%.0f %%", 100 * wanted))
                            : "<td>";
      table += figure.contains("share") ? cell(format("%.1f %%", 100 * share)) : "<td>";
      table += "<td>" + html_escaped(text_of(figure, "bound")) + "<td class=\"w\">" +
               (judged ? verdict(truth(figure, "passed"))
                       : "<span class=\"dim\">not judged: " +
                             html_escaped(figure.contains("why") ? text_of(figure, "why") : "no target") + "</span>");
      if (!figure.contains("share") || what == "ttft_s") continue;
      bars.push_back({.name = name + ": " + (what == "prompt_tps" ? "prompt" : "decode"),
                      .value = share,
                      .wanted = judged ? wanted : 0,
                      .text = format("%.4g tokens/s, %.0f %% of the roof", number(figure, "found"), 100 * share),
                      .good = truth(figure, "passed")});
    }
  }
  return out + bar_plot(bars, 1, "share of the roof") + table + "</table></div>";
}

std::string intake_section(const Json& evidence) {
  std::string out = "<p>" + html_escaped(text_of(evidence, "architecture")) + " by <code>" +
                    html_escaped(text_of(evidence, "spec")) + "</code>, " +
                    format("%.1f MB of tensors", number(evidence, "tensor_bytes") / 1e6);
  const std::string quantisation = text_of(evidence, "quantisation");
  if (!quantisation.empty()) out += ", " + html_escaped(quantisation);
  out += ".</p>";
  for (const Json& warning : list(evidence, "warnings"))
    out += "<p class=\"maybe\">" + html_escaped(warning.is_string() ? warning.get<std::string>() : dump_json(warning)) +
           "</p>";
  return out;
}

std::string section(const Gate& gate, const Json& evidence) {
  if (gate.level == "intake") return intake_section(evidence);
  if (gate.level == "operator") return operator_section(evidence);
  if (gate.level == "layer") return layer_section(evidence);
  if (gate.level == "model") return model_section(evidence);
  if (gate.level == "performance" && evidence.contains("points")) return performance_section(evidence);
  return "";
}

std::string gate_list(const AdaptResult& result) {
  std::string out = "<ol class=\"gates\">";
  for (const Gate& gate : result.gates) {
    out += "<li><a href=\"#" + html_escaped(gate.level) + "\">" + html_escaped(gate.level) + "</a>" +
           verdict(gate.passed) + "<span class=\"s\">" + format("%.2f s", gate.seconds) + "</span><span class=\"t\">" +
           html_escaped(gate.summary) + "</span></li>";
  }
  return out + "</ol>";
}

}  // namespace

std::string report_html(const std::string& model_path, const AdaptResult& result, const std::string& answer) {
  double total = 0;
  for (const Gate& gate : result.gates) total += gate.seconds;
  const auto closed =
      std::find_if(result.gates.begin(), result.gates.end(), [](const Gate& gate) { return !gate.passed; });
  std::string out =
      "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width,initial-scale=1\"><title>Firstlight: " +
      html_escaped(model_path) + "</title><style>" + std::string(kStyle) + "</style><h1>" + html_escaped(model_path) +
      "</h1><p class=\"verdict " + (result.passed ? "yes\">All gates are open." : "no\">A gate is closed.");
  if (closed != result.gates.end()) out += " " + html_escaped(closed->level) + ": " + html_escaped(closed->summary);
  out += "</p>" + gate_list(result) + format("<p class=\"dim\">%.1f s in all.</p>", total);
  if (!answer.empty()) out += "<h2>Answer</h2><pre>" + html_escaped(answer) + "</pre>";
  for (const Gate& gate : result.gates) {
    const auto evidence = parse_json(gate.evidence);
    out += "<h2 id=\"" + html_escaped(gate.level) + "\">" + html_escaped(gate.level) + "</h2><p>" +
           verdict(gate.passed) + " <span class=\"dim\">" + html_escaped(gate.summary) + "</span></p>";
    if (evidence.ok()) out += section(gate, *evidence);
    out += "<details><summary>evidence</summary><pre>" +
           html_escaped(evidence.ok() ? dump_json(*evidence, 1) : gate.evidence) + "</pre></details>";
  }
  return out + "</html>\n";
}

}  // namespace firstlight::gates
