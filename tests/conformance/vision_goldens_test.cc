// SPDX-License-Identifier: Apache-2.0
// The operators of images against PyTorch's (tests/golden/data/vision_ops.json, made by tools/golden/vision_ops.py),
// and imap against integers worked out by hand.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/json.h"
#include "case.h"
#include "judge/run_case.h"

namespace firstlight::conformance {
namespace {

Tensor tensor_of(const Json& json) {
  tensor::Shape shape;
  for (const Json& size : json["shape"]) shape.emplace_back(size.get<int64_t>());
  return Data::from(std::move(shape), json["values"].get<std::vector<float>>());
}

Outcome run(Case c) {
  FL_CHECK(ops::check_attributes(ops::op_def(c.op), c.attributes).ok());
  const auto operands = operand_types(c);
  const auto results = result_types(c);
  const auto* row = catalog::select_kernel(catalog::Backend::kReference, {}, {c.op, operands, results, c.attributes});
  ThreadPool pool({2, false, 20});
  return run_case(c, *row, catalog::ComputeMode::kF32, pool).value();
}

TEST(VisionGoldens, AgreeWithTorch) {
  std::ifstream file(std::string(FL_SOURCE_DIR) + "/tests/golden/data/vision_ops.json");
  std::stringstream text;
  text << file.rdbuf();
  const Json goldens = parse_json(text.str()).value();
  int compared = 0;
  for (const Json& json : goldens["cases"]) {
    Case c;
    c.op = *ops::op_from_name(json["op"].get<std::string>());
    c.attributes = attributes(json["attributes"].get<std::string>());
    for (const Json& operand : json["operands"]) c.operands.push_back(tensor_of(operand));
    const auto found = run(std::move(c)).results[0].values();
    const auto wanted = json["result"].get<std::vector<double>>();
    ASSERT_EQ(found.size(), wanted.size()) << json["attributes"];
    // Both round their results: six decimals there, float32 here; the operands are float32 here.
    for (size_t i = 0; i < found.size(); ++i) {
      ASSERT_NEAR(found[i], wanted[i], 3e-6) << json["op"] << json["attributes"] << " element " << i;
    }
    ++compared;
  }
  EXPECT_GT(compared, 20);
}

TEST(Imap, WrapsAndKeepsSigns) {
  const auto value = [](std::string_view formula, std::vector<int32_t> inputs) {
    Case c;
    c.op = ops::OpKind::kImap;
    c.attributes = attributes("{expr = " + std::string(formula) + "}");
    for (const int32_t input : inputs) c.operands.push_back(Data::from_ints({1}, {input}));
    int64_t result = 0;
    std::memcpy(&result, run(std::move(c)).results[0].data.data(), sizeof(result));
    return result;
  };
  EXPECT_EQ(value("mod(x0, x1)", {-7, 5}), 3);
  EXPECT_EQ(value("mod(x0, x1)", {7, -5}), -3);
  EXPECT_EQ(value("mod(x0, x1)", {7, 0}), 0);
  EXPECT_EQ(value("xor(x0, x1)", {0x55, 0x0f}), 0x5a);
  EXPECT_EQ(value("xor(x0, x1)", {-1, 1}), -2);
  EXPECT_EQ(value("mul(mul(x0, 4294967296.0), 4294967296.0)", {3}), 0);
  EXPECT_EQ(value("mul(mul(x0, 2147483648.0), 4294967296.0)", {1}), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(value("mod(mul(mul(x0, 2147483648.0), 4294967296.0), x1)", {1, -1}), 0);
  EXPECT_EQ(value("where(le(x0, x1), sign(x0), abs(x0))", {-4, 2}), -1);
}

}  // namespace
}  // namespace firstlight::conformance
