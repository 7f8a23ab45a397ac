// SPDX-License-Identifier: Apache-2.0
// Plans as text (plans/*.plan): buffers, places in the arena, steps. Sections of a case: `backend` (cpu unless given),
// `buckets` (tokens:outputs, …), `passes` (the optional ones that run; all when the section is absent), `in` a graph,
// `out` the plan. Kernels are shown as their operators' names: which kernel wins is the catalog's matter.
#include <gtest/gtest.h>

#include <algorithm>

#include "case_file.h"
#include "compiler/compile.h"
#include "ir/text.h"

namespace firstlight::compiler {
namespace {

void name_by_operator(plan::Block& block);

void name_by_operator(plan::Step& step) {
  if (auto* kernel = std::get_if<plan::KernelStep>(&step.body)) {
    kernel->symbol = ops::op_name(kernel->op);
    kernel->generated.clear();  // forms_test.cc has the other forms
    kernel->fallback.clear();
  } else if (auto* experts = std::get_if<plan::PerExpertStep>(&step.body)) {
    name_by_operator(*experts->body);
  } else if (auto* branch = std::get_if<plan::IfStep>(&step.body)) {
    name_by_operator(*branch->then_block);
    name_by_operator(*branch->else_block);
  }
}

void name_by_operator(plan::Block& block) {
  for (plan::Step& step : block.steps) name_by_operator(step);
}

std::string produce(const cases::Case& c) {
  CompileOptions options{.backend = catalog::Backend::kCpu, .features = {target::kAvx2}, .buckets = {}};
  if (c.has("backend")) options.backend = catalog::backend_from_name(c.argument("backend")).value();
  for (const std::string& size : c.list("buckets")) {
    options.buckets.push_back(
        {.max_tokens = std::stoll(size), .max_outputs = std::stoll(size.substr(size.find(':') + 1))});
  }
  const auto wanted = c.list("passes");
  for (const PassInfo& pass : all_passes()) {
    if (c.has("passes") && pass.optional && std::find(wanted.begin(), wanted.end(), pass.name) == wanted.end()) {
      options.disabled_passes.insert(std::string(pass.name));
    }
  }
  auto graph = ir::parse(c.text("in"));
  if (!graph.ok()) return "error: " + graph.status().message();
  auto plan = compile(*std::move(graph), options);
  if (!plan.ok()) return "error: " + plan.status().message();
  name_by_operator(plan->body);
  for (plan::Step& step : plan->load_steps) name_by_operator(step);
  return plan::print(*plan);
}

TEST(Plans, AreWhatTheirFilesSay) { cases::check_folder("tests/plan/plans", ".plan", produce); }

}  // namespace
}  // namespace firstlight::compiler
