// SPDX-License-Identifier: Apache-2.0
#include "device/cpu/native_code.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <optional>

#include "device/private_folder.h"

namespace firstlight::device {
namespace {

const std::string kSource =
    "extern \"C\" __attribute__((visibility(\"default\"))) int fl_answer(int x) { return x + 40; }\n";

class NativeCodeTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) / ("native-code-" + std::to_string(::getpid()));
    std::filesystem::remove_all(folder_);
    ASSERT_TRUE(make_private_folder(folder_).ok());
    auto compiler = HostCompiler::find();
    if (!compiler.ok()) GTEST_SKIP() << compiler.status().message();
    builder_.emplace(NativeCodeBuilder::open(folder_).value());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_;
  std::optional<NativeCodeBuilder> builder_;
};

TEST_F(NativeCodeTest, IsBuiltOnceAndFoundAgain) {
  EXPECT_EQ(builder_->cached(kSource), nullptr);
  const auto code = builder_->build(kSource);
  ASSERT_TRUE(code.ok()) << code.status().message();
  const auto answer = reinterpret_cast<int (*)(int)>((*code)->symbol("fl_answer"));
  ASSERT_NE(answer, nullptr);
  EXPECT_EQ(answer(2), 42);
  EXPECT_EQ((*code)->symbol("fl_question"), nullptr);
  EXPECT_NE(builder_->cached(kSource), nullptr);
  size_t files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder_)) ++files;
  EXPECT_EQ(files, 1u);  // nothing of the build stays
}

TEST_F(NativeCodeTest, TheNameKnowsTheSource) {
  EXPECT_EQ(builder_->file_of(kSource).stem().string().size(), 32u);
  EXPECT_NE(builder_->file_of(kSource + " "), builder_->file_of(kSource));
}

TEST_F(NativeCodeTest, BadSourceIsAnErrorWithTheLog) {
  const auto code = builder_->build("int f( { }");
  ASSERT_FALSE(code.ok());
  EXPECT_EQ(code.status().code(), StatusCode::kInvalidData);
  EXPECT_NE(code.status().message().find("error"), std::string::npos) << code.status().message();
}

TEST_F(NativeCodeTest, ADamagedFileIsMadeAnew) {
  std::ofstream(builder_->file_of(kSource)) << "not an object";
  EXPECT_EQ(builder_->cached(kSource), nullptr);
  EXPECT_TRUE(builder_->build(kSource).ok());
}

TEST_F(NativeCodeTest, AFileCutAnywhereIsMadeAnew) {
  ASSERT_TRUE(builder_->build(kSource).ok());
  const auto file = builder_->file_of(kSource);
  const auto whole = std::filesystem::file_size(file);
  for (const auto size : {whole / 2, whole - 1, whole / 10}) {
    std::filesystem::resize_file(file, size);
    EXPECT_EQ(builder_->cached(kSource), nullptr) << size;
    ASSERT_TRUE(builder_->build(kSource).ok());
  }
}

TEST_F(NativeCodeTest, AFolderThatOthersMayWriteIsRefused) {
  ASSERT_EQ(::chmod(folder_.c_str(), 0777), 0);
  const auto code = NativeCodeBuilder::open(folder_);
  ASSERT_FALSE(code.ok());
  EXPECT_NE(code.status().message().find("writable by others"), std::string::npos);
}

TEST_F(NativeCodeTest, StoppingEndsTheCompiler) {
  std::stop_source stop;
  stop.request_stop();
  const auto code = builder_->build(kSource, stop.get_token());
  ASSERT_FALSE(code.ok());
  EXPECT_EQ(code.status().code(), StatusCode::kCancelled);
  EXPECT_NE(code.status().message().find("stopped"), std::string::npos) << code.status().message();
}

TEST_F(NativeCodeTest, AMissingCompilerIsSaid) {
  const auto named = NativeCodeBuilder::open(folder_, "/nowhere/c++");
  ASSERT_FALSE(named.ok());
  EXPECT_EQ(named.status().code(), StatusCode::kUnsupported);
  EXPECT_NE(named.status().message().find("/nowhere/c++"), std::string::npos);
}

TEST(NativeCode, WithoutAFolderNothingIsBuilt) {
  EXPECT_EQ(NativeCodeBuilder::open({}).status().code(), StatusCode::kUnavailable);
}

}  // namespace
}  // namespace firstlight::device
