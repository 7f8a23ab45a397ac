// SPDX-License-Identifier: Apache-2.0
// How far each weight's storage in fewer bits moves the model's output: unit by unit (a module of a layer, the experts
// of one kind together), one unit changed at a time, by runs of the model on calibration tokens. Where that would be
// too many runs, a unit's roughest format is run and the finer ones follow from their rounding errors, which says so
// (docs/mixed_precision.md).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "gates/variant_runner.h"

namespace firstlight::gates {

enum class Granularity : uint8_t { kModule, kBlock, kLayer };  // q_proj of layer 3; self_attn of layer 3; layer 3
const char* granularity_name(Granularity granularity);

// One unit in one format.
struct UnitFormat {
  adapt::QuantChoice choice;
  std::string obstacle;       // why no weight of the unit can be stored so; "" where one can
  int64_t bytes = 0;          // of the unit's weights
  double relative_error = 0;  // |q - w| / |w|, root mean square over the unit's weights by elements
  double kl = 0;              // of the whole model's logits
  bool measured = false;      // by a run; else from the unit's measured format by the square of the errors
  Effect effect;              // of a measured one
};

struct Unit {
  std::string name;   // a name or glob that names its modules: "model.layers.3.mlp.experts.*.up_proj"
  std::string layer;  // "model.layers.3"; "" of what stands in none
  std::string kind;   // the name behind the layer: "mlp.experts.*.up_proj"
  std::vector<std::string> tensors;
  int64_t elements = 0;
  int64_t bytes = 0;  // as they are
  std::vector<UnitFormat> formats;
  std::optional<double> w8a8_kl;  // int8 weights, their products in the compute mode w8a8: activations in int8 too

  const UnitFormat* roughest() const;  // the measured format of the largest effect; null: none is possible
};

struct Whole {
  adapt::QuantChoice choice;  // every weight that can be
  Variant variant;
};

struct SensitivityOptions {
  std::vector<adapt::QuantChoice> choices;
  int64_t max_runs = 240;                                     // for units; the finest granularity that fits is taken
  bool activations = false;                                   // a run more per unit, with int8 activations
  std::optional<Granularity> granularity;                     // wanted whatever it takes
  std::function<void(int64_t done, int64_t total)> progress;  // in runs
};

struct Sensitivity {
  Granularity granularity = Granularity::kModule;
  int64_t formats_run = 0;    // per unit
  std::vector<Unit> units;    // most sensitive first: by the effect of the roughest format per byte that it saves
  std::vector<Whole> wholes;  // each choice for all weights
  std::vector<std::pair<std::string, Variant>> computed;  // as it is in bf16; all weights int8 in w8a8
};

// Units alone, in the checkpoint's order: names, sizes and what can be stored how, without rounding or running.
Result<std::vector<Unit>> list_units(const adapt::QuantPlanner& planner, const std::vector<adapt::QuantChoice>& choices,
                                     Granularity granularity);

// Errors: those of the runs; kInvalidArgument where nothing can be stored in any of the choices.
Result<Sensitivity> measure_sensitivity(const adapt::QuantPlanner& planner, VariantRunner& runner,
                                        const SensitivityOptions& options);

}  // namespace firstlight::gates
