// SPDX-License-Identifier: Apache-2.0
#include "align/run_taps.h"

#include <malloc.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <optional>
#include <string>

#include "align/row_store.h"
#include "align/segments.h"

namespace firstlight::align {
namespace {

constexpr int64_t kUsualChunk = 256;

Status check_prompts(const ir::Graph& graph, const Prompts& prompts) {
  int64_t vocab = INT32_MAX;
  for (size_t i = 0; i < graph.output_names.size(); ++i) {
    if (graph.output_names[i] == "logits") vocab = graph.value(graph.body.yields[i]).type.shape.back().factor;
  }
  if (prompts.empty()) return invalid_argument("no prompts");
  for (const auto& prompt : prompts) {
    if (prompt.empty()) return invalid_argument("an empty prompt");
    for (const int32_t token : prompt) {
      if (token >= 0 && token < vocab) continue;
      return invalid_argument("token " + std::to_string(token) + ", an id below " + std::to_string(vocab) + " wanted");
    }
  }
  return ok_status();
}

int64_t status_bytes(const char* key) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(key)) return std::atoll(line.c_str() + std::string_view(key).size()) * 1024;
  }
  return 0;
}

int64_t longest(const Prompts& prompts) {
  size_t most = 0;
  for (const auto& prompt : prompts) most = std::max(most, prompt.size());
  return static_cast<int64_t>(most);
}

int64_t first_chunk(const RunOptions& options, const Prompts& prompts) {
  return options.chunk > 0 ? options.chunk : std::min(kUsualChunk, longest(prompts));
}

Status visit_rows(const runtime::Executor& executor, const std::string& output, size_t tap, int64_t rate,
                  std::span<const Piece> pieces, const TapVisitor& visit) {
  const tensor::View view = executor.output(output);
  if (!view.present()) return internal_error("the plan has lost its output " + output);
  for (const auto& rows : PieceRunner::rows_of(pieces, rate)) {
    if (rows.count > 0) visit(tap, rows.prompt, rows.first_in_prompt, row_range(view, rows.first_in_batch, rows.count));
  }
  return ok_status();
}

Result<RunFacts> run_at_once(const ir::Graph& graph, const std::vector<Tap>& taps, const Prompts& prompts,
                             const RunOptions& options, const Resources& resources, const TapVisitor& visit) {
  const int64_t chunk = first_chunk(options, prompts);
  const auto batches = plan_pieces(prompts, chunk, options.batched);
  compiler::CompileOptions compile = resources.compile;
  compiler::BucketSize bucket{.max_tokens = 1, .max_outputs = 1, .max_sequences = 1};
  for (const auto& pieces : batches) {
    int64_t tokens = 0;
    for (const Piece& piece : pieces) tokens += piece.count;
    bucket.max_tokens = bucket.max_outputs = std::max(bucket.max_tokens, tokens);
    bucket.max_sequences = std::max(bucket.max_sequences, static_cast<int64_t>(pieces.size()));
  }
  compile.buckets = {bucket};
  compile.every_row = true;
  auto plan = FL_TRY(compiler::compile(with_outputs(graph, taps), compile));
  const auto executor =
      FL_TRY(runtime::Executor::create(std::move(plan), *resources.checkpoint, *resources.pool, resources.executor));
  auto runner = FL_TRY(PieceRunner::create(*executor, prompts));
  for (const auto& pieces : batches) {
    FL_TRY(runner.run(pieces));
    for (size_t t = 0; t < taps.size(); ++t) {
      FL_TRY(visit_rows(*executor, taps[t].name, t, taps[t].rate(), pieces, visit));
    }
    for (const Piece& piece : pieces) {
      const bool ends = piece.start + piece.count == static_cast<int64_t>(prompts[piece.prompt].size());
      if (ends) runner.forget(piece.prompt);
    }
  }
  return RunFacts{.segments = 1, .chunk = chunk, .rounding = rounding_of(executor->plan())};
}

// Bytes of files that a plan's steps read where they lie. Of a table that is only looked up, the rows that are.
class MappedBytes {
 public:
  explicit MappedBytes(const plan::Plan& plan) : plan_(plan) { visit(plan.body); }

  int64_t count(int64_t tokens) const {
    constexpr int64_t kAround = 128 << 10;  // what the system maps around a page that is asked for
    int64_t bytes = 0;
    for (const auto& [id, whole] : read_) {
      const plan::Buffer& buffer = plan_.buffer(id);
      if (buffer.kind != plan::Buffer::Kind::kFile) continue;
      const int64_t all = plan::buffer_bytes(buffer);
      const int64_t rows = std::max<int64_t>(buffer.type.shape.empty() ? 1 : buffer.type.shape[0].factor, 1);
      bytes += whole ? all : std::min(all, tokens * (all / rows + kAround));
    }
    return bytes;
  }

 private:
  void visit(const plan::Block& block) {
    for (const plan::Step& step : block.steps) {
      if (const auto* kernel = std::get_if<plan::KernelStep>(&step.body)) {
        for (size_t i = 0; i < kernel->inputs.size(); ++i) {
          plan::BufferId id = kernel->inputs[i];
          while (id >= 0 && plan_.buffer(id).alias_of >= 0) id = plan_.buffer(id).alias_of;
          if (id >= 0) read_[id] |= kernel->op != ops::OpKind::kGatherRows || i > 0;
        }
      } else if (const auto* experts = std::get_if<plan::PerExpertStep>(&step.body)) {
        visit(*experts->body);
      } else {
        const auto& branch = std::get<plan::IfStep>(step.body);
        visit(*branch.then_block);
        visit(*branch.else_block);
      }
    }
  }

  const plan::Plan& plan_;
  std::map<plan::BufferId, bool> read_;  // whether more than single rows are
};

class OutOfCore {
 public:
  OutOfCore(const std::vector<Tap>& taps, const Prompts& prompts, const RunOptions& options, const Resources& resources,
            const TapVisitor& visit)
      : taps_(taps), prompts_(prompts), options_(options), resources_(resources), visit_(visit) {}

  Result<RunFacts> run(const ir::Graph& graph) {
    cut_ = FL_TRY(cut_into_segments(graph, taps_));
    stores_.resize(cut_.crossings.size());
    first_rows_.resize(cut_.crossings.size());
    facts_ = {.segments = cut_.segments.size(), .chunk = INT64_MAX, .rounding = {}};
    for (size_t s = 0; s < cut_.segments.size(); ++s) {
      FL_TRY(run_segment(cut_.segments[s]).with_context(cut_.segments[s].layer));
      for (size_t c = 0; c < stores_.size(); ++c) {
        if (cut_.crossings[c].last_reader <= s) stores_[c].reset();
      }
      cut_.segments[s].graph = {};
      for (const auto& [name, record] : resources_.checkpoint->tensors()) resources_.checkpoint->done_with(record);
      ::malloc_trim(0);
    }
    return facts_;
  }

 private:
  int64_t available() const {
    constexpr int64_t kSlack = 4 << 20;  // pages around tensors, memory in whole large pages
    return options_.memory_limit - resident_bytes() - kSlack;
  }

  // The plan of a piece for the largest chunk that fits; halves it until it does.
  Result<std::unique_ptr<runtime::Executor>> load(const Segment& segment, int64_t& chunk) {
    const int64_t room = available();
    for (chunk = first_chunk(options_, prompts_);; chunk = (chunk + 1) / 2) {
      compiler::CompileOptions compile = resources_.compile;
      compile.buckets = {{.max_tokens = chunk, .max_outputs = chunk, .max_sequences = 1}};
      compile.every_row = true;
      auto plan = FL_TRY(compiler::compile(segment.graph, compile));
      const auto cache = FL_TRY(kv::StateCache::create(plan.states, {}));
      const int64_t fixed = MappedBytes(plan).count(chunk) + cache.bytes_for_length(longest(prompts_));
      runtime::ExecutorOptions executor = resources_.executor;
      executor.memory_limit_bytes = std::max<int64_t>(room - fixed, 1);
      auto made = runtime::Executor::create(std::move(plan), *resources_.checkpoint, *resources_.pool, executor);
      if (made.ok() || made.code() != StatusCode::kOutOfMemory) return made;
      if (chunk == 1) {
        return out_of_memory(std::to_string(fixed) + " bytes of weights and state, " +
                             std::to_string(std::max<int64_t>(room, 0)) + " available in the limit of " +
                             std::to_string(options_.memory_limit) + "; beside them " + made.status().message());
      }
    }
  }

  Status run_segment(const Segment& segment) {
    if (segment.graph.body.yields.empty()) return ok_status();
    for (const size_t c : segment.writes) FL_TRY(make_store(c));
    int64_t chunk = 0;
    const auto executor = FL_TRY(load(segment, chunk));
    facts_.chunk = std::min(facts_.chunk, chunk);
    const Rounding rounding = rounding_of(executor->plan());
    facts_.rounding.step = std::max(facts_.rounding.step, rounding.step);
    facts_.rounding.products_per_layer = std::max(facts_.rounding.products_per_layer, rounding.products_per_layer);
    auto runner = FL_TRY(PieceRunner::create(*executor, prompts_));
    for (size_t p = 0; p < prompts_.size(); ++p) {
      const auto length = static_cast<int64_t>(prompts_[p].size());
      for (int64_t start = 0; start < length; start += chunk) {
        const Piece piece{.prompt = p, .start = start, .count = std::min(chunk, length - start)};
        FL_TRY(run_piece(segment, *executor, runner, piece));
      }
      runner.forget(p);
    }
    return ok_status();
  }

  Status run_piece(const Segment& segment, runtime::Executor& executor, PieceRunner& runner, const Piece& piece) {
    for (const size_t c : segment.reads) {
      const Crossing& crossing = cut_.crossings[c];
      const auto rows = PieceRunner::rows_of({&piece, 1}, rate(crossing))[0];
      const auto memory = executor.input(crossing.name);
      const auto bytes = static_cast<size_t>(rows.count * row_bytes(crossing));
      if (memory.size() < bytes) return internal_error("input " + crossing.name + " is too small");
      FL_TRY(stores_[c]->read(first_rows_[c][piece.prompt] + rows.first_in_prompt, memory.first(bytes)));
    }
    FL_TRY(runner.run({&piece, 1}));
    for (const size_t c : segment.writes) {
      const Crossing& crossing = cut_.crossings[c];
      const auto rows = PieceRunner::rows_of({&piece, 1}, rate(crossing))[0];
      const tensor::View view = executor.output(crossing.name);
      FL_TRY(stores_[c]->write(first_rows_[c][piece.prompt] + rows.first_in_prompt,
                               {view.as<std::byte>(), static_cast<size_t>(rows.count * row_bytes(crossing))}));
    }
    for (const size_t t : segment.taps) {
      FL_TRY(visit_rows(executor, tap_output_name(t), t, taps_[t].rate(), {&piece, 1}, visit_));
    }
    return ok_status();
  }

  static int64_t rate(const Crossing& crossing) {
    return crossing.type.shape[0].symbol == tensor::Symbol::kGroups ? crossing.type.shape[0].rate : 1;
  }
  static int64_t row_bytes(const Crossing& crossing) {
    tensor::Type row = crossing.type;
    row.shape[0] = tensor::Dim(1);
    return tensor::size_bytes(row);
  }

  Status make_store(size_t c) {
    int64_t rows = 0;
    for (const auto& prompt : prompts_) {
      first_rows_[c].push_back(rows);
      rows += static_cast<int64_t>(prompt.size()) / rate(cut_.crossings[c]);
    }
    constexpr int64_t kShare = 16;  // of what is available: several may be alive at a time
    const bool in_memory = rows * row_bytes(cut_.crossings[c]) <= available() / kShare;
    stores_[c] = FL_TRY(RowStore::create(row_bytes(cut_.crossings[c]), rows, in_memory));
    return ok_status();
  }

  const std::vector<Tap>& taps_;
  const Prompts& prompts_;
  const RunOptions& options_;
  const Resources& resources_;
  const TapVisitor& visit_;
  Cut cut_;
  std::vector<std::optional<RowStore>> stores_;   // per crossing
  std::vector<std::vector<int64_t>> first_rows_;  // per crossing and prompt
  RunFacts facts_;
};

}  // namespace

int64_t resident_bytes() { return status_bytes("VmRSS:"); }
int64_t peak_resident_bytes() { return status_bytes("VmHWM:"); }

Result<RunFacts> run_taps(const ir::Graph& graph, const std::vector<Tap>& taps, const Prompts& prompts,
                          const RunOptions& options, const Resources& resources, const TapVisitor& visit) {
  FL_TRY(check_prompts(graph, prompts));
  if (taps.empty()) return invalid_argument("the model has no value to record");
  if (options.memory_limit == 0) return run_at_once(graph, taps, prompts, options, resources, visit);
  if (options.batched) return unsupported("batches out of core: prompts run one by one there");
  return OutOfCore(taps, prompts, options, resources, visit).run(graph);
}

}  // namespace firstlight::align
