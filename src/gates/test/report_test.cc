// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "adapt/test/golden_model.h"
#include "base/file_map.h"
#include "gates/gates.h"
#include "text/chat_template.h"

namespace firstlight::gates {
namespace {

AdaptResult two_gates() {
  AdaptResult result;
  result.gates.push_back({.level = "intake", .passed = true, .seconds = 3, .summary = "fine", .evidence = "{\"a\":1}"});
  result.gates.push_back({.level = "model",
                          .passed = false,
                          .seconds = 1,
                          .summary = "<script>alert('no')</script> & more",
                          .evidence = R"({"worst":0.5,"tag":"<b>"})"});
  return result;
}

std::string read(const std::string& path) {
  const auto text = read_text_file(path);
  EXPECT_TRUE(text.ok()) << text.status().message();
  return text.ok() ? *text : "";
}

TEST(Report, TheDocumentHoldsEveryGate) {
  const Json document = report_json(two_gates(), "r/report.html", "An answer.");
  EXPECT_EQ(document["passed"], false);
  EXPECT_EQ(document["report"], "r/report.html");
  EXPECT_EQ(document["answer"], "An answer.");
  ASSERT_EQ(document["gates"].size(), 2u);
  EXPECT_EQ(document["gates"][0]["level"], "intake");
  EXPECT_EQ(document["gates"][0]["passed"], true);
  EXPECT_EQ(document["gates"][0]["seconds"], 3);
  EXPECT_EQ(document["gates"][1]["evidence"]["worst"], 0.5) << "evidence is a document, not a string";
  EXPECT_TRUE(report_json(two_gates(), "", "")["report"].is_null());
}

TEST(Report, FilesExistAndParse) {
  const adapt::TestFolder folder;
  const std::string directory = folder / "made/on/the/way";
  const auto page = write_report(directory, "models/<x>", two_gates(), "2 < 3 & \"so\" on");
  ASSERT_TRUE(page.ok()) << page.status().message();
  EXPECT_EQ(*page, directory + "/report.html");
  EXPECT_EQ(adapt::read_json_file(directory + "/intake.json")["a"], 1);
  EXPECT_EQ(adapt::read_json_file(directory + "/model.json")["worst"], 0.5);
  EXPECT_EQ(adapt::read_json_file(directory + "/report.json")["gates"].size(), 2u);
  const std::string html = read(*page);
  EXPECT_NE(html.find("A gate is closed."), std::string::npos);
  EXPECT_NE(html.find("models/&lt;x&gt;"), std::string::npos);
  EXPECT_NE(html.find("&lt;script&gt;alert"), std::string::npos);
  EXPECT_EQ(html.find("<script"), std::string::npos) << "nothing from outside becomes markup";
  EXPECT_EQ(html.find("<b>"), std::string::npos);
  EXPECT_NE(html.find("2 &lt; 3 &amp; &quot;so&quot; on"), std::string::npos);
  AdaptResult open = two_gates();
  open.passed = open.gates[1].passed = true;
  ASSERT_TRUE(write_report(directory, "m", open, "").ok()) << "an older report is replaced";
  EXPECT_NE(read(*page).find("All gates are open."), std::string::npos);
}

TEST(Report, AFolderThatCannotBeIsAnError) {
  const adapt::TestFolder folder;
  adapt::write_text(folder / "file", "x");
  EXPECT_FALSE(write_report(folder / "file/report", "m", two_gates(), "").ok());
}

}  // namespace
}  // namespace firstlight::gates
