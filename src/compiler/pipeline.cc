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
    Pass{{"hoist_weight_nodes", "what depends on weights alone goes in front", false}, hoist_weight_nodes},
    Pass{{"decode_small_weights", "norm weights and biases as float32", true}, decode_small_weights},
    Pass{{"narrow_to_outputs", "the row selection moves up", true}, narrow_to_outputs},
    Pass{{"fuse_maps", "chains of element-wise formulas become one", true}, fuse_maps},
    Pass{{"widen_linears", "matrix products in the form that fusion works on", true}, widen_linears},
    Pass{{"fuse_epilogues", "formulas behind matrix products become theirs", true}, fuse_epilogues},
    Pass{{"merge_sibling_linears", "matrix products of one input become one step", true}, merge_sibling_linears},
    Pass{{"fuse_norms", "matrix products normalise their own input", true}, fuse_norms},
    Pass{{"pack_weights", "weights laid out for the kernels, at load", true}, pack_weights},
};

bool is_known(std::string_view name) {
  for (const Pass& pass : kPasses) {
    if (pass.info.name == name) return true;
  }
  return false;
}

Status unknown_pass(std::string_view name) {
  std::string known;
  for (const Pass& pass : kPasses) known += (known.empty() ? "" : ", ") + std::string(pass.info.name);
  return invalid_argument("no pass is called '" + std::string(name) + "'; there are " + known);
}

}  // namespace

Status check_pass_names(const CompileOptions& options) {
  for (const std::string& name : options.disabled_passes) {
    if (!is_known(name)) return unknown_pass(name);
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
                 (options.backend != catalog::Backend::kReference && !options.disabled_passes.contains(pass.info.name));
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
