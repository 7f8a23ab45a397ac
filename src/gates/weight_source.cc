// SPDX-License-Identifier: Apache-2.0
#include "gates/weight_source.h"

#include "catalog/kernel_row.h"

namespace firstlight::gates {
namespace {

using plan::Buffer;
using plan::BufferId;

tensor::Type plain(tensor::Type type) {
  type.layout = tensor::Layout::kRowMajor;
  return type;
}

}  // namespace

WeightSource::WeightSource(const plan::Plan& plan, const formats::Checkpoint& checkpoint)
    : plan_(plan), checkpoint_(checkpoint), pool_({1, false, 0}), makers_(plan.buffers.size(), nullptr) {
  for (const plan::Step& step : plan.load_steps) {
    const auto* kernel = std::get_if<plan::KernelStep>(&step.body);
    for (const BufferId id : kernel == nullptr ? std::vector<BufferId>{} : kernel->outputs)
      makers_[static_cast<size_t>(id)] = kernel;
  }
}

const plan::KernelStep* WeightSource::maker(BufferId id) const { return makers_[static_cast<size_t>(id)]; }

bool WeightSource::is_weight(BufferId id) const {
  while (id >= 0 && plan_.buffer(id).alias_of >= 0) id = plan_.buffer(id).alias_of;
  if (id < 0) return false;
  const auto kind = plan_.buffer(id).kind;
  return kind == Buffer::Kind::kFile || kind == Buffer::Kind::kResident || kind == Buffer::Kind::kTemporary;
}

Result<Weight> WeightSource::get(BufferId id, int64_t expert) {
  const Buffer& buffer = plan_.buffer(id);
  if (buffer.kind == Buffer::Kind::kSlice) return part_of(buffer.alias_of, expert, plain(buffer.type));
  if (buffer.kind == Buffer::Kind::kAlias) {
    Weight weight = FL_TRY(get(buffer.alias_of, expert));
    weight.type = plain(buffer.type);
    return weight;
  }
  if (buffer.kind == Buffer::Kind::kFile) {
    const auto* record = checkpoint_.find(buffer.name);
    if (record == nullptr) return internal_error("tensor " + formats::quote_name(buffer.name) + " is gone");
    return Weight{.type = plain(buffer.type), .bytes = FL_TRY(checkpoint_.bytes(*record)), .owned = nullptr};
  }
  const plan::KernelStep* step = maker(id);
  if (step == nullptr) return internal_error("no load step makes buffer " + std::to_string(id));
  if (step->op == ops::OpKind::kPackWeight || step->op == ops::OpKind::kReshape) {
    Weight weight = FL_TRY(get(step->inputs[0]));
    weight.type = plain(buffer.type);
    return weight;
  }
  const auto known = made_.find(id);
  return known != made_.end() ? known->second : make(id, *step);
}

// One expert's part of a stack, without making the whole stack where its parts are known.
Result<Weight> WeightSource::part_of(BufferId id, int64_t expert, const tensor::Type& type) {
  const plan::KernelStep* step = plan_.buffer(id).kind == Buffer::Kind::kFile ? nullptr : maker(id);
  if (step != nullptr && step->op == ops::OpKind::kPackWeight) return part_of(step->inputs[0], expert, type);
  const bool is_stack = step != nullptr && step->op == ops::OpKind::kStack && step->attributes.get_int("axis") == 0;
  Weight weight = FL_TRY(get(is_stack ? step->inputs[static_cast<size_t>(expert)] : id));
  weight.type = type;
  if (is_stack) return weight;
  const auto bytes = static_cast<size_t>(tensor::size_bytes(type));
  if (weight.bytes.size() < static_cast<size_t>(expert + 1) * bytes)
    return internal_error("expert " + std::to_string(expert) + " lies outside its stack");
  weight.bytes = weight.bytes.subspan(static_cast<size_t>(expert) * bytes, bytes);
  return weight;
}

Result<Weight> WeightSource::make(BufferId id, const plan::KernelStep& step) {
  judge::Case c;
  c.op = step.op;
  c.attributes = step.attributes;
  for (const BufferId input : step.inputs) {
    if (input < 0) return internal_error("a load step with a state");
    const Weight weight = FL_TRY(get(input));
    c.operands.push_back({weight.type, {weight.bytes.begin(), weight.bytes.end()}});
  }
  for (const BufferId output : step.outputs) c.result_types.push_back(plain(plan_.buffer(output).type));
  const auto operands = judge::operand_types(c);
  const auto* row =
      catalog::select_kernel(catalog::Backend::kReference, {}, {c.op, operands, c.result_types, c.attributes});
  if (row == nullptr) return internal_error("no reference body makes the weight of " + std::string(ops::op_name(c.op)));
  auto outcome = FL_TRY(judge::run_case(c, *row, catalog::ComputeMode::kF32, pool_));
  if (made_bytes_ > kKept) {
    made_.clear();
    made_bytes_ = 0;
  }
  Weight wanted;
  for (size_t i = 0; i < step.outputs.size(); ++i) {
    auto owned = std::make_shared<const std::vector<std::byte>>(std::move(outcome.results[i].data));
    made_bytes_ += owned->size();
    Weight weight{.type = c.result_types[i], .bytes = *owned, .owned = owned};
    made_[step.outputs[i]] = weight;
    if (step.outputs[i] == id) wanted = weight;
  }
  return wanted;
}

}  // namespace firstlight::gates
