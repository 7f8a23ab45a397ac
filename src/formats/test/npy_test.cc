// SPDX-License-Identifier: Apache-2.0
#include "formats/npy.h"

#include <gtest/gtest.h>

#include "formats/test/scratch.h"

namespace firstlight::formats {
namespace {

using tensor::DType;

// Version 1.0 around this dict literal.
std::string npy(const std::string& dict, const std::string& data) {
  std::string out("\x93NUMPY\1\0", 8);
  out += {static_cast<char>(dict.size() & 255), static_cast<char>(dict.size() >> 8)};
  return out + dict + data;
}

StatusCode code_of(const std::string& file) { return parse_npy(as_bytes(file)).code(); }

// The .npy files were made by tools/golden/formats_files.py with numpy.
TEST(Npy, ReadsWhatNumpyWrites) {
  const auto matrix = read_npy(test_data("f32_2x3.npy"));
  ASSERT_TRUE(matrix.ok()) << matrix.status().message();
  EXPECT_EQ(matrix->shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(matrix->as<float>().value(), (std::vector<float>{0, 0.25f, 0.5f, 0.75f, 1, 1.25f}));
  EXPECT_EQ(matrix->as<int32_t>().code(), StatusCode::kInvalidData);
  const auto scalar = read_npy(test_data("i64_scalar.npy"));
  ASSERT_TRUE(scalar.ok()) << scalar.status().message();
  EXPECT_EQ(scalar->shape, std::vector<int64_t>{});
  EXPECT_EQ(scalar->as<int64_t>().value(), std::vector<int64_t>{-7});
  EXPECT_EQ(read_npy(test_data("f64_fortran.npy")).code(), StatusCode::kUnsupported);
  EXPECT_EQ(read_npy(test_data("absent.npy")).code(), StatusCode::kNotFound);
}

TEST(Npy, WritesTheBytesThatNumpyWrites) {
  const Scratch scratch;
  const std::vector<float> values = {0, 0.25f, 0.5f, 0.75f, 1, 1.25f};
  ASSERT_TRUE(write_npy(scratch.path("a.npy"), std::vector<int64_t>{2, 3}, values).ok());
  EXPECT_EQ(read_all(scratch.path("a.npy")), read_all(test_data("f32_2x3.npy")));
  const int64_t scalar = -7;
  ASSERT_TRUE(write_npy(scratch.path("b.npy"), DType::kI64, {}, std::as_bytes(std::span(&scalar, 1))).ok());
  EXPECT_EQ(read_all(scratch.path("b.npy")), read_all(test_data("i64_scalar.npy")));
}

TEST(Npy, EveryTypeComesBack) {
  const Scratch scratch;
  for (const DType type : {DType::kBool, DType::kI8, DType::kU8, DType::kI16, DType::kU16, DType::kI32, DType::kU32,
                           DType::kI64, DType::kU64, DType::kF16, DType::kF32, DType::kF64}) {
    const std::string data(static_cast<size_t>(5 * tensor::dtype_info(type).block_bytes), '\1');
    ASSERT_TRUE(write_npy(scratch.path("a.npy"), type, std::vector<int64_t>{5}, as_bytes(data)).ok());
    const auto array = read_npy(scratch.path("a.npy"));
    ASSERT_TRUE(array.ok()) << array.status().message();
    EXPECT_EQ(array->dtype, type);
    EXPECT_EQ(array->shape, std::vector<int64_t>{5});
    EXPECT_EQ(array->data.size(), data.size());
  }
  EXPECT_EQ(write_npy(scratch.path("a.npy"), DType::kBF16, std::vector<int64_t>{1}, as_bytes("xy")).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(write_npy(scratch.path("a.npy"), DType::kU8, std::vector<int64_t>{3}, as_bytes("xy")).code(),
            StatusCode::kInvalidArgument);
  EXPECT_FALSE(write_npy(scratch.path("absent/a.npy"), DType::kU8, std::vector<int64_t>{2}, as_bytes("xy")).ok());
}

TEST(Npy, MalformedFilesAreRefused) {
  const std::string good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
  EXPECT_EQ(code_of(npy(good, "12345678")), StatusCode::kOk);
  EXPECT_EQ(code_of(npy(good, "1234567")), StatusCode::kInvalidData);
  EXPECT_EQ(code_of(npy(good, "123456789")), StatusCode::kInvalidData);
  EXPECT_EQ(code_of(""), StatusCode::kInvalidData);
  EXPECT_EQ(code_of("\x93NUMPX"), StatusCode::kInvalidData);
  EXPECT_EQ(code_of(std::string("\x93NUMPY\4\0\0\0", 10)), StatusCode::kUnsupported);
  EXPECT_EQ(code_of(std::string("\x93NUMPY\1\0\xff\xff", 10)), StatusCode::kInvalidData);
  for (const char* dict : {"", "{", "{}", "{'descr': '<f4'}", "{'descr': '<f4', 'fortran_order': False, 'shape': (2",
                           "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (2,)}",
                           "{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}",
                           "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4)}",
                           "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} x",
                           "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}",
                           "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'more': 'x'}"}) {
    EXPECT_EQ(code_of(npy(dict, "12345678")), StatusCode::kInvalidData) << dict;
  }
  for (const char* descr : {"'>f4'", "'<c8'", "'|O'", "'<U2'", "[('a', '<f4')]"}) {
    EXPECT_EQ(
        code_of(npy("{'descr': " + std::string(descr) + ", 'fortran_order': False, 'shape': (2,), }", "12345678")),
        StatusCode::kUnsupported)
        << descr;
  }
}

}  // namespace
}  // namespace firstlight::formats
