// SPDX-License-Identifier: Apache-2.0
// From a path to something that runs: opens the checkpoint, lets intake make the graph, the compiler the plan, the
// runtime load it. What every verb that runs a model starts with.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "base/trace.h"
#include "catalog/kernel_row.h"
#include "compiler/compile.h"
#include "device/device.h"
#include "formats/tensor_file.h"
#include "intake/intake.h"
#include "runtime/executor.h"
#include "target/target.h"

namespace firstlight::adapt {

// Whether the plan gives the last hidden states, for embeddings (hidden_output.h).
enum class Hidden : uint8_t { kNone, kBeside, kAlone };  // beside the logits; in their place

struct BringUpOptions {
  catalog::Backend backend = catalog::Backend::kCpu;
  int num_threads = 0;                          // 0: the cores this process may use
  std::optional<catalog::ComputeMode> compute;  // absent: by each weight's stored type
  std::optional<tensor::DType> state_dtype;     // absent: f32 on the reference, f16 on the cpu backend
  std::optional<compiler::Eviction> evict;      // absent: full attention sees everything
  std::set<std::string, std::less<>> disabled_passes;
  bool plain_kernels = false;  // take the plainest kernel that accepts, not the best
  runtime::GeneratedMode generated = runtime::GeneratedMode::kCached;
  bool invariant = false;           // as ExecutorOptions has it; without generated functions
  int64_t canary_every = 0;         // as ExecutorOptions has it
  std::filesystem::path cache_dir;  // of built kernels; empty: none are kept
  std::string host_compiler;        // that builds them; empty: looked for on the path
  std::function<void(const runtime::Demotion&)> on_demotion;
  std::function<void(const runtime::StepCall&)> fault;  // as ExecutorOptions has it
  std::vector<compiler::BucketSize> buckets = {{16, 16}, {512, 16}};
  Hidden hidden = Hidden::kNone;
  bool predict = false;  // also the checkpoint's own head that guesses further tokens; gives `hidden` beside the logits
  intake::IntakeOptions intake;
  int warp_width = 0;                // of devices that have several widths; 0: the device's own
  device::Device* device = nullptr;  // where a device backend runs; bring_up opens it
  double headroom = 0.2;             // share of the machine's memory that stays free
  Trace* trace = nullptr;
  std::function<void(uint64_t done, uint64_t total)> load_progress;
};

struct LoadedModel {
  std::unique_ptr<formats::Checkpoint> checkpoint;
  intake::Model model;
  std::vector<compiler::PassRecord> passes;
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<device::Device> device;  // of device backends
  std::unique_ptr<runtime::Executor> executor;
  std::unique_ptr<runtime::Executor> predictor;  // with BringUpOptions::predict
  double intake_seconds = 0;
  double compile_seconds = 0;
  double load_seconds = 0;

  // Of the model, then of its predictor: what a sequence's state is made of.
  std::vector<ops::StateDecl> states() const;
  double total_seconds() const { return intake_seconds + compile_seconds + load_seconds; }
  // Tokens of prompt and output together: what the model declares, or `fallback`.
  int64_t context(int64_t fallback = 2048) const { return model.max_positions.value_or(fallback); }
};

// Errors: those of the checkpoint's reader, intake, compiler and executor; kOutOfMemory before loading when weights,
// activations and headroom do not fit the machine (needed and available bytes).
Result<std::unique_ptr<LoadedModel>> bring_up(const std::string& path, const BringUpOptions& options);

// The device of a device backend, built kernels kept in the user's cache folder; null for backends that have none.
// Errors: kUnsupported with the reason why there is none.
Result<std::unique_ptr<device::Device>> open_backend(const BringUpOptions& options);

// The same in its parts, for verbs that stop early and for the gates.
compiler::CompileOptions compile_options(const BringUpOptions& options, const target::CpuTarget& target);
Result<std::unique_ptr<runtime::Executor>> load(const formats::Checkpoint& checkpoint, plan::Plan plan,
                                                ThreadPool& pool, const BringUpOptions& options,
                                                const target::CpuTarget& target);

}  // namespace firstlight::adapt
