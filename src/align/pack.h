// SPDX-License-Identifier: Apache-2.0
// A golden pack: what a model computed for some prompts, small enough to keep. In memory as plain data; on disk a
// folder with manifest.json and tensors.safetensors (docs/golden_pack.md has the format and where its numbers come
// from).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "align/taps.h"
#include "base/status.h"

namespace firstlight::align {

struct Statistics {  // over all rows; of plain values (is_plain) but for the counts
  float min = 0, max = 0, mean = 0, rms = 0, absmax = 0;
  float count = 0, not_finite = 0, zeros = 0;
};
inline constexpr size_t kNumStatistics = 8;

// Bin 32 s + b: values of sign s (0: positive) whose magnitude is in [2^(b-20), 2^(b-19)); the outer bins take what is
// beyond them, zeros are counted apart.
inline constexpr size_t kHistogramBins = 64;
using Histogram = std::array<int32_t, kHistogramBins>;
size_t histogram_bin(float value);

// How what a rank of a sharded run has of a value makes up the whole one (join.h).
enum class Split : uint8_t {
  kWhole,     // all of it: every rank computes it, or one rank alone runs its layer
  kFeatures,  // some columns, in one piece
  kSum,       // a term of a sum, before it is summed over the ranks
  kRows,      // some rows: TapRecord::part_rows says which
};

struct TapPart {
  Split split = Split::kWhole;
  int64_t part = 0, parts = 1;  // number `part` of so many that make up the whole
  int64_t first_feature = 0;    // kFeatures: the first column, of so many
  int64_t whole_width = 0;
  int64_t place = 0;  // among the whole model's values
};

struct TapInfo {
  std::string name;
  std::string layer;
  std::string op;
  bool is_integer = false;
  bool is_layer_output = false;
  bool is_module_output = false;
  int64_t width = 0;  // elements per row, of this part
  int64_t rate = 1;   // tokens per row
  TapPart part;       // of recordings of ranks
  double noise = 0;   // how far the same code in float32 is from this recording, relative L2; 0: not measured
};

struct TapRecord {
  Statistics statistics;
  Histogram histogram{};
  int64_t num_rows = 0;
  std::vector<int32_t> part_rows;  // Split::kRows: the whole value's rows that are here, ascending; else empty
  std::vector<float> norms;        // [sampled rows]: L2
  std::vector<float> sketch;       // [sampled rows, projections]
  std::vector<int32_t> row_ids;    // rows kept whole, ascending
  std::vector<float> rows;         // [row_ids, width]
};

struct PromptRecord {
  std::vector<int32_t> tokens;
  std::vector<int32_t> greedy;  // the continuation, as far as it was asked for
  std::vector<TapRecord> taps;  // as Pack::taps
  // Of the sampled rows of logits: the largest, and the log of the sum of exponentials of all.
  std::vector<int32_t> top_ids;  // [rows, kTopLogits], descending
  std::vector<float> top_logits;
  std::vector<float> log_sum_exp;
};
inline constexpr int64_t kTopLogits = 16;

struct PackLayout {
  uint64_t seed = 0x676f6c64;  // of the sketches
  int64_t projections = 32;    // per row
  int64_t sampled_rows = 64;   // per prompt and tap, at most
};

struct Pack {
  std::map<std::string, std::string> origin;  // "kind": firstlight or transformers; backend, versions, types
  std::string model;                          // the name of its folder or file
  std::string architecture;
  int64_t parameters = 0;
  std::string weights_hash;  // of the tensors' bytes; empty: unknown
  std::string spec;          // path; empty for recordings of other code
  std::string spec_hash;     // of the graph
  PackLayout layout;
  std::vector<TapInfo> taps;
  std::vector<PromptRecord> prompts;
  int64_t rank = 0, ranks = 1;  // of a sharded run; of one rank alone only parts may be here
  int64_t whole_values = 0;     // of a rank: values of the whole model, so that all ranks choose the same layout
};

// Rows of a value, or of the whole one that it is a part of.
int64_t whole_rows(const TapInfo& info, const PromptRecord& prompt);
// The sampled rows of a value by their number in the whole: of a part of the rows, those of the whole's sample in it.
std::vector<int32_t> sampled_rows(const PackLayout& layout, const TapInfo& info, const PromptRecord& prompt,
                                  const TapRecord& record);

// Row number `i` of the sampled ones, of `num_rows` rows of which `sampled` are: the first and the last are among them.
int64_t sampled_row(int64_t i, int64_t sampled, int64_t num_rows);
int64_t num_sampled(const PackLayout& layout, int64_t num_rows);

// Errors: kInvalidArgument for what one rank of several has: it is to be joined first.
Status check_is_whole(const Pack& pack);

// Hash of a prompt's ids.
std::string tokens_hash(const std::vector<int32_t>& tokens);

// Bytes a pack may have: 8 MB below a billion parameters, else 64 MB. Tensors that were asked for whole are not
// counted.
int64_t size_limit(int64_t parameters);

// Errors: kInvalidArgument where the pack is larger than `limit` (0: none) or can not be written.
Status write_pack(const Pack& pack, const std::string& directory, int64_t limit);
// The manifest alone: a pack without its numbers. Errors: kInvalidData.
Result<Pack> parse_manifest(std::string_view text);
// Errors: kNotFound, kInvalidData (not a pack, a version or size that is not as the manifest says).
Result<Pack> read_pack(const std::string& directory);

}  // namespace firstlight::align
