// SPDX-License-Identifier: Apache-2.0
#include "kernel_run.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string_view>

#include "device/cpu/detect.h"

namespace firstlight::long_tests {
namespace {

std::vector<tensor::Type> types_of(const KernelRun& call) {
  std::vector<tensor::Type> types;
  for (const Tensor& t : call.operands) types.push_back(t.type);
  return types;
}

// With defaults filled in.
ops::Attributes attributes_of(const KernelRun& call) {
  ops::Attributes attributes = call.attributes;
  FL_CHECK(ops::check_attributes(ops::op_def(call.op), attributes).ok());
  return attributes;
}

std::vector<tensor::Type> results_of(const KernelRun& call, std::span<const tensor::Type> operands,
                                     const ops::Attributes& attributes) {
  const ops::OpDef& def = ops::op_def(call.op);
  FL_CHECK(ops::check_operands(def, operands).ok());
  auto results = def.infer(
      {operands, attributes, call.declarations.empty() ? nullptr : call.declarations[0], {}, call.declarations});
  FL_CHECK(results.ok());
  return *std::move(results);
}

}  // namespace

bool is_full() {
  const char* wanted = std::getenv("FL_LONG");
  return wanted != nullptr && std::string_view(wanted) == "full";
}

std::vector<std::vector<float>> run(const KernelRun& call, const catalog::KernelRow& row, ThreadPool& pool) {
  const kernels::KernelBody* body = kernels::find_kernel(row.symbol);
  FL_CHECK(body != nullptr);
  const auto operands = types_of(call);
  const ops::Attributes attributes = attributes_of(call);
  const auto results = results_of(call, operands, attributes);
  const catalog::Signature signature{call.op, operands, results, attributes, catalog::ComputeMode::kF32};
  std::vector<tensor::View> inputs, outputs;
  for (const Tensor& t : call.operands) {
    inputs.push_back(t.type.is_state() ? tensor::View{}
                                       : tensor::make_view(const_cast<std::byte*>(t.data.data()), t.type));
  }
  std::vector<std::vector<float>> memory;
  for (const tensor::Type& type : results) {
    memory.emplace_back(type.is_state() ? 0 : static_cast<size_t>(tensor::num_elements(type.shape)));
    std::memset(memory.back().data(), 0xff, memory.back().size() * sizeof(float));
    outputs.push_back(type.is_state() ? tensor::View{}
                                      : tensor::make_view(reinterpret_cast<std::byte*>(memory.back().data()), type));
  }
  std::unique_ptr<kernels::Prepared> prepared;
  if (body->prepare != nullptr) {
    auto made =
        body->prepare({signature, call.declarations.empty() ? nullptr : call.declarations[0], call.declarations});
    FL_CHECK(made.ok());
    prepared = *std::move(made);
  }
  int64_t tokens = 0;
  for (const auto& span : call.spans) tokens += span.num_tokens;
  if (call.spans.empty()) tokens = call.operands[0].type.shape[0].factor;
  const tensor::SymbolValues values{tokens, 0, static_cast<int64_t>(call.spans.size()), 0};
  const int64_t bytes =
      body->workspace_bytes == nullptr ? 0 : body->workspace_bytes(signature, values, pool.num_threads());
  std::vector<std::byte> workspace(static_cast<size_t>(bytes) + 64);
  std::byte* aligned = workspace.data() + (64 - reinterpret_cast<uintptr_t>(workspace.data()) % 64) % 64;
  plan::Batch batch;
  batch.sequences = call.spans;
  const kernels::KernelCall kernel_call{prepared.get(),
                                        inputs,
                                        outputs,
                                        &batch,
                                        call.states.empty() ? nullptr : call.states[0],
                                        {aligned, static_cast<size_t>(bytes)},
                                        call.states};
  pool.run([&](Worker& worker) { body->run(kernel_call, worker); });
  return memory;
}

std::vector<const catalog::KernelRow*> host_rows(const KernelRun& call, bool with_reference) {
  const auto operands = types_of(call);
  const ops::Attributes attributes = attributes_of(call);
  const auto results = results_of(call, operands, attributes);
  const auto features = device::detect_cpu().features;
  std::vector<const catalog::KernelRow*> rows;
  for (const catalog::KernelRow& row : catalog::all_kernels()) {
    if (row.op != call.op || !features.has(row.needs)) continue;
    const bool is_reference = row.backend == catalog::Backend::kReference;
    const bool is_tuned = row.backend == catalog::Backend::kCpu && catalog::tier(row) == catalog::Tier::kTuned;
    if (!(is_tuned || (is_reference && with_reference))) continue;
    if (row.accepts({call.op, operands, results, attributes})) rows.push_back(&row);
  }
  EXPECT_FALSE(rows.empty()) << "no kernel takes " << ops::op_name(call.op);
  return rows;
}

std::string place_of(const catalog::KernelRow& row) {
  if (row.backend == catalog::Backend::kReference) return "reference";
  if (row.symbol.find("avx512") != std::string_view::npos) return "cpu avx512";
  return row.symbol.find("avx2") != std::string_view::npos ? "cpu avx2" : "cpu";
}

void Tally::add(double found, double wanted, double bound) {
  ++count_;
  const double error = std::fabs(found - wanted);
  double share = error == 0 ? 0 : error / bound;
  if (std::isnan(share)) share = std::numeric_limits<double>::infinity();
  if (share < share_ || (share == share_ && count_ > 1)) return;
  share_ = share;
  error_ = error;
  bound_ = bound;
  wanted_ = wanted;
  place_ = count_ - 1;
}

void Tally::conclude(const std::string& what, const std::string& place) const {
  EXPECT_GT(count_, 0) << what;
  std::printf("| %s | %s | %.2g | %.2g | %.2f |\n", what.c_str(), place.c_str(), error_, bound_, share_);
  EXPECT_LE(share_, 1.0) << what << " on " << place << ": off by " << error_ << " of " << wanted_ << ", bound "
                         << bound_ << ", comparison " << place_;
}

}  // namespace firstlight::long_tests
