// SPDX-License-Identifier: Apache-2.0
#include "device/cpu/native_code.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

namespace firstlight::device {
namespace {

constexpr std::string_view kSource = "extern \"C\" int fl_answer(int x) { return x + 40; }\n";

class NativeCodeTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "native-code-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    auto compiler = find_native_compiler();
    if (!compiler.ok()) GTEST_SKIP() << compiler.status().message();
    compiler_ = *compiler;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_;
  NativeCompiler compiler_;
};

TEST_F(NativeCodeTest, IsBuiltOnceAndFoundAgain) {
  EXPECT_EQ(NativeCode::cached(kSource, compiler_, folder_).value(), nullptr);
  const auto code = NativeCode::build(kSource, compiler_, folder_);
  ASSERT_TRUE(code.ok()) << code.status().message();
  const auto answer = reinterpret_cast<int (*)(int)>((*code)->symbol("fl_answer"));
  ASSERT_NE(answer, nullptr);
  EXPECT_EQ(answer(2), 42);
  EXPECT_EQ((*code)->symbol("fl_question"), nullptr);
  EXPECT_NE(NativeCode::cached(kSource, compiler_, folder_).value(), nullptr);
  size_t files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder_)) ++files;
  EXPECT_EQ(files, 1u);  // nothing of the build stays
}

TEST_F(NativeCodeTest, TheKeyKnowsSourceCompilerAndFlags) {
  const std::string key = native_code_key(kSource, compiler_);
  EXPECT_EQ(key.size(), 32u);
  EXPECT_NE(native_code_key(std::string(kSource) + " ", compiler_), key);
  NativeCompiler other = compiler_;
  other.version += "1";
  EXPECT_NE(native_code_key(kSource, other), key);
  other = compiler_;
  other.flags.push_back("-g");
  EXPECT_NE(native_code_key(kSource, other), key);
}

TEST_F(NativeCodeTest, BadSourceIsAnErrorWithTheLog) {
  const auto code = NativeCode::build("int f( { }", compiler_, folder_);
  ASSERT_FALSE(code.ok());
  EXPECT_EQ(code.status().code(), StatusCode::kInvalidData);
  EXPECT_NE(code.status().message().find("error"), std::string::npos) << code.status().message();
}

TEST_F(NativeCodeTest, ADamagedFileIsMadeAnew) {
  std::ofstream(folder_ / (native_code_key(kSource, compiler_) + ".so")) << "not an object";
  EXPECT_EQ(NativeCode::cached(kSource, compiler_, folder_).value(), nullptr);
  EXPECT_TRUE(NativeCode::build(kSource, compiler_, folder_).ok());
}

TEST_F(NativeCodeTest, AFolderThatOthersMayWriteIsRefused) {
  ASSERT_EQ(::chmod(folder_.c_str(), 0777), 0);
  const auto code = NativeCode::build(kSource, compiler_, folder_);
  ASSERT_FALSE(code.ok());
  EXPECT_NE(code.status().message().find("writable by others"), std::string::npos);
}

TEST_F(NativeCodeTest, StoppingEndsTheCompiler) {
  std::stop_source stop;
  stop.request_stop();
  const auto code = NativeCode::build(kSource, compiler_, folder_, stop.get_token());
  ASSERT_FALSE(code.ok());
  EXPECT_NE(code.status().message().find("stopped"), std::string::npos) << code.status().message();
}

TEST(NativeCompilerTest, AMissingOneIsSaid) {
  ::setenv("PATH", "/nowhere", 1);
  ::unsetenv("CXX");
  ::setenv("FIRSTLIGHT_CXX", "/nowhere/c++", 1);
  const auto compiler = find_native_compiler();
  ASSERT_FALSE(compiler.ok());
  EXPECT_EQ(compiler.status().code(), StatusCode::kUnsupported);
}

}  // namespace
}  // namespace firstlight::device
