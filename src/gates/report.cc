// SPDX-License-Identifier: Apache-2.0
// The report of an adaptation: JSON for machines, one HTML page for people.
#include <filesystem>

#include "base/file_map.h"
#include "base/json.h"
#include "gates/gates.h"

namespace firstlight::gates {
namespace {

namespace fs = std::filesystem;

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

constexpr std::string_view kStyle =
    "body{font:15px/1.5 sans-serif;max-width:60em;margin:2em auto;padding:0 "
    "1em}table{border-collapse:collapse;width:100%}"
    "td,th{border-bottom:1px solid #ccc;padding:.4em;text-align:left;vertical-align:top}.yes{color:#060}.no{color:#a00}"
    "pre{background:#f4f4f4;padding:.6em;overflow:auto}.bar{background:#48c;height:.8em}";

std::string html(const std::string& model_path, const AdaptResult& result, const std::string& answer) {
  double total = 0;
  for (const Gate& gate : result.gates) total += gate.seconds;
  std::string out =
      "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Firstlight: " + escaped(model_path) +
      "</title><style>" + std::string(kStyle) + "</style><h1>" + escaped(model_path) + "</h1><p class=\"" +
      (result.passed ? "yes\">All gates are open." : "no\">A gate is closed.") + "</p>";
  out += "<table><tr><th>gate<th>verdict<th>seconds<th>share<th>what it found";
  for (const Gate& gate : result.gates) {
    const int share = total > 0 ? static_cast<int>(100 * gate.seconds / total) : 0;
    char seconds[32];
    std::snprintf(seconds, sizeof(seconds), "%.3f", gate.seconds);
    out += "<tr><td>" + escaped(gate.level) + "<td class=\"" + (gate.passed ? "yes\">passed" : "no\">failed") + "<td>" +
           seconds + "<td style=\"width:8em\"><div class=\"bar\" style=\"width:" + std::to_string(share) +
           "%\"></div><td>" + escaped(gate.summary);
  }
  out += "</table>";
  if (!answer.empty()) out += "<h2>Answer</h2><pre>" + escaped(answer) + "</pre>";
  for (const Gate& gate : result.gates) {
    const auto evidence = parse_json(gate.evidence);
    out += "<details><summary>evidence: " + escaped(gate.level) + "</summary><pre>" +
           escaped(evidence.ok() ? dump_json(*evidence, 2) : gate.evidence) + "</pre></details>";
  }
  return out + "</html>\n";
}

}  // namespace

Json report_json(const AdaptResult& result, const std::string& report_path, const std::string& answer) {
  Json gates = Json::array();
  for (const Gate& gate : result.gates) {
    auto evidence = parse_json(gate.evidence);
    gates.push_back({{"level", gate.level},
                     {"passed", gate.passed},
                     {"seconds", gate.seconds},
                     {"summary", gate.summary},
                     {"evidence", evidence.ok() ? std::move(*evidence) : Json(gate.evidence)}});
  }
  return {{"passed", result.passed},
          {"gates", std::move(gates)},
          {"report", report_path.empty() ? Json() : Json(report_path)},
          {"answer", answer}};
}

Result<std::string> write_report(const std::string& directory, const std::string& model_path, const AdaptResult& result,
                                 const std::string& answer) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) return invalid_argument(directory + ": cannot make the directory: " + error.message());
  const std::string page = directory + "/report.html";
  for (const Gate& gate : result.gates)
    FL_TRY(write_file(directory + "/" + gate.level + ".json", gate.evidence + "\n"));
  FL_TRY(write_file(directory + "/report.json", dump_json(report_json(result, page, answer), 2) + "\n"));
  FL_TRY(write_file(page, html(model_path, result, answer)));
  return page;
}

}  // namespace firstlight::gates
