// SPDX-License-Identifier: Apache-2.0
#include "planner/dry_run.h"

#include <map>
#include <set>

#include "base/file_map.h"
#include "base/json.h"
#include "formats/hf_directory.h"
#include "planner/tensor_list.h"

namespace firstlight::planner {
namespace {

constexpr size_t kMostConfigBytes = size_t{16} << 20;
constexpr size_t kMostListBytes = size_t{256} << 20;

Result<std::string> text_of(const std::optional<std::string>& path) {
  if (!path) return std::string();
  return read_text_file(*path, kMostConfigBytes);
}

Result<intake::ModelDescription> describe(const formats::HfDirectory& directory) {
  if (!directory.config) return not_found("no config.json in " + directory.root);
  return intake::ModelDescription{.config = FL_TRY(text_of(directory.config)),
                                  .generation_config = FL_TRY(text_of(directory.generation_config)),
                                  .quantisation = FL_TRY(text_of(directory.hf_quant_config)),
                                  .config_name = *directory.config};
}

void take_model(Result<intake::Model> model, DryRun& run) {
  if (model.ok()) {
    run.model = std::move(*model);
    return;
  }
  run.refusal = model.status();
  run.unknown.push_back("no graph, so no memory beside the weights': " + model.status().message());
}

Result<DryRun> run_list(const std::string& path, const DryRunOptions& options) {
  DryRun run;
  const TensorList list = FL_TRY(parse_tensor_list(FL_TRY(read_text_file(options.tensors_file, kMostListBytes)))
                                     .with_context(options.tensors_file));
  run.tensors = static_cast<int64_t>(list.tensors.size());
  run.parameters = list.elements;
  run.bytes = list.bytes;
  const auto directory = FL_TRY(formats::HfDirectory::scan(path));
  take_model(intake::trace_model(FL_TRY(describe(directory)), &list.tensors, options.intake), run);
  return run;
}

// Totals of what a graph asks for. A tensor that several weights stand for counts once.
void count_weights(const ir::Graph& graph, DryRun& run) {
  std::set<std::string, std::less<>> seen;
  for (const ir::Value& value : graph.values) {
    if (value.kind != ir::Value::Kind::kWeight) continue;
    const auto source = graph.weight_sources.find(value.name);
    if (source == graph.weight_sources.end() || !seen.insert(source->second.tensor).second) continue;
    ++run.tensors;
    run.parameters += tensor::num_elements(value.type.shape);
    run.bytes += tensor::size_bytes(value.type);
  }
}

// What an index says of files that are not here: it knows names, and perhaps a sum of bytes.
Status hold_against_index(const std::string& path, DryRun& run) {
  const Json index = FL_TRY(parse_json(FL_TRY(read_text_file(path, kMostListBytes))).with_context(path));
  const Json names = index.value("weight_map", Json::object());
  if (!names.is_object()) return invalid_data(path + ": weight_map is no object");
  const int64_t stated = static_cast<int64_t>(names.size());
  if (stated != run.tensors) {
    run.unknown.push_back("the index names " + std::to_string(stated) + " tensors, the model as BF16 would have " +
                          std::to_string(run.tensors));
  }
  const Json total = index.value("metadata", Json::object()).value("total_size", Json());
  if (total.is_number()) {
    const auto bytes = static_cast<int64_t>(total.get<double>());
    if (bytes != run.bytes) {
      run.unknown.push_back("the index states " + std::to_string(bytes) + " bytes, the model as BF16 would have " +
                            std::to_string(run.bytes) + ": other types, or tensors that are not used");
      run.bytes = bytes;
    }
  }
  run.tensors = stated;
  return ok_status();
}

Result<DryRun> run_config(const formats::HfDirectory& directory, const DryRunOptions& options) {
  DryRun run{.is_assumed = true};
  take_model(intake::trace_model(FL_TRY(describe(directory)), nullptr, options.intake), run);
  if (run.model) count_weights(run.model->graph, run);
  run.unknown.emplace_back("shapes and types of the stored tensors: taken as the spec wants them, in BF16");
  for (const std::string& index : directory.safetensors_indexes) FL_TRY(hold_against_index(index, run));
  return run;
}

}  // namespace

Result<DryRun> dry_run(const std::string& path, const DryRunOptions& options) {
  if (!options.tensors_file.empty()) return run_list(path, options);
  const auto directory = formats::HfDirectory::scan(path);
  if (directory.ok() && directory->config && directory->safetensors.empty() && directory->gguf.empty() &&
      !path.ends_with(".index.json")) {
    return run_config(*directory, options);
  }
  DryRun run;
  run.checkpoint = std::make_unique<formats::Checkpoint>(
      FL_TRY(formats::Checkpoint::open(path, {.headers_only = options.headers_only})));
  for (const auto& [name, record] : run.checkpoint->tensors()) run.parameters += record.num_elements();
  run.tensors = static_cast<int64_t>(run.checkpoint->tensors().size());
  run.bytes = static_cast<int64_t>(run.checkpoint->total_bytes());
  take_model(intake::load_model(*run.checkpoint, options.intake), run);
  return run;
}

}  // namespace firstlight::planner
