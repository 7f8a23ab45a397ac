// SPDX-License-Identifier: Apache-2.0
#include "gates/sensitivity_json.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "gates/policy_search.h"
#include "gates/test/variant_bench.h"

namespace firstlight::gates {
namespace {

TEST(SensitivityJson, WhatIsReadBackChoosesTheSame) {
  const adapt::TestFolder folder;
  write_model(folder / "model", true);
  Bench bench(folder / "model");
  ASSERT_NE(bench.runner, nullptr);
  const auto found = measure_sensitivity(bench.planner, *bench.runner,
                                         {.choices = choices({"int4:32", "mxfp4", "int8"}), .max_runs = 14});
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  const Json document = *parse_json(dump_json(json_of(*found)));
  const auto read = read_sensitivity(document, bench.planner);
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_EQ(dump_json(json_of(*read)), dump_json(document));
  EXPECT_EQ(read->units[3].tensors, found->units[3].tensors);
  EXPECT_EQ(choose_for_kl(read->units, 0.01), choose_for_kl(found->units, 0.01));

  const auto refused = [&](const std::function<void(Json&)>& change) {
    Json changed = document;
    change(changed);
    const auto result = read_sensitivity(changed, bench.planner);
    return result.ok() ? "(read)" : result.status().message();
  };
  EXPECT_NE(refused([](Json& j) { j["units"][2]["name"] = "nobody"; }).find("'nobody'"), std::string::npos);
  EXPECT_NE(refused([](Json& j) { j["units"][2]["elements"] = 5; }).find("other sizes"), std::string::npos);
  EXPECT_NE(refused([](Json& j) { j["units"][2]["formats"][0]["kl"] = "x"; }).find("'kl'"), std::string::npos);
  EXPECT_NE(refused([](Json& j) { j["units"].erase(4); }).find("is missing"), std::string::npos);
  EXPECT_NE(refused([](Json& j) { j["by"] = "head"; }).find("'head'"), std::string::npos);
  EXPECT_NE(refused([](Json& j) { j = Json::array(); }).find("units"), std::string::npos);
  EXPECT_NE(refused([](Json& j) { j["units"] = Json::array({3}); }).find("units"), std::string::npos);
}

}  // namespace
}  // namespace firstlight::gates
