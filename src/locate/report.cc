// SPDX-License-Identifier: Apache-2.0
// What locate found, as JSON, as text, and as a folder that reproduces it.
#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "base/file_map.h"
#include "base/json.h"
#include "locate/locate.h"

namespace firstlight::locate {
namespace {

std::string short_number(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.2e", value);
  return text;
}

Json finding_json(const Finding& finding) {
  Json json = {{"side", finding.of_backend ? "backend" : "model"},
               {"operator", finding.op},
               {"scope", finding.scope},
               {"layer", finding.layer},
               {"layers", finding.layers},
               {"value", finding.value},
               {"own_error", finding.error},
               {"allowed", finding.allowed},
               {"cause", cause_text(finding.cause)},
               {"hypothesis", finding.what},
               {"guess", finding.is_guess},
               {"error_healed", finding.healed},
               {"tried", finding.hypotheses},
               {"fix", finding.fix},
               {"made_at", finding.made_at},
               {"concerns", finding.concerns}};
  if (finding.of_backend) {
    json["kernel"] = finding.kernel;
    json["shape"] = finding.shape;
  }
  if (finding.of_layer) json["of_layer"] = true;
  return json;
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

std::string layers_text(const Finding& finding) {
  if (finding.layers.size() <= 1) return finding.layer;
  return finding.layer + " and " + std::to_string(finding.layers.size() - 1) + " more";
}

}  // namespace

Json location_json(const Location& location) {
  Json findings = Json::array();
  for (const Finding& finding : location.findings) findings.push_back(finding_json(finding));
  Json json = {{"passed", location.passed}, {"healed", location.healed}};
  if (!location.findings.empty()) {
    const Finding& first = location.findings[0];
    json["operator"] = first.op;
    json["layer"] = first.layer;
    json["cause"] = cause_text(first.cause);
  } else {
    for (const char* key : {"operator", "layer", "cause"}) json[key] = nullptr;
  }
  json["findings"] = std::move(findings);
  json["notes"] = location.notes;
  return json;
}

std::string location_text(const Location& location) {
  if (location.passed && location.findings.empty()) return "nothing is wrong: every value agrees with the baseline\n";
  std::string text;
  for (size_t i = 0; i < location.findings.size(); ++i) {
    const Finding& finding = location.findings[i];
    text += std::to_string(i + 1) + ". " + finding.op + " in " +
            (finding.scope.empty() ? finding.layer : finding.scope) + " (" + layers_text(finding) + ")" +
            (finding.of_backend ? ", of the backend" : "") + "\n";
    text += "   seen at     " + finding.value + ", own error " + short_number(finding.error) + ", allowed " +
            short_number(finding.allowed) + "\n";
    text += "   cause       " + std::string(cause_text(finding.cause)) +
            (finding.is_guess ? " (a guess: no hypothesis heals it)" : "") + "\n";
    if (!finding.what.empty()) {
      text += "   hypothesis  " + finding.what + ": error " + short_number(finding.healed) + " (" +
              std::to_string(finding.hypotheses) + " tried)\n";
    }
    if (!finding.concerns.empty()) text += "   concerns    " + joined(finding.concerns) + "\n";
    if (!finding.made_at.empty()) text += "   made at     " + finding.made_at + "\n";
    text += "   fix         " + finding.fix + "\n";
  }
  const bool of_model = std::any_of(location.findings.begin(), location.findings.end(),
                                    [](const Finding& finding) { return !finding.of_backend; });
  if (of_model && location.healed) text += "With these changes all values agree.\n";
  for (const std::string& note : location.notes) text += "note: " + note + "\n";
  return text;
}

Status write_finding(const Finding& finding, const std::string& command, const std::string& model,
                     const formats::Checkpoint* checkpoint, const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  std::string line = command;
  if (finding.reproduction) {
    const bool whole = FL_TRY(write_reproduction(*finding.reproduction, finding_json(finding), checkpoint, directory));
    if (!whole) line += " --model " + model;
  }
  std::string readme = finding.op + " in " + finding.scope + ": " + finding.what + "\n\nSeen at " + finding.value +
                       ", own error " + short_number(finding.error) + "; " + std::string(cause_text(finding.cause)) +
                       ".\nFix: " + finding.fix + "\n\n    " + line + "\n";
  if (finding.reproduction) {
    readme +=
        "\nruns graph.txt, the operators between values that are right, on the rows in model.safetensors, and holds "
        "the result\nagainst expected: exit status 1 as long as the fault is there.\n";
  }
  return write_file(directory + "/README.txt", readme);
}

}  // namespace firstlight::locate
