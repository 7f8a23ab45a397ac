// SPDX-License-Identifier: Apache-2.0
// plan: what a model takes of one device's memory, and the longest context that fits. From headers alone; nothing is
// loaded and no weight is read.
#include <cstdio>

#include "adapt/bring_up.h"
#include "adapt/model_options.h"
#include "adapt/text_assets.h"
#include "base/json.h"
#include "base/process_memory.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "device/cpu/detect.h"
#include "device/cpu/measure.h"
#include "gates/plan_work.h"
#include "planner/dry_run.h"
#include "planner/memory.h"

namespace firstlight::cli {
namespace {

constexpr int64_t kFallbackContext = 2048;  // where the model declares none: as LoadedModel::context has it
// Code and libraries that running touches and planning does not, threads and queues: what small models took beyond.
constexpr int64_t kRunningBytes = int64_t{6} << 20;
constexpr int64_t kPromptTokens = 512;  // of the predicted time to the first token

// What is asked, and what there is.
struct Question {
  adapt::BringUpOptions options;
  target::CpuTarget cpu;
  std::unique_ptr<device::Device> device;
  planner::MemoryLimit limit;
};

struct Answer {
  planner::DryRun run;
  std::optional<planner::MemoryModel> memory;
  planner::MemoryNeeds needs;
  int64_t context = 0, max_context = 0;
  int64_t declared = 0;  // positions that the model knows; 0: it does not say
  std::string note;      // why the context is not the one asked for or declared
  bool fits = false;
  Json predicted;
};

Result<Question> ask(const CommonFlags& common, const PlanFlags& flags) {
  if (!flags.cluster.empty()) return unsupported("--cluster " + flags.cluster + ": this build plans one device");
  if (flags.context > planner::kLongestContext) {
    return invalid_argument("--context " + std::to_string(flags.context) + ": 1 to " +
                            std::to_string(planner::kLongestContext) + " wanted");
  }
  if (flags.batch < 1 || flags.batch > 65536) {
    return invalid_argument("--batch " + std::to_string(flags.batch) + ": 1 to 65536 wanted");
  }
  Question question{.options = FL_TRY(bring_up_options(common)), .cpu = device::detect_cpu()};
  adapt::BringUpOptions& options = question.options;
  question.device = FL_TRY(adapt::open_backend(options));
  options.device = question.device.get();
  for (compiler::BucketSize& bucket : options.buckets) {
    bucket.max_outputs = std::max(bucket.max_outputs, flags.batch);
    bucket.max_tokens = std::max(bucket.max_tokens, bucket.max_outputs);
  }
  question.limit = {
      .memory = question.cpu.memory_bytes, .available = question.cpu.available_bytes, .headroom = options.headroom};
  if (question.device != nullptr) {
    question.limit.memory = question.device->target().global_bytes;
    question.limit.available = question.device->available_bytes();
  }
  if (flags.memory > 0) question.limit.memory = question.limit.available = static_cast<int64_t>(flags.memory);
  return question;
}

// Seconds at the measured roof: a floor, and no promise.
Json predict(const plan::Plan& plan, const Question& question, int64_t context, bool measure) {
  Json predicted = {{"load_s", nullptr}, {"ttft_s", nullptr}, {"tpot_s", nullptr}};
  if (!measure || question.device != nullptr) return predicted;
  const auto pool = ThreadPool::create({.num_threads = question.options.num_threads});
  if (!pool.ok()) return predicted;
  const target::CpuRoof roof = device::measure_cpu(question.cpu, **pool);
  const int64_t prompt = std::min(kPromptTokens, context);
  const auto seconds = [&](const gates::RunShape& shape) {
    return gates::floor_of(gates::work_of(plan, shape), roof, 0).seconds;
  };
  predicted["ttft_s"] = seconds({.tokens = prompt});
  predicted["tpot_s"] = seconds({.depth = context / 2});
  predicted["prompt"] = prompt;
  predicted["depth"] = context / 2;
  return predicted;
}

void choose_context(int64_t wanted, int64_t usable, int64_t batch, Answer& answer) {
  const int64_t most =
      answer.declared > 0 ? std::min(answer.declared, planner::kLongestContext) : planner::kLongestContext;
  answer.max_context = answer.memory->largest_context(usable, batch, most);
  const int64_t model = answer.declared > 0 ? most : kFallbackContext;
  answer.context = wanted > 0 ? wanted : std::max<int64_t>(1, std::min(model, answer.max_context));
  if (wanted == 0 && answer.context < model) {
    answer.note = "the model's " + std::to_string(model) + " need " +
                  std::to_string(answer.memory->needs({model, batch}).total()) + " bytes, " + std::to_string(usable) +
                  " are available";
  }
  answer.needs = answer.memory->needs({answer.context, batch});
  answer.fits = answer.needs.total() <= usable;
}

Status plan_memory(const PlanFlags& flags, const Question& question, Answer& answer) {
  planner::DryRun& run = answer.run;
  answer.declared = run.model->max_positions.value_or(0);
  if (answer.declared > 0 && flags.context > answer.declared) {
    return invalid_argument("--context " + std::to_string(flags.context) + ": the model knows " +
                            std::to_string(answer.declared) + " positions");
  }
  const ir::Graph& graph = run.model->graph;
  const auto plan = FL_TRY(compiler::compile(graph, adapt::compile_options(question.options, question.cpu, graph)));
  const bool is_device = question.device != nullptr;
  answer.memory = FL_TRY(planner::MemoryModel::create(
      plan, run.checkpoint.get(),
      {.program_bytes = is_device ? 0 : process_memory().resident_bytes + kRunningBytes, .is_device = is_device}));
  choose_context(flags.context, question.limit.usable(), flags.batch, answer);
  answer.predicted = predict(plan, question, answer.context, flags.measure);
  if (!flags.measure) run.unknown.emplace_back("times: --measure holds the plan against the measured roof");
  if (flags.measure && is_device) run.unknown.emplace_back("times on a device: not predicted yet");
  return ok_status();
}

Json rank_json(const planner::MemoryNeeds& needs, const planner::MemoryLimit& limit) {
  return {{"weights", needs.weights},
          {"loading", needs.loading},
          {"state", needs.state},
          {"state_by_kind", needs.state_by_kind},
          {"activations", needs.activations},
          {"workspace", needs.workspace},
          {"sampling", needs.sampling},
          {"program", needs.program},
          {"headroom", limit.headroom_bytes()},
          {"total", needs.total()},
          {"memory", limit.memory},
          {"available", limit.usable()}};
}

Json answer_json(const Answer& answer, const Question& question, int64_t batch) {
  Json document = {{"parameters", answer.run.parameters},
                   {"weights_bytes", answer.run.bytes},
                   {"tensors", answer.run.tensors},
                   {"fits", nullptr},
                   {"context", nullptr},
                   {"batch", batch},
                   {"max_context", nullptr},
                   {"split", {{"tp", 1}, {"pp", 1}, {"ep", 1}, {"dp", 1}}},
                   {"ranks", Json::array()},
                   {"predicted", {{"load_s", nullptr}, {"ttft_s", nullptr}, {"tpot_s", nullptr}}},
                   {"unknown", answer.run.unknown}};
  // Weights alone can be too much already.
  if (answer.run.bytes > question.limit.usable()) document["fits"] = false;
  if (!answer.memory) return document;
  document["architecture"] = answer.run.model->architecture;
  document["spec"] = answer.run.model->spec;
  document["fits"] = answer.fits;
  document["context"] = answer.context;
  document["max_context"] = answer.max_context;
  document["model_context"] = answer.declared > 0 ? Json(answer.declared) : Json();
  document["ranks"].push_back(rank_json(answer.needs, question.limit));
  document["predicted"] = answer.predicted;
  if (!answer.note.empty()) document["note"] = answer.note;
  return document;
}

void print_bytes(const std::string& what, int64_t bytes) {
  if (bytes > 0) std::printf("  %-24s %14.1f MB\n", what.c_str(), static_cast<double>(bytes) / 1e6);
}

void print_text(const Answer& answer, const Question& question, int64_t batch) {
  std::printf("%lld parameters in %lld bytes, %lld tensors\n", static_cast<long long>(answer.run.parameters),
              static_cast<long long>(answer.run.bytes), static_cast<long long>(answer.run.tensors));
  if (answer.memory) {
    const planner::MemoryNeeds& needs = answer.needs;
    std::printf("context %lld, %lld at a time, on %s\n", static_cast<long long>(answer.context),
                static_cast<long long>(batch), std::string(catalog::backend_name(question.options.backend)).c_str());
    print_bytes("weights", needs.weights);
    print_bytes("while loading", needs.loading);
    for (const auto& [kind, bytes] : needs.state_by_kind) print_bytes("state, " + kind, bytes);
    print_bytes("activations", needs.activations);
    print_bytes("work space", needs.workspace);
    print_bytes("tokens and sampling", needs.sampling);
    print_bytes("the program", needs.program);
    print_bytes("in all", needs.total());
    print_bytes("available", question.limit.usable());
    print_bytes("of memory", question.limit.memory);
    std::printf("%s; the longest context that fits: %lld\n", answer.fits ? "fits" : "does not fit",
                static_cast<long long>(answer.max_context));
    if (!answer.note.empty()) std::printf("note: %s\n", answer.note.c_str());
  }
  for (const char* key : {"ttft_s", "tpot_s"}) {
    if (answer.predicted.is_object() && answer.predicted[key].is_number()) {
      std::printf("%s at the roof: %.3g s\n", key, answer.predicted[key].get<double>());
    }
  }
  for (const std::string& what : answer.run.unknown) std::printf("unknown: %s\n", what.c_str());
}

}  // namespace

Result<int> verb_plan(const CommonFlags& common, const PlanFlags& flags) {
  const Question question = FL_TRY(ask(common, flags));
  Answer answer{.run = FL_TRY(planner::dry_run(common.model, {.tensors_file = flags.tensors,
                                                              .headers_only = flags.headers_only,
                                                              .intake = question.options.intake}))};
  // A run has it too: it is part of what the program takes.
  const adapt::TextAssets text = adapt::load_text_assets(common.model, answer.run.checkpoint.get());
  if (answer.run.model) FL_TRY(plan_memory(flags, question, answer));
  common.json ? print_json(answer_json(answer, question, flags.batch)) : print_text(answer, question, flags.batch);
  if (!answer.memory) {
    std::fprintf(stderr, "firstlight: %s\n", answer.run.refusal.message().c_str());
    return 2;
  }
  if (answer.fits) return 0;
  std::fprintf(stderr,
               "firstlight: a context of %lld needs %lld bytes, %lld are available; the longest that fits: %lld\n",
               static_cast<long long>(answer.context), static_cast<long long>(answer.needs.total()),
               static_cast<long long>(question.limit.usable()), static_cast<long long>(answer.max_context));
  return 1;
}

}  // namespace firstlight::cli
