// SPDX-License-Identifier: Apache-2.0
// Runs a case on one row of the catalog.
#pragma once

#include "base/thread_pool.h"
#include "catalog/kernel_row.h"
#include "judge/case.h"

namespace firstlight::judge {

struct Outcome {
  std::vector<Tensor> results;
  std::vector<std::vector<std::byte>> pages;  // of the state after the call, in the order of sequences
};

// A component of a fixed state in its page, [heads][width].
std::vector<double> fixed_component(const State& state, size_t component, const std::vector<std::byte>& page);

// Rows of a sequence's state: one per token, or per group of tokens, or one for all.
int64_t rows_of(const ops::StateDecl& decl, const Sequence& sequence);

// The bytes of every page that holds the state's rows, in the order of sequences.
std::vector<std::vector<std::byte>> page_contents(const State& state);

// The result types by the operator's own rule. Errors: what the operator says to a case that is not well-formed.
Result<std::vector<tensor::Type>> try_result_types(const Case& c);
std::vector<tensor::Type> result_types(const Case& c);  // FL_CHECKs that it is
std::vector<tensor::Type> operand_types(const Case& c);

// Result memory is filled with 0xff bytes first, so that what a kernel leaves out shows as NaN; 64 bytes behind each
// result are guarded.
// Whether a row has a form of its own in a mode: products in every one, attention that rounds in bf16, the rest in f32.
bool computes_in(const catalog::KernelRow& row, catalog::ComputeMode mode);

Result<Outcome> run_case(const Case& c, const catalog::KernelRow& row, catalog::ComputeMode mode, ThreadPool& pool);

}  // namespace firstlight::judge
