// SPDX-License-Identifier: Apache-2.0
#include "locate/cut.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "ir/rewrite.h"
#include "ir/verify.h"

namespace firstlight::locate {
namespace {

void collect(const ir::Graph& graph, ir::NodeId id, const std::set<ir::ValueId>& known, std::vector<bool>& taken,
             std::set<ir::ValueId>* read) {
  if (id < 0 || taken[static_cast<size_t>(id)]) return;
  taken[static_cast<size_t>(id)] = true;
  for (const ir::ValueId operand : values_used_by(graph, id)) {
    if (!known.contains(operand)) {
      if (graph.value(operand).kind == ir::Value::Kind::kResult)
        collect(graph, graph.value(operand).producer, known, taken, read);
    } else if (read != nullptr) {
      read->insert(operand);
    }
  }
}

// Whether all that a region's nodes and yields read stands before them: a hypothesis may have made a node read what
// comes after it, or what stands inside another one's region.
bool is_whole(const ir::Graph& graph, const ir::Region& region, std::set<ir::ValueId> defined) {
  defined.insert(region.parameters.begin(), region.parameters.end());
  const auto is_there = [&](ir::ValueId id) {
    const auto kind = graph.value(id).kind;
    return kind == ir::Value::Kind::kWeight || kind == ir::Value::Kind::kState || defined.contains(id);
  };
  for (const ir::NodeId id : region.nodes) {
    const ir::Node& node = graph.node(id);
    if (!std::all_of(node.operands.begin(), node.operands.end(), is_there)) return false;
    for (const ir::Region& inner : node.regions) {
      if (!is_whole(graph, inner, defined)) return false;
    }
    defined.insert(node.results.begin(), node.results.end());
  }
  return std::all_of(region.yields.begin(), region.yields.end(), is_there);
}

int64_t row_bytes(const tensor::Type& type) {
  tensor::Type row = type;
  row.shape[0] = tensor::Dim(1);
  return tensor::size_bytes(row);
}

Prompts prompts_of(const Pack& pack) {
  Prompts prompts;
  for (const PromptRecord& prompt : pack.prompts) prompts.push_back(prompt.tokens);
  return prompts;
}

constexpr std::string_view kCutPrefix = "cut.";

// Where the rows of each input go in.
struct CutInput {
  std::span<std::byte> memory;
  const RowTable* rows = nullptr;
  int64_t row_bytes = 0, rate = 1;
};

}  // namespace

std::vector<ir::NodeId> nodes_behind(const ir::Graph& graph, ir::ValueId value, const std::set<ir::ValueId>& known,
                                     std::set<ir::ValueId>* read) {
  std::vector<bool> taken(graph.nodes.size(), false);
  std::set<ir::ValueId> others = known;
  others.erase(value);
  collect(graph, graph.value(value).producer, others, taken, read);
  std::vector<ir::NodeId> nodes;
  for (const ir::NodeId id : graph.body.nodes) {
    if (taken[static_cast<size_t>(id)]) nodes.push_back(id);
  }
  return nodes;
}

std::string cut_input_name(ir::ValueId value) { return std::string(kCutPrefix) + std::to_string(value); }

Result<ir::Graph> cut_out(const ir::Graph& graph, const Tap& target, const std::set<ir::ValueId>& known) {
  std::set<ir::ValueId> read;
  auto nodes = nodes_behind(graph, target.value, known, &read);
  ir::Graph cut = graph;
  for (const ir::ValueId id : read) {
    ir::Value& value = cut.value(id);
    value.kind = ir::Value::Kind::kInput;
    value.name = cut_input_name(id);
    value.producer = -1;
    cut.body.parameters.push_back(id);
  }
  cut.body.nodes = std::move(nodes);
  cut.body.yields = {target.value};
  cut.output_names = {target.name};
  if (!is_whole(cut, cut.body, {})) return invalid_argument("operands stand behind their users");
  ir::eliminate_dead_code(cut);
  FL_TRY(ir::verify(cut));
  return cut;
}

Result<std::map<ir::ValueId, RowTable>> whole_rows(const ir::Graph& graph, const std::vector<Tap>& taps,
                                                   const Prompts& prompts, const RunOptions& options,
                                                   const Resources& resources) {
  std::map<ir::ValueId, RowTable> tables;
  if (taps.empty()) return tables;
  for (const Tap& tap : taps) tables[tap.value].resize(prompts.size());
  FL_TRY(run_taps(graph, taps, prompts, options, resources,
                  [&](size_t tap, size_t prompt, int64_t first_row, const tensor::View& rows) {
                    const auto bytes = static_cast<size_t>(row_bytes(taps[tap].type));
                    auto& table = tables[taps[tap].value][prompt];
                    const size_t begin = static_cast<size_t>(first_row) * bytes;
                    const size_t size = static_cast<size_t>(rows.dim(0)) * bytes;
                    table.resize(std::max(table.size(), begin + size));
                    std::memcpy(table.data() + begin, rows.data, size);
                  }));
  return tables;
}

namespace {

using RowVisitor = std::function<void(size_t prompt, int64_t first_row, const tensor::View& rows)>;

// Errors: kInternal where an input that is read has no rows.
Result<std::vector<CutInput>> inputs_of(const ir::Graph& cut, const KnownRows& known, runtime::Executor& executor) {
  std::vector<CutInput> inputs;
  for (const ir::Value& value : cut.values) {
    if (value.kind != ir::Value::Kind::kInput || !value.name.starts_with(kCutPrefix)) continue;
    const auto memory = executor.input(value.name);
    if (memory.empty()) continue;
    const auto rows = std::find_if(known.begin(), known.end(),
                                   [&](const auto& entry) { return cut_input_name(entry.first) == value.name; });
    if (rows == known.end()) return internal_error("rows of a cut are missing: " + value.name);
    const auto& first = value.type.shape[0];
    inputs.push_back({.memory = memory,
                      .rows = &rows->second,
                      .row_bytes = row_bytes(value.type),
                      .rate = first.symbol == tensor::Symbol::kGroups ? first.rate : 1});
  }
  return inputs;
}

Status fill(const CutInput& input, std::span<const Piece> pieces) {
  for (const auto& rows : PieceRunner::rows_of(pieces, input.rate)) {
    const auto from = static_cast<size_t>(rows.first_in_prompt * input.row_bytes);
    const auto to = static_cast<size_t>(rows.first_in_batch * input.row_bytes);
    const auto bytes = static_cast<size_t>(rows.count * input.row_bytes);
    const auto& table = (*input.rows)[rows.prompt];
    if (from + bytes > table.size() || to + bytes > input.memory.size())
      return internal_error("rows of a cut are missing");
    std::memcpy(input.memory.data() + to, table.data() + from, bytes);
  }
  return ok_status();
}

compiler::BucketSize bucket_for(const std::vector<std::vector<Piece>>& batches) {
  compiler::BucketSize bucket{.max_tokens = 1, .max_outputs = 1, .max_sequences = 1};
  for (const auto& pieces : batches) {
    int64_t tokens = 0;
    for (const Piece& piece : pieces) tokens += piece.count;
    bucket.max_tokens = bucket.max_outputs = std::max(bucket.max_tokens, tokens);
    bucket.max_sequences = std::max(bucket.max_sequences, static_cast<int64_t>(pieces.size()));
  }
  return bucket;
}

Status visit_cut(const ir::Graph& cut, const Tap& target, const KnownRows& known, const Prompts& prompts,
                 const RunOptions& options, const Resources& resources, const RowVisitor& visit) {
  const auto batches = plan_pieces(prompts, options.chunk, options.batched);
  compiler::CompileOptions compile = resources.compile;
  compile.buckets = {bucket_for(batches)};
  compile.every_row = true;
  auto plan = FL_TRY(compiler::compile(cut, compile));
  const auto executor =
      FL_TRY(runtime::Executor::create(std::move(plan), *resources.checkpoint, *resources.pool, resources.executor));
  const auto inputs = FL_TRY(inputs_of(cut, known, *executor));
  auto runner = FL_TRY(PieceRunner::create(*executor, prompts));
  for (const auto& pieces : batches) {
    for (const CutInput& input : inputs) FL_TRY(fill(input, pieces));
    FL_TRY(runner.run(pieces));
    const tensor::View view = executor->output(target.name);
    if (!view.present()) return internal_error("a cut has lost its output");
    if (view.num_elements() != view.dim(0) * target.width()) return invalid_argument("of another width");
    for (const auto& rows : PieceRunner::rows_of(pieces, target.rate())) {
      if (rows.count > 0) visit(rows.prompt, rows.first_in_prompt, row_range(view, rows.first_in_batch, rows.count));
    }
    for (const Piece& piece : pieces) {
      const bool ends = piece.start + piece.count == static_cast<int64_t>(prompts[piece.prompt].size());
      if (ends) runner.forget(piece.prompt);
    }
  }
  return ok_status();
}

}  // namespace

Result<Pack> run_cut(const ir::Graph& cut, const Tap& target, const KnownRows& known, const Pack& baseline,
                     const RunOptions& options, const Resources& resources) {
  Pack head = only_tap(baseline, target.name);
  const TapInfo info = head.taps.empty() ? TapInfo{} : head.taps[0];
  for (PromptRecord& prompt : head.prompts) prompt.taps.clear();
  head.taps = {info};
  auto builder = PackBuilder::like(std::move(head), baseline);
  const RunOptions run = {.chunk = options.chunk};
  FL_TRY(
      visit_cut(cut, target, known, prompts_of(baseline), run, resources,
                [&](size_t prompt, int64_t first, const tensor::View& rows) { builder.add(0, prompt, first, rows); }));
  return std::move(builder).finish();
}

Result<RowTable> run_cut_rows(const ir::Graph& cut, const Tap& target, const KnownRows& known, const Prompts& prompts,
                              const RunOptions& options, const Resources& resources) {
  RowTable table(prompts.size());
  const auto bytes = static_cast<size_t>(row_bytes(target.type));
  FL_TRY(visit_cut(cut, target, known, prompts, options, resources,
                   [&](size_t prompt, int64_t first_row, const tensor::View& rows) {
                     const size_t begin = static_cast<size_t>(first_row) * bytes;
                     const size_t size = static_cast<size_t>(rows.dim(0)) * bytes;
                     table[prompt].resize(std::max(table[prompt].size(), begin + size));
                     std::memcpy(table[prompt].data() + begin, rows.data, size);
                   }));
  return table;
}

Pack only_tap(const Pack& pack, const std::string& name) {
  Pack one = {.origin = pack.origin, .model = pack.model, .architecture = pack.architecture, .layout = pack.layout};
  const auto found =
      std::find_if(pack.taps.begin(), pack.taps.end(), [&](const auto& tap) { return tap.name == name; });
  if (found == pack.taps.end()) return one;
  const auto place = static_cast<size_t>(found - pack.taps.begin());
  one.taps = {*found};
  for (const PromptRecord& prompt : pack.prompts) {
    PromptRecord record = {.tokens = prompt.tokens, .greedy = {}, .taps = {prompt.taps[place]}};
    if (name == "logits") {
      record.top_ids = prompt.top_ids;
      record.top_logits = prompt.top_logits;
      record.log_sum_exp = prompt.log_sum_exp;
    }
    one.prompts.push_back(std::move(record));
  }
  return one;
}

RowTable whole_rows_of(const Pack& pack, const Tap& tap) {
  RowTable table;
  for (size_t t = 0; t < pack.taps.size(); ++t) {
    if (pack.taps[t].name != tap.name || pack.taps[t].width != tap.width() || pack.taps[t].rate != tap.rate()) continue;
    for (const PromptRecord& prompt : pack.prompts) {
      const TapRecord& record = prompt.taps[t];
      if (static_cast<int64_t>(record.row_ids.size()) != record.num_rows) return {};
      auto& bytes = table.emplace_back(record.rows.size() * sizeof(float));
      if (tap.type.dtype == tensor::DType::kI32) {
        const std::vector<int32_t> whole(record.rows.begin(), record.rows.end());
        std::memcpy(bytes.data(), whole.data(), bytes.size());
      } else {
        std::memcpy(bytes.data(), record.rows.data(), bytes.size());
      }
    }
  }
  return table;
}

}  // namespace firstlight::locate
