// SPDX-License-Identifier: Apache-2.0
// Loads a plan and its weights, then runs batches: the only thing between an engine and kernels. Owns the weights made
// at load, the arena and the workspace; maps the rest from the checkpoint. One run at a time.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/thread_pool.h"
#include "base/trace.h"
#include "device/device.h"
#include "formats/tensor_file.h"
#include "kv/page_storage.h"
#include "plan/batch.h"
#include "plan/plan.h"
#include "runtime/generated.h"
#include "runtime/probe.h"
#include "tensor/view.h"

namespace firstlight::runtime {

// A kernel that gave something else than its plainer form: from then on that form runs, for steps of this signature.
struct Demotion {
  std::string kernel;     // symbol, or name of the generated function
  std::string to;         // what runs instead
  std::string label;      // of the step that showed it
  std::string signature;  // operand types and attributes
  double error = 0;       // relative L2 distance of the results; infinite where one has NaN and the other has none
};

struct ExecutorOptions {
  // Called on the loading thread with the bytes of the checkpoint that load steps are through with, and their total.
  std::function<void(uint64_t done, uint64_t total)> load_progress;
  Trace* trace = nullptr;            // step timers of loading and of every run; may be null
  device::Device* device = nullptr;  // where plans of device backends run; must outlive the executor
  // Batches are invariant (plan/batch.h). Devices refuse it: kUnsupported.
  bool invariant = false;
  // Every run is watched: what a step writes beside its results and its workspace, and what it leaves unwritten, is a
  // fault that the run reports. For debugging: it reads the arena twice per step.
#ifdef NDEBUG
  bool check_memory = false;
#else
  bool check_memory = true;
#endif
  // Of weights made at load (with what making them needs for a while), activations and work space together; 0: none.
  int64_t memory_limit_bytes = 0;
  GeneratedMode generated = GeneratedMode::kCached;
  std::filesystem::path cache_dir;  // of generated kernels; empty: there are none
  std::string host_compiler;        // that builds them; empty: looked for on the path
  // Every so many runs each step that has a plainer form is run in both and compared; 0: never (canary.cc).
  int64_t canary_every = 0;
  std::function<void(const Demotion&)> on_demotion;  // told at once, on the thread of worker 0
  // Planted, for tests of whoever has to find it: behind each step of the body, on the host, and may spoil its results.
  std::function<void(const StepCall& call)> fault;
};

struct MemoryUse {
  int64_t mapped_bytes = 0;    // weights read where the file lies
  int64_t resident_bytes = 0;  // weights made at load, or copied because the file has them unaligned
  int64_t arena_bytes = 0;
  int64_t workspace_bytes = 0;
};

// The host's executor; device backends have their own behind the same face (device_executor.h).
class Executor {
 public:
  // Runs the load steps. `checkpoint` and `pool` must outlive the executor. Errors: kNotFound or kInvalidData when a
  // tensor is not what the plan says (name, found, wanted), kOutOfMemory (before anything is loaded where the limit
  // forbids it), kInternal when a kernel of the plan has no body here.
  static Result<std::unique_ptr<Executor>> create(plan::Plan plan, const formats::Checkpoint& checkpoint,
                                                  ThreadPool& pool, const ExecutorOptions& options);
  virtual ~Executor();

  // Runs one batch; `states` are those of the plan, in order. Errors: kInvalidArgument when the batch is larger than
  // every bucket (tokens, outputs or sequences), or asks for rows that it does not have.
  virtual Status run(const plan::Batch& batch, std::span<const plan::StateView> states);

  // Where the caller puts an input of its own (one beside tokens, positions and output rows) before each run: room for
  // the rows of the largest batch. Empty: the plan has none of that name.
  std::span<std::byte> input(std::string_view name);

  // An output of the last run, rows of the batch's output_rows: valid until the next run.
  virtual tensor::View output(std::string_view name) const;

  // Where the pages of states must lie; null: in the host's memory.
  virtual kv::PageStorage* page_storage() { return nullptr; }

  const plan::Plan& plan() const { return plan_; }
  const MemoryUse& memory() const { return memory_; }
  int64_t max_batch_tokens() const;
  int64_t max_batch_outputs() const;
  int64_t max_batch_sequences() const;
  std::span<const Demotion> demotions() const { return demotions_; }
  // How many steps run a generated function now, and why the rest of those that could do not; ok while it is built.
  int64_t num_generated_steps() const;
  const Status& generated_status() const { return generated_->status(); }
  // Where step timers of later runs go; null stops them.
  void set_trace(Trace* trace) { options_.trace = trace; }
  // Who looks at the steps of later runs (probe.h); null: nobody. Probed runs are slow.
  void set_probe(StepProbe* probe) { probe_ = probe; }
  // What runs a step of the body now: a kernel's symbol, or a generated function.
  virtual std::string_view form_of(const plan::KernelStep& step) const;

 protected:
  struct MemoryCheck;
  struct PreparedKernel;
  struct Form;
  struct CanaryCopies;
  struct CallViews;
  struct Context;
  struct Routing;
  struct ExpertRows;

  Executor(plan::Plan plan, const formats::Checkpoint& checkpoint, ThreadPool& pool, const ExecutorOptions& options);

  // load.cc
  Status find_rates();
  Status map_files();
  Status copy_misplaced_files();
  Status prepare_steps(const std::vector<plan::Step>& steps);
  Status prepare_kernel(const plan::KernelStep& step);
  Status allocate_memory();
  Status allocate_inputs();

  // load_steps.cc
  int64_t peak_load_bytes() const;  // of weights made at load and copied, temporaries included
  Status run_load_steps();
  Status run_load_step(size_t index);
  void give_back(plan::BufferId id);

  // run.cc
  tensor::View view(plan::BufferId id, const Context& context) const;
  int64_t place_in_arena(plan::BufferId id, const Context& context) const;  // bytes from its start
  void run_block(const plan::Block& block, Context& context);
  void watch(const plan::KernelStep& step, const Context& context);  // memory_check.cc
  void run_watched(const plan::Step& step, Context& context);
  void run_kernel(const plan::Step& step, Context& context);
  void run_plain(const plan::Step& step, Context& context);
  void run_step(const plan::KernelStep& step, Context& context);
  void run_step(const plan::PerExpertStep& step, Context& context);
  bool may_run_together(const plan::Block& body) const;
  void run_experts(const plan::PerExpertStep& step, std::span<const ExpertRows> groups, Context& context);
  void run_body(const plan::Block& body, std::span<const ExpertRows> groups, Context& context);
  void add_results(const plan::PerExpertStep& step, std::span<const ExpertRows> groups, Context& context);
  void run_step(const plan::IfStep& step, Context& context);
  void route(const plan::PerExpertStep& step, const tensor::View& indices, const tensor::View& weights);
  // Picks the bucket and the sizes of a run. Errors: those of run().
  Status begin(const plan::Batch& batch, std::span<const plan::StateView> states);

  // forms.cc
  PreparedKernel& prepared(const plan::KernelStep& step) const;
  Status add_form(const plan::KernelStep& step, const std::string& symbol, PreparedKernel& kernel);
  void install_generated();
  bool needs_workspace(const plan::KernelStep& step, const Context& context) const;
  std::span<std::byte> workspace(const plan::KernelStep& step, const Context& context) const;
  void run_form(const Form& form, const plan::KernelStep& step, Context& context);

  // probe.cc
  void run_probed(const plan::Step& step, Context& context);
  void spoil(const plan::Step& step, Context& context);
  CallViews views_of(const plan::Step& step, const Context& context) const;
  StepCall call_of(const plan::Step& step, const Context& context, const CallViews& views) const;

  // canary.cc
  void run_with_canary(const plan::Step& step, Context& context);
  void demote(const plan::Step& step, PreparedKernel& kernel, double error);

  struct Freer {
    void operator()(std::byte* memory) const;
  };
  using Memory = std::unique_ptr<std::byte, Freer>;
  static Memory allocate(int64_t bytes);

  plan::Plan plan_;
  const formats::Checkpoint& checkpoint_;
  ThreadPool& pool_;
  ExecutorOptions options_;
  MemoryUse memory_;
  std::vector<void*> fixed_data_;          // per buffer: files, residents, inputs
  std::vector<Memory> owned_;              // per buffer
  std::vector<plan::BufferId> misplaced_;  // files whose bytes are copied, for they lie unaligned
  std::vector<std::pair<const plan::KernelStep*, std::unique_ptr<PreparedKernel>>> kernels_;  // sorted by step
  Memory arena_, workspace_;
  std::unique_ptr<Routing> routing_;
  std::unique_ptr<GeneratedCode> generated_;
  std::shared_ptr<device::LoadedLibrary> native_code_;
  std::unique_ptr<CanaryCopies> canary_;
  std::unique_ptr<MemoryCheck> memory_check_;  // null: memory is not watched
  std::vector<Demotion> demotions_;
  int64_t num_runs_ = 0;
  StepProbe* probe_ = nullptr;
  bool probe_wants_ = false;  // the step that runs now
  std::vector<int32_t> tokens_, positions_, output_rows_;
  std::vector<int64_t> rates_;            // whose groups the plan's shapes count
  const plan::Bucket* bucket_ = nullptr;  // of the last run
  tensor::SymbolValues values_;           // of the last run
};

}  // namespace firstlight::runtime
