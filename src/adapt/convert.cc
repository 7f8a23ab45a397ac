// SPDX-License-Identifier: Apache-2.0
#include "adapt/convert.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <span>

#include "adapt/gguf_text.h"
#include "adapt/output_directory.h"
#include "adapt/released_config.h"
#include "adapt/tokenizer_files.h"
#include "base/thread_pool.h"
#include "compiler/compile.h"
#include "formats/safetensors.h"
#include "ir/rewrite.h"
#include "runtime/executor.h"
#include "tensor/codec.h"

namespace firstlight::adapt {
namespace {

using tensor::DType;

constexpr int64_t kChunkElements = int64_t{1} << 20;  // a whole number of blocks of every format
constexpr const char* kResult = "tensor";

// One output of the graph: a tensor to be written, or, with "{}" in its name, one per index of the leading axis.
struct Output {
  std::string name;
  ir::ValueId value = -1;
  std::vector<int64_t> shape;  // of one
  int64_t count = 1;
  bool is_stack() const { return name.find("{}") != std::string::npos; }
  std::string member(int64_t i) const {
    if (!is_stack()) return name;
    const size_t at = name.find("{}");
    return name.substr(0, at) + std::to_string(i) + name.substr(at + 2);
  }
  int64_t elements() const {
    int64_t product = 1;
    for (const int64_t size : shape) product *= size;
    return product;
  }
};

std::vector<Output> list_outputs(const ir::Graph& graph) {
  std::vector<Output> outputs;
  for (size_t i = 0; i < graph.output_names.size(); ++i) {
    Output output{.name = graph.output_names[i], .value = graph.body.yields[i], .shape = {}};
    for (const tensor::Dim& dim : graph.value(output.value).type.shape) output.shape.push_back(dim.at({}));
    if (output.is_stack()) {
      output.count = output.shape.front();
      output.shape.erase(output.shape.begin());
    }
    outputs.push_back(std::move(output));
  }
  return outputs;
}

// What reference code keeps in float32 whatever the rest is: biases of routers, which decide between near equals.
DType stored_dtype(const std::string& name, DType wanted) {
  return name.ends_with("e_score_correction_bias") ? DType::kF32 : wanted;
}

// The stored or computed bytes of an output, and what keeps them alive.
struct Values {
  DType dtype = DType::kF32;
  std::span<const std::byte> bytes;
  std::unique_ptr<runtime::Executor> executor;
};

class Converter {
 public:
  Converter(const formats::Checkpoint& checkpoint, const ir::Graph& graph, const ConvertOptions& options,
            ThreadPool& pool)
      : checkpoint_(checkpoint), graph_(graph), options_(options), pool_(pool) {}

  // The head that repeats the embedding byte for byte is not written.
  bool drop_repeated_head(std::vector<Output>& outputs) const {
    const formats::TensorRecord* head = stored(outputs, "lm_head.weight");
    const formats::TensorRecord* embedding = stored(outputs, "model.embed_tokens.weight");
    if (head == nullptr || embedding == nullptr || head->dtype != embedding->dtype) return false;
    const auto head_bytes = checkpoint_.bytes(*head), embedding_bytes = checkpoint_.bytes(*embedding);
    if (!head_bytes.ok() || !embedding_bytes.ok() || head_bytes->size() != embedding_bytes->size() ||
        std::memcmp(head_bytes->data(), embedding_bytes->data(), head_bytes->size()) != 0) {
      return false;
    }
    std::erase_if(outputs, [](const Output& output) { return output.name == "lm_head.weight"; });
    return true;
  }

  Status write(const std::vector<Output>& outputs, OutputDirectory& directory, Conversion& result) {
    std::vector<formats::TensorPlan> plan;
    for (const Output& output : outputs) {
      total_ += output.count * output.elements();
      for (int64_t i = 0; i < output.count; ++i) {
        const std::string name = output.member(i);
        plan.push_back({.name = name, .dtype = stored_dtype(name, options_.dtype), .shape = output.shape});
      }
    }
    auto writer = FL_TRY(formats::SafetensorsWriter::create(
        directory.path(), std::move(plan),
        {.stem = "model", .max_shard_bytes = options_.max_shard_bytes, .metadata = {{"format", "pt"}}}));
    if (options_.progress) options_.progress(0, total_);
    for (const Output& output : outputs) FL_TRY(write_output(output, writer, result).with_context(output.name));
    directory.add(writer.files());
    FL_TRY(writer.finish());
    return ok_status();
  }

 private:
  const formats::TensorRecord* stored(const std::vector<Output>& outputs, std::string_view name) const {
    const auto it = std::find_if(outputs.begin(), outputs.end(), [&](const Output& o) { return o.name == name; });
    return it == outputs.end() ? nullptr : record_of(*it);
  }

  // The checkpoint's tensor, where the output is one as it is stored.
  const formats::TensorRecord* record_of(const Output& output) const {
    const ir::Value& value = graph_.value(output.value);
    if (value.kind != ir::Value::Kind::kWeight) return nullptr;
    return checkpoint_.find(graph_.weight_sources.at(value.name).tensor);
  }

  // Runs the nodes that make the output, on the reference backend.
  Result<Values> compute(const Output& output) {
    ir::Graph graph = graph_;
    graph.output_names = {kResult};
    graph.body.yields = {output.value};
    ir::eliminate_dead_code(graph);
    auto plan = FL_TRY(compiler::compile(std::move(graph), {}));
    Values values;
    values.executor = FL_TRY(runtime::Executor::create(std::move(plan), checkpoint_, pool_, {}));
    FL_TRY(values.executor->run({}, {}));
    const tensor::View view = values.executor->output(kResult);
    const auto row = tensor::row_bytes(view.dtype, view.dim(-1));
    if (!row) return internal_error("rows of " + std::to_string(view.dim(-1)) + " elements");
    values.dtype = view.dtype;
    values.bytes = {view.as<std::byte>(), static_cast<size_t>(view.num_rows() * *row)};
    return values;
  }

  Status write_output(const Output& output, formats::SafetensorsWriter& writer, Conversion& result) {
    const formats::TensorRecord* record = record_of(output);
    Values values;
    if (record != nullptr) {
      values.bytes = FL_TRY(checkpoint_.bytes(*record));
      values.dtype = *record->dtype;
      checkpoint_.will_need(*record);
    } else {
      values = FL_TRY(compute(output));
    }
    const size_t size = values.bytes.size() / static_cast<size_t>(output.count);
    for (int64_t i = 0; i < output.count; ++i) {
      const std::string name = output.member(i);
      const auto part = values.bytes.subspan(static_cast<size_t>(i) * size, size);
      result.tensors.push_back(
          {.name = name, .error = FL_TRY(write_tensor(name, values.dtype, part, output.elements(), writer))});
    }
    if (record != nullptr) checkpoint_.done_with(*record);
    return ok_status();
  }

  // Decodes, rounds and writes piece by piece; returns the relative error.
  Result<double> write_tensor(const std::string& name, DType from, std::span<const std::byte> bytes, int64_t elements,
                              formats::SafetensorsWriter& writer) {
    const DType to = stored_dtype(name, options_.dtype);
    double largest = 0, error = 0;
    for (int64_t first = 0; first < elements; first += kChunkElements) {
      const auto count = static_cast<size_t>(std::min(kChunkElements, elements - first));
      exact_.resize(count);
      rounded_.resize(count);
      encoded_.resize(static_cast<size_t>(*tensor::row_bytes(to, static_cast<int64_t>(count))));
      const auto skip = static_cast<size_t>(*tensor::row_bytes(from, first));
      FL_TRY(tensor::decode_to_f32(from, bytes.subspan(skip), exact_));
      FL_TRY(tensor::encode_from_f32(to, exact_, encoded_));
      FL_TRY(tensor::decode_to_f32(to, encoded_, rounded_));
      for (size_t i = 0; i < count; ++i) {
        const double value = static_cast<double>(exact_[i]);
        if (!std::isfinite(value)) continue;
        if (!std::isfinite(rounded_[i])) {
          return invalid_argument("the value " + std::to_string(value) + " is beyond the range of " +
                                  std::string(tensor::dtype_name(to)));
        }
        largest = std::max(largest, std::abs(value));
        error = std::max(error, std::abs(static_cast<double>(rounded_[i]) - value));
      }
      FL_TRY(writer.append(name, encoded_));
      done_ += static_cast<int64_t>(count);
      if (options_.progress) options_.progress(done_, total_);
    }
    return largest > 0 ? error / largest : 0.0;
  }

  const formats::Checkpoint& checkpoint_;
  const ir::Graph& graph_;
  const ConvertOptions& options_;
  ThreadPool& pool_;
  int64_t done_ = 0, total_ = 0;
  std::vector<float> exact_, rounded_;
  std::vector<std::byte> encoded_;
};

// A tokenizer that can not be carried over costs a warning.
Status write_tokenizer(const formats::GgufFile& file, const intake::Model& model, OutputDirectory& directory,
                       Conversion& result) {
  const auto vocabulary = read_gguf_vocabulary(file);
  if (!vocabulary.ok()) {
    result.warnings.push_back("no tokenizer files: " + vocabulary.status().message());
    return ok_status();
  }
  const auto config = tokenizer_config_of(file, *vocabulary, model.max_positions);
  if (!config.ok()) {
    result.warnings.push_back("no tokenizer files: " + config.status().message());
    return ok_status();
  }
  FL_TRY(directory.write("tokenizer_config.json", *config));
  const auto json = tokenizer_json_of(*vocabulary);
  if (json.ok()) return directory.write("tokenizer.json", *json);
  result.warnings.push_back("no tokenizer.json: " + json.status().message());
  return ok_status();
}

Status write_all(const formats::Checkpoint& checkpoint, OutputDirectory& directory, const ConvertOptions& options,
                 Conversion& result) {
  const intake::ReleasedForm form = FL_TRY(intake::released_form(checkpoint, options.intake));
  result.warnings = form.model.warnings;
  std::vector<Output> outputs = list_outputs(form.weights);
  const auto pool = FL_TRY(ThreadPool::create({.num_threads = options.num_threads}));
  Converter converter(checkpoint, form.weights, options, *pool);
  const bool tied = converter.drop_repeated_head(outputs);
  FL_TRY(converter.write(outputs, directory, result));
  const std::string config = released_config_text(form, options.dtype, tied, result.warnings);
  FL_TRY(directory.write("config.json", config));
  FL_TRY(directory.write("generation_config.json", generation_config_text(form.model.tokens)));
  return write_tokenizer(*checkpoint.gguf(), form.model, directory, result);
}

}  // namespace

Result<Conversion> convert(const std::string& source, const std::string& directory, const ConvertOptions& options) {
  if (options.dtype != DType::kBF16 && options.dtype != DType::kF16 && options.dtype != DType::kF32) {
    return invalid_argument("weights are written as bf16, f16 or f32, not " +
                            std::string(tensor::dtype_name(options.dtype)));
  }
  const auto checkpoint = FL_TRY(formats::Checkpoint::open(source));
  if (checkpoint.gguf() == nullptr) return invalid_argument(source + " is no GGUF file, which alone can be converted");
  auto output = FL_TRY(OutputDirectory::create(directory));
  Conversion result;
  FL_TRY(write_all(checkpoint, output, options, result));
  result.files = output.keep();
  return result;
}

}  // namespace firstlight::adapt
