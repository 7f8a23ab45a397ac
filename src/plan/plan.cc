// SPDX-License-Identifier: Apache-2.0
#include "plan/plan.h"

#include <algorithm>

namespace firstlight::plan {
namespace {

std::string_view kind_name(Buffer::Kind kind) {
  switch (kind) {
    case Buffer::Kind::kInput:
      return "input";
    case Buffer::Kind::kFile:
      return "file";
    case Buffer::Kind::kResident:
      return "resident";
    case Buffer::Kind::kTemporary:
      return "temporary";
    case Buffer::Kind::kArena:
      return "arena";
    case Buffer::Kind::kAlias:
      return "alias";
    case Buffer::Kind::kSlice:
      return "slice";
    case Buffer::Kind::kWorkspace:
      return "workspace";
  }
  return "unknown";
}

class Printer {
 public:
  explicit Printer(const Plan& plan) : plan_(plan) {}

  std::string run() {
    out_ = "plan " + plan_.name + " on " + plan_.backend + " computing in " + plan_.compute_mode + "\n";
    for (const Bucket& bucket : plan_.buckets) {
      out_ += "bucket tokens <= " + std::to_string(bucket.max_tokens) +
              ", outputs <= " + std::to_string(bucket.max_outputs) + ": arena " + std::to_string(bucket.arena_bytes) +
              " bytes, alive at once " + std::to_string(bucket.lower_bound_bytes) + ", without reuse " +
              std::to_string(bucket.sum_bytes) + "\n";
    }
    for (size_t i = 0; i < plan_.buffers.size(); ++i) print_buffer(static_cast<BufferId>(i));
    out_ += "load\n";
    for (const Step& step : plan_.load_steps) print_step(step, 1);
    out_ += "run\n";
    for (const Step& step : plan_.body.steps) print_step(step, 1);
    for (const auto& output : plan_.outputs)
      out_ += "output " + output.name + " = b" + std::to_string(output.buffer) + "\n";
    return out_;
  }

 private:
  void print_buffer(BufferId id) {
    const Buffer& buffer = plan_.buffer(id);
    out_ += "  b" + std::to_string(id) + " " + std::string(kind_name(buffer.kind)) + " " + buffer.type.to_string();
    if (buffer.packed_bytes > 0) out_ += " " + std::to_string(buffer.packed_bytes) + " bytes";
    if (!buffer.name.empty()) out_ += " '" + buffer.name + "'";
    if (buffer.alias_of >= 0) out_ += " of b" + std::to_string(buffer.alias_of);
    if (buffer.kind == Buffer::Kind::kArena || buffer.kind == Buffer::Kind::kWorkspace) {
      for (const Bucket& bucket : plan_.buckets) out_ += " @" + std::to_string(bucket.offsets[static_cast<size_t>(id)]);
    }
    out_ += "\n";
  }

  static std::string list(const std::vector<BufferId>& ids) {
    std::string text;
    for (const BufferId id : ids)
      text += (text.empty() ? "" : ", ") + (id < 0 ? std::string("state") : "b" + std::to_string(id));
    return text;
  }

  void print_step(const Step& step, size_t depth) {
    out_ += std::string(2 * depth, ' ');
    std::visit([&](const auto& body) { print_body(body, depth); }, step.body);
    if (!step.label.empty()) out_ += "  # " + std::string(step_class_name(step.step_class)) + " " + step.label;
    out_ += "\n";
  }

  void print_body(const KernelStep& step, size_t) {
    out_ += list(step.outputs) + " = " + step.symbol + " " + list(step.inputs);
    if (!step.generated.empty()) out_ += " generated " + step.generated;
    if (!step.fallback.empty()) out_ += " else " + step.fallback;
    for (const int32_t state : step.states) out_ += " $" + plan_.states[static_cast<size_t>(state)].name;
    if (step.workspace >= 0) out_ += " using b" + std::to_string(step.workspace);
    if (!step.attributes.all().empty()) out_ += " " + ops::attributes_to_string(step.attributes);
  }

  void print_block(const Block& block, size_t depth) {
    out_ += "{\n";
    for (const Step& step : block.steps) print_step(step, depth + 1);
    out_ += std::string(2 * depth, ' ') + "}";
  }

  void print_body(const PerExpertStep& step, size_t depth) {
    out_ += list({step.output}) + " = per_expert " + list({step.x, step.indices, step.weights}) + " rows " +
            list({step.rows}) + " slices " + list(step.slices) + " result " + list({step.result}) + " ";
    print_block(*step.body, depth);
  }

  void print_body(const IfStep& step, size_t depth) {
    out_ += list(step.outputs) + " = if " + list({step.condition}) + " ";
    print_block(*step.then_block, depth);
    out_ += " else ";
    print_block(*step.else_block, depth);
  }

  const Plan& plan_;
  std::string out_;
};

}  // namespace

tensor::SymbolValues Bucket::largest_values() const {
  const int64_t rows = std::max(max_tokens, max_outputs);
  return {.tokens = max_tokens, .outputs = max_outputs, .sequences = max_sequences, .rows = rows};
}

int64_t buffer_bytes(const Buffer& buffer, const tensor::SymbolValues& values) {
  if (buffer.packed_bytes > 0) return buffer.packed_bytes;
  return tensor::size_bytes(buffer.type, values);
}

std::string print(const Plan& plan) { return Printer(plan).run(); }

}  // namespace firstlight::plan
