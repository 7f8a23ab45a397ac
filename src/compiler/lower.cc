// SPDX-License-Identifier: Apache-2.0
#include "compiler/lower.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "compiler/codegen/cpu_source.h"
#include "compiler/kernel_request.h"
#include "compiler/state_types.h"
#include "compiler/weight_values.h"
#include "tensor/packing.h"

namespace firstlight::compiler {
namespace {

using plan::Buffer;
using plan::BufferId;

StepClass class_of(ops::OpKind op) {
  switch (op) {
    case ops::OpKind::kGatherRows:
    case ops::OpKind::kGatherLast:
    case ops::OpKind::kReshape:
    case ops::OpKind::kTranspose:
    case ops::OpKind::kSlice:
    case ops::OpKind::kConcat:
    case ops::OpKind::kStack:
    case ops::OpKind::kConstant:
    case ops::OpKind::kAppend:
      return StepClass::kMemory;
    default:
      return StepClass::kCompute;
  }
}

std::string label_of(const ir::Node& node) {
  return (node.scope.empty() ? "" : node.scope + " ") + std::string(ops::op_name(node.op));
}

constexpr int64_t kMostKernels = int64_t{1} << 20;

class Lowering {
 public:
  Lowering(const ir::Graph& graph, const CompileOptions& options)
      : graph_(graph),
        options_(options),
        weight_only_(weight_only_values(graph)),
        buffer_of_(graph.values.size(), -1) {}

  Result<plan::Plan> run() {
    plan_.name = graph_.name;
    plan_.backend = catalog::backend_name(options_.backend);
    plan_.compute_mode = options_.compute ? std::string(catalog::compute_mode_name(*options_.compute)) : "auto";
    plan_.metadata = graph_.metadata;
    plan_.states = graph_.states;
    FL_TRY(store_states(graph_, options_, plan_.states));
    for (const ir::ValueId id : graph_.body.parameters) {
      const ir::Value& value = graph_.value(id);
      bind(id, add_buffer({.kind = Buffer::Kind::kInput, .type = value.type, .name = value.name}));
    }
    for (size_t i = 0; i < graph_.values.size(); ++i) {
      const ir::Value& value = graph_.values[i];
      if (value.kind != ir::Value::Kind::kWeight) continue;
      bind(static_cast<ir::ValueId>(i),
           add_buffer(
               {.kind = Buffer::Kind::kFile, .type = value.type, .name = graph_.weight_sources.at(value.name).tensor}));
    }
    find_resident_values();
    make_buckets();
    FL_TRY(lower_region(graph_.body, plan_.body));
    for (size_t i = 0; i < graph_.output_names.size(); ++i) {
      plan_.outputs.push_back({graph_.output_names[i], buffer(graph_.body.yields[i])});
    }
    plan_.source = unit_.text();
    const bool reuse = options_.backend != catalog::Backend::kReference;
    const auto reused = reuse ? reuse_in_place(plan_, catalog::is_device(options_.backend)) : std::vector<BufferId>();
    for (plan::Bucket& bucket : plan_.buckets) {
      assign_arena(plan_, reuse, bucket);
      for (const BufferId id : reused)
        bucket.sum_bytes += plan::buffer_bytes(plan_.buffer(id), bucket.largest_values());
    }
    return std::move(plan_);
  }

 private:
  void make_buckets() {
    for (const BucketSize& size : options_.buckets) {
      plan::Bucket bucket;
      bucket.max_tokens = size.max_tokens;
      bucket.max_outputs = size.max_outputs;
      bucket.max_sequences = size.sequences();
      plan_.buckets.push_back(std::move(bucket));
    }
    std::sort(plan_.buckets.begin(), plan_.buckets.end(), [](const plan::Bucket& a, const plan::Bucket& b) {
      return std::tie(a.max_tokens, a.max_outputs) < std::tie(b.max_tokens, b.max_outputs);
    });
  }

  // Room for the scratch of whichever kernel may come to run the step: the chosen one and all that could stand in.
  void plan_workspace(const catalog::Signature& signature, plan::KernelStep& step) {
    if (options_.kernels == nullptr) return;
    std::vector<int64_t> most(plan_.buckets.size(), 0);
    for (const catalog::KernelRow& row : catalog::all_kernels()) {
      if (row.op != step.op || row.backend != options_.backend || !options_.features.has(row.needs)) continue;
      if (!row.accepts(signature)) continue;
      for (size_t i = 0; i < most.size(); ++i) {
        const tensor::SymbolValues values = plan_.buckets[i].largest_values();
        const int64_t bytes = options_.kernels->workspace_bytes(row.symbol, signature, values, options_.num_workers);
        most[i] = std::max(most[i], bytes);
      }
    }
    if (*std::max_element(most.begin(), most.end()) == 0) return;
    const tensor::Type type = tensor::Type::tensor(tensor::DType::kU8, {tensor::Dim(0)});
    step.workspace = add_buffer({.kind = Buffer::Kind::kWorkspace, .type = type, .name = ""});
    for (size_t i = 0; i < most.size(); ++i) {
      plan_.buckets[i].bytes.resize(plan_.buffers.size(), 0);
      plan_.buckets[i].bytes.back() = most[i];
    }
  }

  BufferId add_buffer(Buffer buffer) {
    if (buffer.type.layout == tensor::Layout::kPackedRows) buffer.packed_bytes = tensor::packed_bytes(buffer.type);
    plan_.buffers.push_back(std::move(buffer));
    return static_cast<BufferId>(plan_.buffers.size()) - 1;
  }
  void bind(ir::ValueId id, BufferId buffer) { buffer_of_[static_cast<size_t>(id)] = buffer; }
  BufferId buffer(ir::ValueId id) const { return buffer_of_[static_cast<size_t>(id)]; }

  // Weight-only values that something outside the load steps reads.
  void find_resident_values() {
    resident_.assign(graph_.values.size(), false);
    for (const ir::Node& node : graph_.nodes) {
      const bool load = !node.results.empty() && weight_only_[static_cast<size_t>(node.results[0])];
      for (const ir::ValueId id : node.operands) {
        if (!load && weight_only_[static_cast<size_t>(id)]) resident_[static_cast<size_t>(id)] = true;
      }
      for (const ir::Region& region : node.regions) {
        for (const ir::ValueId id : region.yields) resident_[static_cast<size_t>(id)] = true;
      }
    }
    for (const ir::ValueId id : graph_.body.yields) resident_[static_cast<size_t>(id)] = true;
  }

  BufferId new_result(ir::ValueId id, bool load) {
    const ir::Value& value = graph_.value(id);
    if (value.type.is_state()) return -1;
    const auto kind = !load                                ? Buffer::Kind::kArena
                      : resident_[static_cast<size_t>(id)] ? Buffer::Kind::kResident
                                                           : Buffer::Kind::kTemporary;
    const BufferId made = add_buffer({.kind = kind, .type = value.type, .name = ""});
    bind(id, made);
    return made;
  }

  Status lower_region(const ir::Region& region, plan::Block& block) {
    for (const ir::NodeId id : region.nodes) {
      const ir::Node& node = graph_.node(id);
      const std::string where = label_of(node);
      switch (node.op) {
        case ops::OpKind::kPerExpert:
          FL_TRY(lower_per_expert(node, block));
          break;
        case ops::OpKind::kIf:
          FL_TRY(lower_if(node, block));
          break;
        case ops::OpKind::kRepeat:
          FL_TRY(lower_repeat(node, block));
          break;
        default:
          FL_TRY(lower_kernel(node, block).with_context(where));
          break;
      }
    }
    return ok_status();
  }

  // "; weights NAME, NAME": what the types of a refusal belong to.
  std::string weights_of(const ir::Node& node) const {
    std::string text;
    for (const ir::ValueId id : node.operands) {
      const ir::Value& value = graph_.value(id);
      if (value.kind == ir::Value::Kind::kWeight) text += (text.empty() ? "; weights " : ", ") + value.name;
    }
    return text;
  }

  Status lower_kernel(const ir::Node& node, plan::Block& block) {
    if (++num_kernels_ > kMostKernels) {
      return unsupported("the plan has more than " + std::to_string(kMostKernels) + " steps; loops are written out");
    }
    const bool load = weight_only_[static_cast<size_t>(node.results[0])];
    if (node.op == ops::OpKind::kReshape && options_.backend != catalog::Backend::kReference) {
      bind(node.results[0], add_buffer({.kind = Buffer::Kind::kAlias,
                                        .type = graph_.value(node.results[0]).type,
                                        .name = "",
                                        .alias_of = buffer(node.operands[0])}));
      keep_alias_source(node.operands[0], node.results[0]);
      return ok_status();
    }
    const KernelRequest request(graph_, node, options_);
    const catalog::Signature signature = request.signature();
    const catalog::KernelRow* row = select(signature, options_.plain_kernels, load);
    if (row == nullptr) {
      return unsupported("backend " + plan_.backend + " has no kernel for (" + request.types_text() + ") " +
                         ops::attributes_to_string(node.attributes) + " computing in " +
                         std::string(catalog::compute_mode_name(request.mode)) + weights_of(node));
    }
    plan::KernelStep step{.symbol = std::string(row->symbol), .op = node.op, .attributes = node.attributes};
    if (!load) {
      add_alternates(signature, *row, step);
      plan_workspace(signature, step);
    }
    if (step.attributes.has("compute"))
      step.attributes.set("compute", std::string(catalog::compute_mode_name(request.mode)));
    for (const ir::ValueId id : node.operands) {
      step.inputs.push_back(buffer(id));
      if (graph_.value(id).type.is_state()) step.states.push_back(graph_.value(id).state);
    }
    for (const ir::ValueId id : node.results) {
      const BufferId made = new_result(id, load);
      if (made >= 0) step.outputs.push_back(made);
    }
    auto& steps = load ? plan_.load_steps : block.steps;
    steps.push_back(
        {.body = std::move(step), .step_class = load ? StepClass::kIo : class_of(node.op), .label = label_of(node)});
    return ok_status();
  }

  // The weights of a device are made on the host.
  const catalog::KernelRow* select(const catalog::Signature& signature, bool plain, bool load = false) const {
    const bool on_host = load && catalog::is_device(options_.backend);
    return catalog::select_kernel(on_host ? catalog::Backend::kCpu : options_.backend,
                                  on_host ? options_.host_features : options_.features, signature,
                                  plain ? catalog::KernelChoice::kPlainest : catalog::KernelChoice::kBest);
  }

  // The other forms a step may run in: a generated one where no tuned one is, the plainest one to fall back on.
  void add_alternates(const catalog::Signature& signature, const catalog::KernelRow& row, plan::KernelStep& step) {
    if (options_.backend != catalog::Backend::kCpu) return;
    const catalog::KernelRow& plainest = *select(signature, true);
    if (plainest.symbol != row.symbol) step.fallback = plainest.symbol;
    if (!options_.generate || catalog::tier(row) == catalog::Tier::kTuned) return;
    auto function = cpu_function(signature);
    if (!function.ok()) return;
    step.generated_rows = function->rows;
    step.generated = unit_.add(*std::move(function));
  }

  // An alias that outlives loading keeps the buffer below it.
  void keep_alias_source(ir::ValueId source, ir::ValueId alias) {
    if (!resident_[static_cast<size_t>(alias)]) return;
    BufferId below = buffer(source);
    while (plan_.buffer(below).kind == Buffer::Kind::kAlias) below = plan_.buffer(below).alias_of;
    if (plan_.buffer(below).kind == Buffer::Kind::kTemporary) plan_.buffer(below).kind = Buffer::Kind::kResident;
  }

  Status lower_per_expert(const ir::Node& node, plan::Block& block) {
    const ir::Region& region = node.regions[0];
    if (inside_expert_) return unsupported(label_of(node) + " stands inside another per_expert");
    plan::PerExpertStep step;
    step.num_experts = node.attributes.get_int("num_experts");
    step.weight_on_input = node.attributes.get_string("weight_on") == "input";
    step.x = buffer(node.operands[0]);
    step.indices = buffer(node.operands[1]);
    step.weights = buffer(node.operands[2]);
    step.rows = add_buffer({.kind = Buffer::Kind::kArena, .type = graph_.value(region.parameters[0]).type, .name = ""});
    bind(region.parameters[0], step.rows);
    for (size_t i = 1; i < region.parameters.size(); ++i) {
      step.slices.push_back(add_buffer({.kind = Buffer::Kind::kSlice,
                                        .type = graph_.value(region.parameters[i]).type,
                                        .name = "",
                                        .alias_of = buffer(node.operands[i + 2])}));
      bind(region.parameters[i], step.slices.back());
    }
    step.body = std::make_unique<plan::Block>();
    inside_expert_ = true;
    FL_TRY(lower_region(region, *step.body));
    inside_expert_ = false;
    step.result = buffer(region.yields[0]);
    step.output = new_result(node.results[0], false);
    block.steps.push_back({.body = std::move(step), .step_class = StepClass::kCompute, .label = label_of(node)});
    return ok_status();
  }

  Status lower_if(const ir::Node& node, plan::Block& block) {
    plan::IfStep step;
    step.condition = buffer(node.operands[0]);
    step.then_block = std::make_unique<plan::Block>();
    step.else_block = std::make_unique<plan::Block>();
    for (size_t branch = 0; branch < 2; ++branch) {
      const ir::Region& region = node.regions[branch];
      for (size_t i = 0; i < region.parameters.size(); ++i) bind(region.parameters[i], buffer(node.operands[i + 1]));
      FL_TRY(lower_region(region, branch == 0 ? *step.then_block : *step.else_block));
      auto& results = branch == 0 ? step.then_results : step.else_results;
      for (const ir::ValueId id : region.yields) {
        if (!graph_.value(id).type.is_state()) results.push_back(buffer(id));
      }
    }
    for (const ir::ValueId id : node.results) {
      const BufferId made = new_result(id, false);
      if (made >= 0) step.outputs.push_back(made);
    }
    block.steps.push_back({.body = std::move(step), .step_class = StepClass::kCompute, .label = label_of(node)});
    return ok_status();
  }

  // The count is known: the body is written out, each round on the results of the one before.
  Status lower_repeat(const ir::Node& node, plan::Block& block) {
    const ir::Region& region = node.regions[0];
    std::vector<BufferId> carried;
    for (size_t i = 0; i < region.parameters.size(); ++i) carried.push_back(buffer(node.operands[i]));
    for (int64_t round = 0; round < node.attributes.get_int("count"); ++round) {
      for (size_t i = 0; i < region.parameters.size(); ++i) bind(region.parameters[i], carried[i]);
      FL_TRY(lower_region(region, block));
      std::vector<BufferId> next = carried;
      for (size_t i = 0; i < region.yields.size(); ++i) next[i] = buffer(region.yields[i]);
      carried = std::move(next);
    }
    for (size_t i = 0; i < node.results.size(); ++i) bind(node.results[i], carried[i]);
    return ok_status();
  }

  const ir::Graph& graph_;
  const CompileOptions& options_;
  std::vector<bool> weight_only_;
  std::vector<bool> resident_;
  std::vector<BufferId> buffer_of_;
  bool inside_expert_ = false;
  int64_t num_kernels_ = 0;
  CpuUnit unit_;
  plan::Plan plan_;
};

}  // namespace

Result<plan::Plan> lower(const ir::Graph& graph, const CompileOptions& options) {
  return Lowering(graph, options).run();
}

}  // namespace firstlight::compiler
