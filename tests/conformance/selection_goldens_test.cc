// SPDX-License-Identifier: Apache-2.0
// Choices of what a query sees and attention inside them (tests/golden/data/selection.json, made by
// tools/golden/selection.py from the indexers of transformers and from plain computations), on every kernel for this
// CPU.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/json.h"
#include "device/cpu/detect.h"
#include "case.h"
#include "judge/run_case.h"

namespace firstlight::conformance {
namespace {

Tensor tensor_of(const Json& json) {
  tensor::Shape shape;
  for (const Json& size : json["shape"]) shape.emplace_back(size.get<int64_t>());
  if (!json["ints"].get<bool>()) return Data::from(std::move(shape), json["values"].get<std::vector<float>>());
  return Data::from_ints(std::move(shape), json["values"].get<std::vector<int32_t>>());
}

State state_of(const Json& json, int64_t tokens) {
  State state;
  state.decl.name = "log.0";
  state.decl.rate = json["rate"].get<int64_t>();
  if (state.decl.rate > 1) state.decl.kind = ops::StateKind::kRateLog;
  state.page_rows = 4;
  state.sequences = {{0, tokens, 0}};
  for (const Json& part : json["components"]) {
    state.decl.components.push_back({part["name"].get<std::string>(), part["heads"].get<int64_t>(),
                                     part["width"].get<int64_t>(), tensor::DType::kF32});
    state.rows.push_back({part["rows"].get<std::vector<float>>()});
  }
  return state;
}

// Operands as the operator takes them: the states behind q, each before what belongs to it.
Case case_of(const Json& json, int64_t tokens) {
  Case c;
  c.name = json["name"].get<std::string>();
  c.op = *ops::op_from_name(json["op"].get<std::string>());
  c.attributes = attributes(json["attributes"].get<std::string>());
  for (const Json& operand : json["operands"]) c.operands.push_back(tensor_of(operand));
  for (const Json& state : json["states"]) c.state.push_back(state_of(state, tokens));
  c.operands.insert(c.operands.begin() + 1, Data::state());
  if (c.state.size() > 1) c.operands.push_back(Data::state());
  return c;
}

TEST(SelectionGoldens, EveryKernelAgrees) {
  std::ifstream file(std::string(FL_SOURCE_DIR) + "/tests/golden/data/selection.json");
  std::stringstream text;
  text << file.rdbuf();
  const Json goldens = parse_json(text.str()).value();
  ThreadPool pool({2, false, 20});
  int compared = 0;
  for (const Json& json : goldens["cases"]) {
    Case c = case_of(json, goldens["tokens"].get<int64_t>());
    FL_CHECK(ops::check_attributes(ops::op_def(c.op), c.attributes).ok());
    const auto operands = operand_types(c);
    const auto results = result_types(c);
    const auto wanted = json["result"].get<std::vector<double>>();
    for (const catalog::Backend backend : {catalog::Backend::kReference, catalog::Backend::kCpu}) {
      const auto* row =
          catalog::select_kernel(backend, device::detect_cpu().features, {c.op, operands, results, c.attributes});
      ASSERT_NE(row, nullptr) << c.name;
      const auto found = run_case(c, *row, catalog::ComputeMode::kF32, pool).value().results[0].values();
      ASSERT_EQ(found.size(), wanted.size()) << c.name;
      for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], wanted[i], 5e-6) << c.name << " element " << i;
      ++compared;
    }
  }
  EXPECT_GE(compared, 24);
}

}  // namespace
}  // namespace firstlight::conformance
