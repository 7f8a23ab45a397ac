// SPDX-License-Identifier: Apache-2.0
// From a verified graph to an executable plan: named passes in one list (pipeline.cc), each timed, each followed by the
// verifier, the optional ones with a switch; then lowering (lower.h). Links no device: it compiles for hardware that
// may be absent, known through catalog and target alone.
#pragma once

#include <algorithm>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "catalog/kernel_row.h"
#include "ir/graph.h"
#include "plan/plan.h"
#include "target/execution.h"
#include "target/target.h"

namespace firstlight::compiler {

struct BucketSize {
  int64_t max_tokens = 1;
  int64_t max_outputs = 1;
  int64_t max_sequences = 0;  // 0: as many as outputs, one at least

  int64_t sequences() const {
    return max_sequences > 0 ? max_sequences : std::clamp<int64_t>(max_outputs, 1, std::max<int64_t>(max_tokens, 1));
  }
};

// Computes a node whose operands are constants, for the folding of constants. The compiler links no kernels: whoever
// composes the program hands one in.
class ConstantEvaluator {
 public:
  virtual ~ConstantEvaluator() = default;
  struct Operand {
    tensor::Type type;  // f32, static
    std::span<const double> values;
  };
  // The values of the node's first result, f32. Errors: kUnsupported when it has no kernel for it.
  virtual Result<std::vector<double>> evaluate(ops::OpKind op, const ops::Attributes& attributes,
                                               std::span<const Operand> operands, const tensor::Type& result) const = 0;
};

// What kernels need beside their operands. The compiler links none: whoever composes the program hands this in.
class KernelFacts {
 public:
  virtual ~KernelFacts() = default;
  // Bytes of workspace the kernel of that symbol needs at most with these sizes, on so many workers; 0: none.
  virtual int64_t workspace_bytes(std::string_view symbol, const catalog::Signature& signature,
                                  const tensor::SymbolValues& values, int num_workers) const = 0;
};

// Layers of full attention see the first `sinks` tokens and the last `window`, and keep no other (StreamingLLM,
// arXiv:2309.17453).
struct Eviction {
  int64_t sinks = 0;   // 0 or more
  int64_t window = 0;  // 1 or more
  friend bool operator==(const Eviction&, const Eviction&) = default;
};

struct CompileOptions {
  catalog::Backend backend = catalog::Backend::kReference;
  target::Features features;       // of what runs the plan's body: the CPU, or the device
  target::Features host_features;  // of the CPU that makes the weights of a device's plan at load
  target::Execution execution;     // what fusion rules go by
  // How matrix products compute; nullopt: by each weight's stored type (quantised: w8a8; bf16 and f8: bf16; else f32).
  std::optional<catalog::ComputeMode> compute;
  // Of logs. A block format is for what attention alone reads (others stay f16): q4_1s for keys, q4_1 for values.
  tensor::DType state_dtype = tensor::DType::kF32;
  std::optional<Eviction> evict;
  bool plain_kernels = false;                          // take the plainest kernel that accepts, not the best
  bool generate = true;                                // write source for steps that have no tuned kernel
  std::vector<BucketSize> buckets = {{1, 1}};          // at least one; the plan has them in ascending order
  bool every_row = false;                              // outputs have a row per token, none are selected
  std::set<std::string, std::less<>> disabled_passes;  // "all": every optional one
  const ConstantEvaluator* evaluator = nullptr;        // null: constants are computed at load
  const KernelFacts* kernels = nullptr;                // null: work space is not planned, the runtime adds its own
  int num_workers = 1;                                 // that will run the plan together
};

struct PassRecord {
  std::string name;
  bool ran = false;
  double seconds = 0;
  size_t nodes_after = 0;
};

// Errors: kInvalidArgument where a disabled pass is none, with the names there are.
Status check_pass_names(const CompileOptions& options);

// Runs the passes in order, up to and including `stop_after` (empty: all). The reference backend skips every optional
// one. Errors: kInvalidArgument for a pass name nobody knows, kInternal when a pass breaks the graph (with its name).
Status run_passes(ir::Graph& graph, const CompileOptions& options, std::string_view stop_after,
                  std::vector<PassRecord>* records);

// The names of all passes, in order, and whether each is optional.
struct PassInfo {
  std::string_view name;
  std::string_view purpose;
  bool optional;
  std::optional<ops::OpKind> makes = std::nullopt;  // runs only where the backend has kernels for it
};
std::vector<PassInfo> all_passes();

// All passes, then lowering. Errors: kInvalidArgument for buckets without tokens; kUnsupported when the backend has no
// kernel for a node (with operator, types, scope).
Result<plan::Plan> compile(ir::Graph graph, const CompileOptions& options, std::vector<PassRecord>* records = nullptr);

}  // namespace firstlight::compiler
