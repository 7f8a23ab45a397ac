// SPDX-License-Identifier: Apache-2.0
// Cases of what reads and fills logs beside plain attention: masks and chunks, several segments under one softmax,
// selections, the indexer, logs with a row per several tokens, groups of tokens.
#include <algorithm>
#include <limits>
#include <numeric>

#include "case.h"
#include "tensor/codec.h"

namespace firstlight::conformance {
namespace {

using ops::OpKind;
using tensor::DType;

using Sequences = std::vector<Sequence>;

struct Log {
  int64_t heads = 2;
  int64_t key_width = 16;
  int64_t value_width = 16;
  DType dtype = DType::kF32;
  int64_t rate = 1;
  int64_t page_rows = 16;
};

int64_t rows_of(const Log& log, const Sequence& sequence) {
  return (sequence.start_position + sequence.num_tokens) / log.rate;
}

State make_log(Data& data, const Log& log, const std::string& name, const Sequences& sequences) {
  State state;
  state.decl.name = name;
  state.decl.components = {{"k", log.heads, log.key_width, log.dtype}, {"v", log.heads, log.value_width, log.dtype}};
  if (log.rate > 1) {
    state.decl.kind = ops::StateKind::kRateLog;
    state.decl.rate = log.rate;
  }
  state.page_rows = log.page_rows;
  state.sequences = sequences;
  for (const ops::StateComponent& c : state.decl.components) {
    state.rows.emplace_back();
    for (const Sequence& s : sequences) {
      state.rows.back().push_back(stored_rows(data, log.dtype, c.width, rows_of(log, s) * c.heads * c.width));
    }
  }
  return state;
}

int64_t total_tokens(const Sequences& sequences) {
  return std::accumulate(sequences.begin(), sequences.end(), int64_t{0},
                         [](int64_t sum, const Sequence& s) { return sum + s.num_tokens; });
}

// Per token and group `count` distinct numbers below what the token sees (and a few it does not), some places empty.
Tensor selection(Data& data, const Sequences& sequences, int64_t groups, int64_t count, int64_t rate, int64_t block) {
  std::vector<int32_t> numbers;
  for (const Sequence& s : sequences) {
    for (int64_t t = 0; t < s.num_tokens; ++t) {
      const int64_t units = (s.start_position + t + 1) / rate / block + 2;
      for (int64_t g = 0; g < groups; ++g) {
        std::vector<int32_t> all(static_cast<size_t>(units));
        std::iota(all.begin(), all.end(), 0);
        for (size_t i = all.size(); i > 1; --i) std::swap(all[i - 1], all[data.below(static_cast<uint32_t>(i))]);
        for (int64_t k = 0; k < count; ++k) {
          numbers.push_back(k < units && data.below(8) != 0 ? all[static_cast<size_t>(k)] : -1);
        }
      }
    }
  }
  return Data::from_ints({total_tokens(sequences), groups, count}, numbers);
}

// 256 sequences of one token each, at many depths.
Sequences many_sequences() {
  Sequences sequences;
  for (int64_t i = 0; i < 256; ++i) sequences.push_back({i * 7 % 41, 1, 0});
  return sequences;
}

struct SegmentCase {
  Log log;
  int64_t selected = 0;  // per token and group; 0: all rows
  int64_t groups = 1;
  int64_t block = 1;
};

void add_segments(std::vector<Case>& cases, std::string name, int64_t heads, const std::vector<SegmentCase>& segments,
                  const Sequences& sequences, const std::string& more, bool sinks = false) {
  Data data(static_cast<uint32_t>(300 + cases.size()));
  const int64_t width = segments[0].log.key_width;
  Case c{std::move(name), OpKind::kAttendSegments, {}, {}, {}, {4e-6, 1e-5}};
  c.operands.push_back(data.floats(DType::kF32, {total_tokens(sequences), heads, width}));
  std::string keys, values, select;
  for (const SegmentCase& s : segments) {
    const char* comma = keys.empty() ? "" : ", ";
    keys += std::string(comma) + "k";
    values += std::string(comma) + (s.log.value_width == 0 ? "k" : "v");
    select += comma + std::to_string(s.selected > 0 ? s.block : 0);
    Log log = s.log;
    log.value_width = std::max<int64_t>(log.value_width, 1);
    c.state.push_back(make_log(data, log, "kv." + std::to_string(c.state.size()), sequences));
    c.operands.push_back(Data::state());
    if (s.selected > 0) {
      c.operands.push_back(selection(data, sequences, s.groups, s.selected, s.log.rate, s.block));
    }
  }
  if (sinks) c.operands.push_back(data.floats(DType::kF32, {heads}));
  c.attributes = attributes("{scale = 0.25, keys = \"" + keys + "\", values = \"" + values + "\", select = [" + select +
                            "], sinks = " + (sinks ? "true" : "false") + more + "}");
  cases.push_back(std::move(c));
}

void add_masked(std::vector<Case>& cases, std::string name, const Sequences& sequences, const std::string& more) {
  Data data(static_cast<uint32_t>(300 + cases.size()));
  cases.push_back({std::move(name),
                   OpKind::kAttend,
                   attributes("{scale = 0.25, key = \"k\", value = \"v\"" + more + "}"),
                   {data.floats(DType::kF32, {total_tokens(sequences), 4, 16}), Data::state()},
                   {make_log(data, {}, "kv.0", sequences)},
                   {4e-6, 1e-5}});
}

void mask_cases(std::vector<Case>& cases) {
  const Sequences mixed = {{0, 41, 0}, {70, 1, 0}, {30, 9, 0}};
  add_masked(cases, "chunk", mixed, ", chunk = 8");
  add_masked(cases, "chunk and window", mixed, ", chunk = 16, window = 5");
  add_masked(cases, "chunk, not causal", mixed, ", chunk = 7, causal = false");
  add_masked(cases, "prefix or causal", {{0, 33, 0}, {5, 3, 0}},
             ", causal = false, mask = max(lt(x1, 6.0), le(x1, x0))");
  add_masked(cases, "sliding and every second", mixed,
             ", mask = min(lt(sub(x0, x1), 9.0), eq(sub(x1, mul(2.0, floor(mul(x1, 0.5)))), 0.0))");
  add_masked(cases, "nothing to see", {{0, 20, 0}}, ", mask = lt(x0, mul(x1, 0.0))");
  add_masked(cases, "constant mask", {{0, 20, 0}}, ", mask = (1.0)");
  add_masked(cases, "mask and score", mixed, ", mask = lt(sub(x0, x1), 20.0), score = sub(x0, mul(0.1, sub(x1, x2)))");
  Data data(299);
  const Sequences sequences = {{0, 37, 0}, {90, 1, 0}};
  cases.push_back({"a row per four tokens",
                   OpKind::kAttend,
                   attributes("{scale = 0.25, key = \"k\", value = \"v\", score = sub(x0, mul(0.02, sub(x1, x2)))}"),
                   {data.floats(DType::kF32, {38, 4, 16}), Data::state()},
                   {make_log(data, {.rate = 4}, "kv.0", sequences)},
                   {4e-6, 1e-5}});
}

void segment_cases(std::vector<Case>& cases) {
  const Sequences mixed = {{0, 41, 0}, {70, 1, 0}, {30, 9, 0}};
  add_segments(cases, "one segment", 4, {SegmentCase{}}, mixed, "");
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    const Log log{.dtype = dtype};
    const Log compressed{.dtype = dtype, .rate = 4};
    const std::string type(tensor::dtype_name(dtype));
    add_segments(cases, type + " window and compressed", 6, {SegmentCase{log}, SegmentCase{compressed}}, mixed,
                 ", windows = [8, 0]", true);
    add_segments(cases, type + " selected", 4, {SegmentCase{log, 12}}, mixed, "");
    add_segments(cases, type + " selected per kv head", 4, {SegmentCase{log, 12, 2}}, mixed, "", true);
    add_segments(cases, type + " blocks", 4, {SegmentCase{log, 3, 2, 8}}, mixed, "");
    add_segments(cases, type + " window and selected of compressed", 4, {SegmentCase{log}, SegmentCase{compressed, 5}},
                 mixed, ", windows = [8, 0]", true);
  }
  add_segments(cases, "keys as values", 6, {SegmentCase{{1, 72, 0, DType::kBF16}, 20}, SegmentCase{{1, 72, 0}}}, mixed,
               ", value_width = 64, windows = [0, 6]");
  add_segments(cases, "odd widths", 3,
               {SegmentCase{{3, 7, 5, DType::kF32, 1, 4}, 9, 3}, SegmentCase{{3, 7, 5, DType::kBF16, 3, 8}}}, mixed,
               "");
  add_segments(cases, "masks", 4, {SegmentCase{}, SegmentCase{}}, mixed,
               ", causal = [0, 1], chunks = [0, 6], masks = [lt(x1, 4.0), le(x1, x0)]");
  add_segments(cases, "score with positions", 4, {SegmentCase{{}, 9}, SegmentCase{{.rate = 5}}}, mixed,
               ", score = sub(x0, mul(mul(0.05, add(x3, 1.0)), sub(x1, x2)))");
  add_segments(cases, "nothing selected", 2, {SegmentCase{{1}, 1}}, {{0, 30, 0}}, "");
  add_segments(cases, "long decode, selected", 8, {SegmentCase{{1, 64, 64, DType::kBF16, 1, 64}, 700}}, {{3000, 1, 0}},
               "");
  add_segments(cases, "long decode, three segments", 8,
               {SegmentCase{{1, 64, 64, DType::kF16, 1, 64}}, SegmentCase{{1, 64, 64, DType::kF16, 4, 64}, 300},
                SegmentCase{{1, 64, 64, DType::kF16, 16, 64}}},
               {{3000, 1, 0}}, ", windows = [128, 0, 0]", true);
  const Log long_log{1, 16, 16, DType::kF16, 1, 64};
  add_segments(cases, "64k, a window and selected of compressed", 4,
               {SegmentCase{long_log}, SegmentCase{{1, 16, 16, DType::kF16, 4, 64}, 200}}, {{65535, 1, 0}},
               ", windows = [128, 0]", true);
  add_segments(cases, "256 sequences", 2, {SegmentCase{{1}, 6}, SegmentCase{{1}}}, many_sequences(),
               ", windows = [0, 5]");
  for (const DType dtype : {DType::kF16, DType::kQ8_0, DType::kMXFP8, DType::kQ4_1, DType::kQ4_1S}) {
    const std::string type(tensor::dtype_name(dtype));
    const Log log{2, 32, 48, dtype};
    add_segments(cases, type + " the first and the last", 4, {SegmentCase{log}, SegmentCase{log}}, mixed,
                 ", windows = [0, 9], from = [0, 4], until = [4, 0]");
    add_segments(cases, type + " selected rows", 4, {SegmentCase{log, 12}, SegmentCase{log}}, mixed,
                 ", windows = [0, 9], until = [30, 0]");
    add_segments(cases, type + " long decode, the first and the last", 6,
                 {SegmentCase{{2, 64, 64, dtype, 1, 64}}, SegmentCase{{2, 64, 64, dtype, 1, 64}}}, {{3000, 1, 0}},
                 ", windows = [0, 1024], from = [0, 100], until = [100, 0]", true);
  }
  add_segments(cases, "no tokens", 2, {SegmentCase{{1}, 4}}, {{5, 0, 0}}, "");
}

void add_index(std::vector<Case>& cases, std::string name, const Log& log, int64_t heads, const Sequences& sequences,
               bool weights, const std::string& more) {
  Data data(static_cast<uint32_t>(300 + cases.size()));
  Case c{std::move(name), OpKind::kIndexScores, attributes("{key = \"k\", " + more + "}"), {}, {}, {0, 0}};
  c.state.push_back(make_log(data, log, "index.0", sequences));
  c.operands = {data.floats(DType::kF32, {total_tokens(sequences), heads, log.key_width}), Data::state()};
  if (weights) c.operands.push_back(data.floats(DType::kF32, {total_tokens(sequences), heads}));
  cases.push_back(std::move(c));
}

// A choice inside `names` candidates of `block` rows per query and group.
void add_index_within(std::vector<Case>& cases, std::string name, const Log& log, int64_t heads, int64_t groups,
                      const Sequences& sequences, bool weights, int64_t names, int64_t block, const std::string& more) {
  add_index(cases, std::move(name), log, heads, sequences, weights, more + ", within_block = " + std::to_string(block));
  Data data(static_cast<uint32_t>(300 + cases.size()));
  cases.back().operands.push_back(selection(data, sequences, groups, names, log.rate, block));
}

void index_cases(std::vector<Case>& cases) {
  const Sequences mixed = {{0, 41, 0}, {70, 1, 0}, {30, 9, 0}};
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    const Log log{1, 32, 16, dtype};
    const std::string type(tensor::dtype_name(dtype));
    add_index(cases, type + " lightning", log, 8, mixed, true, "top = 12");
    add_index(cases, type + " blocks per head", log, 4, mixed, false,
              "top = 3, relu = false, per_head = true, block = 8, recent = 1");
    add_index(cases, type + " compressed", {1, 32, 16, dtype, 4}, 8, mixed, true, "top = 5");
  }
  add_index(cases, "one row", {1, 16}, 8, mixed, true, "top = 1");
  add_index(cases, "all of it", {1, 16}, 2, mixed, true, "top = 100");
  add_index(cases, "odd width, many heads", {1, 19, 16, DType::kF32, 1, 4}, 40, mixed, true, "top = 7");
  add_index(cases, "no relu, no weights", {1, 16}, 3, mixed, false, "top = 9, relu = false");
  add_index(cases, "blocks with two local", {1, 16}, 3, mixed, true, "top = 4, block = 5, recent = 2");
  add_index(cases, "local alone", {1, 16}, 2, mixed, false, "top = 2, block = 4, recent = 2, per_head = true");
  add_index(cases, "long decode", {1, 32, 16, DType::kBF16, 1, 64}, 16, {{6000, 1, 0}}, true, "top = 300");
  add_index(cases, "long decode, blocks", {1, 32, 16, DType::kF16, 1, 64}, 4, {{6000, 1, 0}, {5000, 2, 0}}, false,
            "top = 11, relu = false, per_head = true, block = 128, recent = 1");
  add_index(cases, "64k, blocks", {1, 16, 16, DType::kBF16, 1, 64}, 4, {{65530, 2, 0}}, false,
            "top = 16, relu = false, per_head = true, block = 128, recent = 1");
  add_index(cases, "256 sequences", {1, 16}, 4, many_sequences(), true, "top = 5");
  add_index(cases, "first blocks and local ones", {1, 16}, 2, mixed, false,
            "top = 5, block = 4, recent = 2, first = 2, per_head = true, relu = false");
  add_index(cases, "first rows, weighted", {1, 16, 16, DType::kF32, 4}, 3, mixed, true, "top = 6, first = 1");
  add_index_within(cases, "inside blocks of eight", {1, 16}, 6, 1, mixed, true, 3, 8, "top = 7");
  add_index_within(cases, "inside blocks, a choice per head", {1, 16}, 4, 4, mixed, false, 3, 8,
                   "top = 3, block = 2, recent = 1, first = 1, per_head = true, relu = false");
  add_index_within(cases, "inside shared blocks of a compressed log", {1, 32, 16, DType::kBF16, 2}, 4, 1, mixed, true,
                   4, 4, "top = 5, per_head = true, first = 1");
  add_index_within(cases, "long decode, inside blocks", {1, 32, 16, DType::kF16, 1, 64}, 8, 1,
                   {{6000, 1, 0}, {5000, 2, 0}}, true, 40, 64, "top = 300, recent = 1");
  add_index(cases, "no tokens", {1, 16}, 2, {{5, 0, 0}}, true, "top = 3");
  {  // equal scores: the lower rows win; NaN wins over all
    Data data(298);
    const Sequences sequences = {{0, 12, 0}};
    State state = make_log(data, {1, 16}, "index.0", sequences);
    std::fill(state.rows[0][0].begin(), state.rows[0][0].end(), 1.0f);
    state.rows[0][0][16 * 7] = std::numeric_limits<float>::quiet_NaN();
    cases.push_back({"ties and NaN",
                     OpKind::kIndexScores,
                     attributes("{key = \"k\", top = 3, relu = false}"),
                     {Data::from({12, 1, 16}, std::vector<float>(12 * 16, 0.5f)), Data::state()},
                     {std::move(state)},
                     {0, 0}});
  }
}

void add_emit(std::vector<Case>& cases, std::string name, int64_t width, int64_t rate, bool overlap,
              const Sequences& sequences) {
  Data data(static_cast<uint32_t>(300 + cases.size()));
  const int64_t rows = overlap ? 2 * rate : rate;
  State state;
  state.decl.name = "waiting.0";
  state.decl.kind = ops::StateKind::kFixed;
  state.decl.components = {{"gate", rows, 3, DType::kF32}, {"kv", rows, width, DType::kF32}};
  state.page_rows = 1;
  state.sequences = sequences;
  for (const ops::StateComponent& c : state.decl.components) {
    state.rows.emplace_back();
    for (size_t s = 0; s < sequences.size(); ++s) {
      state.rows.back().push_back(stored_rows(data, DType::kF32, c.width, c.heads * c.width));
    }
  }
  cases.push_back({std::move(name),
                   OpKind::kWindowEmit,
                   attributes("{component = \"kv\", rate = " + std::to_string(rate) +
                              ", overlap = " + (overlap ? "true" : "false") + ", fill = -7.5}"),
                   {data.floats(DType::kF32, {total_tokens(sequences), width}), Data::state()},
                   {std::move(state)},
                   {0, 0}});
}

void emit_cases(std::vector<Case>& cases) {
  const Sequences mixed = {{0, 41, 0}, {70, 1, 0}, {30, 9, 0}, {7, 1, 0}, {3, 2, 0}};
  add_emit(cases, "groups of four", 24, 4, false, mixed);
  add_emit(cases, "groups of four, overlapping", 24, 4, true, mixed);
  add_emit(cases, "groups of one", 5, 1, true, mixed);
  add_emit(cases, "no group complete", 16, 64, true, {{0, 41, 0}, {70, 1, 0}});
  add_emit(cases, "no tokens", 16, 4, false, {{5, 0, 0}});
}

}  // namespace

std::vector<Case> log_cases() {
  std::vector<Case> cases;
  mask_cases(cases);
  segment_cases(cases);
  index_cases(cases);
  emit_cases(cases);
  return cases;
}

// A log with a row per four tokens, and what a batch adds to it.
Case rate_append_case(DType dtype) {
  Data data(44);
  const Sequences sequences = {{0, 9, 0}, {13, 1, 0}, {6, 11, 0}, {7, 1, 0}};
  State state = make_log(data, {3, 20, 24, dtype, 4, 2}, "kv.0", sequences);
  return {"a row per four tokens, " + std::string(tensor::dtype_name(dtype)),
          OpKind::kAppend,
          {},
          {Data::state(), data.floats(DType::kF32, {6, 3, 20}), data.floats(DType::kF32, {6, 3, 24})},
          {std::move(state)},
          {0, 0}};
}

}  // namespace firstlight::conformance
