// SPDX-License-Identifier: Apache-2.0
// Traced functions: what they become, and that Lua can not decide anything about a traced value behind the spec's back.
#include "intake/lua/traced_function.h"

#include <gtest/gtest.h>

#include "intake/test/spec_fixture.h"
#include "ir/text.h"

namespace firstlight::intake {
namespace {

std::string expression_of(const std::string& function) {
  const auto trace = SpecRun{.spec = spec_around("x = map(" + function + ", x)")}.run();
  if (!trace.ok()) return trace.status().to_string();
  for (const ir::Node& node : trace->graph.nodes) {
    if (node.op == ops::OpKind::kMap) return node.attributes.get_expression("expr").to_string();
  }
  return "no map";
}

TEST(TracedFunction, BecomesOneFormula) {
  EXPECT_EQ(expression_of("function(a) return a * sigmoid(a) end"), "mul(x0, sigmoid(x0))");
  EXPECT_EQ(expression_of("function(a) return where(lt(a, 0), 0.5 * a, a) end"),
            "where(lt(x0, 0.0), mul(0.5, x0), x0)");
  EXPECT_EQ(expression_of("tanh"), "tanh(x0)");
  EXPECT_EQ(expression_of("function(a) return ge(a, 2) end"), "le(2.0, x0)");
}

TEST(TracedFunction, IntegersHaveTheirOwnMap) {
  const auto trace = SpecRun{.spec = spec_around("local h = imap(function(t) return mod(xor(t * 31, t), 97) end, "
                                                 "batch.output_rows, { to = 'i32' })\n"
                                                 "x = x + 0 * reshape(cast(h, 'f32'), 'O', 1)")}
                         .run();
  ASSERT_TRUE(trace.ok()) << trace.status().to_string();
  EXPECT_NE(ir::print(trace->graph).find("imap %output_rows {expr = mod(xor(mul(x0, 31.0), x0), 97.0), to = \"i32\"}"),
            std::string::npos)
      << ir::print(trace->graph);
  EXPECT_NE(failure_of("x = map(function(a) return mod(a, 2) end, x)").find("operations of imap"), std::string::npos);
  EXPECT_NE(failure_of("local n = mod(5, 3)").find("use ~ and %"), std::string::npos);
}

TEST(TracedFunction, UntracedValuesMayBranch) {
  EXPECT_EQ(expression_of("(function() local cap = 3 return function(a) if cap then a = min(a, cap) end "
                          "for i = 1, 2 do if i == 2 then a = a + i end end return a end end)()"),
            "add(min(x0, 3.0), 2.0)");
  EXPECT_EQ(
      expression_of("function(a) local k = { n = 2 } if k.n > 1 and not k.m then return a * k.n end return a end"),
      "mul(x0, 2.0)");
}

TEST(TracedFunction, SilentDecisionsAreRefusedWithTheirLine) {
  const struct {
    const char* function;
    const char* construct;
  } cases[] = {
      {"function(a)\nif a then return a end return a * 2 end", "'if', 'and' or 'or'"},
      {"function(a)\nreturn a and a * 2 end", "'if', 'and' or 'or'"},
      {"function(a)\nreturn (a * 2) or 1 end", "'if', 'and' or 'or'"},
      {"function(a)\nlocal n = not a return n end", "'not'"},
      {"function(a)\nif a == 5 then return 1 end return a end", "a comparison"},
      {"function(a)\nlocal b = a + 1 if b ~= nil then return b end return a end", "a comparison"},
      {"function(a)\nlocal t = { v = a } if t.v then return a end return a end", "'if', 'and' or 'or'"},
      {"function(a)\nif a > 0 then return a end return -a end", "a comparison"},
      {"function(a)\nwhile exp(a) do return a end return a end", "'if', 'and' or 'or'"},
      {"function(a)\nlocal f = function() if a then return a end return 1 end return f() end", "'if', 'and' or 'or'"},
      {"function(a)\nreturn helper(a) end", "'if', 'and' or 'or'"},
  };
  for (const auto& c : cases) {
    const std::string failure = failure_of("x = map(" + std::string(c.function) + ", x)",
                                           "function helper(v) if v then return v end return v end");
    EXPECT_NE(failure.find(c.construct), std::string::npos) << c.function << "\n" << failure;
    EXPECT_NE(failure.find("on a traced value"), std::string::npos) << failure;
    const bool helper = std::string(c.function).find("helper") != std::string::npos;
    EXPECT_NE(failure.find(helper ? "test.lua:1:" : "test.lua:7:"), std::string::npos) << failure;
  }
}

TEST(TracedFunction, ValuesDoNotEscape) {
  EXPECT_NE(failure_of("local kept = {} map(function(a) local k = kept k.v = a return a end, x) local z = kept.v + 1")
                .find("outside of its function"),
            std::string::npos);
  EXPECT_NE(failure_of("local kept map(function(a) kept = a return a end, x)").find("outer variable"),
            std::string::npos);
  EXPECT_NE(failure_of("x = map(function(a) return a + x end, x)").find("hand it over"), std::string::npos);
  EXPECT_NE(
      failure_of("x = map(function(a) return map(function(b) return b end, a) end, x)").find("wanted a graph value"),
      std::string::npos);
  EXPECT_NE(failure_of("x = map(function(a) return 'text' end, x)").find("wanted a formula"), std::string::npos);
  EXPECT_NE(
      failure_of("x = map(function(a) for i = 1, 1e7 do a = a + 1 end return a end, x)").find("too many operations"),
      std::string::npos);
}

TEST(TracedFunction, GraphValuesHaveNoTruthEither) {
  EXPECT_NE(failure_of("if x < x then x = x end").find("no truth"), std::string::npos);
  EXPECT_NE(failure_of("if x <= 1 then x = x end").find("no truth"), std::string::npos);
}

}  // namespace
}  // namespace firstlight::intake
