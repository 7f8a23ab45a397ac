// SPDX-License-Identifier: Apache-2.0
#include "model.h"

#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <random>

#include "base/check.h"
#include "device/cpu/detect.h"
#include "formats/gguf_writer.h"
#include "formats/safetensors.h"
#include "ir/text.h"
#include "kv/state_cache.h"
#include "tensor/codec.h"

namespace firstlight::plans {
namespace {

using tensor::DType;

std::vector<int64_t> sizes_of(const tensor::Shape& shape) {
  std::vector<int64_t> sizes;
  for (const auto& dim : shape) sizes.push_back(dim.factor);
  return sizes;
}

// Whole q8_0 blocks: a half as scale, 32 codes.
std::vector<std::byte> random_q8_0(int64_t elements, double spread, std::mt19937& random) {
  std::vector<std::byte> bytes;
  std::uniform_int_distribution<int> code(-127, 127);
  for (int64_t block = 0; block < elements / 32; ++block) {
    const uint16_t scale = tensor::f32_to_f16(static_cast<float>(spread / 73.0));
    bytes.resize(bytes.size() + 2);
    std::memcpy(bytes.data() + bytes.size() - 2, &scale, 2);
    for (int i = 0; i < 32; ++i) bytes.push_back(static_cast<std::byte>(static_cast<int8_t>(code(random))));
  }
  return bytes;
}

std::vector<std::byte> random_bytes(const ir::Value& weight, std::mt19937& random) {
  const tensor::Type& type = weight.type;
  const int64_t elements = tensor::num_elements(type.shape);
  const int64_t columns = type.shape.empty() ? 1 : type.shape.back().factor;
  const bool is_table = weight.name == "embed";
  const double spread = type.shape.size() < 2 ? 0.5 : is_table ? 1.0 : 1.0 / std::sqrt(static_cast<double>(columns));
  if (type.dtype == DType::kQ8_0) return random_q8_0(elements, spread, random);
  std::vector<std::byte> bytes(static_cast<size_t>(tensor::size_bytes(type)));
  if (type.dtype == DType::kU8) {  // nibbles, or powers of two between 1/64 and 1/8
    std::uniform_int_distribution<int> any(0, 255), power(121, 124);
    for (auto& byte : bytes) byte = static_cast<std::byte>(weight.name == "scales" ? power(random) : any(random));
    return bytes;
  }
  if (type.dtype == DType::kF8E4M3) {  // up to 1.875, both signs
    std::uniform_int_distribution<int> code(0, 63), sign(0, 1);
    for (auto& byte : bytes) byte = static_cast<std::byte>(code(random) | sign(random) << 7);
    return bytes;
  }
  std::vector<float> values(static_cast<size_t>(elements));
  std::normal_distribution<double> normal(weight.name.starts_with("norm") ? 1.0 : 0.0, spread);
  for (float& value : values) value = static_cast<float>(normal(random));
  FL_CHECK(tensor::encode_from_f32(type.dtype, values, bytes).ok());
  return bytes;
}

// What one sequence brings to one batch.
struct Part {
  int sequence;
  int64_t num_tokens;
};
const std::vector<std::vector<Part>> kBatches = {
    {{0, 5}, {1, 3}}, {{1, 6}, {2, 4}, {0, 1}}, {{2, 1}}, {{0, 1}, {1, 1}, {2, 1}}, {{1, 2}, {0, 1}}, {{2, 7}, {0, 7}},
};
constexpr std::array<int64_t, 3> kPlannedLengths = {15, 12, 16};

int64_t vocabulary(const ir::Graph& graph) {
  for (const auto& value : graph.values) {
    if (value.kind == ir::Value::Kind::kWeight && value.name == "embed") return value.type.shape[0].factor;
  }
  return 1;
}

void take_outputs(const runtime::Executor& executor, Outputs& outputs) {
  for (const auto& output : executor.plan().outputs) {
    const tensor::View view = executor.output(output.name);
    const auto count = static_cast<size_t>(view.num_elements());
    FL_CHECK(view.dtype == DType::kF32);
    outputs[output.name].insert(outputs[output.name].end(), view.as<float>(), view.as<float>() + count);
  }
}

}  // namespace

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / ("firstlight-test-" + std::string(6, 'X')))
                         .string();  // mkdtemp names it
  FL_CHECK(::mkdtemp(name.data()) != nullptr);
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

Result<Model> make_model(std::string_view text, uint32_t seed) {
  auto graph = FL_TRY(ir::parse(text));
  std::mt19937 random(seed);
  TemporaryFolder folder;
  std::vector<formats::TensorPlan> tensors;
  std::vector<std::vector<std::byte>> contents;
  bool has_blocks = false;
  for (const ir::Value& value : graph.values) {
    if (value.kind != ir::Value::Kind::kWeight) continue;
    tensors.push_back({.name = value.name, .dtype = value.type.dtype, .shape = sizes_of(value.type.shape)});
    contents.push_back(random_bytes(value, random));
    has_blocks = has_blocks || tensor::dtype_info(value.type.dtype).is_quantised;
  }
  if (has_blocks) {
    formats::GgufWriter writer;
    for (size_t i = 0; i < tensors.size(); ++i) {
      FL_TRY(writer.add_tensor(tensors[i].name, tensors[i].dtype, tensors[i].shape, contents[i]));
    }
    FL_TRY(writer.write(folder.path() + "/model.gguf"));
  } else {
    auto writer = FL_TRY(formats::SafetensorsWriter::create(folder.path(), tensors));
    for (size_t i = 0; i < tensors.size(); ++i) FL_TRY(writer.append(tensors[i].name, contents[i]));
    FL_TRY(writer.finish());
  }
  auto checkpoint = FL_TRY(formats::Checkpoint::open(folder.path()));
  return Model{std::move(graph), std::move(folder), std::move(checkpoint)};
}

compiler::CompileOptions options_for(catalog::Backend backend) {
  return {.backend = backend,
          .features = catalog::is_device(backend) ? target::Features{} : device::detect_cpu().features,
          .host_features = device::detect_cpu().features,
          .compute = catalog::ComputeMode::kF32,
          .buckets = {{16, 8}, {4, 4}}};
}

Result<Outputs> run_model(const Model& model, const compiler::CompileOptions& options, ThreadPool& pool,
                          const runtime::ExecutorOptions& executor_options) {
  auto plan = FL_TRY(compiler::compile(model.graph, options));
  const auto executor = FL_TRY(runtime::Executor::create(std::move(plan), model.checkpoint, pool, executor_options));
  auto cache =
      FL_TRY(kv::StateCache::create(executor->plan().states, {.page_rows = 4, .storage = executor->page_storage()}));
  std::mt19937 random(7);
  std::uniform_int_distribution<int32_t> any_token(0, static_cast<int32_t>(vocabulary(model.graph)) - 1);
  std::array<kv::SequenceId, 3> ids;
  for (auto& id : ids) id = cache.add_sequence();
  Outputs outputs;
  for (const auto& parts : kBatches) {
    std::vector<int32_t> tokens, positions, rows;
    std::vector<plan::SequenceSpan> spans;
    std::vector<kv::SequenceId> sequences;
    for (const Part& part : parts) {
      const auto id = ids[static_cast<size_t>(part.sequence)];
      const int64_t start = cache.length(id);
      FL_TRY(cache.extend(id, start + part.num_tokens));
      spans.push_back({.first_row = static_cast<int64_t>(tokens.size()),
                       .num_tokens = part.num_tokens,
                       .start_position = start,
                       .planned_length = kPlannedLengths[static_cast<size_t>(part.sequence)]});
      sequences.push_back(id);
      for (int64_t i = 0; i < part.num_tokens; ++i) {
        tokens.push_back(any_token(random));
        positions.push_back(static_cast<int32_t>(start + i));
        if (i + 1 == part.num_tokens || i == 1) rows.push_back(static_cast<int32_t>(tokens.size()) - 1);
      }
    }
    FL_TRY(executor->run({.tokens = tokens, .positions = positions, .output_rows = rows, .sequences = spans},
                         cache.views(sequences)));
    take_outputs(*executor, outputs);
  }
  return outputs;
}

double relative_difference(const Outputs& a, const Outputs& b) {
  double worst = 0;
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  for (const auto& [name, wanted] : b) {
    const auto found = a.find(name);
    if (found == a.end() || found->second.size() != wanted.size()) return std::numeric_limits<double>::infinity();
    double largest = 0, difference = 0;
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (!std::isfinite(wanted[i]) || !std::isfinite(found->second[i])) return std::numeric_limits<double>::infinity();
      largest = std::max(largest, std::abs(static_cast<double>(wanted[i])));
      difference = std::max(difference, std::abs(static_cast<double>(found->second[i]) - wanted[i]));
    }
    worst = std::max(worst, difference / largest);
  }
  return worst;
}

}  // namespace firstlight::plans
