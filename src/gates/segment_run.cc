// SPDX-License-Identifier: Apache-2.0
#include "gates/segment_run.h"

#include <algorithm>
#include <cstring>

#include "compiler/compile.h"

namespace firstlight::gates {
namespace {

int64_t rate_of(const tensor::Type& type) {
  return type.shape[0].symbol == tensor::Symbol::kGroups ? type.shape[0].rate : 1;
}

size_t row_bytes(const tensor::Type& type) {
  tensor::Type row = type;
  row.shape[0] = tensor::Dim(1);
  return static_cast<size_t>(tensor::size_bytes(row));
}

class Runner {
 public:
  explicit Runner(const SegmentRun& run) : run_(run) {}

  Result<ValueRows> operator()() {
    compiler::CompileOptions compile = run_.resources.compile;
    compiler::BucketSize bucket{.max_tokens = 1, .max_outputs = 1, .max_sequences = 1};
    for (const auto& pieces : run_.batches) {
      int64_t tokens = 0;
      for (const align::Piece& piece : pieces) tokens += piece.count;
      bucket.max_tokens = bucket.max_outputs = std::max(bucket.max_tokens, tokens);
      bucket.max_sequences = std::max(bucket.max_sequences, static_cast<int64_t>(pieces.size()));
    }
    compile.buckets = {bucket};
    compile.every_row = true;
    auto plan = FL_TRY(compiler::compile(run_.graph, compile));
    const auto executor = FL_TRY(runtime::Executor::create(std::move(plan), *run_.resources.checkpoint,
                                                           *run_.resources.pool, run_.resources.executor));
    auto runner = FL_TRY(align::PieceRunner::create(*executor, run_.prompts));
    make_room();
    for (const auto& pieces : run_.batches) {
      FL_TRY(fill(*executor, pieces));
      FL_TRY(runner.run(pieces));
      FL_TRY(keep(*executor, pieces));
    }
    return std::move(out_);
  }

 private:
  void make_room() {
    for (size_t i = 0; i < run_.graph.output_names.size(); ++i) {
      const tensor::Type& type = run_.graph.value(run_.graph.body.yields[i]).type;
      if (!align::has_token_rows(type)) continue;
      auto& rows = out_[run_.graph.output_names[i]];
      for (const auto& prompt : run_.prompts)
        rows.emplace_back(prompt.size() / static_cast<size_t>(rate_of(type)) * row_bytes(type));
    }
  }

  Status fill(runtime::Executor& executor, std::span<const align::Piece> pieces) {
    for (const ir::ValueId id : run_.graph.body.parameters) {
      const ir::Value& value = run_.graph.value(id);
      const auto given = run_.inputs.find(value.name);
      const auto memory = executor.input(value.name);
      if (given == run_.inputs.end() || memory.empty()) continue;
      const size_t bytes = row_bytes(value.type);
      for (const auto& rows : align::PieceRunner::rows_of(pieces, rate_of(value.type))) {
        const auto& from = given->second[rows.prompt];
        const size_t first = static_cast<size_t>(rows.first_in_prompt) * bytes;
        const size_t count = static_cast<size_t>(rows.count) * bytes;
        const size_t to = static_cast<size_t>(rows.first_in_batch) * bytes;
        if (from.size() < first + count || memory.size() < to + count)
          return internal_error("input " + value.name + " has other rows than the batch");
        if (count > 0) std::memcpy(memory.data() + to, from.data() + first, count);
      }
    }
    return ok_status();
  }

  Status keep(const runtime::Executor& executor, std::span<const align::Piece> pieces) {
    for (size_t i = 0; i < run_.graph.output_names.size(); ++i) {
      const auto place = out_.find(run_.graph.output_names[i]);
      if (place == out_.end()) continue;
      const tensor::Type& type = run_.graph.value(run_.graph.body.yields[i]).type;
      const tensor::View view = executor.output(place->first);
      const size_t bytes = row_bytes(type);
      for (const auto& rows : align::PieceRunner::rows_of(pieces, rate_of(type))) {
        if (rows.count == 0) continue;
        std::memcpy(place->second[rows.prompt].data() + static_cast<size_t>(rows.first_in_prompt) * bytes,
                    view.as<std::byte>() + static_cast<size_t>(rows.first_in_batch) * bytes,
                    static_cast<size_t>(rows.count) * bytes);
      }
    }
    return ok_status();
  }

  const SegmentRun& run_;
  ValueRows out_;
};

}  // namespace

Result<ValueRows> run_segment(const SegmentRun& run) { return Runner(run)(); }

}  // namespace firstlight::gates
