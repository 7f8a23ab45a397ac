// SPDX-License-Identifier: Apache-2.0
#include "intake/intake.h"

#include <algorithm>
#include <cstring>

#include "base/file_map.h"
#include "formats/gguf.h"
#include "formats/hf_directory.h"
#include "intake/config_tree.h"
#include "intake/model_facts.h"
#include "intake/probe.h"
#include "intake/quantisation.h"
#include "intake/spec_store.h"
#include "intake/tensor_table.h"
#include "intake/trace.h"
#include "ir/verify.h"
#include "tensor/codec.h"

namespace firstlight::intake {
namespace {

constexpr size_t kMaxConfigBytes = size_t{16} << 20;
constexpr size_t kMaxListed = 40;

Result<SpecStore> open_store(const IntakeOptions& options) {
  SpecStore store = FL_TRY(SpecStore::open(options.architectures_dir));
  if (!options.spec_file.empty()) FL_TRY(store.use_file(options.spec_file));
  return store;
}

SandboxLimits limits_of(const IntakeOptions& options) {
  return {.steps = options.step_limit, .memory_bytes = options.memory_limit_bytes};
}

bool is_allowed(const IntakeOptions& options, const std::string& name) {
  return std::find(options.allow_unbound.begin(), options.allow_unbound.end(), name) != options.allow_unbound.end();
}

const char* const kAllowed = "admitted by --allow-unbound";

ConfigCoverage judge_config(const ConfigNode& config, const Trace& trace, const std::set<std::string>& unbound,
                            const IntakeOptions& options) {
  ConfigCoverage coverage;
  for (const ConfigLeaf& leaf : config_leaves(config)) {
    const std::string* reason = waiver_of(trace.config, leaf.path);
    if (reason != nullptr) {
      // A waived object counts as the one key it is.
      const auto whole = std::find_if(trace.config.waived_objects.begin(), trace.config.waived_objects.end(),
                                      [&](const auto& entry) { return leaf.path.starts_with(entry.first); });
      const bool exact = trace.config.waived.contains(leaf.path) || whole == trace.config.waived_objects.end();
      coverage.waived[exact ? leaf.path : whole->first] = *reason;
    } else if (trace.config.touched.contains(leaf.path) && !unbound.contains(leaf.path)) {
      coverage.bound.push_back(leaf.path);
    } else if (is_allowed(options, leaf.path)) {
      coverage.waived[leaf.path] = kAllowed;
    } else {
      (unbound.contains(leaf.path) ? coverage.without_effect : coverage.unknown).push_back(leaf.path);
    }
  }
  return coverage;
}

// The reason of the layer range that holds the name; "model.layers.61.x" is in layers 61 to 61 of "model.layers.".
const std::string* layer_waiver(const Trace& trace, const std::string& name) {
  for (const LayerWaiver& waiver : trace.waived_layers) {
    if (!name.starts_with(waiver.prefix)) continue;
    const size_t dot = name.find('.', waiver.prefix.size());
    const std::string number = name.substr(waiver.prefix.size(), dot - waiver.prefix.size());
    if (dot == std::string::npos || number.empty() || number.size() > 6 ||
        number.find_first_not_of("0123456789") != std::string::npos) {
      continue;
    }
    const int64_t layer = std::stol(number);
    if (layer >= waiver.first && layer <= waiver.last) return &waiver.reason;
  }
  return nullptr;
}

// `predictor`: the trace of the head that predicts; null: it is not wanted.
TensorCoverage judge_tensors(const TensorTable& tensors, const Trace& trace, const Trace* predictor,
                             const IntakeOptions& options) {
  TensorCoverage coverage;
  std::set<std::string> alive, missing;
  for (const Trace* one : {&trace, predictor}) {
    if (one == nullptr) continue;
    for (const auto& [name, source] : one->graph.weight_sources) alive.insert(source.tensor);
    missing.insert(one->missing_tensors.begin(), one->missing_tensors.end());
  }
  coverage.missing.assign(missing.begin(), missing.end());
  for (const std::string& name : missing) alive.erase(name);
  coverage.bound.assign(alive.begin(), alive.end());
  for (const auto& [name, info] : tensors.all()) {
    if (alive.contains(name)) continue;
    if (const auto it = trace.waived_tensors.find(name); it != trace.waived_tensors.end()) {
      coverage.waived[name] = it->second;
    } else if (const std::string* reason = layer_waiver(trace, name)) {
      coverage.waived[name] = *reason;
    } else if (is_allowed(options, name)) {
      coverage.waived[name] = kAllowed;
    } else {
      coverage.unbound.push_back(name);
    }
  }
  return coverage;
}

std::string list_of(const char* what, const std::vector<std::string>& names) {
  if (names.empty()) return "";
  std::string text = std::to_string(names.size()) + " " + what + ": ";
  for (size_t i = 0; i < names.size() && i < kMaxListed; ++i) text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > kMaxListed) text += ", …";
  return text + "; ";
}

Status judge(const CoverageReport& coverage, const std::string& spec) {
  if (coverage.complete()) return ok_status();
  std::string text = list_of("config keys are unknown", coverage.config.unknown) +
                     list_of("config keys are read without effect", coverage.config.without_effect) +
                     list_of("tensors are unbound", coverage.tensors.unbound) +
                     list_of("tensors are missing", coverage.tensors.missing);
  text.resize(text.size() - 2);
  return invalid_data(spec + ": " + text);
}

// What was to be admitted and needed no admission: a word misspelt, or left over from another model.
std::vector<std::string> idle_admissions(const CoverageReport& coverage, const IntakeOptions& options) {
  const auto used = [](const std::map<std::string, std::string>& waived, const std::string& name) {
    const auto it = waived.find(name);
    return it != waived.end() && it->second == kAllowed;
  };
  std::vector<std::string> warnings;
  for (const std::string& name : options.allow_unbound) {
    if (used(coverage.config.waived, name) || used(coverage.tensors.waived, name)) continue;
    warnings.push_back("--allow-unbound " + name + " admits nothing: no unbound config key or tensor has that name");
  }
  return warnings;
}

struct Source {
  ConfigNode config;
  TensorTable tensors;
  bool gguf = false;
  std::function<Result<std::vector<double>>(const std::string&)> read_floats;
  std::string config_name;
  std::optional<ConfigNode> side_file = std::nullopt;  // hf_quant_config.json
};

Result<Model> build(const Source& source, const IntakeOptions& options) {
  const SpecStore store = FL_TRY(open_store(options));
  ConfigRecord quantisation_record;
  const Quantisation quantisation =
      source.gguf ? Quantisation{}
                  : FL_TRY(resolve_quantisation({.config = source.config,
                                                 .tensors = source.tensors,
                                                 .side_file = source.side_file ? &*source.side_file : nullptr,
                                                 .vendor_activations = options.vendor_activations},
                                                quantisation_record));
  const TraceInput input{.specs = &store,
                         .tensors = &source.tensors,
                         .quantisation = &quantisation,
                         .gguf = source.gguf,
                         .read_floats = source.read_floats,
                         .limits = limits_of(options)};
  Trace trace = FL_TRY(run_trace(input, source.config));
  trace.config.touched.merge(quantisation_record.touched);
  trace.config.waived.merge(quantisation_record.waived);
  trace.config.waived_objects.merge(quantisation_record.waived_objects);

  std::optional<Trace> predictor;
  if (options.predict) {
    if (source.gguf) return unsupported("a GGUF file: its names of heads that predict further tokens are not mapped");
    TraceInput part = input;
    part.predict = true;
    predictor = FL_TRY(run_trace(part, source.config));
  }

  Model model;
  model.architecture = trace.architecture;
  model.spec = trace.spec;
  model.quantisation = quantisation.description;
  std::set<std::string> unbound;
  if (options.probe_config) {
    unbound = FL_TRY(find_unbound_keys(input, source.config, trace, options.probe_threads));
  }
  model.coverage.config = judge_config(source.config, trace, unbound, options);
  model.coverage.tensors = judge_tensors(source.tensors, trace, predictor ? &*predictor : nullptr, options);
  FL_TRY(judge(model.coverage, trace.spec));
  model.graph = std::move(trace.graph);
  FL_TRY(ir::verify(model.graph));
  if (predictor) {
    model.predictor = std::move(predictor->graph);
    FL_TRY(ir::verify(*model.predictor));
  }
  model.warnings = std::move(trace.warnings);
  model.waived_copies = std::move(trace.waived_copies);
  model.warnings.insert(model.warnings.end(), quantisation.warnings.begin(), quantisation.warnings.end());
  const bool rounds = std::any_of(quantisation.groups.begin(), quantisation.groups.end(),
                                  [](const auto& group) { return !group.scheme.activations.format.empty(); });
  if (options.vendor_activations && !rounds) {
    model.warnings.emplace_back("--vendor-activations changes nothing: the checkpoint says nothing of activations");
  }
  for (std::string& warning : idle_admissions(model.coverage, options)) model.warnings.push_back(std::move(warning));
  add_config_tokens(model.graph, source.config_name, model.tokens);
  if (const ops::Attribute* limit = model.graph.metadata.find("max_positions")) {
    if (const auto* value = std::get_if<int64_t>(limit)) model.max_positions = *value;
  }
  return model;
}

// ModelOpt writes its quantisation beside the config.
Result<std::optional<ConfigNode>> parse_side_file(const std::string& text) {
  if (text.empty()) return std::optional<ConfigNode>{};
  return std::optional<ConfigNode>(FL_TRY(parse_config_tree(text).with_context("hf_quant_config.json")));
}

Result<std::string> optional_text(const std::optional<std::string>& path) {
  if (!path) return std::string();
  std::string text = FL_TRY(read_text_file(*path, kMaxConfigBytes));
  if (text.empty()) return invalid_data(*path + ": the file is empty (0 bytes)");
  return text;
}

Result<std::vector<double>> read_floats(const formats::Checkpoint& checkpoint, const std::string& name) {
  const formats::TensorRecord* record = checkpoint.find(name);
  if (record == nullptr) return not_found("tensor " + name + " is missing");
  if (record->dtype != tensor::DType::kF32 || record->num_elements() > 65536) {
    return unsupported("tensor " + name + ": found " + record->stored_type + ", wanted a short F32 vector");
  }
  const auto bytes = FL_TRY(checkpoint.bytes(*record));
  std::vector<float> values(static_cast<size_t>(record->num_elements()));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return std::vector<double>(values.begin(), values.end());
}

Result<Source> gguf_source(const formats::Checkpoint& checkpoint) {
  return Source{.config = FL_TRY(config_tree_of_gguf(*checkpoint.gguf())),
                .tensors = TensorTable::of(checkpoint),
                .gguf = true,
                .read_floats = [&checkpoint](const std::string& name) { return read_floats(checkpoint, name); },
                .config_name = "GGUF metadata"};
}

}  // namespace

// A tensor that was waived as a copy and is none: the model was meant to have both.
Status warn_of_false_copies(const formats::Checkpoint& checkpoint, Model& model) {
  for (const auto& [name, original] : model.waived_copies) {
    const formats::TensorRecord* copy_record = checkpoint.find(name);
    const formats::TensorRecord* record = checkpoint.find(original);
    if (copy_record == nullptr || record == nullptr || copy_record->stored_type != record->stored_type) continue;
    auto found = checkpoint.bytes(*copy_record);
    auto wanted = checkpoint.bytes(*record);
    const auto is_absent = [](const auto& bytes) {
      return !bytes.ok() && bytes.status().code() == StatusCode::kNotFound;
    };
    if (is_absent(found) || is_absent(wanted)) continue;  // a dry run from headers alone
    const std::span<const std::byte> copy = FL_TRY(std::move(found)), own = FL_TRY(std::move(wanted));
    if (std::equal(copy.begin(), copy.end(), own.begin(), own.end())) continue;
    model.warnings.push_back(name + " differs from " + original + ", which is used in its place as the config says");
  }
  return ok_status();
}

Result<Model> load_model(const formats::Checkpoint& checkpoint, const IntakeOptions& options) {
  if (const formats::GgufFile* gguf = checkpoint.gguf()) {
    Model model = FL_TRY(build(FL_TRY(gguf_source(checkpoint)), options));
    add_gguf_tokens(*gguf, model.tokens);
    FL_TRY(warn_of_false_copies(checkpoint, model));
    return model;
  }
  Source source{.config = {},
                .tensors = TensorTable::of(checkpoint),
                .gguf = false,
                .read_floats = {},
                .config_name = "config.json"};
  if (checkpoint.format() == formats::CheckpointFormat::kGgmf) {
    source.config = FL_TRY(config_tree_of_ggmf(checkpoint));
    source.config_name = "ggmf header";
    return build(source, options);
  }
  const auto directory = FL_TRY(formats::HfDirectory::scan(checkpoint.files().at(0)));
  if (!directory.config) return not_found("no config.json in " + directory.root);
  const std::string config = FL_TRY(optional_text(directory.config));
  source.config = FL_TRY(parse_config_tree(config).with_context(*directory.config));
  source.side_file = FL_TRY(parse_side_file(FL_TRY(optional_text(directory.hf_quant_config))));
  Model model = FL_TRY(build(source, options));
  FL_TRY(add_generation_tokens(FL_TRY(optional_text(directory.generation_config)), model.tokens));
  FL_TRY(warn_of_false_copies(checkpoint, model));
  return model;
}

Result<std::string> gguf_model_type(const formats::Checkpoint& checkpoint, const IntakeOptions& options) {
  if (checkpoint.gguf() == nullptr) return invalid_argument(checkpoint.files().at(0) + " is no GGUF file");
  const SpecStore store = FL_TRY(open_store(options));
  const Source source = FL_TRY(gguf_source(checkpoint));
  const Quantisation quantisation;
  return find_model_type({.specs = &store,
                          .tensors = &source.tensors,
                          .quantisation = &quantisation,
                          .gguf = source.gguf,
                          .read_floats = source.read_floats,
                          .limits = limits_of(options)},
                         source.config);
}

Result<Model> trace_model(const ModelDescription& description, const std::vector<TensorHeader>* tensors,
                          const IntakeOptions& options) {
  Source source{.config = FL_TRY(parse_config_tree(description.config).with_context(description.config_name)),
                .tensors = tensors == nullptr ? TensorTable::open_ended() : TensorTable::of(*tensors),
                .gguf = false,
                .read_floats = {},
                .config_name = description.config_name};
  source.side_file = FL_TRY(parse_side_file(description.quantisation));
  Model model = FL_TRY(build(source, options));
  FL_TRY(add_generation_tokens(description.generation_config, model.tokens));
  return model;
}

Result<ReleasedForm> released_form(const formats::Checkpoint& checkpoint, const IntakeOptions& options) {
  if (checkpoint.gguf() == nullptr) return invalid_argument(checkpoint.files().at(0) + " is no GGUF file");
  ReleasedForm form;
  form.model = FL_TRY(load_model(checkpoint, options));
  const Source source = FL_TRY(gguf_source(checkpoint));
  const SpecStore store = FL_TRY(open_store(options));
  const Quantisation quantisation;
  Trace trace = FL_TRY(run_trace({.specs = &store,
                                  .tensors = &source.tensors,
                                  .quantisation = &quantisation,
                                  .gguf = true,
                                  .released = true,
                                  .read_floats = source.read_floats,
                                  .limits = limits_of(options)},
                                 source.config));
  form.config = std::move(trace.released_config);
  form.weights = std::move(trace.graph);
  FL_TRY(ir::verify(form.weights));
  return form;
}

Result<std::vector<SpecInfo>> list_specs(const IntakeOptions& options) {
  const SpecStore store = FL_TRY(open_store(options));
  std::vector<SpecInfo> specs;
  for (auto& [path, types] : FL_TRY(matched_types(store, limits_of(options)))) specs.push_back({path, types});
  return specs;
}

}  // namespace firstlight::intake
