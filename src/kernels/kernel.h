// SPDX-License-Identifier: Apache-2.0
// The calling convention of kernels. A body is prepared once per plan step (attributes decoded, tables built) and then
// run many times by all workers of the pool together: `run` is called on every worker with the same call, splits the
// work with Worker::share and may use Worker::barrier inside (all workers or none). The executor puts a barrier after
// each step.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "base/status.h"
#include "base/thread_pool.h"
#include "catalog/kernel_row.h"
#include "plan/batch.h"
#include "tensor/view.h"

namespace firstlight::kernels {

// Decoded attributes and tables of one step; each kernel derives its own.
struct Prepared {
  virtual ~Prepared() = default;
};

struct PrepareInput {
  const catalog::Signature& signature;
  const ops::StateDecl* state = nullptr;               // of the first state operand, if the op has one
  std::span<const ops::StateDecl* const> states = {};  // of all of them, in operand order
};

struct KernelCall {
  const Prepared* prepared = nullptr;
  std::span<const tensor::View> inputs;  // in operand order; state operands are absent views
  std::span<const tensor::View> outputs;
  const plan::Batch* batch = nullptr;
  const plan::StateView* state = nullptr;  // of the first state operand
  std::span<std::byte> workspace;          // shared by all workers, `workspace_bytes` long, 64-byte aligned
  std::span<const plan::StateView* const> states = {};  // of all state operands, in order
};

struct KernelBody {
  std::string_view symbol;
  // May refuse what the row's `accepts` cannot see. Null: nothing to prepare.
  Result<std::unique_ptr<Prepared>> (*prepare)(const PrepareInput& input) = nullptr;
  void (*run)(const KernelCall& call, Worker& worker) = nullptr;
  // Bytes of shared workspace one run may need with these symbol values and the prepared step. Null: none.
  int64_t (*workspace_bytes)(const catalog::Signature& signature, const tensor::SymbolValues& values,
                             int num_workers) = nullptr;
};

// The body of a row; null when this build has none.
const KernelBody* find_kernel(std::string_view symbol);

}  // namespace firstlight::kernels
