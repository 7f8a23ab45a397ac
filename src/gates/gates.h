// SPDX-License-Identifier: Apache-2.0
// The main job as a row of gates: intake, coverage, plan, load, then the levels: operator, layer, model, performance.
// Each opens only when the one before has passed, and leaves its evidence. The answer in the end is the caller's (it
// has the engine and the text).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "adapt/bring_up.h"
#include "base/json_fwd.h"
#include "gates/golden.h"

namespace firstlight::gates {

// The gates of a loaded model, in their order.
enum class Level : uint8_t { kOperator, kLayer, kModel, kPerformance };

std::string_view level_name(Level level);                     // "operator", "layer", "model", "performance"
std::optional<Level> level_from_name(std::string_view name);  // those, "op" and "perf"
// The levels that this build has a gate for.
std::set<Level> all_levels();

struct Gate {
  std::string level;  // "intake", "coverage", "plan", "load", a level's name, "answer"
  bool passed = false;
  double seconds = 0;
  std::string summary;   // one line for people
  std::string evidence;  // JSON
};

struct GateOptions {
  adapt::BringUpOptions bring_up;
  std::set<Level> levels = all_levels();  // those that are run behind "load"
  std::string baseline;                   // a golden pack, compared with beside what the reference backend makes
  std::string targets;                    // a file with the performance wanted; empty: a share of the measured roof
  int64_t golden_continuation = 8;
  double reference_seconds = 60;  // of the reference for a long prompt; what needs more is left out, and said
  std::function<void(const Gate& gate)> gate_done;  // as soon as each gate's verdict is there
};

struct AdaptResult {
  bool passed = false;
  std::vector<Gate> gates;
  std::unique_ptr<adapt::LoadedModel> loaded;  // when the load gate was passed
  adapt::TextAssets text;                      // with it
  Golden golden;                               // when the model gate was reached
};

// A gate that fails ends the row: `passed` is false, and the gate says why. Errors: only faults of our own.
Result<AdaptResult> run_gates(const std::string& path, const GateOptions& options);

// The report: `report.json`, `report.html` and one JSON file of evidence per gate, in `directory` (made if absent).
// Returns the path of report.html.
Result<std::string> write_report(const std::string& directory, const std::string& model_path, const AdaptResult& result,
                                 const std::string& answer);

// {"passed", "gates": […], "report", "answer"}.
Json report_json(const AdaptResult& result, const std::string& report_path, const std::string& answer);

}  // namespace firstlight::gates
