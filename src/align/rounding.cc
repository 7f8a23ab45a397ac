// SPDX-License-Identifier: Apache-2.0
#include "align/rounding.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "compiler/compute_modes.h"
#include "ir/rewrite.h"
#include "ir/verify.h"
#include "tolerance/tolerances.h"

namespace firstlight::align {
namespace {

// Root mean square relative error that rounding one matrix product's operands leaves in its result.
double product_error(const plan::Block& block) {
  double worst = 0;
  for (const plan::Step& step : block.steps) {
    if (const auto* kernel = std::get_if<plan::KernelStep>(&step.body)) {
      if (!kernel->attributes.has("compute")) continue;
      worst = std::max(worst, tolerance::product_rounding(kernel->attributes.get_string("compute")));
    } else if (const auto* experts = std::get_if<plan::PerExpertStep>(&step.body)) {
      worst = std::max(worst, product_error(*experts->body));
    }
  }
  return worst;
}

double state_error(const plan::Plan& plan) {
  double worst = 0;
  for (const auto& state : plan.states) {
    for (const auto& part : state.components) worst = std::max(worst, tolerance::state_rounding(part.dtype));
  }
  return worst;
}

class Rounder {
 public:
  Rounder(const ir::Graph& graph, const compiler::CompileOptions& options)
      : graph_(graph),
        options_(options),
        attends_in_bf16_(compiler::attend_mode(graph, options) == catalog::ComputeMode::kBf16) {}

  Result<ir::Graph> run() {
    Status status;
    ir::for_each_region(graph_, [&](ir::Region& region) {
      if (status.ok()) status = round_region(region);
    });
    FL_TRY(std::move(status));
    FL_TRY(ir::verify(graph_));
    return std::move(graph_);
  }

 private:
  Status round_region(ir::Region& region) {
    std::vector<ir::NodeId> nodes;
    for (const ir::NodeId id : std::vector<ir::NodeId>(region.nodes)) {
      const ops::OpKind op = graph_.node(id).op;
      if (op == ops::OpKind::kLinear || op == ops::OpKind::kBatchedLinear) {
        const tensor::DType weight = graph_.value(graph_.node(id).operands[1]).type.dtype;
        const auto mode =
            compiler::compute_mode_for(options_, graph_.node(id).attributes.get_string("compute"), weight);
        FL_TRY(round_operand(id, 0, mode, nodes));
        if (mode == catalog::ComputeMode::kBf16) FL_TRY(round_operand(id, 1, mode, nodes));
      }
      const bool attends = op == ops::OpKind::kAttend || op == ops::OpKind::kAttendSegments;
      if (attends && attends_in_bf16_) FL_TRY(round_operand(id, 0, catalog::ComputeMode::kBf16, nodes));
      nodes.push_back(id);
    }
    region.nodes = std::move(nodes);
    return ok_status();
  }

  Status round_operand(ir::NodeId id, size_t operand, catalog::ComputeMode mode, std::vector<ir::NodeId>& nodes) {
    const ir::ValueId from = graph_.node(id).operands[operand];
    const std::string scope = graph_.node(id).scope;
    if (graph_.value(from).type.dtype != tensor::DType::kF32) return ok_status();  // stored so: rounded already
    ir::ValueId to = from;
    const auto add = [&](ops::OpKind op, ops::Attributes attributes) -> Status {
      const std::array operands = {to};
      nodes.push_back(FL_TRY(ir::create_node(graph_, op, operands, std::move(attributes), {}, scope)));
      to = graph_.node(nodes.back()).results[0];
      return ok_status();
    };
    if (mode == catalog::ComputeMode::kBf16) {
      for (const char* type : {"bf16", "f32"}) {
        ops::Attributes attributes;
        attributes.set("to", std::string(type));
        FL_TRY(add(ops::OpKind::kCast, std::move(attributes)));
      }
    } else if (mode == catalog::ComputeMode::kInt8) {
      ops::Attributes attributes;
      attributes.set("format", std::string("int8"));
      attributes.set("block", int64_t{32});
      FL_TRY(add(ops::OpKind::kFakeQuant, std::move(attributes)));
    }
    graph_.node(id).operands[operand] = to;
    return ok_status();
  }

  ir::Graph graph_;
  const compiler::CompileOptions& options_;
  const bool attends_in_bf16_;
};

}  // namespace

Rounding rounding_of(const plan::Plan& plan) {
  using tolerance::kProductsPerLayer;
  double products = 0;
  for (const auto& state : plan.states)
    products += state.kind == ops::StateKind::kFixed ? tolerance::kProductsPerRecurrence : kProductsPerLayer;
  const auto layers = static_cast<double>(std::max<size_t>(plan.states.size(), 1));
  return {.step = std::hypot(product_error(plan.body), state_error(plan)),
          .products_per_layer = plan.states.empty() ? kProductsPerLayer : products / layers};
}

Result<ir::Graph> with_rounded_products(const ir::Graph& graph, const compiler::CompileOptions& options) {
  return Rounder(graph, options).run();
}

}  // namespace firstlight::align
