// SPDX-License-Identifier: Apache-2.0
// The tensor types of ggml (enum ggml_type and its block sizes, as gguf-py/gguf/constants.py lists them). Those without
// a type of ours are listed so that their tensors have a name and a size.
#include <array>

#include "formats/gguf.h"

namespace firstlight::formats {
namespace {

using tensor::DType;

constexpr std::array kTypes = {
    GgmlType{0, "F32", 1, 4, DType::kF32},          GgmlType{1, "F16", 1, 2, DType::kF16},
    GgmlType{2, "Q4_0", 32, 18, DType::kQ4_0},      GgmlType{3, "Q4_1", 32, 20, DType::kQ4_1},
    GgmlType{6, "Q5_0", 32, 22, DType::kQ5_0},      GgmlType{7, "Q5_1", 32, 24, DType::kQ5_1},
    GgmlType{8, "Q8_0", 32, 34, DType::kQ8_0},      GgmlType{9, "Q8_1", 32, 40, std::nullopt},
    GgmlType{10, "Q2_K", 256, 84, std::nullopt},    GgmlType{11, "Q3_K", 256, 110, std::nullopt},
    GgmlType{12, "Q4_K", 256, 144, DType::kQ4_K},   GgmlType{13, "Q5_K", 256, 176, DType::kQ5_K},
    GgmlType{14, "Q6_K", 256, 210, DType::kQ6_K},   GgmlType{15, "Q8_K", 256, 292, std::nullopt},
    GgmlType{16, "IQ2_XXS", 256, 66, std::nullopt}, GgmlType{17, "IQ2_XS", 256, 74, std::nullopt},
    GgmlType{18, "IQ3_XXS", 256, 98, std::nullopt}, GgmlType{19, "IQ1_S", 256, 50, std::nullopt},
    GgmlType{20, "IQ4_NL", 32, 18, std::nullopt},   GgmlType{21, "IQ3_S", 256, 110, std::nullopt},
    GgmlType{22, "IQ2_S", 256, 82, std::nullopt},   GgmlType{23, "IQ4_XS", 256, 136, std::nullopt},
    GgmlType{24, "I8", 1, 1, DType::kI8},           GgmlType{25, "I16", 1, 2, DType::kI16},
    GgmlType{26, "I32", 1, 4, DType::kI32},         GgmlType{27, "I64", 1, 8, DType::kI64},
    GgmlType{28, "F64", 1, 8, DType::kF64},         GgmlType{29, "IQ1_M", 256, 56, std::nullopt},
    GgmlType{30, "BF16", 1, 2, DType::kBF16},       GgmlType{34, "TQ1_0", 256, 54, std::nullopt},
    GgmlType{35, "TQ2_0", 256, 66, std::nullopt},   GgmlType{39, "MXFP4", 32, 17, DType::kMXFP4},
    GgmlType{40, "NVFP4", 64, 36, std::nullopt},    GgmlType{41, "Q1_0", 128, 18, std::nullopt},
};

}  // namespace

const GgmlType* find_ggml_type(uint32_t id) {
  for (const GgmlType& type : kTypes) {
    if (type.id == id) return &type;
  }
  return nullptr;
}

const GgmlType* find_ggml_type(DType dtype) {
  for (const GgmlType& type : kTypes) {
    if (type.dtype == dtype) return &type;
  }
  return nullptr;
}

}  // namespace firstlight::formats
