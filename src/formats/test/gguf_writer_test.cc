// SPDX-License-Identifier: Apache-2.0
#include "formats/gguf_writer.h"

#include <gtest/gtest.h>

#include "formats/gguf.h"
#include "formats/tensor_file.h"
#include "formats/test/scratch.h"

namespace firstlight::formats {
namespace {

using tensor::DType;

TEST(GgufWriter, WhatIsWrittenIsRead) {
  for (const uint32_t alignment : {32u, 128u}) {
    GgufWriter writer(alignment);
    writer.set("general.architecture", std::string("llama"));
    writer.set("llama.block_count", uint32_t{3});
    writer.set("flag", false);
    writer.set("small", 1e-6f);
    writer.set_array("types", std::vector<int32_t>{1, 2, -3});
    writer.set_array("tokens", std::vector<std::string>{"<s>", ""});
    const std::string ramp(3 * 18 * 2, 'r');
    ASSERT_TRUE(writer.add_tensor("quantised", DType::kQ4_0, {3, 64}, as_bytes(ramp)).ok());
    ASSERT_TRUE(writer.add_tensor("scalar", DType::kF32, {}, as_bytes("abcd")).ok());
    const Scratch scratch;
    ASSERT_TRUE(writer.write(scratch.path("a.gguf")).ok());
    const auto opened = Checkpoint::open(scratch.path("a.gguf"));
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    const GgufFile& file = *opened->gguf();
    EXPECT_EQ(file.alignment(), alignment);
    EXPECT_EQ(file.get_integer("llama.block_count").value(), 3);
    EXPECT_FALSE(file.get_bool("flag").value());
    EXPECT_EQ(file.get_number("small").value(), static_cast<double>(1e-6f));
    EXPECT_EQ(file.get_integers("types").value(), (std::vector<int64_t>{1, 2, -3}));
    EXPECT_EQ(file.get_strings("tokens").value().size(), 2u);
    const TensorRecord* record = opened->find("quantised");
    ASSERT_NE(record, nullptr);
    EXPECT_EQ(record->shape, (std::vector<int64_t>{3, 64}));
    EXPECT_EQ(record->offset % alignment, 0u);
    const auto bytes = opened->bytes(*record).value();
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), ramp);
  }
}

TEST(GgufWriter, RefusesWhatDoesNotFit) {
  GgufWriter writer;
  const auto add = [&](DType dtype, std::vector<int64_t> shape, const std::string& data) {
    return writer.add_tensor("t", dtype, std::move(shape), as_bytes(data)).code();
  };
  EXPECT_EQ(add(DType::kF8E4M3, {1}, "x"), StatusCode::kUnsupported);
  EXPECT_EQ(add(DType::kI8, {1, 1, 1, 1, 1}, "x"), StatusCode::kInvalidArgument);
  EXPECT_EQ(add(DType::kI8, {2}, "x"), StatusCode::kInvalidArgument);
  EXPECT_EQ(add(DType::kI8, {-1}, "x"), StatusCode::kInvalidArgument);
  EXPECT_EQ(add(DType::kQ4_0, {2, 16}, std::string(18, 'x')), StatusCode::kInvalidArgument);
  EXPECT_EQ(add(DType::kI8, {1}, "x"), StatusCode::kOk);
  EXPECT_EQ(add(DType::kI8, {1}, "x"), StatusCode::kInvalidArgument);  // the name is taken
}

}  // namespace
}  // namespace firstlight::formats
