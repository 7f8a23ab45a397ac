// SPDX-License-Identifier: Apache-2.0
// The compiler's passes as text: what a graph becomes (passes/*.ir, one file per pass). Sections of a case: `passes`,
// the optional ones that run, the last one named is where it stops (the obligatory ones run anyway); `compute`, a
// compute mode's name or auto; `plain` switches plain_kernels on; `wide` takes a target of many units, as GPUs are;
// `evict` the sinks and the window; `in` and `out`, graphs. Whatever comes out must pass the verifier and print and
// parse back to itself.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "case_file.h"
#include "compiler/compile.h"
#include "ir/text.h"
#include "ir/verify.h"

namespace firstlight::compiler {
namespace {

// Formulas of constants of one shape, in float64: enough to see that folding asks and takes the answer.
class FormulaEvaluator final : public ConstantEvaluator {
 public:
  Result<std::vector<double>> evaluate(ops::OpKind op, const ops::Attributes& attributes,
                                       std::span<const Operand> operands, const tensor::Type&) const override {
    if (op != ops::OpKind::kMap) return unsupported("maps alone");
    std::vector<double> values;
    for (size_t i = 0; i < operands[0].values.size(); ++i) {
      std::vector<double> inputs;
      for (const Operand& operand : operands) inputs.push_back(operand.values[i]);
      values.push_back(attributes.get_expression("expr").evaluate(inputs));
    }
    return values;
  }
};

CompileOptions options_of(const cases::Case& c) {
  CompileOptions options{.backend = catalog::Backend::kCpu, .features = {target::kAvx2}};
  for (const auto mode : {catalog::ComputeMode::kF32, catalog::ComputeMode::kBf16, catalog::ComputeMode::kInt8}) {
    if (c.argument("compute") == catalog::compute_mode_name(mode)) options.compute = mode;
  }
  if (c.has("evict")) {
    std::istringstream numbers(c.argument("evict"));
    options.evict.emplace();
    numbers >> options.evict->sinks >> options.evict->window;
  }
  static const FormulaEvaluator evaluator;
  options.evaluator = &evaluator;
  options.plain_kernels = c.has("plain");
  if (c.has("wide")) options.execution.wide_units = 132;
  const auto wanted = c.list("passes");
  for (const PassInfo& pass : all_passes()) {
    if (pass.optional && std::find(wanted.begin(), wanted.end(), pass.name) == wanted.end()) {
      options.disabled_passes.insert(std::string(pass.name));
    }
  }
  return options;
}

std::string produce(const cases::Case& c) {
  auto graph = ir::parse(c.text("in"));
  if (!graph.ok()) return "error: " + graph.status().message();
  const Status status = run_passes(*graph, options_of(c), c.list("passes").back(), nullptr);
  if (!status.ok()) return "error: " + status.message();
  const std::string text = ir::print(*graph);
  const auto again = ir::parse(text);
  EXPECT_TRUE(again.ok()) << c.name << ": " << again.status().message();
  if (!again.ok()) return text;
  EXPECT_EQ(ir::print(*again), text) << c.name;
  return text;
}

TEST(Passes, DoWhatTheirFilesSay) { cases::check_folder("tests/ir/passes", ".ir", produce); }

TEST(Passes, EveryOneHasAFile) {
  for (const PassInfo& pass : all_passes()) {
    const std::string path = std::string(FL_SOURCE_DIR) + "/tests/ir/passes/" + std::string(pass.name) + ".ir";
    EXPECT_EQ(access(path.c_str(), R_OK), 0) << path;
  }
}

TEST(Passes, UnknownNamesAreRefused) {
  ir::Graph graph;
  CompileOptions options;
  options.disabled_passes = {"fuse_everything"};
  EXPECT_EQ(run_passes(graph, options, "", nullptr).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(run_passes(graph, {}, "fuse_everything", nullptr).code(), StatusCode::kInvalidArgument);
}

TEST(Passes, AllSwitchesEveryOptionalOneOff) {
  ir::Graph graph;
  std::vector<PassRecord> records;
  CompileOptions options{.backend = catalog::Backend::kCpu};
  options.disabled_passes = {"all"};
  ASSERT_TRUE(run_passes(graph, options, "", &records).ok());
  for (size_t i = 0; i < records.size(); ++i) EXPECT_NE(records[i].ran, all_passes()[i].optional) << records[i].name;
}

TEST(Passes, TheReferenceBackendSkipsOptionalOnes) {
  ir::Graph graph;
  std::vector<PassRecord> records;
  ASSERT_TRUE(run_passes(graph, {.backend = catalog::Backend::kReference}, "", &records).ok());
  ASSERT_EQ(records.size(), all_passes().size());
  for (size_t i = 0; i < records.size(); ++i) EXPECT_NE(records[i].ran, all_passes()[i].optional) << records[i].name;
}

}  // namespace
}  // namespace firstlight::compiler
