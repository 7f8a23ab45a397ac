// SPDX-License-Identifier: Apache-2.0
// Cases of the operators that move data. Bytes must be equal: bound zero.
#include "case.h"

namespace firstlight::conformance {
namespace {

using ops::OpKind;
using tensor::DType;
constexpr Bound kExact{0, 0};

constexpr DType kTables[] = {DType::kF32,  DType::kF16,   DType::kBF16,  DType::kF8E4M3, DType::kF8E5M2, DType::kQ8_0,
                             DType::kQ4_0, DType::kQ4_1,  DType::kQ5_0,  DType::kQ5_1,   DType::kQ4_K,   DType::kQ5_K,
                             DType::kQ6_K, DType::kMXFP4, DType::kInt4G, DType::kInt8G,  DType::kFP8G,   DType::kNVFP4};

void gathers(std::vector<Case>& cases) {
  Data data(11);
  for (const DType dtype : kTables) {
    const std::string name(tensor::dtype_name(dtype));
    cases.push_back(
        {"table " + name, OpKind::kGatherRows, {}, {data.floats(dtype, {37, 512}), data.ints({9}, 0, 37)}, {}, kExact});
  }
  cases.push_back({"rest of two axes",
                   OpKind::kGatherRows,
                   {},
                   {data.floats(DType::kBF16, {5, 3, 7}), data.ints({4}, 0, 5)},
                   {},
                   kExact});
  cases.push_back({"ids outside",
                   OpKind::kGatherRows,
                   {},
                   {data.floats(DType::kF32, {5, 33}), Data::from_ints({4}, {-1, 0, 5, 4})},
                   {},
                   kExact});
  cases.push_back(
      {"no ids", OpKind::kGatherRows, {}, {data.floats(DType::kF32, {5, 3}), Data::from_ints({0}, {})}, {}, kExact});
  cases.push_back({"integers", OpKind::kGatherRows, {}, {data.ints({9}, 0, 100), data.ints({5}, 0, 9)}, {}, kExact});
  cases.push_back({"last axis",
                   OpKind::kGatherLast,
                   {},
                   {data.floats(DType::kF32, {6, 13}), data.ints({6, 4}, -1, 14)},
                   {},
                   kExact});
  cases.push_back({"last axis of three",
                   OpKind::kGatherLast,
                   {},
                   {data.floats(DType::kBF16, {2, 3, 13}), data.ints({2, 3, 1}, 0, 13)},
                   {},
                   kExact});
}

void moves(std::vector<Case>& cases) {
  Data data(12);
  const auto f = [&](DType dtype, tensor::Shape shape) { return data.floats(dtype, std::move(shape)); };
  const auto add = [&](OpKind op, std::string_view attr, std::vector<Tensor> operands) {
    cases.push_back({std::string(attr), op, attributes(attr), std::move(operands), {}, kExact});
  };
  add(OpKind::kReshape, "{shape = \"6,-1\"}", {f(DType::kF32, {2, 3, 35})});
  add(OpKind::kReshape, "{shape = \"6,64\"}", {f(DType::kQ4_0, {2, 3, 64})});
  add(OpKind::kReshape, "{shape = \"0,5\"}", {f(DType::kF32, {0, 5})});
  add(OpKind::kTranspose, "{perm = [1, 0]}", {f(DType::kF32, {17, 31})});
  add(OpKind::kTranspose, "{perm = [1, 0]}", {f(DType::kBF16, {17, 31})});
  add(OpKind::kTranspose, "{perm = [2, 0, 3, 1]}", {f(DType::kF8E4M3, {3, 4, 5, 6})});
  add(OpKind::kTranspose, "{perm = [1, 0, 2]}", {f(DType::kQ6_K, {3, 5, 512})});
  add(OpKind::kTranspose, "{perm = [1, 0]}", {f(DType::kF64, {4, 3})});
  add(OpKind::kSlice, "{axis = -1, start = 3, stop = 11}", {f(DType::kF32, {5, 17})});
  add(OpKind::kSlice, "{axis = 1, start = 1, step = 2}", {f(DType::kBF16, {5, 8, 3})});
  add(OpKind::kSlice, "{axis = 0, start = -2}", {f(DType::kF32, {5, 7})});
  add(OpKind::kSlice, "{axis = 1, start = 32, stop = 96}", {f(DType::kQ5_1, {5, 128})});
  add(OpKind::kSlice, "{axis = 0, start = 1, step = 3}", {f(DType::kMXFP4, {8, 64})});
  add(OpKind::kConcat, "{axis = -1}", {f(DType::kF32, {5, 3}), f(DType::kF32, {5, 1}), f(DType::kF32, {5, 7})});
  add(OpKind::kConcat, "{axis = 0}", {f(DType::kQ8_0, {5, 64}), f(DType::kQ8_0, {2, 64})});
  add(OpKind::kConcat, "{axis = 1}", {f(DType::kQ8_0, {5, 64}), f(DType::kQ8_0, {5, 32})});
  add(OpKind::kStack, "", {f(DType::kQ4_K, {3, 256}), f(DType::kQ4_K, {3, 256})});
  add(OpKind::kStack, "{axis = -1}", {f(DType::kF32, {3, 4}), f(DType::kF32, {3, 4}), f(DType::kF32, {3, 4})});
  add(OpKind::kTake, "{axis = 0, indices = [4, 0, 0, 2]}", {f(DType::kQ5_1, {5, 64})});
  add(OpKind::kTake, "{axis = -1, indices = [6, 5, 4, 3, 2, 1, 0]}", {f(DType::kBF16, {5, 7})});
  add(OpKind::kTake, "{axis = 1, indices = [1, 1, 0]}", {data.ints({3, 2, 4}, -9, 9)});
  add(OpKind::kTake, "{axis = 1, indices = []}", {f(DType::kF32, {3, 2})});
  add(OpKind::kPad, "{axis = 1, before = 2, after = 3, value = -1.5}", {f(DType::kF32, {3, 4, 5})});
  add(OpKind::kPad, "{axis = -1, after = 1}", {f(DType::kF16, {3, 17})});
  add(OpKind::kPad, "{axis = 0, before = 1}", {f(DType::kF32, {0, 5})});
  for (const char* mode : {"set", "add"}) {
    const std::string attr = "{mode = \"" + std::string(mode) + "\"}";
    add(OpKind::kScatterRows, attr, {f(DType::kF32, {9, 33}), data.ints({6}, -1, 10), f(DType::kF32, {6, 33})});
    add(OpKind::kScatterRows, attr,
        {f(DType::kF32, {4, 2, 3}), Data::from_ints({3}, {1, 1, 1}), f(DType::kF32, {3, 2, 3})});
    add(OpKind::kScatterRows, attr, {f(DType::kF32, {4, 7}), Data::from_ints({0}, {}), f(DType::kF32, {0, 7})});
  }
  for (const DType dtype : kTables) add(OpKind::kCast, "{to = \"f32\"}", {f(dtype, {3, 256})});
  for (const char* to : {"f16", "bf16", "i32", "i64", "bool", "f64"}) {
    add(OpKind::kCast, "{to = \"" + std::string(to) + "\"}", {f(DType::kF32, {3, 19})});
    add(OpKind::kCast, "{to = \"" + std::string(to) + "\"}", {data.ints({3, 19}, -5, 90000)});
  }
}

}  // namespace

std::vector<Case> data_cases() {
  std::vector<Case> cases;
  gathers(cases);
  moves(cases);
  return cases;
}

}  // namespace firstlight::conformance
