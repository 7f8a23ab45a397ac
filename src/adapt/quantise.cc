// SPDX-License-Identifier: Apache-2.0
#include "adapt/quantise.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "adapt/output_directory.h"
#include "adapt/quantise_rows.h"
#include "base/file_map.h"
#include "base/json.h"
#include "formats/hf_directory.h"
#include "formats/safetensors.h"
#include "intake/name_pattern.h"
#include "tensor/codec.h"

namespace firstlight::adapt {
namespace {

using tensor::DType;

constexpr int64_t kPieceElements = int64_t{1} << 20;
constexpr std::string_view kWeight = ".weight";
constexpr int kFarthest = 8;  // operators between a product and what its result is for

bool ends_as_weight(const std::string& name) { return name.ends_with(kWeight); }
std::string module_of(const std::string& name) {
  return ends_as_weight(name) ? name.substr(0, name.size() - kWeight.size()) : name;
}

// What the graph does with the checkpoint's matrices.
class Uses {
 public:
  explicit Uses(const ir::Graph& graph) : graph_(graph), users_(graph.values.size()) {
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      for (const ir::ValueId operand : graph.nodes[i].operands)
        users_[static_cast<size_t>(operand)].push_back(static_cast<ir::NodeId>(i));
    }
    for (const auto& value : graph.values) {
      const auto id = static_cast<ir::ValueId>(&value - graph.values.data());
      if (value.kind == ir::Value::Kind::kWeight) reasons_[graph.weight_sources.at(value.name).tensor] = reason(id);
    }
  }

  // Why a tensor is to stay as it is; "" of a matrix that only products take. Null: the graph has no such tensor.
  const std::string* reason_to_keep(const std::string& tensor) const {
    const auto it = reasons_.find(tensor);
    return it == reasons_.end() ? nullptr : &it->second;
  }

 private:
  std::string reason(ir::ValueId weight) const {
    for (const ir::NodeId id : users_[static_cast<size_t>(weight)]) {
      const ir::Node& node = graph_.node(id);
      switch (node.op) {
        case ops::OpKind::kLinear:
          if (node.operands[0] == weight) return "it is no weight of a product";
          if (leads_to(node.results[0], kFarthest, true)) return "it makes the logits";
          if (leads_to(node.results[0], kFarthest, false)) return "it chooses experts or rows";
          break;
        case ops::OpKind::kStack:
        case ops::OpKind::kReshape:
        case ops::OpKind::kTranspose:
        case ops::OpKind::kSlice:
        case ops::OpKind::kBatchedLinear:
        case ops::OpKind::kPerExpert:
          break;
        case ops::OpKind::kGatherRows:
          return "it is an embedding";
        default:
          return "it is an operand of " + std::string(ops::op_name(node.op));
      }
    }
    return "";
  }

  // Whether the value becomes the logits, or decides what top_k chooses, with nothing but small steps between.
  bool leads_to(ir::ValueId value, int steps, bool logits) const {
    if (logits && std::find(graph_.body.yields.begin(), graph_.body.yields.end(), value) != graph_.body.yields.end())
      return true;
    if (steps == 0) return false;
    for (const ir::NodeId id : users_[static_cast<size_t>(value)]) {
      const ir::Node& node = graph_.node(id);
      if (!logits && node.op == ops::OpKind::kTopK) return true;
      const bool small = node.op == ops::OpKind::kMap || node.op == ops::OpKind::kSoftmax ||
                         node.op == ops::OpKind::kCast || node.op == ops::OpKind::kReshape;
      if (small && std::any_of(node.results.begin(), node.results.end(),
                               [&](ir::ValueId result) { return leads_to(result, steps - 1, logits); })) {
        return true;
      }
    }
    return false;
  }

  const ir::Graph& graph_;
  std::vector<std::vector<ir::NodeId>> users_;
  std::map<std::string, std::string> reasons_;
};

// One tensor's way into the new checkpoint.
struct Job {
  const formats::TensorRecord* record = nullptr;
  std::optional<RowFormat> format;  // none: copied
  std::string kept_because;
};

class Quantiser {
 public:
  Quantiser(const formats::Checkpoint& checkpoint, const QuantiseOptions& options)
      : checkpoint_(checkpoint), options_(options) {}

  Status plan(const ir::Graph& graph) {
    const Uses uses(graph);
    std::vector<intake::NamePattern> keep;
    for (const std::string& text : options_.keep) keep.push_back(FL_TRY(intake::NamePattern::parse(text, false)));
    std::set<const intake::NamePattern*> idle;
    for (const auto& pattern : keep) idle.insert(&pattern);
    for (const auto& [name, record] : checkpoint_.tensors()) {
      Job job{.record = &record};
      job.kept_because = FL_TRY(reason_to_keep(record, uses));
      for (const auto& pattern : keep) {
        if (!pattern.matches(module_of(name)) && !pattern.matches(name)) continue;
        idle.erase(&pattern);
        if (job.kept_because.empty()) job.kept_because = "--keep " + pattern.text();
      }
      if (job.kept_because.empty()) job.format = format_for(record.shape.back());
      total_ += record.num_elements();
      jobs_.push_back(std::move(job));
    }
    if (!idle.empty())
      return invalid_argument("--keep " + (*idle.begin())->text() + " matches no module of the checkpoint");
    const bool any = std::any_of(jobs_.begin(), jobs_.end(), [](const Job& job) { return job.format.has_value(); });
    return any ? ok_status() : invalid_argument("no tensor is left to quantise");
  }

  Status write(OutputDirectory& directory, QuantisedCheckpoint& result) {
    auto writer = FL_TRY(formats::SafetensorsWriter::create(directory.path(), tensor_plans(),
                                                            {.max_shard_bytes = options_.max_shard_bytes}));
    for (const Job& job : jobs_) {
      auto written = FL_TRY((job.format ? round(job, writer) : copy(job, writer)).with_context(job.record->name));
      result.tensors.push_back(std::move(written));
      checkpoint_.done_with(*job.record);
    }
    directory.add(writer.files());
    FL_TRY(writer.finish());
    return ok_status();
  }

  // quantization_config, as the vendors' own tools write it. `tied`: the head has no tensor of its own.
  Json description(bool tied) const {
    std::vector<std::string> kept, rows;
    for (const Job& job : jobs_) {
      const bool matrix = job.record->shape.size() == 2 && ends_as_weight(job.record->name);
      if (matrix && !job.format) kept.push_back(module_of(job.record->name));
      if (job.format && job.format->group != common_group()) rows.push_back(module_of(job.record->name));
    }
    if (tied) kept.emplace_back("lm_head");
    if (options_.format == QuantFormat::kFp8) {
      return {{"quant_method", "fp8"},
              {"fmt", "e4m3"},
              {"activation_scheme", "dynamic"},
              {"weight_block_size", {128, 128}},
              {"modules_to_not_convert", kept}};
    }
    Json groups = {{"group_0", group_description({"Linear"}, common_group())}};
    if (!rows.empty()) groups["group_1"] = group_description(rows, 0);
    return {{"quant_method", "compressed-tensors"},
            {"format", format_name()},
            {"quantization_status", "compressed"},
            {"config_groups", groups},
            {"ignore", kept},
            {"kv_cache_scheme", nullptr}};
  }

 private:
  Result<std::string> reason_to_keep(const formats::TensorRecord& record, const Uses& uses) const {
    if (!record.dtype || !tensor::dtype_info(*record.dtype).is_float || *record.dtype == DType::kF8E4M3 ||
        *record.dtype == DType::kF8E5M2 || *record.dtype == DType::kF8E8M0 || *record.dtype == DType::kF4E2M1) {
      if (record.shape.size() < 2 || record.dtype == DType::kI64 || record.dtype == DType::kI32)
        return std::string("it is stored as " + record.stored_type);
      return unsupported("tensor " + record.name + " is stored as " + record.stored_type +
                         ": the checkpoint is quantised already");
    }
    const std::string* reason = uses.reason_to_keep(record.name);
    if (reason == nullptr) return std::string("the graph does not use it");
    if (!reason->empty()) return *reason;
    if (record.shape.size() != 2) return std::string("it has " + std::to_string(record.shape.size()) + " axes, not 2");
    if (!ends_as_weight(record.name)) return std::string("its name does not end in .weight");
    if (options_.format == QuantFormat::kMxfp4 && record.shape[1] % 32 != 0) {
      return std::string(std::to_string(record.shape[1]) + " columns are no whole groups of 32");
    }
    return std::string();
  }

  int64_t common_group() const {
    return options_.format == QuantFormat::kFp8 ? 128 : options_.format == QuantFormat::kMxfp4 ? 32 : options_.group;
  }

  RowFormat format_for(int64_t columns) const {
    RowFormat format{.format = options_.format, .columns = columns, .group = common_group()};
    const bool packed = options_.format == QuantFormat::kInt4 || options_.format == QuantFormat::kInt8;
    if (packed && columns % format.group != 0) format.group = columns;
    return format;
  }

  static std::string codes_name(const Job& job) {
    return job.record->name + (job.format->format == QuantFormat::kFp8 ? "" : "_packed");
  }
  static std::string scales_name(const Job& job) {
    return job.record->name + (job.format->format == QuantFormat::kFp8 ? "_scale_inv" : "_scale");
  }
  bool has_shape() const { return options_.format == QuantFormat::kInt4 || options_.format == QuantFormat::kInt8; }

  std::vector<formats::TensorPlan> tensor_plans() const {
    std::vector<formats::TensorPlan> plans;
    for (const Job& job : jobs_) {
      if (!job.format) {
        plans.push_back({job.record->name, *job.record->dtype, job.record->shape});
        continue;
      }
      const int64_t rows = job.record->shape[0], height = job.format->rows_per_block();
      plans.push_back({codes_name(job), job.format->code_type(), {rows, job.format->code_columns()}});
      plans.push_back(
          {scales_name(job), job.format->scale_type(), {(rows + height - 1) / height, job.format->groups()}});
      if (has_shape()) plans.push_back({job.record->name + "_shape", DType::kI64, {2}});
    }
    return plans;
  }

  Result<QuantisedTensor> copy(const Job& job, formats::SafetensorsWriter& writer) {
    const auto bytes = FL_TRY(checkpoint_.bytes(*job.record));
    FL_TRY(writer.append(job.record->name, bytes));
    advance(job.record->num_elements());
    QuantisedTensor tensor{.name = job.record->name,
                           .format = job.record->stored_type,
                           .kept_because = job.kept_because,
                           .sqnr_db = std::numeric_limits<double>::infinity(),
                           .elements = job.record->num_elements()};
    tensor.bytes_before = tensor.bytes_after = static_cast<int64_t>(bytes.size());
    return tensor;
  }

  Result<QuantisedTensor> round(const Job& job, formats::SafetensorsWriter& writer) {
    const formats::TensorRecord& record = *job.record;
    const RowFormat& format = *job.format;
    const auto bytes = FL_TRY(checkpoint_.bytes(record));
    const int64_t rows = record.shape[0], columns = record.shape[1], height = format.rows_per_block();
    const int64_t step = std::max<int64_t>(1, kPieceElements / std::max<int64_t>(1, columns * height)) * height;
    QuantisedTensor tensor{.name = record.name, .format = describe(format), .elements = record.num_elements()};
    tensor.bytes_before = static_cast<int64_t>(bytes.size());
    double error = 0, size = 0;
    for (int64_t row = 0; row < rows; row += step) {
      const int64_t count = std::min(step, rows - row) * columns;
      exact_.resize(static_cast<size_t>(count));
      const auto skip = static_cast<size_t>(*tensor::row_bytes(*record.dtype, row * columns));
      FL_TRY(tensor::decode_to_f32(*record.dtype, bytes.subspan(skip), exact_));
      if (!std::all_of(exact_.begin(), exact_.end(), [](float value) { return std::isfinite(value); })) {
        return invalid_data("a value is no finite number");
      }
      const QuantisedRows out = quantise_rows(format, exact_);
      for (size_t i = 0; i < exact_.size(); ++i) {
        const double off = static_cast<double>(out.values[i]) - static_cast<double>(exact_[i]);
        tensor.max_abs = std::max(tensor.max_abs, std::abs(off));
        error += off * off;
        size += static_cast<double>(exact_[i]) * static_cast<double>(exact_[i]);
      }
      FL_TRY(writer.append(codes_name(job), out.codes));
      FL_TRY(writer.append(scales_name(job), out.scales));
      tensor.bytes_after += static_cast<int64_t>(out.codes.size() + out.scales.size());
      advance(count);
    }
    if (has_shape()) FL_TRY(writer.append(record.name + "_shape", std::as_bytes(std::span(record.shape))));
    tensor.relative_l2 = size > 0 ? std::sqrt(error / size) : 0;
    tensor.sqnr_db = error > 0 ? 10 * std::log10(size / error) : std::numeric_limits<double>::infinity();
    return tensor;
  }

  void advance(int64_t elements) {
    done_ += elements;
    if (options_.progress) options_.progress(done_, total_);
  }

  std::string describe(const RowFormat& format) const {
    switch (format.format) {
      case QuantFormat::kFp8:
        return "fp8 e4m3, blocks of 128 x 128";
      case QuantFormat::kMxfp4:
        return "mxfp4";
      default:
        break;
    }
    return "int" + std::to_string(format.bits()) +
           (format.group == common_group() ? ", groups of " + std::to_string(format.group) : ", a scale per row");
  }

  const char* format_name() const {
    return options_.format == QuantFormat::kMxfp4 ? "mxfp4-pack-quantized" : "pack-quantized";
  }

  // `group` 0: one scale per row.
  Json group_description(const std::vector<std::string>& targets, int64_t group) const {
    const bool mx = options_.format == QuantFormat::kMxfp4;
    Json weights = {{"num_bits", options_.format == QuantFormat::kInt8 ? 8 : 4},
                    {"type", mx ? "float" : "int"},
                    {"symmetric", true},
                    {"strategy", group > 0 ? "group" : "channel"}};
    weights["group_size"] = group > 0 ? Json(group) : Json(nullptr);
    if (mx) weights["scale_dtype"] = "torch.uint8";
    weights.update({{"dynamic", false}, {"actorder", nullptr}, {"block_structure", nullptr}, {"observer", "minmax"}});
    return {{"targets", targets},
            {"weights", weights},
            {"input_activations", nullptr},
            {"output_activations", nullptr},
            {"format", format_name()}};
  }

  const formats::Checkpoint& checkpoint_;
  const QuantiseOptions& options_;
  std::vector<Job> jobs_;
  std::vector<float> exact_;
  int64_t done_ = 0, total_ = 0;
};

}  // namespace

Result<QuantisedCheckpoint> quantise(const std::string& source, const std::string& directory,
                                     const QuantiseOptions& options) {
  if (options.group < 32 || options.group % 32 != 0 || options.group > (1 << 16)) {
    return invalid_argument("groups of " + std::to_string(options.group) + " columns: a multiple of 32 wanted");
  }
  const auto checkpoint = FL_TRY(formats::Checkpoint::open(source));
  if (checkpoint.format() != formats::CheckpointFormat::kSafetensors) {
    return invalid_argument(
        source +
        " is no directory in Hugging Face layout; 'convert MODEL --to bf16 -o DIR' first makes one of a GGUF file");
  }
  const auto files = FL_TRY(formats::HfDirectory::scan(checkpoint.files().at(0)));
  if (!files.config) return not_found("no config.json in " + files.root);
  Json config = FL_TRY(parse_json(FL_TRY(read_text_file(*files.config))).with_context(*files.config));
  for (const char* key : {"quantization_config", "compression_config"}) {
    if (config.contains(key)) return unsupported(*files.config + ": " + key + ": the checkpoint is quantised already");
  }
  const intake::Model model = FL_TRY(intake::load_model(checkpoint, options.intake));
  if (!model.quantisation.empty()) return unsupported(source + " is quantised already: " + model.quantisation);
  Quantiser quantiser(checkpoint, options);
  FL_TRY(quantiser.plan(model.graph));
  auto output = FL_TRY(OutputDirectory::create(directory));
  QuantisedCheckpoint result{.warnings = model.warnings};
  FL_TRY(quantiser.write(output, result));
  config["quantization_config"] = quantiser.description(checkpoint.find("lm_head.weight") == nullptr);
  FL_TRY(output.write("config.json", dump_json(config, 2) + "\n"));
  FL_TRY(output.copy_texts(files));
  result.files = output.keep();
  return result;
}

}  // namespace firstlight::adapt
