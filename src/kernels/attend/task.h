// SPDX-License-Identifier: Apache-2.0
// One item of attend on the CPU: the queries of a block of tokens that share a key/value head, against the candidates
// of their segments, 64 keys at a time under a running softmax (Milakov & Gimelshein 2018; Dao et al. 2022), one part
// of the keys after the other. What the parts leave is joined in their order.
#pragma once

#include <optional>

#include "kernels/attend/form.h"
#include "kernels/attend/split.h"
#include "kernels/common/cpu/expression_program.h"

namespace firstlight::kernels {

constexpr int64_t padded_width(int64_t width) { return (width + 15) / 16 * 16; }

// Attributes with their formulas made ready.
struct CpuAttendOptions final : Prepared {
  std::unique_ptr<Prepared> plain;
  std::optional<ExpressionProgram> score;
  bool score_uses[4] = {};
  std::vector<std::optional<ExpressionProgram>> masks;  // per segment

  const AttendOptions& attend() const { return static_cast<const AttendOptions&>(*plain); }
};

// Errors: kUnsupported for a component that is stored in a type that rows of states do not have.
Result<std::unique_ptr<Prepared>> prepare_cpu_attend(const PrepareInput& input);

class AttendTaskRun {
 public:
  // Takes its space from the worker's scratch; one at a time per worker. `rounds`: in pairs of bfloat16.
  AttendTaskRun(const KernelCall& call, const CpuAttendOptions& options, const AttendForm& form,
                const AttendSplit& split, bool rounds, Worker& worker);

  // The whole of an item.
  void run(const AttendItem& item);

  // In pieces: part `index` of an item, as part_floats() floats; for some of its rows, what parts are joined to
  // (joined_doubles(), of all rows) made ready, the next part joined, the result stored.
  void run_part(const AttendItem& item, int64_t index, float* to);
  void start_joined(const AttendItem& item, ops::RowRange rows, double* joined);
  void join(const AttendItem& item, ops::RowRange rows, const float* part, double* joined);
  void store_result(const AttendItem& item, ops::RowRange rows, const double* joined);

  // Says which part comes behind the next one that is run, so that its first rows are asked for in time.
  void foresee(const AttendItem& item, int64_t index);

  int64_t rows_of(const AttendItem& item) const { return item.num_tokens * split_.group(); }

  static int64_t part_floats(int64_t rows, int64_t value_width) { return rows * (padded_width(value_width) + 2); }
  static int64_t joined_stride(int64_t value_width) { return padded_width(value_width) + 8; }  // sums, top, total
  static int64_t joined_doubles(int64_t rows, int64_t value_width) { return rows * joined_stride(value_width); }

 private:
  // Up to kKeyBlock candidates: rows first .. first + count - 1 where `rows` is null, else those that it lists. Their
  // scores begin at place `lead`, so that a row has its place whatever the rows are that a task begins with.
  struct Block {
    int64_t first = 0;
    int64_t count = 0;
    int64_t lead = 0;
    const int64_t* rows = nullptr;
    int64_t row(int64_t j) const { return rows == nullptr ? first + j : rows[j]; }
  };
  // Rows that come behind a block, up to kKeyBlock; none where nobody knows.
  struct Coming {
    AttendItem item;
    size_t segment = 0;
    int64_t first = 0;
    int64_t count = 0;
  };
  // The state a segment reads and how wide its rows are.
  struct Source {
    const plan::StateView* state = nullptr;
    const plan::StateComponentView* keys = nullptr;
    const plan::StateComponentView* values = nullptr;
    bool is_shared = false;  // keys and values are one component
  };
  enum class Kind { kKeys, kValues };

  void begin(const AttendItem& item);
  void load_queries();
  void store_part(float* to) const;
  void start_softmax();
  void run_rows(size_t segment, int64_t begin, int64_t end);
  void run_selected(size_t segment, int64_t begin, int64_t end);
  void run_block(size_t segment, const Block& block);
  const plan::StateComponentView* coming(Kind kind) const;
  void prefetch(Kind kind) const;
  void score_block(size_t segment, const Block& block);
  void add_values(size_t segment, const Block& block, bool some_hidden);
  PlacedRows placed(size_t segment, Kind kind, const Block& block) const;
  void run_pairs(size_t segment, const Block& block);
  bool weigh_pairs(size_t segment, const Block& block, const PlacedRows& keys, bool some_hidden, int first, int count);
  void shape_scores(size_t segment, const Block& block, bool some_hidden, int row, float* scores);
  Source source(size_t segment) const;
  void add_block(const Source& source, const Block& block);
  void add_visible(size_t segment, const Block& block, const StoredRows& values);
  void add_visible_pairs(size_t segment, const Block& block, const PlacedRows& values);
  bool find_seen(size_t segment, const Block& block, int row);
  StoredRows values_of(const Source& source, const Block& block) const;
  void fill_key_positions(const SegmentOptions& segment, const Block& block);
  void apply_score(int row, int64_t count, float* scores) const;
  ops::RowRange visible_to(const SegmentOptions& segment, int row) const;
  bool is_visible_to_all(const SegmentOptions& segment, const Block& block) const;
  bool is_hidden_from(const SegmentOptions& segment, const Block& block, int first, int last) const;
  void hide(const SegmentOptions& segment, const Block& block, int row, float* scores) const;
  void evaluate_mask(size_t segment, int row, int64_t count);
  StoredRows decoded(const Source& source, const plan::StateComponentView& component, int64_t width, const Block& block,
                     float* space) const;
  bool in_place(const plan::StateComponentView& component, int64_t width, const Block& block) const;
  template <typename Visit>
  void for_pieces(const AttendItem& item, const Source& source, const plan::StateComponentView& component,
                  const Block& block, Visit&& visit) const;

  int64_t token_of(int row) const { return item_.first_token + row / split_.group(); }
  int64_t head_of(int row) const { return item_.kv_head * split_.group() + row % split_.group(); }
  int64_t place_of(int row) const { return (sequence_->first_row + token_of(row)) * heads_ + head_of(row); }

  const KernelCall& call_;
  const CpuAttendOptions& cpu_;
  const AttendOptions& options_;
  const AttendForm& form_;
  const PairForm* pairs_;  // null: in float32
  const AttendSplit& split_;
  int64_t heads_;
  int64_t width_;        // of a key
  int64_t key_width_;    // padded
  int64_t value_width_;  // padded
  AttendItem item_;
  const plan::SequenceSpan* sequence_ = nullptr;
  int rows_ = 0;              // 0: no item yet
  Coming coming_, foreseen_;  // behind the block at hand, behind its part
  // Of a part: `sums_` of a block in float32, far_sums_ of all blocks in float64. In pairs `sums_` and lane_totals_ are
  // of all, scores_ of a few queries, and the keys, values and queries hold pairs in the place of floats.
  float *q_, *scores_, *sums_, *tops_, *kept_, *key_floats_, *value_floats_, *program_scratch_, *places_, *shown_;
  float* lane_totals_;
  float* part_;
  uint32_t* weights_;
  double *far_sums_, *totals_, *joined_;
  const float* sinks_;
};

}  // namespace firstlight::kernels
