// SPDX-License-Identifier: Apache-2.0
// The MUSA build of cuda/, against the stub headers: it compiles, links, and says by name what is missing here. And the
// stub, the mapping and the page that lists the functions agree.
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "device/cuda/api.h"
#include "device/cuda/cuda_device.h"

namespace firstlight::device {
namespace {

std::string read(const std::string& path) {
  std::ifstream file(std::string(FL_SOURCE_DIR) + "/" + path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

#define FL_TEXT_OF(name) #name
#define FL_TEXT(name) FL_TEXT_OF(name)
std::set<std::string> used_functions() {
  std::set<std::string> names;
#define FL_ADD(name) names.insert(FL_TEXT(cu##name));
  FL_DRIVER_FUNCTIONS(FL_ADD)
#undef FL_ADD
#define FL_ADD(name) names.insert(FL_TEXT(nvrtc##name));
  FL_RTC_FUNCTIONS(FL_ADD)
#undef FL_ADD
  return names;
}

TEST(MusaBuild, SaysThatThereIsNoDriver) {
  std::string absent;
  if (!musa::list(absent).empty()) GTEST_SKIP() << "there is a MUSA device";
  EXPECT_NE(absent.find("musa driver"), std::string::npos) << absent;
  const auto opened = musa::open({});
  ASSERT_EQ(opened.code(), StatusCode::kUnsupported);
}

TEST(MusaBuild, StubAndPageHaveExactlyTheFunctionsUsed) {
  const std::string stub = read("src/device/cuda/musa_stub/musa.h") + read("src/device/cuda/musa_stub/mtrtc.h");
  const std::string page = read("docs/devices.md");
  for (const std::string& name : used_functions()) {
    EXPECT_TRUE(name.starts_with("mu") || name.starts_with("mtrtc")) << name;
    EXPECT_NE(stub.find(" " + name + "("), std::string::npos) << name;
    EXPECT_NE(page.find("`" + name + "`"), std::string::npos) << name << " in docs/devices.md";
  }
  size_t declared = 0;
  for (const char* result : {"\nMUresult ", "\nmtrtcResult "}) {
    for (size_t at = stub.find(result); at != std::string::npos; at = stub.find(result, at + 1)) ++declared;
  }
  EXPECT_EQ(declared, used_functions().size());
}

}  // namespace
}  // namespace firstlight::device
