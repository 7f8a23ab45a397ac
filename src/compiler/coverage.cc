// SPDX-License-Identifier: Apache-2.0
#include "compiler/coverage.h"

#include <algorithm>

#include "compiler/codegen/cpu_source.h"
#include "compiler/kernel_request.h"
#include "compiler/weight_values.h"

namespace firstlight::compiler {
namespace {

bool is_control(ops::OpKind op) {
  return op == ops::OpKind::kPerExpert || op == ops::OpKind::kIf || op == ops::OpKind::kRepeat;
}

// Of a reshape nothing runs but on the reference backend.
bool is_free(const ir::Node& node, const CompileOptions& options) {
  return node.op == ops::OpKind::kReshape && options.backend != catalog::Backend::kReference;
}

// Whether a device's kernel is made for the step's formulas.
bool is_printed(const KernelRequest& request) {
  switch (request.op) {
    case ops::OpKind::kMap:
    case ops::OpKind::kImap:
    case ops::OpKind::kFusedRows:
      return true;
    case ops::OpKind::kFusedLinear:
      return !request.attributes.get_expressions("epilogue").empty();
    default:
      return false;
  }
}

void set_state(const KernelRequest& request, const CompileOptions& options, OperatorCoverage& entry) {
  const catalog::Signature signature = request.signature();
  const catalog::KernelRow* row =
      catalog::select_kernel(options.backend, options.features, signature,
                             options.plain_kernels ? catalog::KernelChoice::kPlainest : catalog::KernelChoice::kBest);
  if (row == nullptr) {
    entry.why = "no kernel of backend " + std::string(catalog::backend_name(options.backend)) + " takes (" +
                entry.types + ") in " + entry.mode;
    return;
  }
  entry.kernel = row->symbol;
  entry.state = CoverageState::kTuned;
  entry.why = options.plain_kernels ? "the plainest there is" : "written for this backend";
  if (options.backend == catalog::Backend::kReference) {
    entry.state = CoverageState::kComposed;
    entry.why = "the judge: plain bodies alone";
  } else if (catalog::is_device(options.backend)) {
    const bool printed = is_printed(request);
    entry.state = printed ? CoverageState::kGenerated : CoverageState::kTuned;
    entry.why = printed ? "printed in the device dialect for this signature" : "written in the device dialect";
  } else if (catalog::tier(*row) == catalog::Tier::kComposed) {
    const auto function = cpu_function(signature);
    const bool possible = options.backend == catalog::Backend::kCpu && options.generate;
    const bool generated = possible && function.ok();
    entry.state = generated ? CoverageState::kGenerated : CoverageState::kComposed;
    if (generated) {
      entry.why = "source for this signature; " + entry.kernel + " until it is built";
    } else if (!possible) {
      entry.why = "generated kernels are switched off";
    } else {
      entry.why = "not generated: " + function.status().message();
    }
    if (generated) entry.kernel = function->name;
  }
}

OperatorCoverage entry_of(const ir::Graph& graph, const ir::Node& node, const CompileOptions& options) {
  const KernelRequest request(graph, node, options);
  OperatorCoverage entry;
  entry.op = ops::op_name(node.op);
  entry.shape = request.results[0].is_state() ? "state" : tensor::shape_to_string(request.results[0].shape);
  entry.types = request.types_text();
  entry.dtype = tensor::dtype_name(request.stored);
  entry.mode = catalog::compute_mode_name(request.mode);
  set_state(request, options, entry);
  return entry;
}

void collect(const ir::Graph& graph, const ir::Region& region, const std::vector<bool>& weight_only,
             const CompileOptions& options, std::vector<OperatorCoverage>& list) {
  for (const ir::NodeId id : region.nodes) {
    const ir::Node& node = graph.node(id);
    for (const ir::Region& inner : node.regions) collect(graph, inner, weight_only, options, list);
    if (node.results.empty() || is_control(node.op) || is_free(node, options)) continue;
    if (weight_only[static_cast<size_t>(node.results[0])]) continue;
    OperatorCoverage entry = entry_of(graph, node, options);
    const auto known = std::find_if(list.begin(), list.end(), [&](const OperatorCoverage& other) {
      return other.op == entry.op && other.types == entry.types && other.shape == entry.shape &&
             other.kernel == entry.kernel && other.mode == entry.mode;
    });
    ++(known == list.end() ? list.emplace_back(std::move(entry)) : *known).count;
  }
}

}  // namespace

std::string_view coverage_state_name(CoverageState state) {
  switch (state) {
    case CoverageState::kTuned:
      return "tuned";
    case CoverageState::kGenerated:
      return "generated";
    case CoverageState::kComposed:
      return "composed";
    case CoverageState::kMissing:
      return "missing";
  }
  return "unknown";
}

std::vector<OperatorCoverage> coverage(const ir::Graph& graph, const CompileOptions& options) {
  std::vector<OperatorCoverage> list;
  collect(graph, graph.body, weight_only_values(graph), options, list);
  return list;
}

}  // namespace firstlight::compiler
