// SPDX-License-Identifier: Apache-2.0
// baseline: golden packs recorded, compared, and what they have.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "adapt/model_options.h"
#include "adapt/output_directory.h"
#include "align/compare.h"
#include "align/join.h"
#include "align/record.h"
#include "align/vote.h"
#include "base/file_map.h"
#include "base/json.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/prompt_file.h"
#include "cli/streams.h"
#include "cli/verbs.h"
#include "device/cpu/detect.h"
#include "locate/locate.h"

namespace firstlight::cli {
namespace {

// A model that is about to be recorded.
struct Bench {
  adapt::BringUpOptions options;
  std::unique_ptr<formats::Checkpoint> checkpoint;
  intake::Model model;
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<device::Device> device;
  align::Resources resources;
};

// Without the model's graph.
Result<Bench> set_up_files(const CommonFlags& common, const std::string& files) {
  Bench bench;
  bench.options = FL_TRY(bring_up_options(common));
  bench.checkpoint = std::make_unique<formats::Checkpoint>(FL_TRY(formats::Checkpoint::open(files)));
  bench.device = FL_TRY(adapt::open_backend(bench.options));
  bench.options.device = bench.device.get();
  bench.pool = std::make_unique<ThreadPool>(ThreadPool::Options{.num_threads = bench.options.num_threads});
  const auto target = device::detect_cpu();
  bench.resources = {.checkpoint = bench.checkpoint.get(),
                     .pool = bench.pool.get(),
                     .compile = adapt::compile_options(bench.options, target),
                     .executor = {.device = bench.device.get(),
                                  .memory_limit_bytes = std::max<int64_t>(1, target.available_bytes),
                                  .generated = bench.options.generated,
                                  .cache_dir = bench.options.cache_dir,
                                  .host_compiler = bench.options.host_compiler,
                                  .canary_every = bench.options.canary_every}};
  return bench;
}

Result<Bench> set_up(const CommonFlags& common) {
  Bench bench = FL_TRY(set_up_files(common, common.model));
  bench.model = FL_TRY(intake::load_model(*bench.checkpoint, bench.options.intake));
  bench.resources.compile = adapt::compile_options(bench.options, device::detect_cpu(), bench.model.graph);
  return bench;
}

std::string base_name(const std::string& path) {
  std::filesystem::path name(path);
  if (!name.has_filename()) name = name.parent_path();
  return name.filename().string();
}

align::Pack head_of(const CommonFlags& common, const Bench& bench) {
  const auto& compile = bench.resources.compile;
  return {.origin = {{"kind", "firstlight"},
                     {"version", FL_VERSION},
                     {"backend", common.backend},
                     {"compute", common.compute},
                     {"state", std::string(tensor::dtype_name(compile.state_dtype))}},
          .model = base_name(common.model),
          .architecture = bench.model.architecture,
          .spec = bench.model.spec};
}

// The reference backend, rounding the operands of products as `bench` has them computed.
struct RoundedBench {
  ir::Graph graph;
  align::Resources resources;
};

// `graph`: that of the model, or the same with more values.
Result<RoundedBench> rounded_bench(const Bench& bench, const ir::Graph& graph) {
  RoundedBench rounded{.graph = FL_TRY(align::with_rounded_products(graph, bench.resources.compile)),
                       .resources = bench.resources};
  adapt::BringUpOptions options = bench.options;
  options.backend = catalog::Backend::kReference;
  options.compute.reset();
  options.device = nullptr;
  options.state_dtype = bench.resources.compile.state_dtype;
  rounded.resources.compile = adapt::compile_options(options, device::detect_cpu());
  rounded.resources.executor.device = nullptr;
  rounded.resources.executor.canary_every = 0;
  return rounded;
}

align::RecordOptions record_options(const BaselineFlags& flags) {
  return {.operators = flags.operators || flags.experts,
          .full = {flags.full.begin(), flags.full.end()},
          .greedy = flags.greedy,
          .run = {.chunk = flags.chunk, .batched = flags.batched, .memory_limit = flags.memory_limit}};
}

Json sights_json(const align::Pack& pack, const align::Pack* tested) {
  Json json = Json::object();
  for (const auto& [kind, sight] : align::visible_faults(pack, tested)) {
    json[kind] = {{"sees", sight.sees}, {"why", sight.why}};
  }
  return json;
}

void print_sights(const align::Pack& pack, const align::Pack* tested) {
  for (const auto& [kind, sight] : align::visible_faults(pack, tested)) {
    std::printf("  faults of %-8s %s: %s\n", kind.c_str(), sight.sees ? "are seen" : "are not seen", sight.why.c_str());
  }
}

uint64_t bytes_on_disk(const std::string& directory) {
  uint64_t bytes = 0;
  for (const char* name : {"/manifest.json", "/tensors.safetensors"}) {
    std::error_code error;
    const auto size = std::filesystem::file_size(directory + name, error);
    if (!error) bytes += size;
  }
  return bytes;
}

// An older recording, which a new one may replace; anything else in a directory is not ours to touch.
bool holds_pack_alone(const std::string& directory) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    if (name != "manifest.json" && name != "tensors.safetensors") return false;
  }
  const auto manifest = read_text_file(directory + "/manifest.json");
  return manifest.ok() && align::parse_manifest(*manifest).ok();
}

}  // namespace

Result<int> verb_baseline_record(const CommonFlags& common, const BaselineFlags& flags) {
  if (flags.prompts.empty() && flags.tokens.empty()) return invalid_argument("--prompts or --tokens wanted");
  const RemoveOnInterrupt guard(flags.output);
  std::optional<adapt::OutputDirectory> output;  // made before the work, not after it
  if (!holds_pack_alone(flags.output)) output.emplace(FL_TRY(adapt::OutputDirectory::create(flags.output)));
  const Bench bench = FL_TRY(set_up(common));
  align::Prompts prompts;
  if (!flags.tokens.empty()) {
    prompts.push_back(FL_TRY(parse_token_ids("--tokens", flags.tokens)));
  } else {
    prompts = FL_TRY(read_prompts(flags.prompts, adapt::load_text_assets(common.model, bench.checkpoint.get())));
  }
  align::RecordOptions options = record_options(flags);
  align::Pack head = head_of(common, bench);
  std::optional<align::ExpertValues> experts;
  if (flags.experts) experts = FL_TRY(align::with_expert_values(bench.model.graph));
  if (experts) options.experts = &*experts;
  std::optional<RoundedBench> rounded;
  if (flags.rounded) {
    rounded = FL_TRY(rounded_bench(bench, experts ? experts->graph : bench.model.graph));
    options.run_instead = &rounded->graph;
    head.origin["rounded_as"] = common.backend + " " + common.compute;
    head.origin["backend"] = "reference";
  }
  const auto recording = FL_TRY(align::record(bench.model.graph, prompts, std::move(head), options,
                                              rounded ? rounded->resources : bench.resources));
  const align::Pack& pack = recording.pack;
  if (output) output->add({flags.output + "/manifest.json", flags.output + "/tensors.safetensors"});
  FL_TRY(align::write_pack(pack, flags.output, recording.limit));
  if (output) output->keep();
  const uint64_t bytes = bytes_on_disk(flags.output);
  if (common.json) {
    print_json({{"pack", flags.output},
                {"bytes", bytes},
                {"values", pack.taps.size()},
                {"prompts", pack.prompts.size()},
                {"segments", recording.facts.segments},
                {"chunk", recording.facts.chunk},
                {"weights_hash", pack.weights_hash},
                {"spec_hash", pack.spec_hash},
                {"peak_resident_bytes", align::peak_resident_bytes()},
                {"sees", sights_json(pack, nullptr)}});
  } else {
    std::printf("%s: %zu values of %zu prompts, %llu bytes; %zu pieces, %.1f MB of memory at most\n",
                flags.output.c_str(), pack.taps.size(), pack.prompts.size(), static_cast<unsigned long long>(bytes),
                recording.facts.segments, static_cast<double>(align::peak_resident_bytes()) / 1e6);
    print_sights(pack, nullptr);
  }
  return 0;
}

namespace {

struct Tested {
  align::Pack pack;
  std::optional<align::Pack> rounded;  // the reference, its operands rounded alike
  std::optional<align::Pack> exact;    // and not, where the baseline has another spec or other weights
};

// The tested side, recorded now; and the references, where its products are not computed in float32.
Status record_tested(const CommonFlags& common, const BaselineFlags& flags, const align::Pack& baseline,
                     Tested& tested) {
  const Bench bench = FL_TRY(set_up(common));
  align::RecordOptions options = record_options(flags);
  std::optional<align::ExpertValues> experts;
  for (const align::TapInfo& tap : baseline.taps) {
    options.operators = options.operators || (!tap.is_layer_output && tap.name != "logits");
    if (align::is_expert_value(tap.name) && !experts) experts = FL_TRY(align::with_expert_values(bench.model.graph));
  }
  if (experts) options.experts = &*experts;
  const ir::Graph& graph = experts ? experts->graph : bench.model.graph;
  for (const align::PromptRecord& prompt : baseline.prompts) {
    options.greedy = static_cast<int64_t>(prompt.greedy.size());
  }
  align::Pack head = head_of(common, bench);
  tested.pack = FL_TRY(align::record_like(bench.model.graph, baseline, head, options, bench.resources)).pack;
  constexpr double kFloat32 = 1e-6;
  const bool rounds = std::atof(tested.pack.origin["rounding"].c_str()) > kFloat32;
  if (tested.rounded || flags.two_way || !rounds) return ok_status();
  RoundedBench reference = FL_TRY(rounded_bench(bench, graph));
  options.run_instead = &reference.graph;
  options.greedy = 0;
  head.weights_hash = tested.pack.weights_hash;
  head.origin["backend"] = "reference";
  tested.rounded = FL_TRY(align::record_like(bench.model.graph, baseline, head, options, reference.resources)).pack;
  if (tested.pack.spec_hash == baseline.spec_hash && tested.pack.weights_hash == baseline.weights_hash) {
    return ok_status();
  }
  options.run_instead = nullptr;
  reference.resources.compile.state_dtype = tensor::DType::kF32;
  tested.exact =
      FL_TRY(align::record_like(bench.model.graph, baseline, std::move(head), options, reference.resources)).pack;
  return ok_status();
}

// Differences are no findings then, however they look.
void warn_of_another(const align::Pack& baseline, const std::string& architecture) {
  if (baseline.architecture.empty() || architecture.empty() || baseline.architecture == architecture) return;
  std::fprintf(stderr, "warning: the baseline is of architecture %s, what is compared with it of %s\n",
               baseline.architecture.c_str(), architecture.c_str());
}

}  // namespace

Result<int> verb_baseline_compare(const CommonFlags& common, const BaselineFlags& flags) {
  CommonFlags of_model = common;
  if (!flags.baseline.empty()) of_model.model = flags.first;
  const align::Pack baseline = FL_TRY(align::read_pack(flags.baseline.empty() ? flags.first : flags.baseline));
  Tested tested;
  if (!flags.rounded_pack.empty()) tested.rounded = FL_TRY(align::read_pack(flags.rounded_pack));
  if (!of_model.model.empty()) {
    FL_TRY(record_tested(of_model, flags, baseline, tested));
  } else if (!flags.second.empty()) {
    tested.pack = FL_TRY(align::read_pack(flags.second));
  } else {
    return invalid_argument("a second pack or --model wanted");
  }
  warn_of_another(baseline, tested.pack.architecture);
  const auto comparison = FL_TRY(align::compare(baseline, tested.pack, tested.rounded ? &*tested.rounded : nullptr,
                                                tested.exact ? &*tested.exact : nullptr));
  if (!flags.html.empty()) {
    FL_TRY(write_file(flags.html, align::comparison_html(comparison, baseline, tested.pack)));
  }
  if (common.json) {
    print_json(align::comparison_json(comparison));
  } else {
    std::printf("%s", align::comparison_text(comparison, flags.all).c_str());
  }
  return comparison.passed ? 0 : 1;
}

namespace {

// NAME=PACK; without a name the folder's, or the whole path where two folders have the same.
Result<std::vector<align::Voter>> read_voters(const std::vector<std::string>& words) {
  std::vector<align::Voter> voters;
  std::vector<std::string> paths;
  for (const std::string& word : words) {
    const size_t sign = word.find('=');
    const bool named = sign != std::string::npos && sign > 0 && word.find('/') > sign;
    paths.push_back(named ? word.substr(sign + 1) : word);
    voters.push_back({.name = named ? word.substr(0, sign) : base_name(word), .pack = {}});
    voters.back().pack = FL_TRY(align::read_pack(paths.back()));
  }
  for (size_t i = 0; i < voters.size(); ++i) {
    for (size_t j = i + 1; j < voters.size(); ++j) {
      if (voters[i].name == voters[j].name) voters[i].name = paths[i], voters[j].name = paths[j];
    }
  }
  return voters;
}

// The model as one more voter, with what the richest of the others keeps.
Result<align::Voter> record_voter(const CommonFlags& common, const BaselineFlags& flags,
                                  const std::vector<align::Voter>& others) {
  const align::Pack* like = &others[0].pack;
  for (const align::Voter& voter : others) {
    if (voter.pack.taps.size() > like->taps.size()) like = &voter.pack;
  }
  const Bench bench = FL_TRY(set_up(common));
  align::RecordOptions options = record_options(flags);
  for (const align::TapInfo& tap : like->taps) {
    options.operators = options.operators || (!tap.is_layer_output && tap.name != "logits");
  }
  const auto recording =
      FL_TRY(align::record_like(bench.model.graph, *like, head_of(common, bench), options, bench.resources));
  return align::Voter{.name = base_name(common.model) + " on " + common.backend, .pack = recording.pack};
}

}  // namespace

Result<int> verb_baseline_vote(const CommonFlags& common, const BaselineFlags& flags) {
  std::vector<align::Voter> voters = FL_TRY(read_voters(flags.packs));
  if (!common.model.empty()) voters.push_back(FL_TRY(record_voter(common, flags, voters)));
  const auto result = FL_TRY(align::vote(voters));
  if (!flags.html.empty()) FL_TRY(write_file(flags.html, align::vote_html(result)));
  if (common.json) {
    print_json(align::vote_json(result));
  } else {
    std::printf("%s", printable(align::vote_text(result, flags.all)).c_str());
  }
  return result.agreed() ? 0 : 1;
}

Result<int> verb_baseline_join(const CommonFlags& common, const BaselineFlags& flags) {
  std::vector<align::Pack> ranks;
  for (const std::string& path : flags.packs) ranks.push_back(FL_TRY(align::read_pack(path)));
  const RemoveOnInterrupt guard(flags.output);
  std::optional<adapt::OutputDirectory> output;
  if (!holds_pack_alone(flags.output)) output.emplace(FL_TRY(adapt::OutputDirectory::create(flags.output)));
  if (output) output->add({flags.output + "/manifest.json", flags.output + "/tensors.safetensors"});
  const auto joined = FL_TRY(align::join_ranks(ranks));
  FL_TRY(align::write_pack(joined.pack, flags.output, 0));
  if (output) output->keep();
  if (common.json) {
    Json findings = Json::array();
    for (const align::ReplicaFinding& finding : joined.findings) {
      findings.push_back(
          {{"name", finding.name}, {"ranks", {finding.rank_a, finding.rank_b}}, {"rel_l2", finding.rel_l2}});
    }
    print_json({{"pack", flags.output},
                {"ranks", ranks.size()},
                {"values", joined.pack.taps.size()},
                {"replicas_that_differ", std::move(findings)},
                {"without_statistics", joined.unknown}});
  } else {
    std::printf("%s: %zu values of %zu ranks\n", flags.output.c_str(), joined.pack.taps.size(), ranks.size());
    for (const std::string& name : joined.unknown) std::printf("  no statistics of the sum %s\n", name.c_str());
    for (const align::ReplicaFinding& finding : joined.findings) {
      std::printf("  %s differs between rank %lld and rank %lld: %.2e\n", finding.name.c_str(),
                  static_cast<long long>(finding.rank_a), static_cast<long long>(finding.rank_b), finding.rel_l2);
    }
  }
  return joined.findings.empty() ? 0 : 1;
}

namespace {

// Numbers of a config by their place.
void collect_numbers(const Json& json, const std::string& place, std::vector<std::pair<std::string, double>>& out) {
  if (json.is_number()) out.emplace_back(place, json.get<double>());
  if (!json.is_structured()) return;
  for (const auto& [key, value] : json.items()) collect_numbers(value, place.empty() ? key : place + "." + key, out);
}

std::vector<std::pair<std::string, double>> config_numbers(const formats::Checkpoint& checkpoint) {
  std::vector<std::pair<std::string, double>> out;
  if (checkpoint.files().empty()) return out;
  const auto path = std::filesystem::path(checkpoint.files()[0]).parent_path() / "config.json";
  const auto text = read_text_file(path.string());
  if (!text.ok()) return out;
  if (const auto json = parse_json(*text); json.ok()) collect_numbers(*json, "", out);
  return out;
}

// What runs a reproduction in its folder: with the flags that show the fault, none where the model is wrong.
std::string reproduce_command(const CommonFlags& common, const BaselineFlags& flags, bool of_backend) {
  std::string command = "firstlight baseline reproduce .";
  if (!of_backend) return command;
  command += " --backend " + common.backend;
  if (common.compute != "auto") command += " --compute " + common.compute;
  if (!common.kv_dtype.empty()) command += " --kv-dtype " + common.kv_dtype;
  if (flags.chunk > 0) command += " --chunk " + std::to_string(flags.chunk);
  return command;
}

}  // namespace

Result<int> verb_baseline_locate(const CommonFlags& common, const BaselineFlags& flags) {
  CommonFlags of_model = common;
  if (!flags.baseline.empty()) of_model.model = flags.first;
  if (of_model.model.empty()) return invalid_argument("--model wanted");
  const std::string path = flags.baseline.empty() ? flags.first : flags.baseline;
  const align::Pack baseline = FL_TRY(align::read_pack(path));
  const Bench bench = FL_TRY(set_up(of_model));
  warn_of_another(baseline, bench.model.architecture);
  // The judge runs the same graph in float32, without a device.
  Bench judge_as;
  judge_as.options = bench.options;
  judge_as.model.graph = bench.model.graph;
  judge_as.resources = bench.resources;
  judge_as.resources.compile.state_dtype = tensor::DType::kF32;
  judge_as.resources.compile.compute = catalog::ComputeMode::kF32;
  const RoundedBench judge = FL_TRY(rounded_bench(judge_as, bench.model.graph));
  const bool rounds = of_model.backend != "reference";
  std::optional<RoundedBench> rounded;
  if (rounds) rounded = FL_TRY(rounded_bench(bench, bench.model.graph));
  locate::LocateOptions options{
      .run = {.chunk = flags.chunk, .batched = flags.batched, .memory_limit = flags.memory_limit},
      .hints = {.config = config_numbers(*bench.checkpoint), .checkpoint = bench.checkpoint.get(), .routing = {}},
      .reference = judge.resources,
      .backend = rounds ? &bench.resources : nullptr,
      .rounded = rounded ? &rounded->graph : nullptr,
      .rounded_resources = rounded ? &rounded->resources : nullptr,
      .exact = flags.exact};
  const auto location = FL_TRY(locate::locate(bench.model.graph, baseline, head_of(of_model, bench), options));
  if (!flags.output.empty() && !location.findings.empty()) {
    const auto& first = location.findings[0];
    FL_TRY(locate::write_finding(first, reproduce_command(of_model, flags, first.of_backend), of_model.model,
                                 bench.checkpoint.get(), flags.output));
  }
  if (common.json) {
    Json json = locate::location_json(location);
    json["spec"] = bench.model.spec;
    if (!flags.output.empty() && !location.findings.empty()) json["reproduce"] = flags.output;
    print_json(json);
  } else {
    std::printf("%s", locate::location_text(location).c_str());
  }
  return location.passed ? 0 : 1;
}

Result<int> verb_baseline_reproduce(const CommonFlags& common, const BaselineFlags& flags) {
  const auto reproduction = FL_TRY(locate::read_reproduction(flags.first));
  const Bench bench = FL_TRY(set_up_files(common, common.model.empty() ? flags.first : common.model));
  const auto found = FL_TRY(locate::reproduce(reproduction, {.chunk = flags.chunk}, bench.resources));
  const std::string& value = reproduction.graph.output_names[0];
  if (common.json) {
    print_json({{"value", value}, {"own_error", found.error}, {"allowed", found.allowed}, {"passed", !found.wrong()}});
  } else {
    std::printf("%s: own error %.2e, allowed %.2e: %s\n", value.c_str(), found.error, found.allowed,
                found.wrong() ? "the fault is there" : "it agrees");
  }
  return found.wrong() ? 1 : 0;
}

Result<int> verb_baseline_values(const CommonFlags& common, const BaselineFlags&) {
  const adapt::BringUpOptions options = FL_TRY(bring_up_options(common));
  const auto checkpoint = FL_TRY(formats::Checkpoint::open(common.model, {.headers_only = true}));
  const auto model = FL_TRY(intake::load_model(checkpoint, options.intake));
  Json list = Json::array();
  for (const align::Tap& tap : align::find_taps(model.graph, true)) {
    if (!common.json) {
      std::printf("%-56s %-14s %-24s %s%s\n", tap.name.c_str(), tap.op.c_str(), tap.type.to_string().c_str(),
                  tap.layer.c_str(), tap.is_module_output ? " (a module's)" : "");
    }
    list.push_back({{"name", tap.name},
                    {"layer", tap.layer},
                    {"op", tap.op},
                    {"width", tap.width()},
                    {"rate", tap.rate()},
                    {"integer", tap.type.dtype == tensor::DType::kI32},
                    {"layer_output", tap.is_layer_output},
                    {"module_output", tap.is_module_output}});
  }
  if (common.json) {
    print_json({{"model", base_name(common.model)},
                {"architecture", model.architecture},
                {"parameters", align::count_parameters(checkpoint)},
                {"values", std::move(list)}});
  }
  return 0;
}

}  // namespace firstlight::cli
