// SPDX-License-Identifier: Apache-2.0
#include "adapt/quantise_plan.h"

#include <algorithm>
#include <set>

#include "base/file_map.h"
#include "base/json.h"
#include "intake/name_pattern.h"
#include "tensor/codec.h"

namespace firstlight::adapt {
namespace {

using tensor::DType;

constexpr std::string_view kWeight = ".weight";

bool ends_as_weight(const std::string& name) { return name.ends_with(kWeight); }

bool is_small_float(DType type) {
  return type == DType::kF8E4M3 || type == DType::kF8E5M2 || type == DType::kF8E8M0 || type == DType::kF4E2M1;
}

bool is_float(const formats::TensorRecord& record) {
  return record.dtype && tensor::dtype_info(*record.dtype).is_float && !is_small_float(*record.dtype);
}

std::string parent_of(const std::string& name) { return name.substr(0, std::min(name.rfind('.'), name.size())); }

const char* compressed_format(QuantFormat format) {
  return format == QuantFormat::kMxfp4 ? "mxfp4-pack-quantized"
         : format == QuantFormat::kFp8 ? "float-quantized"
                                       : "pack-quantized";
}

// A group of compressed-tensors. `group` 0: one scale per row.
Json group_description(const std::vector<std::string>& targets, QuantFormat format, int64_t group) {
  const bool mx = format == QuantFormat::kMxfp4, fp8 = format == QuantFormat::kFp8;
  Json weights = {{"num_bits", format == QuantFormat::kInt8 || fp8 ? 8 : 4},
                  {"type", mx || fp8 ? "float" : "int"},
                  {"symmetric", true},
                  {"strategy", fp8         ? "block"
                               : group > 0 ? "group"
                                           : "channel"}};
  weights["group_size"] = group > 0 && !fp8 ? Json(group) : Json(nullptr);
  if (mx) weights["scale_dtype"] = "torch.uint8";
  weights.update({{"dynamic", false}, {"actorder", nullptr}});
  weights["block_structure"] = fp8 ? Json({128, 128}) : Json(nullptr);
  weights["observer"] = "minmax";
  return {{"targets", targets},
          {"weights", weights},
          {"input_activations", nullptr},
          {"output_activations", nullptr},
          {"format", compressed_format(format)}};
}

// What the lists of a quantization_config name.
struct Lists {
  std::vector<std::string> kept;
  std::map<std::pair<QuantFormat, int64_t>, std::vector<std::string>> stored;  // group 0: a scale per row
};

Lists lists_of(const std::vector<QuantJob>& jobs) {
  Lists lists;
  std::set<std::string> parents_with_codes;
  for (const QuantJob& job : jobs) {
    if (!job.choice) continue;
    const bool by_row = job.choice->packs_integers() && job.format.group != job.choice->group;
    lists.stored[{job.choice->format, by_row ? 0 : job.format.group}].push_back(module_of(job.record->name));
    parents_with_codes.insert(parent_of(job.record->name));
  }
  for (const QuantJob& job : jobs) {
    const std::string& name = job.record->name;
    const size_t rank = job.record->shape.size();
    if (job.choice || !is_float(*job.record) || (rank == 2 && !ends_as_weight(name)) || rank < 2) continue;
    std::string module = module_of(name);
    // The module that has a bare parameter, where all of it stays.
    if (!ends_as_weight(name) && !parents_with_codes.contains(parent_of(name))) module = parent_of(name);
    if (rank == 2 || job.is_stack) {
      if (lists.kept.empty() || lists.kept.back() != module) lists.kept.push_back(std::move(module));
    }
  }
  return lists;
}

Json compressed_description(const Lists& lists) {
  const auto most = std::max_element(lists.stored.begin(), lists.stored.end(),
                                     [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  Json groups;
  std::set<std::string> formats;
  const auto add = [&](const std::vector<std::string>& targets, QuantFormat format, int64_t group) {
    groups["group_" + std::to_string(groups.size())] = group_description(targets, format, group);
    formats.insert(compressed_format(format));
  };
  add({"Linear"}, most->first.first, most->first.second);
  for (auto it = lists.stored.begin(); it != lists.stored.end(); ++it) {
    if (it != most) add(it->second, it->first.first, it->first.second);
  }
  return {{"quant_method", "compressed-tensors"},
          {"format", formats.size() == 1 ? *formats.begin() : "mixed-precision"},
          {"quantization_status", "compressed"},
          {"config_groups", groups},
          {"ignore", lists.kept},
          {"kv_cache_scheme", nullptr}};
}

Json description(const std::vector<QuantJob>& jobs, bool tied) {
  Lists lists = lists_of(jobs);
  if (tied) lists.kept.emplace_back("lm_head");
  if (std::any_of(jobs.begin(), jobs.end(), [](const QuantJob& job) { return job.gpt_oss_blocks; })) {
    return {{"quant_method", "mxfp4"}, {"modules_to_not_convert", lists.kept}};
  }
  if (lists.stored.size() == 1 && lists.stored.begin()->first.first == QuantFormat::kFp8) {
    return {{"quant_method", "fp8"},
            {"fmt", "e4m3"},
            {"activation_scheme", "dynamic"},
            {"weight_block_size", {128, 128}},
            {"modules_to_not_convert", lists.kept}};
  }
  return compressed_description(lists);
}

}  // namespace

std::string module_of(const std::string& name) {
  return ends_as_weight(name) ? name.substr(0, name.size() - kWeight.size()) : name;
}

Result<QuantSource> open_quant_source(const std::string& path, const intake::IntakeOptions& intake) {
  auto checkpoint = FL_TRY(formats::Checkpoint::open(path));
  if (checkpoint.format() != formats::CheckpointFormat::kSafetensors) {
    return invalid_argument(path + " is no directory in Hugging Face layout: convert it to bf16, f16 or f32 first");
  }
  auto files = FL_TRY(formats::HfDirectory::scan(checkpoint.files().at(0)));
  if (!files.config) return not_found("no config.json in " + files.root);
  std::string text = FL_TRY(read_text_file(*files.config));
  const Json config = FL_TRY(parse_json(text).with_context(*files.config));
  for (const char* key : {"quantization_config", "compression_config"}) {
    if (config.contains(key)) return unsupported(*files.config + ": " + key + ": the checkpoint is quantised already");
  }
  intake::Model model = FL_TRY(intake::load_model(checkpoint, intake));
  if (!model.quantisation.empty()) return unsupported(path + " is quantised already: " + model.quantisation);
  return QuantSource{path, std::move(checkpoint), std::move(files), std::move(text), intake, std::move(model)};
}

int64_t QuantJob::num_matrices() const {
  int64_t count = 1;
  for (size_t i = 0; i + 2 < record->shape.size(); ++i) count *= record->shape[i];
  return count;
}

int64_t QuantJob::rows() const { return record->shape[record->shape.size() - (gpt_oss_blocks ? 1 : 2)]; }

std::string QuantJob::codes_name() const {
  if (gpt_oss_blocks) return record->name + "_blocks";
  return record->name + (choice->format == QuantFormat::kFp8 ? "" : "_packed");
}

std::string QuantJob::scales_name() const {
  if (gpt_oss_blocks) return record->name + "_scales";
  return record->name + (choice->format == QuantFormat::kFp8 && !mixed ? "_scale_inv" : "_scale");
}

std::string QuantJob::shape_name() const { return choice->packs_integers() ? record->name + "_shape" : ""; }

std::vector<formats::TensorPlan> QuantJob::parts() const {
  if (!choice) return {{record->name, *record->dtype, record->shape}};
  std::vector<int64_t> codes(record->shape.begin(), record->shape.end() - 2), scales = codes;
  const int64_t height = format.rows_per_block();
  codes.push_back(rows());
  scales.push_back((rows() + height - 1) / height);
  scales.push_back(format.groups());
  if (gpt_oss_blocks) codes.push_back(format.groups());
  codes.push_back(gpt_oss_blocks ? format.code_columns() / format.groups() : format.code_columns());
  std::vector<formats::TensorPlan> parts = {{codes_name(), format.code_type(), codes},
                                            {scales_name(), format.scale_type(), scales}};
  if (!shape_name().empty()) {
    parts.push_back({shape_name(), DType::kI64, {static_cast<int64_t>(record->shape.size())}});
  }
  return parts;
}

int64_t QuantJob::bytes_after() const {
  if (!choice) return static_cast<int64_t>(record->size_bytes);
  const int64_t height = format.rows_per_block();
  const int64_t codes = rows() * *tensor::row_bytes(format.code_type(), format.code_columns());
  const int64_t scales = (rows() + height - 1) / height * *tensor::row_bytes(format.scale_type(), format.groups());
  const int64_t shape = choice->packs_integers() ? static_cast<int64_t>(record->shape.size() * sizeof(int64_t)) : 0;
  return num_matrices() * (codes + scales) + shape;
}

std::string QuantJob::describe() const {
  if (!choice) return record->stored_type;
  const char* along = inputs_in_rows && !gpt_oss_blocks ? " along the outputs" : "";
  switch (choice->format) {
    case QuantFormat::kFp8:
      return "fp8 e4m3, blocks of 128 x 128";
    case QuantFormat::kMxfp4:
      return std::string("mxfp4") + (gpt_oss_blocks ? ", blocks of gpt-oss" : along);
    default:
      break;
  }
  return "int" + std::to_string(format.bits()) +
         (format.group == choice->group ? ", groups of " + std::to_string(format.group) : ", a scale per row") + along;
}

QuantPlanner::QuantPlanner(const QuantSource& source) : source_(&source), uses_(tensor_uses(source.model.graph)) {}

Result<std::string> QuantPlanner::obstacle(const formats::TensorRecord& record, const QuantChoice& choice) const {
  if (!is_float(record)) {
    if (record.shape.size() < 2 || record.dtype == DType::kI64 || record.dtype == DType::kI32)
      return std::string("it is stored as " + record.stored_type);
    return unsupported("tensor " + record.name + " is stored as " + record.stored_type +
                       ": the checkpoint is quantised already");
  }
  const auto use = uses_.find(record.name);
  if (use == uses_.end()) return std::string("the graph does not use it");
  if (!use->second.why_kept.empty()) return use->second.why_kept;
  const size_t rank = record.shape.size();
  if (rank != 2 && rank != 3) return std::string("it has " + std::to_string(rank) + " axes, not 2 or 3");
  if (rank == 2 && !ends_as_weight(record.name)) return std::string("its name does not end in .weight");
  const QuantJob job = job_of(record, choice);
  if (choice.format == QuantFormat::kMxfp4 && job.format.columns % 32 != 0) {
    return std::string(std::to_string(job.format.columns) + " columns are no whole groups of 32");
  }
  return std::string();
}

int64_t QuantPlanner::bytes_of(const formats::TensorRecord& record, const QuantChoice& choice) const {
  return job_of(record, choice).bytes_after();
}

bool QuantPlanner::is_stack(const formats::TensorRecord& record) const {
  const auto use = uses_.find(record.name);
  return record.shape.size() == 3 && use != uses_.end() && use->second.why_kept.empty();
}

QuantJob QuantPlanner::job_of(const formats::TensorRecord& record, const QuantChoice& choice) const {
  QuantJob job{.record = &record, .choice = choice};
  job.is_stack = is_stack(record);
  job.inputs_in_rows = job.is_stack && uses_.find(record.name)->second.inputs_in_rows;
  job.format = {.format = choice.format, .columns = record.shape.back(), .group = choice.group};
  if (choice.packs_integers() && job.format.columns % choice.group != 0) job.format.group = job.format.columns;
  return job;
}

Result<QuantJob> QuantPlanner::decide(const formats::TensorRecord& record, const QuantPolicy& policy,
                                      const std::vector<size_t>& rules) const {
  QuantJob job{.record = &record, .is_stack = is_stack(record)};
  const QuantRule* rule = rules.empty() ? nullptr : &policy.rules[rules[0]];
  const auto choice = rule == nullptr ? std::nullopt : rule->choice;
  job.kept_because = FL_TRY(obstacle(record, choice.value_or(QuantChoice{})));
  if (job.kept_because.empty() && choice) return job_of(record, *choice);
  if (choice && (rule->modules == record.name || rule->modules == module_of(record.name))) {
    return invalid_argument(rule->said + ": " + rule->modules + " can not be stored as " + choice->name() + ": " +
                            job.kept_because);
  }
  if (job.kept_because.empty()) {
    job.kept_because = rule == nullptr ? "no rule names it" : rule->said + " " + rule->modules;
  }
  return job;
}

Result<std::vector<QuantJob>> QuantPlanner::plan(const QuantPolicy& policy) const {
  std::vector<intake::NamePattern> patterns;
  for (const QuantRule& rule : policy.rules) {
    patterns.push_back(FL_TRY(intake::NamePattern::parse(rule.modules, false)));
  }
  std::set<const QuantRule*> idle;
  for (const QuantRule& rule : policy.rules) idle.insert(&rule);
  std::vector<QuantJob> jobs;
  bool any = false;
  for (const auto& [name, record] : source_->checkpoint.tensors()) {
    std::vector<size_t> rules;
    for (size_t i = 0; i < policy.rules.size(); ++i) {
      if (patterns[i].matches(module_of(name)) || patterns[i].matches(name)) rules.push_back(i);
    }
    for (const size_t i : rules) idle.erase(&policy.rules[i]);
    jobs.push_back(FL_TRY(decide(record, policy, rules)));
    any = any || jobs.back().choice;
  }
  if (!idle.empty()) {
    const auto first = std::find_if(policy.rules.begin(), policy.rules.end(),
                                    [&](const QuantRule& rule) { return idle.contains(&rule); });
    return invalid_argument(first->said + " " + first->modules + " matches no module of the checkpoint");
  }
  if (!any) return invalid_argument("no tensor is left to quantise");
  std::set<QuantFormat> formats;
  for (const QuantJob& job : jobs) {
    if (job.choice) formats.insert(job.choice->format);
  }
  for (QuantJob& job : jobs) job.mixed = formats.size() > 1;
  if (formats == std::set<QuantFormat>{QuantFormat::kMxfp4}) try_gpt_oss_blocks(jobs);
  return jobs;
}

// Where the spec takes stacks of experts in the release's MXFP4, transposed, they are stored in that, and nothing else
// is: that is what other loaders of such a checkpoint know.
void QuantPlanner::try_gpt_oss_blocks(std::vector<QuantJob>& jobs) const {
  std::vector<QuantJob> blocks = jobs;
  bool any = false;
  for (QuantJob& job : blocks) {
    const bool fits = job.inputs_in_rows && job.record->shape[1] % 32 == 0;
    if (job.choice && fits) {
      job.gpt_oss_blocks = any = true;
      job.format.columns = job.record->shape[1];
    } else if (job.choice) {
      job.choice.reset();
      job.kept_because = "beside experts in MXFP4 blocks the other matrices stay";
    }
  }
  if (any && trace(blocks).ok()) jobs = std::move(blocks);
}

Result<std::string> QuantPlanner::config_text(const std::vector<QuantJob>& jobs) const {
  Json config = FL_TRY(parse_json(source_->config));
  config["quantization_config"] = description(jobs, source_->checkpoint.find("lm_head.weight") == nullptr);
  return dump_json(config, 2) + "\n";
}

Result<intake::Model> QuantPlanner::trace(const std::vector<QuantJob>& jobs) const {
  std::vector<intake::TensorHeader> headers;
  for (const QuantJob& job : jobs) {
    for (formats::TensorPlan& part : job.parts()) {
      headers.push_back({std::move(part.name), part.dtype, std::move(part.shape)});
    }
  }
  intake::ModelDescription description{.config = FL_TRY(config_text(jobs))};
  if (source_->files.generation_config) {
    description.generation_config = FL_TRY(read_text_file(*source_->files.generation_config));
  }
  intake::IntakeOptions options = source_->intake;
  options.probe_config = false;
  return intake::trace_model(description, &headers, options);
}

}  // namespace firstlight::adapt
