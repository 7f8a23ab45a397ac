// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <chrono>

#include "compiler/compile.h"
#include "compiler/lower.h"
#include "compiler/passes/passes.h"
#include "ir/verify.h"

namespace firstlight::compiler {
namespace {

struct Pass {
  PassInfo info;
  Status (*run)(ir::Graph& graph, const CompileOptions& options);
};

constexpr std::array kPasses = {
    Pass{{"select_output_rows", "logits for the wanted rows only", false}, select_output_rows},
    Pass{{"evict_rows", "full attention over the first and the last tokens, where asked for", false}, evict_rows},
    Pass{{"hoist_weight_nodes", "what depends on weights alone goes in front", false}, hoist_weight_nodes},
    Pass{{"infer_shapes", "types anew from the operators' rules", false}, infer_shapes},
    Pass{{"fold_constants", "what changes nothing or is constant is not computed", true}, fold_constants},
    Pass{{"merge_duplicates", "what is written twice is computed once", true}, merge_duplicates},
    Pass{{"select_composites", "primitives that make up a norm, softmax or rope become it", true}, select_composites},
    Pass{{"fold_weights", "formulas on weights and constant factors move to load", true}, fold_weights},
    Pass{{"remove_dead_code", "what no output needs goes", true}, remove_dead_code},
    Pass{{"decode_small_weights", "norm weights and biases as float32", true}, decode_small_weights},
    Pass{{"narrow_to_outputs", "the row selection moves up", true}, narrow_to_outputs},
    Pass{{"split_products", "products that are read in slices become one per slice", true}, split_products},
    Pass{{"fuse_routers", "routers of experts become one step", true, ops::OpKind::kRoute}, fuse_routers},
    Pass{{"fuse_rope_appends", "norms of heads, ropes and append become one step", true, ops::OpKind::kRopeAppend},
         fuse_rope_appends},
    Pass{{"fuse_maps", "chains of element-wise formulas become one", true}, fuse_maps},
    Pass{{"widen_linears", "matrix products in the form that fusion works on", true}, widen_linears},
    Pass{{"fuse_epilogues", "formulas behind matrix products become theirs", true}, fuse_epilogues},
    Pass{{"merge_sibling_linears", "matrix products of one input become one step", true}, merge_sibling_linears},
    Pass{{"fuse_norms", "matrix products normalise their own input", true}, fuse_norms},
    Pass{{"raise_reshapes", "reshapes move above the formulas they read", true}, raise_reshapes},
    Pass{{"fuse_rows", "reductions along rows take in the formulas around them", true, ops::OpKind::kFusedRows},
         fuse_rows},
    Pass{{"pack_weights", "the layout of weights: laid out for the kernels, at load", true}, pack_weights},
};

constexpr std::string_view kEveryOptional = "all";

bool is_known(std::string_view name) {
  for (const Pass& pass : kPasses) {
    if (pass.info.name == name) return true;
  }
  return false;
}

bool may_run(const PassInfo& pass, catalog::Backend backend) {
  return backend != catalog::Backend::kReference &&
         (!pass.makes.has_value() || catalog::has_kernel(backend, *pass.makes));
}

Status unknown_pass(std::string_view name) {
  std::string known(kEveryOptional);
  for (const Pass& pass : kPasses) known += ", " + std::string(pass.info.name);
  return invalid_argument("no pass is called '" + std::string(name) + "'; there are " + known);
}

}  // namespace

Status check_pass_names(const CompileOptions& options) {
  for (const std::string& name : options.disabled_passes) {
    if (!is_known(name) && name != kEveryOptional) return unknown_pass(name);
  }
  return ok_status();
}

std::vector<PassInfo> all_passes() {
  std::vector<PassInfo> infos;
  for (const Pass& pass : kPasses) infos.push_back(pass.info);
  return infos;
}

Status run_passes(ir::Graph& graph, const CompileOptions& options, std::string_view stop_after,
                  std::vector<PassRecord>* records) {
  FL_TRY(check_pass_names(options));
  if (!stop_after.empty() && !is_known(stop_after)) {
    return unknown_pass(stop_after);
  }
  for (const Pass& pass : kPasses) {
    PassRecord record{.name = std::string(pass.info.name)};
    record.ran = !pass.info.optional ||
                 (may_run(pass.info, options.backend) && !options.disabled_passes.contains(kEveryOptional) &&
                  !options.disabled_passes.contains(pass.info.name));
    const auto start = std::chrono::steady_clock::now();
    if (record.ran) {
      FL_TRY(pass.run(graph, options).with_context("pass " + record.name));
      FL_TRY(ir::verify(graph).with_context("after pass " + record.name));
    }
    record.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    record.nodes_after = graph.nodes.size();
    if (records != nullptr) records->push_back(record);
    if (pass.info.name == stop_after) break;
  }
  return ok_status();
}

Result<plan::Plan> compile(ir::Graph graph, const CompileOptions& options, std::vector<PassRecord>* records) {
  if (options.buckets.empty()) return invalid_argument("a plan needs at least one bucket");
  for (const BucketSize& size : options.buckets) {
    if (size.max_tokens < 1 || size.max_outputs < 0) {
      return invalid_argument("a bucket of " + std::to_string(size.max_tokens) + " tokens and " +
                              std::to_string(size.max_outputs) + " outputs, at least 1 and 0 wanted");
    }
  }
  FL_TRY(run_passes(graph, options, "", records));
  return lower(graph, options);
}

}  // namespace firstlight::compiler
