// SPDX-License-Identifier: Apache-2.0
// How a checkpoint's weights are quantised, resolved by the checkpoint's own names before any renaming: the method, its
// parameters, and the modules that are left alone. Which formats exist here: FP8 with block scales ("weight_scale_inv")
// and MXFP4 ("_blocks" and "_scales"); anything else is refused by name.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "intake/tensor_table.h"
#include "intake/trace_record.h"

namespace firstlight::intake {

struct ConfigNode;

struct Quantisation {
  enum class Method : uint8_t { kNone, kFp8Block, kMxfp4 };
  Method method = Method::kNone;
  std::vector<int64_t> block;                      // kFp8Block: rows, columns
  std::set<std::string, std::less<>> unconverted;  // entries of the ignore list without `*`
  std::vector<std::string> unconverted_patterns;   // and those with one
  int num_unconverted_modules = -1;   // modules of the checkpoint that those entries match; -1: no list of tensors
  std::vector<std::string> warnings;  // entries that match nothing
  std::string description;            // "fp8 e4m3, blocks of 128 x 128"

  // The entries of the ignore list that name the module ("model.layers.0.mlp.gate"), a parent of it, or match either.
  std::vector<std::string> entries_for(std::string_view module) const;
  // What the ignore list amounts to: the number of modules it matches, or, without a list of tensors, its entries.
  std::string summary() const;
  bool is_unconverted(std::string_view module) const { return !entries_for(module).empty(); }
};

// Reads config.quantization_config (null or absent: none) and records the keys it used. Errors: kUnsupported (a method
// or variant nothing here decodes), kInvalidData.
Result<Quantisation> resolve_quantisation(const ConfigNode& config, const TensorTable& tensors, ConfigRecord& record);

}  // namespace firstlight::intake
