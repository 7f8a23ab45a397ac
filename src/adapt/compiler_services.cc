// SPDX-License-Identifier: Apache-2.0
#include "adapt/compiler_services.h"

#include "base/thread_pool.h"
#include "kernels/kernel.h"

namespace firstlight::adapt {
namespace {

class LinkedKernels final : public compiler::KernelFacts {
 public:
  int64_t workspace_bytes(std::string_view symbol, const catalog::Signature& signature,
                          const tensor::SymbolValues& values, int num_workers) const override {
    const kernels::KernelBody* body = kernels::find_kernel(symbol);
    if (body == nullptr || body->workspace_bytes == nullptr) return 0;
    return body->workspace_bytes(signature, values, num_workers);
  }
};

class ReferenceEvaluator final : public compiler::ConstantEvaluator {
 public:
  Result<std::vector<double>> evaluate(ops::OpKind op, const ops::Attributes& attributes,
                                       std::span<const Operand> operands, const tensor::Type& result) const override {
    std::vector<tensor::Type> types;
    std::vector<std::vector<float>> data;
    std::vector<tensor::View> inputs;
    for (const Operand& operand : operands) {
      types.push_back(operand.type);
      data.emplace_back(operand.values.begin(), operand.values.end());
    }
    for (size_t i = 0; i < data.size(); ++i) inputs.push_back(tensor::make_view(data[i].data(), types[i]));
    const std::vector<tensor::Type> results = {result};
    const catalog::Signature signature{.op = op, .operands = types, .results = results, .attributes = attributes};
    const auto* row = catalog::select_kernel(catalog::Backend::kReference, {}, signature);
    const kernels::KernelBody* body = row == nullptr ? nullptr : kernels::find_kernel(row->symbol);
    const bool plain = body != nullptr && body->workspace_bytes == nullptr && ops::op_def(op).num_regions == 0;
    if (!plain) return unsupported(std::string(ops::op_name(op)) + " of constants: no plain reference body");
    std::unique_ptr<kernels::Prepared> prepared;
    if (body->prepare != nullptr) prepared = FL_TRY(body->prepare({.signature = signature}));
    std::vector<float> out(static_cast<size_t>(tensor::num_elements(result.shape)));
    const std::vector<tensor::View> outputs = {tensor::make_view(out.data(), result)};
    ThreadPool pool({.num_threads = 1, .pin = false});
    pool.run(
        [&](Worker& worker) { body->run({.prepared = prepared.get(), .inputs = inputs, .outputs = outputs}, worker); });
    return std::vector<double>(out.begin(), out.end());
  }
};

}  // namespace

const compiler::KernelFacts& linked_kernels() {
  static const LinkedKernels kernels;
  return kernels;
}

const compiler::ConstantEvaluator& reference_evaluator() {
  static const ReferenceEvaluator evaluator;
  return evaluator;
}

}  // namespace firstlight::adapt
