// SPDX-License-Identifier: Apache-2.0
// The report of an adaptation: JSON for machines, one HTML page for people.
#include <filesystem>

#include "base/file_map.h"
#include "base/json.h"
#include "gates/gates.h"
#include "gates/report_html.h"

namespace firstlight::gates {
namespace {

namespace fs = std::filesystem;

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
  FL_TRY(write_file(page, report_html(model_path, result, answer)));
  return page;
}

}  // namespace firstlight::gates
