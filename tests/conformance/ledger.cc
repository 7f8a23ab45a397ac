// SPDX-License-Identifier: Apache-2.0
#include "ledger.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace firstlight::conformance {

std::string narrowest_type(const Case& c) {
  tensor::DType narrowest = tensor::DType::kF32;
  const auto bits = [](tensor::DType dtype) {
    const tensor::DTypeInfo& info = tensor::dtype_info(dtype);
    return 8.0 * static_cast<double>(info.block_bytes) / static_cast<double>(info.block_elements);
  };
  const auto look = [&](tensor::DType dtype) {
    const tensor::DTypeInfo& info = tensor::dtype_info(dtype);
    if ((info.is_float || info.is_quantised) && bits(dtype) < bits(narrowest)) narrowest = dtype;
  };
  for (const Tensor& t : c.operands) {
    if (!t.type.is_state()) look(t.type.dtype);
  }
  for (const State& state : c.state) {
    for (const auto& part : state.decl.components) look(part.dtype);
  }
  return std::string(tensor::dtype_name(narrowest));
}

std::string place_of(const catalog::KernelRow& row) {
  const std::string name(catalog::backend_name(row.backend));
  if (row.needs.bits == 0) return name;
  return name + (row.symbol.find("avx512") != std::string_view::npos ? " avx512" : " avx2");
}

void Ledger::add(const std::string& place, const Case& c, const Judgement& judgement) {
  Entry& entry = entries_[std::string(ops::op_name(c.op)) + "/" + place + "/" + narrowest_type(c)];
  ++entry.cases;
  entry.failures += judgement.difference.empty() ? 0 : 1;
  entry.worst = std::max(entry.worst, judgement.worst);
}

void Ledger::record() const {
  for (const auto& [key, entry] : entries_) {
    testing::Test::RecordProperty("count/" + key, std::to_string(entry.cases) + " " + std::to_string(entry.failures) +
                                                      " " + ops::exact_decimal(entry.worst));
  }
}

}  // namespace firstlight::conformance
