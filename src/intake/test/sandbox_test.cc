// SPDX-License-Identifier: Apache-2.0
// Specs that try to get out, to run forever, to eat memory or to crash the reader.
#include "intake/lua/sandbox.h"

#include <gtest/gtest.h>

#include "intake/test/spec_fixture.h"

namespace firstlight::intake {
namespace {

TEST(Sandbox, HasNoWayOut) {
  for (const char* name : {"io",
                           "os",
                           "debug",
                           "load",
                           "loadfile",
                           "dofile",
                           "loadstring",
                           "collectgarbage",
                           "coroutine",
                           "package",
                           "pcall",
                           "xpcall",
                           "setmetatable",
                           "getmetatable",
                           "rawset",
                           "rawget",
                           "next",
                           "utf8",
                           "print",
                           "_G",
                           "require\"std\".nothing"}) {
    EXPECT_EQ(failure_of("if " + std::string(name) + " ~= nil then error 'reached' end"), "(it worked)") << name;
  }
  EXPECT_EQ(failure_of("if string.dump or string.pack or table.move or math.random then error 'reached' end"),
            "(it worked)");
  EXPECT_NE(failure_of("local s = ('x').dump").find("(it worked)"), std::string::npos);  // nil, not the real one
  EXPECT_NE(failure_of("local s = ('x').dump(print)").find("test.lua:6"), std::string::npos);
}

TEST(Sandbox, RequireReachesStdAlone) {
  for (const char* name : {"os", "std.nothing", "../llama", "std/../llama", "llama", "/etc/passwd", ""}) {
    EXPECT_NE(failure_of("require \"" + std::string(name) + "\"").find("only std"), std::string::npos) << name;
  }
  EXPECT_EQ(failure_of("require 'std.rope'"), "(it worked)");
}

TEST(Sandbox, StepsAreLimited) {
  for (const char* body :
       {"while true do end", "repeat until false", "for i = 1, 1e18 do end", "goto a ::a:: goto a",
        "local function f() return f() end f()", "local t = {} for i = 1, 1e9 do table.insert(t, 1, i) end"}) {
    const std::string failure = failure_of(body);
    EXPECT_TRUE(failure.find("steps") != std::string::npos || failure.find("memory") != std::string::npos) << failure;
  }
}

TEST(Sandbox, RecursionEndsInAMessage) {
  SpecRun run{.spec = spec_around("local function f() return f() + 1 end f()")};
  run.limits.memory_bytes = int64_t{256} << 20;  // room for a stack that Lua itself ends
  const std::string failure = run.failure();
  EXPECT_NE(failure.find("stack overflow"), std::string::npos) << failure.substr(0, 300);
}

TEST(Sandbox, MemoryIsLimited) {
  for (const char* body : {"local t = {} for i = 1, 1e9 do t[i] = i end", "local s = 'x' while true do s = s .. s end",
                           "local t = {} for i = 1, 1e9 do t[i] = {} end"}) {
    const std::string failure = failure_of(body);
    EXPECT_TRUE(failure.find("memory") != std::string::npos || failure.find("steps") != std::string::npos) << failure;
  }
  EXPECT_NE(failure_of("local s = ('x'):rep(1e9)").find("longer than 1 MiB"), std::string::npos);
  EXPECT_NE(failure_of("local s = (''):rep(1e18)").find("longer than 1 MiB"), std::string::npos);
}

TEST(Sandbox, DeepRecursionIsAnError) {
  const std::string deep = failure_of("local function f(n) return 1 + f(n + 1) end f(0)");
  EXPECT_TRUE(deep.find("stack overflow") != std::string::npos || deep.find("memory") != std::string::npos) << deep;
  const std::string in_c = failure_of("local function f() return ('x'):gsub('x', f) end f()");
  EXPECT_NE(in_c.find("stack overflow"), std::string::npos) << in_c;
  std::string nested;
  for (int i = 0; i < 5000; ++i) nested += "{";
  EXPECT_NE(failure_of("local t = " + nested).find("test.lua"), std::string::npos);
}

TEST(Sandbox, PatternsThatCouldBacktrackForeverAreRefused) {
  EXPECT_NE(failure_of("local s = ('a'):rep(300):match('.-.-.-.-.-b')").find("repetitions"), std::string::npos);
  EXPECT_NE(failure_of("local s = ('a'):rep(600):find('b')").find("at most 512"), std::string::npos);
  EXPECT_EQ(failure_of("assert(('layers.12.x'):match('^layers%.(%d+)%.') == '12')"), "(it worked)");
}

TEST(Sandbox, BytecodeIsNotRun) {
  const SpecRun run{.spec = std::string("\x1bLua\x54\x00\x19\x93\r\n\x1a\n", 12)};
  EXPECT_NE(run.failure().find("test.lua"), std::string::npos);
}

TEST(Sandbox, PairsHasOneOrder) {
  EXPECT_EQ(failure_of("local s = '' for k, v in pairs { z = 1, a = 2, [10] = 3, [2] = 4, m = 5 } do s = s .. k end "
                       "assert(s == '210amz', s)"),
            "(it worked)");
}

TEST(Sandbox, ErrorsCarryFileAndLineAndCaller) {
  const std::string failure = failure_of("local r = require 'std.rope'\nr.from_config(c, { dim = 8 })");
  EXPECT_NE(failure.find("architectures/std/rope.lua:"), std::string::npos) << failure;
  EXPECT_NE(failure.find("test.lua:7"), std::string::npos) << failure;
  EXPECT_NE(failure.find("rope_theta is missing"), std::string::npos) << failure;
}

TEST(Sandbox, BadSpecsAreErrors) {
  for (const char* spec : {"", "return 1", "x = = 1", "return architecture", "return architecture {}", "error()",
                           "error({})", "return architecture { matches = 1 }",
                           "return architecture { matches = {}, parameters = 1, state = 2, forward = 3 }"}) {
    EXPECT_NE(SpecRun{.spec = spec}.failure(), "(it worked)") << spec;
  }
  EXPECT_NE(SpecRun{.spec = "\n\nx = = 1"}.failure().find("test.lua:3"), std::string::npos);
}

}  // namespace
}  // namespace firstlight::intake
