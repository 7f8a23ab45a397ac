// SPDX-License-Identifier: Apache-2.0
#include "plan/look_ahead.h"

#include <algorithm>

namespace firstlight::plan {
namespace {

bool looks_ahead(const ops::Attributes& attributes) {
  const ops::Attribute* causal = attributes.find("causal");
  if (causal == nullptr) return false;
  if (const auto* one = std::get_if<bool>(causal)) return !*one;
  const auto* segments = std::get_if<std::vector<int64_t>>(causal);
  return segments != nullptr && std::find(segments->begin(), segments->end(), 0) != segments->end();
}

bool looks_ahead(const Block& block) {
  const auto inner = [](const std::unique_ptr<Block>& part) { return part != nullptr && looks_ahead(*part); };
  return std::any_of(block.steps.begin(), block.steps.end(), [&](const Step& step) {
    if (const auto* kernel = std::get_if<KernelStep>(&step.body)) return looks_ahead(kernel->attributes);
    if (const auto* experts = std::get_if<PerExpertStep>(&step.body)) return inner(experts->body);
    const auto& branch = std::get<IfStep>(step.body);
    return inner(branch.then_block) || inner(branch.else_block);
  });
}

}  // namespace

bool sees_later_tokens(const Plan& plan) { return looks_ahead(plan.body); }

}  // namespace firstlight::plan
