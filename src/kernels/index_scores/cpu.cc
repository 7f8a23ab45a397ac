// SPDX-License-Identifier: Apache-2.0
// index_scores on the CPU. A task is a few tokens of one sequence, all heads, against the rows they see, 64 keys at a
// time; when that gives too few tasks for the workers, the rows are cut into parts, each part keeps its best, and the
// best of those are found behind a barrier. Queries that see no more than `top` are not scored at all.
#include "kernels/attend/form.h"
#include "kernels/bodies.h"
#include "kernels/common/cpu/small_operand.h"
#include "kernels/common/pages.h"
#include "kernels/index_scores/options.h"

namespace firstlight::kernels {
namespace {

using Candidate = IndexCandidate<float>;

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
constexpr int64_t kQueryRows = 32;    // tokens times heads of a task, where one token has no more heads
constexpr int64_t kLeastRows = 1024;  // a part of the rows is not made shorter

constexpr int64_t padded(int64_t width) { return (width + 15) / 16 * 16; }
int64_t tile_tokens(int64_t heads) { return std::max<int64_t>(1, kQueryRows / heads); }
// Selections that one task makes.
int64_t most_lists(int64_t heads, bool per_head) { return tile_tokens(heads) * (per_head ? heads : 1); }

struct Task {
  size_t sequence = 0;
  int64_t first_token = 0;
  int64_t num_tokens = 0;
  int64_t begin = 0;  // rows of this part
  int64_t end = 0;
};

class Split {
 public:
  Split(const IndexScoresOptions& options, const plan::Batch& batch, int64_t heads, int num_workers)
      : options_(options), batch_(batch), tile_(tile_tokens(heads)) {
    for (const plan::SequenceSpan& sequence : batch.sequences) {
      num_items_ += (sequence.num_tokens + tile_ - 1) / tile_;
      const int64_t rows = options.visible_rows(sequence.start_position + sequence.num_tokens - 1);
      if (sequence.num_tokens > 0) most_rows_ = std::max(most_rows_, rows);
    }
    const int64_t wanted = 2 * static_cast<int64_t>(num_workers);
    if (num_workers == 1 || num_items_ == 0 || num_items_ >= wanted) return;
    num_parts_ = std::clamp<int64_t>(most_rows_ / kLeastRows, 1, (wanted + num_items_ - 1) / num_items_);
  }
  int64_t num_items() const { return num_items_; }
  int64_t num_parts() const { return num_parts_; }
  int64_t num_tasks() const { return num_items_ * num_parts_; }
  static int64_t most_split_tasks(int num_workers) { return 4 * static_cast<int64_t>(num_workers); }
  // Rows of a part, in whole blocks.
  int64_t part_rows(int64_t rows) const {
    return ((rows + num_parts_ - 1) / num_parts_ + options_.block - 1) / options_.block * options_.block;
  }
  int64_t most_part_units() const { return part_rows(most_rows_) / options_.block + 1; }

  Task task(int64_t index) const {
    Task task;
    int64_t item = index / num_parts_;
    const auto tiles = [&] { return (batch_.sequences[task.sequence].num_tokens + tile_ - 1) / tile_; };
    for (; item >= tiles(); ++task.sequence) item -= tiles();
    const plan::SequenceSpan& sequence = batch_.sequences[task.sequence];
    task.first_token = item * tile_;
    task.num_tokens = std::min(tile_, sequence.num_tokens - task.first_token);
    const int64_t rows = options_.visible_rows(sequence.start_position + task.first_token + task.num_tokens - 1);
    task.begin = std::min(rows, index % num_parts_ * part_rows(rows));
    task.end = std::min(rows, task.begin + part_rows(rows));
    return task;
  }

 private:
  const IndexScoresOptions& options_;
  const plan::Batch& batch_;
  int64_t tile_;
  int64_t most_rows_ = 0;
  int64_t num_items_ = 0;
  int64_t num_parts_ = 1;
};

class TaskRun {
 public:
  TaskRun(const KernelCall& call, const IndexScoresOptions& options, const AttendForm& form, const Split& split,
          Worker& worker)
      : call_(call), options_(options), form_(form), keys_(call.state->components[static_cast<size_t>(options.key)]) {
    heads_ = call.inputs[0].dim(1);
    width_ = padded(keys_.width);
    most_units_ = split.most_part_units();
    const int64_t rows = tile_tokens(heads_) * heads_;
    const int64_t lists = most_lists(heads_, options.per_head);
    float* at = scratch_floats(worker, rows * (width_ + kKeyBlock) + kKeyBlock * width_ + lists * most_units_ + 64);
    q_ = at;
    scores_ = q_ + rows * width_;
    key_floats_ = scores_ + rows * kKeyBlock;
    units_ = key_floats_ + kKeyBlock * width_;
  }

  void run(const Task& task) {
    task_ = task;
    sequence_ = &call_.batch->sequences[task.sequence];
    std::fill_n(units_, num_lists() * most_units_, kMinusInfinity);
    mark_candidates();
    if (visible_units(task.num_tokens - 1) <= options_.top) return;  // all are named
    load_queries();
    for (int64_t first = task.begin; first < task.end; first += kKeyBlock) {
      const int64_t count = std::min(kKeyBlock, task.end - first);
      if (any_candidate(first, count)) block(first, count);
    }
  }

  int64_t num_lists() const { return task_.num_tokens * groups(); }

  // The best of the part for one list; at most `top`.
  std::vector<Candidate>& best(int64_t list) {
    const int64_t token = list / groups();
    const int64_t first = task_.begin / options_.block;
    const int64_t end = std::min(visible_units(token), (task_.end + options_.block - 1) / options_.block);
    candidates_.clear();
    for (int64_t unit = first; unit < end; ++unit) {
      const bool forced = options_.is_forced(unit, position(token));
      if (!forced && !is_candidate(list, unit * options_.block)) continue;
      const float score = forced ? std::numeric_limits<float>::infinity() : units_[list * most_units_ + unit - first];
      candidates_.push_back({score, static_cast<int32_t>(unit)});
    }
    keep_best(candidates_, options_.top);
    return candidates_;
  }

  int32_t* result(const Task& task, int64_t list) const {
    const int64_t first = call_.batch->sequences[task.sequence].first_row + task.first_token;
    return call_.outputs[0].as<int32_t>() + (first * groups() + list) * options_.top;
  }

 private:
  int64_t groups() const { return options_.per_head ? heads_ : 1; }
  int64_t position(int64_t token) const { return sequence_->start_position + task_.first_token + token; }
  int64_t visible_units(int64_t token) const { return options_.visible_units(position(token)); }
  int64_t row_of(int64_t token) const { return sequence_->first_row + task_.first_token + token; }

  // What each list may choose from, a flag per candidate that begins before the part's end.
  void mark_candidates() {
    if (options_.within_block == 0) return;
    num_candidates_ = task_.end == 0 ? 0 : options_.candidate_of(task_.end - 1) + 1;
    wanted_.assign(static_cast<size_t>(num_lists() * num_candidates_), false);
    for (int64_t list = 0; list < num_lists(); ++list) {
      for (const int32_t number : index_candidates(call_, options_, row_of(list / groups()), list % groups())) {
        if (number >= 0 && number < num_candidates_)
          wanted_[static_cast<size_t>(list * num_candidates_ + number)] = true;
      }
    }
  }
  bool is_candidate(int64_t list, int64_t row) const {
    return options_.within_block == 0 ||
           wanted_[static_cast<size_t>(list * num_candidates_ + options_.candidate_of(row))];
  }
  bool any_candidate(int64_t first, int64_t count) const {
    if (options_.within_block == 0) return true;
    for (int64_t list = 0; list < num_lists(); ++list) {
      for (int64_t c = options_.candidate_of(first); c <= options_.candidate_of(first + count - 1); ++c) {
        if (wanted_[static_cast<size_t>(list * num_candidates_ + c)]) return true;
      }
    }
    return false;
  }

  void load_queries() {
    const int64_t rows = task_.num_tokens * heads_;
    for (int64_t r = 0; r < rows; ++r) {
      const float* from = call_.inputs[0].as<const float>() + (row_of(0) * heads_ + r) * keys_.width;
      std::copy_n(from, keys_.width, q_ + r * width_);
      std::fill(q_ + r * width_ + keys_.width, q_ + (r + 1) * width_, 0.0f);
    }
  }

  void block(int64_t first, int64_t count) {
    for (int64_t j = 0; j < count; ++j) {
      const std::byte* from = state_row(*call_.state, keys_, task_.sequence, first + j, 0);
      form_.decode(keys_.dtype, from, keys_.width, key_floats_ + j * width_);
      std::fill(key_floats_ + j * width_ + keys_.width, key_floats_ + (j + 1) * width_, 0.0f);
    }
    const StoredRows keys{tensor::DType::kF32, reinterpret_cast<const std::byte*>(key_floats_), width_ * 4, count};
    form_.scores(q_, static_cast<int>(task_.num_tokens * heads_), width_, keys, scores_);
    for (int64_t list = 0; list < num_lists(); ++list) {
      const int64_t token = list / groups();
      float sums[kKeyBlock] = {};
      if (options_.per_head) {
        add_head(token, list % groups(), sums);
      } else {
        for (int64_t h = 0; h < heads_; ++h) add_head(token, h, sums);
      }
      raise_units(list, first, std::min(count, options_.visible_rows(position(token)) - first), sums);
    }
  }

  void add_head(int64_t token, int64_t head, float* sums) const {
    const float* scores = scores_ + (token * heads_ + head) * kKeyBlock;
    const bool weighted = options_.at.weights >= 0;
    const float weight = weighted ? call_.inputs[2].as<const float>()[row_of(token) * heads_ + head] : 1.0f;
    if (options_.relu) {
      for (int64_t j = 0; j < kKeyBlock; ++j) sums[j] += weight * (scores[j] < 0 ? 0.0f : scores[j]);
    } else {
      for (int64_t j = 0; j < kKeyBlock; ++j) sums[j] += weight * scores[j];
    }
  }

  void raise_units(int64_t list, int64_t first, int64_t count, const float* sums) {
    float* units = units_ + list * most_units_;
    for (int64_t j = 0; j < count; ++j) {
      float& unit = units[(first + j) / options_.block - task_.begin / options_.block];
      unit = std::max(unit, competing(sums[j]));
    }
  }

  const KernelCall& call_;
  const IndexScoresOptions& options_;
  const AttendForm& form_;
  const plan::StateComponentView& keys_;
  int64_t heads_;
  int64_t width_;       // padded
  int64_t most_units_;  // of one list in one part
  Task task_;
  const plan::SequenceSpan* sequence_ = nullptr;
  float *q_, *scores_, *key_floats_, *units_;
  std::vector<Candidate> candidates_;
  int64_t num_candidates_ = 0;  // per list, with `within`
  std::vector<bool> wanted_;
};

// What a part leaves in the workspace per list: how many, then the best.
struct PartSpace {
  std::byte* memory;
  int64_t lists;
  int64_t top;

  static int64_t bytes(int64_t lists, int64_t top) {
    return lists * (8 + top * static_cast<int64_t>(sizeof(Candidate)));
  }
  std::byte* place(int64_t task, int64_t list) const {
    return memory + task * bytes(lists, top) + list * bytes(1, top);
  }
  void store(int64_t task, int64_t list, const std::vector<Candidate>& best) const {
    *reinterpret_cast<int64_t*>(place(task, list)) = static_cast<int64_t>(best.size());
    std::copy(best.begin(), best.end(), reinterpret_cast<Candidate*>(place(task, list) + 8));
  }
  void load(int64_t task, int64_t list, std::vector<Candidate>& into) const {
    const auto* first = reinterpret_cast<const Candidate*>(place(task, list) + 8);
    into.insert(into.end(), first, first + *reinterpret_cast<const int64_t*>(place(task, list)));
  }
};

void run_in_parts(const KernelCall& call, const IndexScoresOptions& options, const Split& split, TaskRun& task_run,
                  Worker& worker) {
  const int64_t heads = call.inputs[0].dim(1);
  const PartSpace space{call.workspace.data(), most_lists(heads, options.per_head), options.top};
  FL_CHECK(static_cast<int64_t>(call.workspace.size()) >=
           split.num_tasks() * PartSpace::bytes(space.lists, options.top));
  for (int64_t i = worker.index(); i < split.num_tasks(); i += worker.count()) {
    task_run.run(split.task(i));
    for (int64_t list = 0; list < task_run.num_lists(); ++list) space.store(i, list, task_run.best(list));
  }
  worker.barrier();
  std::vector<Candidate> best;
  for (int64_t item = worker.index(); item < split.num_items(); item += worker.count()) {
    const Task task = split.task(item * split.num_parts());
    const int64_t lists = task.num_tokens * (options.per_head ? heads : 1);
    for (int64_t list = 0; list < lists; ++list) {
      best.clear();
      for (int64_t p = 0; p < split.num_parts(); ++p) space.load(item * split.num_parts() + p, list, best);
      keep_best(best, options.top);
      write_units(best, options.top, task_run.result(task, list));
    }
  }
}

template <const AttendForm& (*kForm)()>
void run(const KernelCall& call, Worker& worker) {
  const auto& options = static_cast<const IndexScoresOptions&>(*call.prepared);
  const Split split(options, *call.batch, call.inputs[0].dim(1), worker.most());
  if (split.num_items() == 0) return;
  TaskRun task_run(call, options, kForm(), split, worker);
  if (split.num_parts() > 1) return run_in_parts(call, options, split, task_run, worker);
  worker.reset_tickets();
  for (int64_t i = worker.next_ticket(split.num_tasks()); i >= 0; i = worker.next_ticket(split.num_tasks())) {
    const Task task = split.task(i);
    task_run.run(task);
    for (int64_t list = 0; list < task_run.num_lists(); ++list) {
      write_units(task_run.best(list), options.top, task_run.result(task, list));
    }
  }
}

int64_t workspace_bytes(const catalog::Signature& signature, const tensor::SymbolValues&, int num_workers) {
  const int64_t heads = signature.operands[0].shape[1].factor;
  const int64_t lists = most_lists(heads, signature.attributes.get_bool("per_head"));
  return Split::most_split_tasks(num_workers) * PartSpace::bytes(lists, signature.attributes.get_int("top"));
}

Result<std::unique_ptr<Prepared>> prepare(const PrepareInput& input) {
  const std::string& key = input.signature.attributes.get_string("key");
  const auto& component = input.state->components[static_cast<size_t>(input.state->component_index(key))];
  const bool stored_plainly = component.dtype == tensor::DType::kF32 || component.dtype == tensor::DType::kF16 ||
                              component.dtype == tensor::DType::kBF16;
  if (!stored_plainly) {
    return unsupported("index_scores: state '" + input.state->name + "' component '" + component.name +
                       "' is stored as " + std::string(tensor::dtype_name(component.dtype)) +
                       ", wanted f32, f16 or bf16");
  }
  return prepare_index_scores(input);
}

}  // namespace

std::span<const KernelBody> index_scores_cpu_bodies() {
  static constexpr KernelBody kBodies[] = {
      {"index_scores_f32_i32_avx2", prepare, run<attend_form_avx2>, workspace_bytes},
      {"index_scores_f32_i32_avx512", prepare, run<attend_form_avx512>, workspace_bytes}};
  return kBodies;
}

}  // namespace firstlight::kernels
