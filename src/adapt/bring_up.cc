// SPDX-License-Identifier: Apache-2.0
#include "adapt/bring_up.h"
#include "adapt/model_options.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "adapt/compiler_services.h"
#include "adapt/hidden_output.h"
#include "compiler/compute_modes.h"
#include "device/cpu/detect.h"
#include "device/open.h"

namespace firstlight::adapt {
namespace {

class Stopwatch {
 public:
  // Seconds since the last call, or since the start.
  double lap() {
    const auto now = std::chrono::steady_clock::now();
    const double seconds = std::chrono::duration<double>(now - last_).count();
    last_ = now;
    return seconds;
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

target::Features device_features(const device::Device* device) {
  return device == nullptr ? target::Features{} : target::features_of(device->target());
}

}  // namespace

Result<std::unique_ptr<device::Device>> open_backend(const BringUpOptions& options) {
  if (!catalog::is_device(options.backend)) return std::unique_ptr<device::Device>();
  const auto kind = FL_TRY(target::parse_device_kind(catalog::backend_name(options.backend)));
  return device::open_device(kind, {.cache_dir = options.cache_dir,
                                    .warp_width = options.warp_width,
                                    .num_threads = options.num_threads,
                                    .host_compiler = options.host_compiler});
}

compiler::CompileOptions compile_options(const BringUpOptions& options, const target::CpuTarget& target) {
  const bool reference = options.backend == catalog::Backend::kReference;
  return {.backend = options.backend,
          .features = catalog::is_device(options.backend) ? device_features(options.device) : target.features,
          .host_features = target.features,
          .execution = options.device == nullptr ? target::Execution{} : target::execution_of(options.device->target()),
          .compute = options.compute,
          .state_dtype = options.state_dtype.value_or(reference ? tensor::DType::kF32 : tensor::DType::kF16),
          .evict = options.evict,
          .plain_kernels = options.plain_kernels,
          .generate = options.generated != runtime::GeneratedMode::kOff,
          .buckets = options.buckets,
          .every_row = options.hidden != Hidden::kNone,
          .disabled_passes = options.disabled_passes,
          .evaluator = &reference_evaluator(),
          .kernels = &linked_kernels(),
          .num_workers = options.num_threads > 0
                             ? options.num_threads
                             : std::max(target.num_cores, static_cast<int>(std::thread::hardware_concurrency()))};
}

compiler::CompileOptions compile_options(const BringUpOptions& options, const target::CpuTarget& target,
                                         const ir::Graph& graph) {
  compiler::CompileOptions compile = compile_options(options, target);
  if (!options.state_dtype) compile.state_dtype = compiler::usual_state_dtype(graph, compile);
  return compile;
}

Result<std::unique_ptr<runtime::Executor>> load(const formats::Checkpoint& checkpoint, plan::Plan plan,
                                                ThreadPool& pool, const BringUpOptions& options,
                                                const target::CpuTarget& target) {
  const auto roomy = static_cast<int64_t>((1 - options.headroom) * static_cast<double>(target.memory_bytes));
  const int64_t limit = std::max<int64_t>(1, std::min(roomy, target.available_bytes));  // 0 would mean none
  return runtime::Executor::create(std::move(plan), checkpoint, pool,
                                   {.load_progress = options.load_progress,
                                    .trace = options.trace,
                                    .device = catalog::is_device(options.backend) ? options.device : nullptr,
                                    .invariant = options.invariant,
                                    .memory_limit_bytes = limit,
                                    .generated = options.generated,
                                    .cache_dir = options.cache_dir,
                                    .host_compiler = options.host_compiler,
                                    .canary_every = options.canary_every,
                                    .on_demotion = options.on_demotion,
                                    .fault = options.fault});
}

std::vector<ops::StateDecl> LoadedModel::states() const {
  std::vector<ops::StateDecl> all = executor->plan().states;
  if (predictor) all.insert(all.end(), predictor->plan().states.begin(), predictor->plan().states.end());
  return all;
}

Result<std::unique_ptr<LoadedModel>> bring_up(const std::string& path, const BringUpOptions& wanted) {
  BringUpOptions options = wanted;
  if (options.predict && options.hidden == Hidden::kNone) options.hidden = Hidden::kBeside;
  options.intake.predict = options.predict;
  if (options.invariant) options.generated = runtime::GeneratedMode::kOff;  // they come when they are built
  const target::CpuTarget target = device::detect_cpu();
  auto loaded = std::make_unique<LoadedModel>();
  Stopwatch watch;
  if (options.device == nullptr) {
    loaded->device = FL_TRY(open_backend(options));
    options.device = loaded->device.get();
  }
  loaded->checkpoint = std::make_unique<formats::Checkpoint>(FL_TRY(formats::Checkpoint::open(path)));
  loaded->model = FL_TRY(intake::load_model(*loaded->checkpoint, options.intake));
  loaded->intake_seconds = watch.lap();
  ir::Graph graph = loaded->model.graph;
  if (options.hidden != Hidden::kNone) FL_TRY(add_hidden_output(graph, options.hidden == Hidden::kBeside));
  const compiler::CompileOptions compile = compile_options(options, target, graph);
  auto plan = FL_TRY(compiler::compile(std::move(graph), compile, &loaded->passes));
  std::optional<plan::Plan> predictor;
  if (loaded->model.predictor) predictor = FL_TRY(compiler::compile(*loaded->model.predictor, compile));
  loaded->compile_seconds = watch.lap();
  loaded->pool = FL_TRY(ThreadPool::create({.num_threads = options.num_threads, .yields = true}));
  loaded->executor = FL_TRY(load(*loaded->checkpoint, std::move(plan), *loaded->pool, options, target));
  if (predictor) {
    loaded->predictor = FL_TRY(load(*loaded->checkpoint, std::move(*predictor), *loaded->pool, options, target));
  }
  loaded->load_seconds = watch.lap();
  return loaded;
}

}  // namespace firstlight::adapt
