// SPDX-License-Identifier: Apache-2.0
#include "gates/svg_plot.h"

#include <gtest/gtest.h>

#include <cmath>

namespace firstlight::gates {
namespace {

size_t count(const std::string& text, const std::string& word) {
  size_t found = 0;
  for (size_t at = 0; (at = text.find(word, at)) != std::string::npos; at += word.size()) ++found;
  return found;
}

TEST(LogPlot, DrawsLinesDotsAndMarks) {
  const std::string plot =
      log_plot({{.name = "a <b>", .colour = "--blue", .points = {{0, 1e-3}, {10, 1e-1}}},
                {.name = "dots", .colour = "--red", .points = {{0, 1e-2}, {5, 0}, {10, std::nan("")}}, .line = false}},
               {{5, "window"}, {50, "far away"}}, "position", "error");
  EXPECT_EQ(count(plot, "<polyline"), 1u);
  EXPECT_EQ(count(plot, "<circle"), 3u);
  EXPECT_NE(plot.find("window"), std::string::npos);
  EXPECT_EQ(plot.find("far away"), std::string::npos) << "a mark outside is left out";
  EXPECT_NE(plot.find("a &lt;b&gt;"), std::string::npos);
  EXPECT_EQ(plot.find("nan\""), std::string::npos) << "no coordinate is no number";
  EXPECT_NE(plot.find("1e-3"), std::string::npos);
  EXPECT_EQ(log_plot({}, {}, "x", "y"), "");
  EXPECT_EQ(log_plot({{.name = "none", .colour = "--red", .points = {}}}, {}, "x", "y"), "");
}

TEST(LogPlot, StandsWhereAllIsZero) {
  const std::string plot = log_plot({{.name = "z", .colour = "--blue", .points = {{0, 0}, {1, 0}}}}, {}, "x", "y");
  EXPECT_EQ(count(plot, "<polyline"), 1u);
  EXPECT_EQ(plot.find("inf"), std::string::npos);
}

TEST(LogPlot, CountsInWholeNumbers) {
  const auto ticks = [](double last) {
    const std::string plot = log_plot({{.name = "a", .colour = "--blue", .points = {{1, 1}, {last, 1}}}}, {}, "x", "y");
    std::string found;
    for (int i = 1; i <= 30; ++i) {
      const size_t times = count(plot, ">" + std::to_string(i) + "</text>");
      EXPECT_LE(times, 1u) << i;
      if (times > 0) found += std::to_string(i) + " ";
    }
    return found;
  };
  EXPECT_EQ(ticks(4), "1 2 3 4 ");
  EXPECT_EQ(ticks(30), "1 8 15 22 30 ");
  EXPECT_EQ(ticks(2), "1 2 ");
}

TEST(BarPlot, IsAsLongAsItsValue) {
  const std::string plot = bar_plot({{.name = "decode", .value = 0.5, .wanted = 0.25, .text = "50 %"},
                                     {.name = "prompt", .value = 7, .text = "", .good = false}},
                                    1, "share");
  EXPECT_NE(plot.find("width=\"259.0\""), std::string::npos) << plot;
  EXPECT_NE(plot.find("width=\"518.0\""), std::string::npos) << "no bar leaves the plot";
  EXPECT_EQ(count(plot, "<line"), 1u);
  EXPECT_NE(plot.find("var(--red)"), std::string::npos);
  EXPECT_EQ(bar_plot({}, 1, ""), "");
}

TEST(HistogramPlot, HasABarPerBin) {
  EXPECT_EQ(count(histogram_plot({{"0", 3}, {"1", 6}, {"2", 0}}, "h"), "<rect"), 3u);
  EXPECT_EQ(histogram_plot({{"0", 0}}, "h"), "");
}

}  // namespace
}  // namespace firstlight::gates
