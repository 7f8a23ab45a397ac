// SPDX-License-Identifier: Apache-2.0
#include "locate/reproduction.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "base/file_map.h"
#include "base/json.h"
#include "formats/safetensors.h"
#include "ir/text.h"
#include "ir/verify.h"

namespace firstlight::locate {
namespace {

constexpr uint64_t kMostTensorBytes = 16'000'000;

// The tensors that a graph reads; empty: one of them is not to be had as it is, or they are too many bytes.
std::vector<const formats::TensorRecord*> small_tensors(const ir::Graph& graph, const formats::Checkpoint& checkpoint) {
  std::vector<const formats::TensorRecord*> records;
  uint64_t bytes = 0;
  for (const auto& [name, source] : graph.weight_sources) {
    const formats::TensorRecord* record = checkpoint.find(source.tensor);
    if (record == nullptr || !record->dtype || !formats::safetensors_dtype_name(*record->dtype)) return {};
    bytes += record->size_bytes;
    records.push_back(record);
  }
  return bytes <= kMostTensorBytes ? records : std::vector<const formats::TensorRecord*>{};
}

const ir::Value* input_of(const ir::Graph& graph, ir::ValueId id) {
  for (const ir::Value& value : graph.values) {
    if (value.kind == ir::Value::Kind::kInput && value.name == cut_input_name(id)) return &value;
  }
  return nullptr;
}

std::string row_name(size_t prompt, const std::string& input) { return "p" + std::to_string(prompt) + "." + input; }

}  // namespace

Result<bool> write_reproduction(const Reproduction& made, const Json& finding, const formats::Checkpoint* checkpoint,
                                const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  Json json = {{"finding", finding}, {"allowed", made.allowed}};
  FL_TRY(write_file(directory + "/finding.json", json.dump(1) + "\n"));
  FL_TRY(write_file(directory + "/graph.txt", ir::print(made.graph)));
  FL_TRY(align::write_pack(made.expected, directory + "/expected", 0));
  std::vector<formats::TensorPlan> plans;
  std::vector<std::span<const std::byte>> bytes;
  for (const auto& [id, rows] : made.rows) {
    const ir::Value* value = input_of(made.graph, id);
    if (value == nullptr) continue;
    for (size_t p = 0; p < rows.size(); ++p) {
      plans.push_back({.name = row_name(p, value->name),
                       .dtype = value->type.dtype,
                       .shape = {static_cast<int64_t>(rows[p].size() / 4)}});
      bytes.push_back(rows[p]);
    }
  }
  const auto records =
      checkpoint == nullptr ? std::vector<const formats::TensorRecord*>{} : small_tensors(made.graph, *checkpoint);
  for (const formats::TensorRecord* record : records) {
    plans.push_back({.name = record->name, .dtype = *record->dtype, .shape = record->shape});
    bytes.push_back(FL_TRY(checkpoint->bytes(*record)));
  }
  if (!plans.empty()) {
    const auto names = plans;
    auto writer = FL_TRY(formats::SafetensorsWriter::create(directory, std::move(plans)));
    for (size_t i = 0; i < names.size(); ++i) FL_TRY(writer.append(names[i].name, bytes[i]));
    FL_TRY(writer.finish());
  }
  return records.size() == made.graph.weight_sources.size();
}

Result<Reproduction> read_reproduction(const std::string& directory) {
  Reproduction out;
  out.graph = FL_TRY(ir::parse(FL_TRY(read_text_file(directory + "/graph.txt"))));
  FL_TRY(ir::verify(out.graph));
  if (out.graph.body.yields.size() != 1) return invalid_data(directory + "/graph.txt: one output wanted");
  out.expected = FL_TRY(align::read_pack(directory + "/expected"));
  const Json json = FL_TRY(parse_json(FL_TRY(read_text_file(directory + "/finding.json"))));
  if (!json.contains("allowed") || !json["allowed"].is_number()) return invalid_data("finding.json: no number allowed");
  out.allowed = json["allowed"].get<double>();
  const auto file = FL_TRY(formats::Checkpoint::open(directory));
  for (const auto& [name, record] : file.tensors()) {
    const size_t at = name.find(".cut.");
    if (at == std::string::npos || name[0] != 'p') continue;
    ir::ValueId id = 0;
    size_t prompt = 0;
    std::from_chars(name.data() + at + 5, name.data() + name.size(), id);
    std::from_chars(name.data() + 1, name.data() + at, prompt);
    if (prompt >= out.expected.prompts.size()) return invalid_data("rows of a prompt that is not expected: " + name);
    auto& table = out.rows[id];
    table.resize(out.expected.prompts.size());
    const auto bytes = FL_TRY(file.bytes(record));
    table[prompt].assign(bytes.begin(), bytes.end());
  }
  return out;
}

Result<Reproduced> reproduce(const Reproduction& made, const RunOptions& run, const Resources& resources) {
  Tap target;
  target.value = made.graph.body.yields[0];
  target.name = made.graph.output_names[0];
  target.type = made.graph.value(target.value).type;
  const Pack found = FL_TRY(run_cut(made.graph, target, made.rows, made.expected, run, resources));
  const auto comparison = FL_TRY(compare(made.expected, found));
  const ValueComparison& value = comparison.values[0];
  const double error = value.info.is_integer ? value.found.mismatch : value.found.rel_l2;
  return Reproduced{.error = value.found.finite ? error : INFINITY, .allowed = made.allowed};
}

}  // namespace firstlight::locate
