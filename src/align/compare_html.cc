// SPDX-License-Identifier: Apache-2.0
// A comparison as one HTML page: plots are drawn as SVG here, so that the page needs nothing else.
#include <algorithm>
#include <cmath>

#include "align/compare.h"
#include "align/page.h"

namespace firstlight::align {
namespace {

using namespace page;

std::string depth_plot(const Comparison& comparison) {
  std::vector<double> found, beyond, allowed;
  bool three = false;
  double most = kLowest, least = 1;
  for (const ValueComparison& value : comparison.values) {
    if (value.info.is_integer) continue;
    found.push_back(value.found.rel_l2);
    allowed.push_back(value.allowed);
    beyond.push_back(value.beyond ? value.beyond->rel_l2 : 0);
    three = three || value.rounding.has_value();
    most = std::max({most, found.back(), allowed.back()});
    for (const double size : {found.back(), beyond.back()}) least = size > 0 ? std::min(least, size) : least;
  }
  if (found.empty()) return "";
  const Axes axes{.low = std::floor(std::log10(std::max(least, kLowest))),
                  .high = std::ceil(std::log10(std::isfinite(most) ? most : 10)),
                  .count = found.size()};
  std::string out =
      format("<svg viewBox=\"0 0 %.0f %.0f\" role=\"img\" aria-label=\"relative error over depth\">", kWidth, kHeight);
  out += grid(axes) + polyline(axes, allowed, "stroke=\"#b55\" stroke-dasharray=\"5 4\"");
  if (three) out += polyline(axes, beyond, "stroke=\"#3a3\"");
  out += polyline(axes, found, "stroke=\"#26c\" stroke-width=\"1.5\"");
  size_t i = 0;
  for (const ValueComparison& value : comparison.values) {
    if (value.info.is_integer) continue;
    const char* colour = value.passed ? "#26c" : "#a00";
    if (value.info.is_layer_output || !value.passed) {
      out += format("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"><title>", axes.x(i),
                    axes.y(value.found.rel_l2), colour);
      out += escaped(value.info.name) + format(": %.3e</title></circle>", value.found.rel_l2);
    }
    ++i;
  }
  out += format("<text x=\"%.0f\" y=\"%.0f\">values in the order they are computed; dots: layers</text></svg>", kLeft,
                kHeight - 8);
  return out;
}

std::string ulp_plot(const Distance& distance) {
  int64_t most = 1, all = 0;
  for (const int64_t count : distance.ulps) {
    most = std::max(most, count);
    all += count;
  }
  if (all == 0) return "";
  constexpr double kBarWidth = 34, kTall = 160;
  std::string out =
      format("<svg viewBox=\"0 0 %.0f 200\" role=\"img\" aria-label=\"distance in units of the last place\">", kWidth);
  for (size_t b = 0; b < kUlpBins; ++b) {
    const double height = kTall * static_cast<double>(distance.ulps[b]) / static_cast<double>(most);
    const double x = 20 + kBarWidth * static_cast<double>(b);
    out += format("<rect x=\"%.0f\" y=\"%.1f\" width=\"%.0f\" height=\"%.1f\" fill=\"#48c\"/>", x, kTall + 10 - height,
                  kBarWidth - 4, height);
    out += b < 2 ? format("<text x=\"%.0f\" y=\"186\">%zu</text>", x + 10, b)
                 : format("<text x=\"%.0f\" y=\"186\">2^%zu</text>", x + 4, b - 1);
  }
  return out + "</svg>";
}

std::string table(const Comparison& comparison) {
  const bool three = comparison.values.back().rounding.has_value();
  std::string out =
      "<div class=\"scroll\"><table><tr><th>value<th>operator<th class=\"n\">relative L2<th class=\"n\">allowed" +
      std::string(three ? "<th class=\"n\">honest rounding<th class=\"n\">beyond it" : "") +
      "<th class=\"n\">max abs<th class=\"n\">cosine<th class=\"n\">worst row<th>verdict";
  for (const ValueComparison& value : comparison.values) {
    const Distance& found = value.found;
    const auto main = [&](const Distance& d) { return value.info.is_integer ? d.mismatch : d.rel_l2; };
    out += "<tr><td>" +
           (value.info.is_layer_output ? "<b>" + escaped(value.info.name) + "</b>" : escaped(value.info.name));
    out += "<td>" + escaped(value.info.op);
    out += format("<td class=\"n\">%.3e<td class=\"n\">%.3e", main(found), value.allowed);
    for (const auto* other : {&value.rounding, &value.beyond}) {
      if (three) out += *other ? format("<td class=\"n\">%.3e", main(**other)) : "<td>";
    }
    out += format("<td class=\"n\">%.3e<td class=\"n\">%.9f<td class=\"n\">%lld", found.max_abs, found.cosine,
                  static_cast<long long>(found.worst_row_id));
    out += !value.passed      ? "<td class=\"no\">wrong"
           : main(found) == 0 ? "<td class=\"yes\">equal"
                              : "<td class=\"yes\">rounding";
  }
  return out + "</table></div>";
}

std::string origin_text(const Pack& pack) {
  std::string out = escaped(pack.model);
  for (const auto& [key, text] : pack.origin) out += ", " + escaped(key) + " " + escaped(text);
  return out;
}

}  // namespace

std::string comparison_html(const Comparison& comparison, const Pack& baseline, const Pack& tested) {
  const LogitsComparison& logits = comparison.logits;
  std::string out =
      "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Firstlight: " + escaped(tested.model) +
      " compared</title><style>" + std::string(kStyle) + "</style><h1>" + escaped(tested.model) + "</h1>";
  if (comparison.first_wrong < 0) {
    out += "<p class=\"yes\">Within what rounding explains.</p>";
  } else {
    out += "<p class=\"no\">First wrong: " +
           escaped(comparison.values[static_cast<size_t>(comparison.first_wrong)].info.name) + "</p>";
  }
  out +=
      "<p>Baseline: " + origin_text(baseline) + "<br>Tested: " + origin_text(tested) + "</p><h2>Error over depth</h2>";
  out += depth_plot(comparison) +
         format(
             "<p>Blue: relative L2 distance. Dashed: what is allowed. Green: the distance from the reference "
             "with rounded operands, where there is one. Over the layers it grows by %.3f per layer.</p>",
             comparison.growth_per_layer);
  out += format(
      "<h2>Logits</h2><p>Best token equal in %.1f&nbsp;%% of %lld rows, best five in %.1f&nbsp;%%. KL "
      "divergence at least %.3e; %.3e in the worst of %lld whole rows. Greedy tokens %s.</p>",
      100 * logits.top1, static_cast<long long>(logits.rows), 100 * logits.top5, logits.kl_bound, logits.kl_worst,
      static_cast<long long>(logits.kl_rows), logits.greedy_equal ? "equal" : "differ");
  for (const ValueComparison& value : comparison.values) {
    if (value.info.name == "logits")
      out += "<p>Logits of whole rows, in representable numbers apart:</p>" + ulp_plot(value.found);
  }
  out += "<h2>What this baseline can see</h2><ul>";
  for (const auto& [kind, sight] : comparison.sights) {
    out += "<li>" + escaped(kind) + (sight.sees ? ": <span class=\"yes\">seen</span>, " : ": not seen, ") +
           escaped(sight.why);
  }
  return out + "</ul><h2>Values</h2>" + table(comparison) + "</html>\n";
}

}  // namespace firstlight::align
