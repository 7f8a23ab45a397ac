// SPDX-License-Identifier: Apache-2.0
// How a checkpoint's weights are quantised, resolved by the checkpoint's own names before any renaming: the schemes,
// the modules each is for, and those that are left alone. Known are fp8, fbgemm_fp8, mxfp4, compressed-tensors,
// modelopt (hf_quant_config.json included), gptq and awq; anything else is refused by name. Which parts a weight is
// stored in, and whether they agree with this, is for stored_weight.h.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "intake/name_pattern.h"
#include "intake/tensor_table.h"
#include "intake/trace_record.h"

namespace firstlight::intake {

struct ConfigNode;

// What a vendor's kernels do to the activations in front of a product. Applied only where it is asked for.
struct ActivationScheme {
  std::string format = {};  // e4m3, int8, e2m1; "": nothing
  int64_t block = 0;        // columns that share a computed scale, 0: the row
  std::string scale_format = "f32";
  bool is_static = false;        // the checkpoint holds one scale per module
  std::string unsupported = {};  // why it can not be applied; "" when it can
};

struct WeightScheme {
  enum class Kind : uint8_t { kFp8, kMxfp4, kNvfp4, kInt, kGptq, kAwq };
  enum class Sharing : uint8_t { kAny, kTensor, kChannel, kBlock };  // who shares a scale
  Kind kind = Kind::kFp8;
  int bits = 8;
  Sharing sharing = Sharing::kAny;
  std::vector<int64_t> block = {};  // kBlock: rows, columns
  bool symmetric = true;
  bool ordered = false;         // columns are in the order of a g_idx
  bool zero_minus_one = false;  // stored zeros are one less (GPTQ)
  ActivationScheme activations = {};

  std::string describe() const;  // "fp8 e4m3, blocks of 128 x 128"
};

struct Quantisation {
  struct Group {
    NameList targets;  // empty: all modules
    WeightScheme scheme;
  };
  std::string method;         // "": none
  std::vector<Group> groups;  // of two that name a module, the more exact one counts, then the first
  NameList unconverted;
  bool gpt_oss_blocks = false;        // mxfp4: "_blocks" and "_scales" in place of a weight
  int num_unconverted_modules = -1;   // modules of the checkpoint that those entries match; -1: no list of tensors
  std::vector<std::string> warnings;  // entries that match nothing
  std::string description;            // of all groups
  std::string cache_scales;           // why scales of a quantised cache are not used; "": there is no such thing
  bool vendor_activations = false;    // activations are rounded as the scheme says

  bool present() const { return !method.empty(); }
  // The scheme of a module ("model.layers.0.mlp.up_proj"); null when it is left alone or nothing names it.
  const WeightScheme* scheme_for(std::string_view module) const;
  // The entries of the ignore list that name the module, a parent of it, or match either.
  std::vector<std::string> entries_for(std::string_view module) const;
  bool is_unconverted(std::string_view module) const;
  // What the ignore list amounts to: the number of modules it matches, or, without a list of tensors, its entries.
  std::string summary() const;
};

struct QuantisationInput {
  const ConfigNode& config;
  const TensorTable& tensors;
  const ConfigNode* side_file = nullptr;  // hf_quant_config.json
  bool vendor_activations = false;
};

// Reads config.quantization_config (or text_config's; else the side file; else none) and records the keys it used and
// those it waives. Errors: kUnsupported (a method or variant nothing here decodes), kInvalidData.
Result<Quantisation> resolve_quantisation(const QuantisationInput& input, ConfigRecord& record);

}  // namespace firstlight::intake
