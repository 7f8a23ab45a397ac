// SPDX-License-Identifier: Apache-2.0
// The dialects of quantisation configs, one function each, behind read_quantisation.
#pragma once

#include <string>

#include "base/status.h"
#include "intake/quantisation.h"

namespace firstlight::intake {

// Reads the object at `path` of the config (or of hf_quant_config.json). Fills method, groups, unconverted and what
// follows from them alone. Errors as resolve_quantisation.
Result<Quantisation> read_quantisation(const ConfigNode& node, const std::string& path, bool vendor_activations,
                                       ConfigRecord& record);

}  // namespace firstlight::intake
