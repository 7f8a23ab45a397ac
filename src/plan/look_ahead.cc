// SPDX-License-Identifier: Apache-2.0
#include "plan/look_ahead.h"

#include <algorithm>
#include <set>

namespace firstlight::plan {
namespace {

bool looks_ahead(const ops::Attributes& attributes) {
  const ops::Attribute* causal = attributes.find("causal");
  if (causal == nullptr) return false;
  if (const auto* one = std::get_if<bool>(causal)) return !*one;
  const auto* segments = std::get_if<std::vector<int64_t>>(causal);
  return segments != nullptr && std::find(segments->begin(), segments->end(), 0) != segments->end();
}

template <typename Visit>
void for_kernel_steps(const Block& block, const Visit& visit) {
  const auto inner = [&](const std::unique_ptr<Block>& part) {
    if (part != nullptr) for_kernel_steps(*part, visit);
  };
  for (const Step& step : block.steps) {
    if (const auto* kernel = std::get_if<KernelStep>(&step.body)) {
      visit(*kernel);
    } else if (const auto* experts = std::get_if<PerExpertStep>(&step.body)) {
      inner(experts->body);
    } else {
      const auto& branch = std::get<IfStep>(step.body);
      inner(branch.then_block);
      inner(branch.else_block);
    }
  }
}

}  // namespace

bool sees_later_tokens(const Plan& plan) {
  bool found = false;
  for_kernel_steps(plan.body, [&](const KernelStep& step) { found = found || looks_ahead(step.attributes); });
  return found;
}

std::string length_class(const Plan& plan, int64_t planned_length) {
  std::set<int64_t> passed;  // limits that the length lies beyond
  bool follows = false;      // one of them with a table for every length
  for_kernel_steps(plan.body, [&](const KernelStep& step) {
    if (step.attributes.find("switch_length") == nullptr) return;
    const int64_t limit = step.attributes.get_int("switch_length");
    if (limit > 0 && planned_length > limit) passed.insert(limit);
    follows = follows || (step.attributes.get_float("dynamic_base") > 0 &&
                          static_cast<double>(planned_length) > step.attributes.get_float("dynamic_max"));
  });
  std::string name = follows ? "length " + std::to_string(planned_length) : "";
  for (const int64_t limit : passed) name += " beyond " + std::to_string(limit);
  return name;
}

}  // namespace firstlight::plan
