// SPDX-License-Identifier: Apache-2.0
#include "compiler/state_types.h"

#include <set>
#include <utility>

#include "ops/attention/segments.h"
#include "tensor/state_rows.h"

namespace firstlight::compiler {
namespace {

using ops::OpKind;
using tensor::DType;

bool is_log(const ops::StateDecl& state) {
  return state.kind == ops::StateKind::kAppendLog || state.kind == ops::StateKind::kWindowLog ||
         state.kind == ops::StateKind::kRateLog;
}

// How the graph's nodes read its states.
struct Reads {
  std::set<std::string> otherwise;                        // states
  std::set<std::pair<std::string, std::string>> as_keys;  // state, component
};

void add_reads(const ir::Graph& graph, const ir::Node& node, Reads& reads) {
  if (node.op == OpKind::kAppend || node.op == OpKind::kRopeAppend) return;
  const auto states = graph.states_of(node.operands);
  if (states.empty()) return;
  if (node.op != OpKind::kAttend && node.op != OpKind::kAttendSegments) {
    for (const ops::StateDecl* state : states) reads.otherwise.insert(state->name);
    return;
  }
  const auto all = ops::key_segments(node.op, node.attributes, node.operands.size());
  for (size_t i = 0; all.ok() && i < all->segments.size(); ++i) {
    reads.as_keys.emplace(states[i]->name, all->segments[i].key);
  }
}

}  // namespace

Status store_states(const ir::Graph& graph, const CompileOptions& options, std::vector<ops::StateDecl>& states) {
  const DType wanted = options.state_dtype;
  const bool blocks = tensor::dtype_info(wanted).is_quantised;
  if (!tensor::is_state_type(wanted) || (blocks && catalog::is_device(options.backend))) {
    return unsupported(
        "state stored as " + std::string(tensor::dtype_name(wanted)) + ": kernels of backend " +
        std::string(catalog::backend_name(options.backend)) + " read " +
        (catalog::is_device(options.backend) ? "f32, f16 and bf16" : "f32, f16, bf16, q8_0, mxfp8, q4_1 and q4_1s"));
  }
  Reads reads;
  if (blocks) {
    for (const ir::Node& node : graph.nodes) add_reads(graph, node, reads);
  }
  for (ops::StateDecl& state : states) {
    if (!is_log(state)) continue;
    for (ops::StateComponent& part : state.components) {
      part.dtype = wanted;
      if (!blocks) continue;
      if (reads.otherwise.contains(state.name)) part.dtype = DType::kF16;
      const bool fine = wanted == DType::kQ4_1S;
      if (fine && part.dtype == wanted && !reads.as_keys.contains({state.name, part.name})) part.dtype = DType::kQ4_1;
    }
  }
  return ok_status();
}

}  // namespace firstlight::compiler
