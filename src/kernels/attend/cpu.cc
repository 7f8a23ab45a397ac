// SPDX-License-Identifier: Apache-2.0
// attend on the CPU: a running softmax over blocks of keys (Milakov & Gimelshein 2018; Dao et al. 2022), so that no row
// of scores is ever whole. The pages of a key/value head are walked once for all query heads that share it; keys
// outside a window are never touched. With few tasks and many keys the keys are split too and the parts merged at the
// end.
#include <cmath>
#include <limits>
#include <optional>

#include "kernels/attend/form.h"
#include "kernels/attend/split.h"
#include "kernels/bodies.h"
#include "kernels/common/cpu/expression_program.h"
#include "kernels/common/cpu/small_operand.h"
#include "kernels/common/pages.h"

namespace firstlight::kernels {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

constexpr int64_t padded(int64_t width) { return (width + 15) / 16 * 16; }

struct CpuOptions final : Prepared {
  std::unique_ptr<Prepared> plain;
  std::optional<ExpressionProgram> score;
  bool uses[4] = {};

  const AttendOptions& attend() const { return static_cast<const AttendOptions&>(*plain); }
};

Result<std::unique_ptr<Prepared>> prepare(const PrepareInput& input) {
  for (const ops::StateComponent& component : input.state->components) {
    const bool stored_plainly = component.dtype == tensor::DType::kF32 || component.dtype == tensor::DType::kF16 ||
                                component.dtype == tensor::DType::kBF16;
    if (!stored_plainly) {
      return unsupported("attend: state '" + input.state->name + "' component '" + component.name + "' is stored as " +
                         std::string(tensor::dtype_name(component.dtype)) + ", wanted f32, f16 or bf16");
    }
  }
  auto options = std::make_unique<CpuOptions>();
  options->plain = FL_TRY(prepare_attend(input));
  const ops::Expression& score = options->attend().score;
  if (!score.empty()) options->score.emplace(score);
  for (const ops::ExprTerm& term : score.terms()) {
    if (term.input >= 0) options->uses[term.input] = true;
  }
  return std::unique_ptr<Prepared>(std::move(options));
}

// Floats that a task leaves behind when the keys are split: sums, then top and total per row.
int64_t part_floats(int64_t rows, int64_t value_width) { return rows * (padded(value_width) + 2); }

// One task's work, in the worker's scratch.
class TaskRun {
 public:
  TaskRun(const KernelCall& call, const CpuOptions& options, const AttendForm& form, const AttendSplit& split,
          Worker& worker)
      : call_(call), options_(options.attend()), score_(options), form_(form), split_(split), state_(*call.state) {
    keys_ = &state_.components[static_cast<size_t>(options_.key)];
    values_ = &state_.components[static_cast<size_t>(options_.value)];
    heads_ = call.inputs[0].dim(1);
    key_width_ = padded(keys_->width);
    value_width_ = padded(options_.value_width);
    const int64_t rows = AttendSplit::most_rows(split.group());
    const int64_t program = options.score.has_value() ? options.score->scratch_floats() + 3 * kKeyBlock : 0;
    const int64_t total = rows * (key_width_ + kKeyBlock + value_width_ + 32) +
                          kKeyBlock * (key_width_ + value_width_) + program + heads_ + 256;  // the last for rounding up
    float* at = scratch_floats(worker, total);
    const auto take = [&](int64_t floats) {
      float* taken = at;
      at += padded(floats);
      return taken;
    };
    program_scratch_ = take(program);
    q_ = take(rows * key_width_);
    scores_ = take(rows * kKeyBlock);
    sums_ = take(rows * value_width_);
    tops_ = take(rows);
    totals_ = take(rows);
    key_floats_ = take(kKeyBlock * key_width_);
    value_floats_ = take(kKeyBlock * value_width_);
    sinks_ = small_operand(operand(call.inputs, 2), take(heads_));
  }

  void run(const AttendTask& task) {
    task_ = task;
    sequence_ = &call_.batch->sequences[task.sequence];
    rows_ = static_cast<int>(task.num_tokens * split_.group());
    load_queries();
    start_softmax();
    for (int64_t first = task.keys.begin; first < task.keys.end; first += kKeyBlock) {
      block(first, std::min(task.keys.end, first + kKeyBlock));
    }
  }

  void store_result() const {
    for (int r = 0; r < rows_; ++r) finish(r, totals_[r], sums_ + r * value_width_);
  }

  void store_part(float* to) const {
    std::copy_n(sums_, rows_ * value_width_, to);
    std::copy_n(tops_, rows_, to + rows_ * value_width_);
    std::copy_n(totals_, rows_, to + rows_ * value_width_ + rows_);
  }

  // Joins the parts of `task` (its first part), `stride` floats apart, and stores the result.
  void merge(const AttendTask& task, const float* parts, int64_t stride) {
    task_ = task;
    sequence_ = &call_.batch->sequences[task.sequence];
    rows_ = static_cast<int>(task.num_tokens * split_.group());
    for (int r = 0; r < rows_; ++r) {
      const auto top_of = [&](int64_t p) { return parts[p * stride + rows_ * value_width_ + r]; };
      float top = kMinusInfinity;
      for (int64_t p = 0; p < split_.num_parts(); ++p) top = std::max(top, top_of(p));
      const float base = top == kMinusInfinity ? 0.0f : top;
      float total = 0;
      std::fill_n(sums_, value_width_, 0.0f);
      for (int64_t p = 0; p < split_.num_parts(); ++p) {
        const float factor = std::exp(top_of(p) - base);
        total += factor * parts[p * stride + rows_ * value_width_ + rows_ + r];
        const float* sums = parts + p * stride + r * value_width_;
        for (int64_t i = 0; i < value_width_; ++i) sums_[i] += factor * sums[i];
      }
      finish(r, total, sums_);
    }
  }

 private:
  int64_t token_of(int row) const { return task_.first_token + row / split_.group(); }
  int64_t head_of(int row) const { return task_.kv_head * split_.group() + row % split_.group(); }
  int64_t place_of(int row) const { return (sequence_->first_row + token_of(row)) * heads_ + head_of(row); }

  void load_queries() {
    const auto scale = static_cast<float>(options_.scale);
    for (int r = 0; r < rows_; ++r) {
      const float* from = call_.inputs[0].as<const float>() + place_of(r) * keys_->width;
      float* to = q_ + r * key_width_;
      for (int64_t i = 0; i < keys_->width; ++i) to[i] = from[i] * scale;
      std::fill(to + keys_->width, to + key_width_, 0.0f);
    }
  }

  // The sinks count once: in the first part.
  void start_softmax() {
    const bool with_sinks = sinks_ != nullptr && task_.part == 0;
    for (int r = 0; r < rows_; ++r) {
      tops_[r] = with_sinks ? sinks_[head_of(r)] : kMinusInfinity;
      totals_[r] = with_sinks ? 1.0f : 0.0f;
    }
    std::fill_n(sums_, rows_ * value_width_, 0.0f);
  }

  // Calls `visit(rows, offset)` for the pieces of keys [first, end) that lie in one page each.
  template <typename Visit>
  void for_pieces(const plan::StateComponentView& component, int64_t first, int64_t end, Visit&& visit) const {
    const int64_t stride = state_row_bytes(component);
    for (int64_t at = first; at < end;) {
      const int64_t in_page = at % state_.page_rows;
      const int64_t count = std::min(end - at, state_.page_rows - in_page);
      const std::byte* data = state_row(state_, component, task_.sequence, at, task_.kv_head);
      visit(StoredRows{component.dtype, data, stride, count}, at - first);
      at += count;
    }
  }

  // Rows of a block as padded floats.
  StoredRows decoded(const plan::StateComponentView& component, int64_t width, int64_t padded_width, int64_t first,
                     int64_t end, float* space) const {
    for_pieces(component, first, end, [&](const StoredRows& rows, int64_t offset) {
      for (int64_t i = 0; i < rows.count; ++i) {
        float* to = space + (offset + i) * padded_width;
        form_.decode(rows.dtype, rows.data + i * rows.stride, width, to);
        std::fill(to + width, to + padded_width, 0.0f);
      }
    });
    return {tensor::DType::kF32, reinterpret_cast<const std::byte*>(space), padded_width * 4, end - first};
  }

  // Reading in place pays where each element is used by a few queries at most, or needs no decoding.
  bool in_place(const plan::StateComponentView& component, int64_t width) const {
    return width % 16 == 0 && (rows_ <= 4 || component.dtype == tensor::DType::kF32);
  }

  void block(int64_t first, int64_t end) {
    const int64_t count = end - first;
    if (in_place(*keys_, keys_->width)) {
      for_pieces(*keys_, first, end, [&](const StoredRows& rows, int64_t offset) {
        form_.scores(q_, rows_, key_width_, rows, scores_ + offset);
      });
    } else {
      form_.scores(q_, rows_, key_width_, decoded(*keys_, keys_->width, key_width_, first, end, key_floats_), scores_);
    }
    for (int r = 0; r < rows_; ++r) {
      float* scores = scores_ + r * kKeyBlock;
      std::fill(scores + count, scores + padded(count), kMinusInfinity);
      if (score_.score.has_value()) apply_score(r, first, padded(count), scores);
      mask(r, first, count, scores);
      form_.step(scores, padded(count), tops_ + r, totals_ + r, sums_ + r * value_width_, value_width_);
    }
    if (in_place(*values_, options_.value_width)) {
      for_pieces(*values_, first, end, [&](const StoredRows& rows, int64_t offset) {
        form_.accumulate(scores_ + offset, rows_, value_width_, rows, sums_);
      });
    } else {
      form_.accumulate(scores_, rows_, value_width_,
                       decoded(*values_, options_.value_width, value_width_, first, end, value_floats_), sums_);
    }
  }

  void apply_score(int row, int64_t first, int64_t count, float* scores) const {
    float* places = program_scratch_ + score_.score->scratch_floats();
    const auto position = static_cast<float>(sequence_->start_position + token_of(row));
    if (score_.uses[1]) std::fill_n(places, count, position);
    for (int64_t j = 0; score_.uses[2] && j < count; ++j) places[kKeyBlock + j] = static_cast<float>(first + j);
    if (score_.uses[3]) std::fill_n(places + 2 * kKeyBlock, count, static_cast<float>(head_of(row)));
    const float* const inputs[4] = {scores, places, places + kKeyBlock, places + 2 * kKeyBlock};
    score_.score->run(*form_.vector_ops, inputs, count, program_scratch_, scores);
  }

  void mask(int row, int64_t first, int64_t count, float* scores) const {
    const int64_t length = sequence_->start_position + sequence_->num_tokens;
    const VisibleRange range = visible_range(options_, sequence_->start_position + token_of(row), length);
    const int64_t begin = std::clamp<int64_t>(range.begin - first, 0, count);
    const int64_t end = std::clamp<int64_t>(range.end - first, begin, count);
    std::fill(scores, scores + begin, kMinusInfinity);
    std::fill(scores + end, scores + padded(count), kMinusInfinity);
  }

  void finish(int row, float total, const float* sums) const {
    float* out = call_.outputs[0].as<float>() + place_of(row) * options_.value_width;
    const float factor = 1.0f / total;
    for (int64_t i = 0; i < options_.value_width; ++i) out[i] = sums[i] * factor;
  }

  const KernelCall& call_;
  const AttendOptions& options_;
  const CpuOptions& score_;
  const AttendForm& form_;
  const AttendSplit& split_;
  const plan::StateView& state_;
  const plan::StateComponentView* keys_;
  const plan::StateComponentView* values_;
  int64_t heads_;
  int64_t key_width_;    // padded
  int64_t value_width_;  // padded
  AttendTask task_;
  const plan::SequenceSpan* sequence_ = nullptr;
  int rows_ = 0;
  float *q_, *scores_, *sums_, *tops_, *totals_, *key_floats_, *value_floats_, *program_scratch_;
  const float* sinks_;
};

template <const AttendForm& (*kForm)()>
void run(const KernelCall& call, Worker& worker) {
  const auto& options = static_cast<const CpuOptions&>(*call.prepared);
  const int64_t kv_heads = call.state->components[static_cast<size_t>(options.attend().key)].heads;
  const AttendSplit split(options.attend(), *call.batch, call.inputs[0].dim(1), kv_heads, worker.count());
  if (split.num_items() == 0) return;
  TaskRun task_run(call, options, kForm(), split, worker);
  if (split.num_parts() == 1) {
    worker.reset_tickets();
    for (int64_t i = worker.next_ticket(split.num_tasks()); i >= 0; i = worker.next_ticket(split.num_tasks())) {
      task_run.run(split.task(i));
      task_run.store_result();
    }
    return;
  }
  auto* parts = reinterpret_cast<float*>(call.workspace.data());
  const int64_t stride = part_floats(AttendSplit::most_rows(split.group()), options.attend().value_width);
  FL_CHECK(static_cast<int64_t>(call.workspace.size()) >= split.num_tasks() * stride * 4);
  for (int64_t i = worker.index(); i < split.num_tasks(); i += worker.count()) {
    task_run.run(split.task(i));
    task_run.store_part(parts + i * stride);
  }
  worker.barrier();
  for (int64_t item = worker.index(); item < split.num_items(); item += worker.count()) {
    task_run.merge(split.task(item * split.num_parts()), parts + item * split.num_parts() * stride, stride);
  }
}

int64_t workspace_bytes(const catalog::Signature& signature, const tensor::SymbolValues&, int num_workers) {
  const int64_t heads = signature.operands[0].shape[1].factor;
  const int64_t value_width = signature.results[0].shape[2].factor;
  return AttendSplit::most_split_tasks(num_workers) * part_floats(AttendSplit::most_rows(heads), value_width) * 4;
}

}  // namespace

std::span<const KernelBody> attend_cpu_bodies() {
  static constexpr KernelBody kBodies[] = {
      {"attend_f32_f32_avx2", prepare, run<attend_form_avx2>, workspace_bytes},
      {"attend_f32_f32_avx512", prepare, run<attend_form_avx512>, workspace_bytes}};
  return kBodies;
}

}  // namespace firstlight::kernels
