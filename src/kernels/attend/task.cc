// SPDX-License-Identifier: Apache-2.0
#include "kernels/attend/task.h"

#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/common/cpu/small_operand.h"
#include "kernels/common/pages.h"

namespace firstlight::kernels {
namespace {

constexpr int kPhaseQueries = 24;
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// Of rows of floats: x - x is 0 but for infinities and NaN.
bool all_finite(const StoredRows& rows, int64_t width) {
  float sum = 0;
  for (int64_t j = 0; j < rows.count; ++j) {
    const auto* row = reinterpret_cast<const float*>(rows.data + j * rows.stride);
    float lanes[8] = {};
    for (int64_t i = 0; i + 8 <= width; i += 8) {
      for (int64_t lane = 0; lane < 8; ++lane) lanes[lane] += row[i + lane] - row[i + lane];
    }
    for (const float lane : lanes) sum += lane;
  }
  return sum == 0;
}

}  // namespace

Result<std::unique_ptr<Prepared>> prepare_cpu_attend(const PrepareInput& input) {
  auto options = std::make_unique<CpuAttendOptions>();
  options->plain = FL_TRY(prepare_attend(input));
  for (size_t i = 0; i < options->attend().segments.size(); ++i) {
    const SegmentOptions& segment = options->attend().segments[i];
    for (const int index : {segment.key, segment.value}) {
      const ops::StateComponent& component = input.states[i]->components[static_cast<size_t>(index)];
      if (!tensor::is_state_type(component.dtype) || component.dtype == tensor::DType::kF64) {
        return unsupported("attend: state '" + input.states[i]->name + "' component '" + component.name +
                           "' is stored as " + std::string(tensor::dtype_name(component.dtype)) +
                           ", wanted f32, f16, bf16, q8_0, mxfp8, q4_1 or q4_1s");
      }
    }
    options->masks.emplace_back();
    if (!segment.rules.mask.empty()) options->masks.back().emplace(segment.rules.mask);
  }
  const ops::Expression& score = options->attend().score;
  if (!score.empty()) options->score.emplace(score);
  for (const ops::ExprTerm& term : score.terms()) {
    if (term.input >= 0) options->score_uses[term.input] = true;
  }
  return std::unique_ptr<Prepared>(std::move(options));
}

AttendTaskRun::AttendTaskRun(const KernelCall& call, const CpuAttendOptions& options, const AttendForm& form,
                             const AttendSplit& split, bool rounds, Worker& worker)
    : call_(call),
      cpu_(options),
      options_(options.attend()),
      form_(form),
      pairs_(rounds ? form.pairs : nullptr),
      split_(split) {
  heads_ = call.inputs[0].dim(1);
  width_ = source(0).keys->width;
  key_width_ = padded_width(width_);
  value_width_ = padded_width(options_.value_width);
  int64_t program = options.score.has_value() ? options.score->scratch_floats() : 0;
  for (const auto& mask : options.masks) program = std::max(program, mask.has_value() ? mask->scratch_floats() : 0);
  const int64_t rows = split.item_rows();
  const int64_t total = kPhaseQueries * kKeyBlock +
                        rows * (key_width_ + kKeyBlock + kKeyBlock / 2 + 6 * value_width_ + kTotalLanes + 64) +
                        kKeyBlock * (key_width_ + value_width_) + program + 5 * kKeyBlock + heads_ +
                        512;  // the last for rounding up
  float* at = scratch_floats(worker, total);
  const auto take = [&](int64_t floats) {
    float* taken = at;
    at += padded_width(floats);
    return taken;
  };
  program_scratch_ = take(program);
  places_ = take(3 * kKeyBlock);
  shown_ = take(kKeyBlock);
  q_ = take(rows * key_width_);
  scores_ = take(((pairs_ == nullptr ? rows : kPhaseQueries) + 1) * kKeyBlock);
  weights_ = reinterpret_cast<uint32_t*>(take(rows * kKeyBlock / 2));
  sums_ = take(rows * value_width_);
  tops_ = take(rows);
  kept_ = take(rows);
  far_sums_ = reinterpret_cast<double*>(take(2 * rows * value_width_));
  totals_ = reinterpret_cast<double*>(take(2 * rows));
  lane_totals_ = take(rows * kTotalLanes);
  part_ = take(part_floats(rows, value_width_));
  joined_ = reinterpret_cast<double*>(take(2 * joined_doubles(rows, value_width_)));
  key_floats_ = take(kKeyBlock * key_width_);
  value_floats_ = take(kKeyBlock * value_width_);
  float* sinks = take(heads_);
  sinks_ = options_.sinks < 0 ? nullptr : small_operand(call.inputs[static_cast<size_t>(options_.sinks)], sinks);
}

AttendTaskRun::Source AttendTaskRun::source(size_t segment) const {
  Source source{.state = call_.states[segment]};
  source.keys = &source.state->components[static_cast<size_t>(options_.segments[segment].key)];
  source.values = &source.state->components[static_cast<size_t>(options_.segments[segment].value)];
  source.is_shared = source.keys == source.values;
  return source;
}

void AttendTaskRun::begin(const AttendItem& item) {
  const bool is_same = rows_ > 0 && item.sequence == item_.sequence && item.kv_head == item_.kv_head &&
                       item.first_token == item_.first_token;
  if (is_same) return;
  item_ = item;
  sequence_ = &call_.batch->sequences[item.sequence];
  rows_ = static_cast<int>(item.num_tokens * split_.group());
  load_queries();
}

void AttendTaskRun::run(const AttendItem& item) {
  const Coming behind = foreseen_;
  const ops::RowRange rows{0, rows_of(item)};
  start_joined(item, rows, joined_);
  const int64_t parts = split_.num_parts(item);
  for (int64_t p = 0; p < parts; ++p) {
    foreseen_ = behind;
    if (p + 1 < parts) foresee(item, p + 1);
    run_part(item, p, part_);
    join(item, rows, part_, joined_);
  }
  store_result(item, rows, joined_);
}

void AttendTaskRun::run_part(const AttendItem& item, int64_t index, float* to) {
  begin(item);
  start_softmax();
  const AttendPart part = split_.part(item, index);
  if (options_.segments[part.segment].rules.select_operand < 0) {
    run_rows(part.segment, part.range.begin, part.range.end);
  } else {
    run_selected(part.segment, part.range.begin, part.range.end);
  }
  store_part(to);
  foreseen_ = {};
}

void AttendTaskRun::load_queries() {
  const auto scale = static_cast<float>(options_.scale);
  for (int r = 0; r < rows_; ++r) {
    const float* from = call_.inputs[0].as<const float>() + place_of(r) * width_;
    if (pairs_ != nullptr) {
      pairs_->pack_query(from, scale, width_, reinterpret_cast<uint32_t*>(q_) + r * row_pairs(width_));
      continue;
    }
    float* to = q_ + r * key_width_;
    for (int64_t i = 0; i < width_; ++i) to[i] = from[i] * scale;
    std::fill(to + width_, to + key_width_, 0.0f);
  }
}

void AttendTaskRun::start_softmax() {
  std::fill_n(tops_, rows_, kMinusInfinity);
  std::fill_n(sums_, rows_ * value_width_, 0.0f);
  if (pairs_ != nullptr) {
    std::fill_n(lane_totals_, rows_ * kTotalLanes, 0.0f);
  } else {
    std::fill_n(totals_, rows_, 0.0);
    std::fill_n(far_sums_, rows_ * value_width_, 0.0);
  }
}

void AttendTaskRun::run_rows(size_t segment, int64_t begin, int64_t end) {
  for (int64_t at = begin; at < end;) {
    const int64_t lead = at % kKeyBlock;
    const int64_t count = std::min(kKeyBlock - lead, end - at);
    const int64_t next = at + count;
    coming_ = next == end ? foreseen_ : Coming{item_, segment, next, std::min(kKeyBlock, end - next)};
    run_block(segment, {.first = at, .count = count, .lead = lead});
    at = next;
  }
  coming_ = {};
}

// Pages lie anywhere, so that no hardware foresees them. In float32 what the next block reads is asked for once this
// block's rows are there, so that they do not queue up behind. In pairs it is on the way, row by row
// (PlacedRows::ahead), and at once only where a block is not whole or rows of another segment come.
void AttendTaskRun::prefetch(Kind kind) const {
  const plan::StateComponentView* component = coming(kind);
  if (component == nullptr) return;
  const Block block{.first = coming_.first, .count = coming_.count};
  for_pieces(coming_.item, source(coming_.segment), *component, block, [](const StoredRows& rows, int64_t) {
    const int64_t bytes = rows.count * rows.stride;
    // Not __builtin_prefetch: a loop of nothing else is taken for one that does nothing.
    for (int64_t line = 0; line < bytes; line += 64) asm volatile("prefetcht1 %0" : : "m"(rows.data[line]));
  });
}

// Where the coming rows' keys or values lie; null where there are none, or they are asked for as keys.
const plan::StateComponentView* AttendTaskRun::coming(Kind kind) const {
  if (coming_.count == 0) return nullptr;
  const Source from = source(coming_.segment);
  if (kind == Kind::kKeys) return from.keys;
  return from.is_shared ? nullptr : from.values;
}

void AttendTaskRun::foresee(const AttendItem& item, int64_t index) {
  foreseen_ = {};
  if (index >= split_.num_parts(item)) return;
  const AttendPart part = split_.part(item, index);
  if (options_.segments[part.segment].rules.select_operand >= 0) return;
  const int64_t begin = part.range.begin;
  const int64_t end = std::min(part.range.end, begin / kKeyBlock * kKeyBlock + kKeyBlock);
  foreseen_ = {item, part.segment, begin, end - begin};
}

// The item has one token. What its selection names and it may see is gathered into blocks.
void AttendTaskRun::run_selected(size_t segment, int64_t begin, int64_t end) {
  const SegmentOptions& options = options_.segments[segment];
  const ops::RowRange visible = split_.rows(item_, segment);
  const auto numbers = selected(call_, options, sequence_->first_row + item_.first_token, item_.kv_head);
  const int64_t block = options.rules.select_block;
  int64_t rows[kKeyBlock];
  int64_t count = 0;
  for (int64_t place = begin; place < end; ++place) {
    const int32_t number = numbers[static_cast<size_t>(place / block)];
    const int64_t row = number * block + place % block;
    if (number < 0 || row < visible.begin || row >= visible.end) continue;
    rows[count++] = row;
    if (count < kKeyBlock) continue;
    run_block(segment, {.first = 0, .count = count, .rows = rows});
    count = 0;
  }
  if (count > 0) run_block(segment, {.first = 0, .count = count, .rows = rows});
}

void AttendTaskRun::run_block(size_t segment, const Block& block) {
  const SegmentOptions& options = options_.segments[segment];
  const bool has_mask = cpu_.masks[segment].has_value();
  if (has_mask || cpu_.score_uses[2]) fill_key_positions(options, block);
  if (pairs_ != nullptr) return run_pairs(segment, block);
  score_block(segment, block);
  const bool some_hidden = !is_visible_to_all(options, block);
  for (int r = 0; r < rows_; ++r) {
    float* scores = scores_ + r * kKeyBlock;
    shape_scores(segment, block, some_hidden, r, scores);
    const float sum = form_.step(scores, padded_width(block.lead + block.count), tops_ + r, kept_ + r);
    totals_[r] = totals_[r] * static_cast<double>(kept_[r]) + static_cast<double>(sum);
  }
  prefetch(Kind::kKeys);
  add_values(segment, block, some_hidden || has_mask);
  prefetch(Kind::kValues);
  for (int r = 0; r < rows_; ++r) {
    form_.join(sums_ + r * value_width_, 1.0, static_cast<double>(kept_[r]), far_sums_ + r * value_width_,
               value_width_);
  }
  std::fill_n(sums_, rows_ * value_width_, 0.0f);
}

// The scores of a row as its softmax takes them, -inf where there is no key or none that it sees. Rows follow in order:
// what is padded falls into the next one's lead.
void AttendTaskRun::shape_scores(size_t segment, const Block& block, bool some_hidden, int row, float* scores) {
  float* own = scores + block.lead;
  const int64_t count = padded_width(block.count);
  const bool has_mask = cpu_.masks[segment].has_value();
  if (cpu_.score.has_value()) {
    std::fill(own + block.count, own + count, 0.0f);
    apply_score(row, count, own);
  }
  std::fill(scores, own, kMinusInfinity);
  std::fill(own + block.count, std::max(own + count, scores + kKeyBlock), kMinusInfinity);
  if (some_hidden) hide(options_.segments[segment], block, row, own);
  if (has_mask && row % split_.group() == 0) evaluate_mask(segment, row, count);
  for (int64_t j = 0; has_mask && j < block.count; ++j) own[j] = shown_[j] == 0 ? kMinusInfinity : own[j];
}

// Keys and values are turned once for all queries; a few of these then go all the way while their scores are near.
void AttendTaskRun::run_pairs(size_t segment, const Block& block) {
  const PlacedRows keys = placed(segment, Kind::kKeys, block);
  if (rows_ > kFewQueries) pairs_->pack_keys(keys, reinterpret_cast<uint32_t*>(key_floats_));
  const bool some_hidden = !is_visible_to_all(options_.segments[segment], block);
  const bool some_unseen = some_hidden || cpu_.masks[segment].has_value();
  const PlacedRows values = placed(segment, Kind::kValues, block);
  auto* packed = reinterpret_cast<uint32_t*>(value_floats_);
  const bool in_place = rows_ <= kFewQueries && !some_unseen;
  const bool finite = in_place || pairs_->pack_values(values, packed);
  for (int r = 0; r < rows_; r += kPhaseQueries) {
    const int count = std::min(kPhaseQueries, rows_ - r);
    if (!weigh_pairs(segment, block, keys, some_hidden, r, count)) continue;
    const uint32_t* weights = weights_ + r * (kKeyBlock / 2);
    if (in_place) {
      pairs_->accumulate_rows(weights, kept_, rows_, value_width_, values, sums_);
    } else if (finite || !some_unseen) {
      pairs_->accumulate(weights, kept_ + r, count, value_width_, packed, values.begin, values.end,
                         sums_ + r * value_width_);
    }
  }
  if (!finite && some_unseen) add_visible_pairs(segment, block, values);
}

// The weights of a few queries; whether there are any.
bool AttendTaskRun::weigh_pairs(size_t segment, const Block& block, const PlacedRows& keys, bool some_hidden, int first,
                                int count) {
  if (some_hidden && is_hidden_from(options_.segments[segment], block, first, first + count - 1)) {
    std::fill_n(kept_ + first, count, 1.0f);
    return false;
  }
  const int64_t pairs = row_pairs(width_);
  const uint32_t* q = reinterpret_cast<const uint32_t*>(q_) + first * pairs;
  if (rows_ <= kFewQueries) {
    pairs_->score_rows(q, count, keys, scores_);
  } else {
    pairs_->scores(q, count, pairs, reinterpret_cast<const uint32_t*>(key_floats_), scores_);
  }
  if (some_hidden || block.count < kKeyBlock || cpu_.score.has_value() || cpu_.masks[segment].has_value()) {
    for (int i = 0; i < count; ++i) shape_scores(segment, block, some_hidden, first + i, scores_ + i * kKeyBlock);
  }
  pairs_->step(scores_, count, tops_ + first, kept_ + first, lane_totals_ + first * kTotalLanes,
               weights_ + first * (kKeyBlock / 2));
  return true;
}

void AttendTaskRun::add_values(size_t segment, const Block& block, bool some_hidden) {
  const Source from = source(segment);
  if (!some_hidden) return add_block(from, block);
  // A hidden key has weight 0, and 0 times a number that is none is none.
  const StoredRows values = values_of(from, block);
  if (all_finite(values, value_width_)) {
    form_.accumulate(scores_ + block.lead, rows_, value_width_, values, sums_);
  } else {
    add_visible(segment, block, values);
  }
}

// The rows of a block at their places, and those that come behind it at theirs.
PlacedRows AttendTaskRun::placed(size_t segment, Kind kind, const Block& block) const {
  const Source from = source(segment);
  const plan::StateComponentView& component = kind == Kind::kKeys ? *from.keys : *from.values;
  PlacedRows out{.dtype = component.dtype,
                 .width = kind == Kind::kKeys ? width_ : options_.value_width,
                 .begin = block.lead / 16 * 16,
                 .end = padded_width(block.lead + block.count)};
  const auto place = [&](const std::byte** at) {
    return [at](const StoredRows& rows, int64_t offset) {
      for (int64_t i = 0; i < rows.count; ++i) at[offset + i] = rows.data + i * rows.stride;
    };
  };
  if (block.rows == nullptr) {
    for_pieces(item_, from, component, block, place(out.rows + block.lead));
  } else {
    for (int64_t j = 0; j < block.count; ++j) {
      out.rows[j] = state_row(*from.state, component, item_.sequence, block.rows[j], item_.kv_head);
    }
  }
  out.whole = block.count == kKeyBlock;
  if (!out.whole || coming_.segment != segment) prefetch(kind);
  if (!out.whole) return out;
  std::copy_n(out.rows, kKeyBlock, out.ahead);
  if (const auto* next = coming(kind); next != nullptr && coming_.segment == segment) {
    const Block behind{.first = coming_.first, .count = coming_.count};
    for_pieces(coming_.item, from, *next, behind, place(out.ahead + coming_.first % kKeyBlock));
  }
  return out;
}

// Calls `visit(rows, offset)` for the pieces of a block of neighbours that lie in one page each.
template <typename Visit>
void AttendTaskRun::for_pieces(const AttendItem& item, const Source& source, const plan::StateComponentView& component,
                               const Block& block, Visit&& visit) const {
  const int64_t stride = state_row_bytes(component);
  const int64_t page_rows = source.state->page_rows;
  for (int64_t at = block.first; at < block.first + block.count;) {
    const int64_t count = std::min(block.first + block.count - at, page_rows - at % page_rows);
    const std::byte* data = state_row(*source.state, component, item.sequence, at, item.kv_head);
    visit(StoredRows{component.dtype, data, stride, count}, at - block.first);
    at += count;
  }
}

// Rows of a block as padded floats.
StoredRows AttendTaskRun::decoded(const Source& source, const plan::StateComponentView& component, int64_t width,
                                  const Block& block, float* space) const {
  const int64_t stride = padded_width(width);
  const auto decode = [&](const std::byte* from, int64_t j) {
    float* to = space + j * stride;
    form_.decode(component.dtype, from, width, to);
    std::fill(to + width, to + stride, 0.0f);
  };
  if (block.rows == nullptr) {
    for_pieces(item_, source, component, block, [&](const StoredRows& rows, int64_t offset) {
      for (int64_t i = 0; i < rows.count; ++i) decode(rows.data + i * rows.stride, offset + i);
    });
  } else {
    for (int64_t j = 0; j < block.count; ++j) {
      decode(state_row(*source.state, component, item_.sequence, block.rows[j], item_.kv_head), j);
    }
  }
  return {tensor::DType::kF32, reinterpret_cast<const std::byte*>(space), stride * 4, block.count};
}

// Reading in place pays where each element is used by a few queries at most, or needs no decoding.
bool AttendTaskRun::in_place(const plan::StateComponentView& component, int64_t width, const Block& block) const {
  return block.rows == nullptr && width % 16 == 0 && (rows_ <= 4 || component.dtype == tensor::DType::kF32);
}

void AttendTaskRun::score_block(size_t segment, const Block& block) {
  const Source source = this->source(segment);
  if (in_place(*source.keys, width_, block)) {
    for_pieces(item_, source, *source.keys, block, [&](const StoredRows& rows, int64_t offset) {
      form_.scores(q_, rows_, key_width_, rows, scores_ + block.lead + offset);
    });
  } else {
    form_.scores(q_, rows_, key_width_, decoded(source, *source.keys, width_, block, key_floats_),
                 scores_ + block.lead);
  }
}

void AttendTaskRun::add_block(const Source& source, const Block& block) {
  if (in_place(*source.values, options_.value_width, block)) {
    for_pieces(item_, source, *source.values, block, [&](const StoredRows& rows, int64_t offset) {
      form_.accumulate(scores_ + block.lead + offset, rows_, value_width_, rows, sums_);
    });
    return;
  }
  form_.accumulate(scores_ + block.lead, rows_, value_width_, values_of(source, block), sums_);
}

// A block's values as padded floats. Those that are the first columns of the keys are decoded already; what lies behind
// them falls into the padding.
StoredRows AttendTaskRun::values_of(const Source& source, const Block& block) const {
  if (!source.is_shared || in_place(*source.keys, width_, block)) {
    return decoded(source, *source.values, options_.value_width, block, value_floats_);
  }
  return {tensor::DType::kF32, reinterpret_cast<const std::byte*>(key_floats_), key_width_ * 4, block.count};
}

// Adds for each query the values that it sees, and touches no other; rounded as AttendForm::accumulate does, so that a
// query that sees none but numbers gets the same bits either way.
void AttendTaskRun::add_visible(size_t segment, const Block& block, const StoredRows& values) {
  for (int r = 0; r < rows_; ++r) {
    if (r % split_.group() == 0) find_seen(segment, block, r);
    float* sums = sums_ + r * value_width_;
    for (int64_t j = 0; j < block.count; ++j) {
      if (shown_[j] == 0) continue;
      const auto* value = reinterpret_cast<const float*>(values.data + j * values.stride);
      const float weight = scores_[r * kKeyBlock + block.lead + j];
      for (int64_t i = 0; i < options_.value_width; ++i) sums[i] = std::fma(weight, value[i], sums[i]);
    }
  }
}

// The same in pairs: token by token, the rows that it does not see left out of what is packed.
void AttendTaskRun::add_visible_pairs(size_t segment, const Block& block, const PlacedRows& values) {
  const auto group = static_cast<int>(split_.group());
  auto* packed = reinterpret_cast<uint32_t*>(value_floats_);
  for (int r = 0; r < rows_; r += group) {
    if (!find_seen(segment, block, r)) continue;  // nothing to add, and perhaps no weights
    PlacedRows seen = values;
    seen.whole = false;
    for (int64_t j = 0; j < block.count; ++j) {
      if (shown_[j] == 0) seen.rows[block.lead + j] = nullptr;
    }
    pairs_->pack_values(seen, packed);
    pairs_->accumulate(weights_ + r * (kKeyBlock / 2), kept_ + r, group, value_width_, packed, seen.begin, seen.end,
                       sums_ + r * value_width_);
  }
}

void AttendTaskRun::fill_key_positions(const SegmentOptions& segment, const Block& block) {
  for (int64_t j = 0; j < kKeyBlock; ++j) {
    places_[kKeyBlock + j] = j < block.count ? static_cast<float>(block.row(j) * segment.rate) : 0.0f;
  }
}

void AttendTaskRun::apply_score(int row, int64_t count, float* scores) const {
  if (cpu_.score_uses[1]) {
    std::fill_n(places_, count, static_cast<float>(sequence_->start_position + token_of(row)));
  }
  if (cpu_.score_uses[3]) std::fill_n(places_ + 2 * kKeyBlock, count, static_cast<float>(head_of(row)));
  const float* const inputs[4] = {scores, places_, places_ + kKeyBlock, places_ + 2 * kKeyBlock};
  cpu_.score->run(*form_.vector_ops, inputs, count, program_scratch_, scores);
}

// Into shown_: 0 where the mask hides a key from the row's token.
void AttendTaskRun::evaluate_mask(size_t segment, int row, int64_t count) {
  std::fill_n(places_, count, static_cast<float>(sequence_->start_position + token_of(row)));
  const float* const inputs[2] = {places_, places_ + kKeyBlock};
  cpu_.masks[segment]->run(*form_.vector_ops, inputs, count, program_scratch_, shown_);
}

// Into shown_: 0 where the row's token does not see a key of the block. Whether it sees any.
bool AttendTaskRun::find_seen(size_t segment, const Block& block, int row) {
  const ops::RowRange range = visible_to(options_.segments[segment], row);
  if (cpu_.masks[segment].has_value()) {
    evaluate_mask(segment, row, padded_width(block.count));
  } else {
    std::fill_n(shown_, block.count, 1.0f);
  }
  bool any = false;
  for (int64_t j = 0; j < block.count; ++j) {
    const bool in_range = block.rows != nullptr || (block.row(j) >= range.begin && block.row(j) < range.end);
    if (!in_range) shown_[j] = 0;
    any = any || shown_[j] != 0;
  }
  return any;
}

// What the row's query sees of a segment, its mask apart.
ops::RowRange AttendTaskRun::visible_to(const SegmentOptions& segment, int row) const {
  return visible_rows(segment, sequence_->start_position + token_of(row),
                      sequence_->start_position + sequence_->num_tokens);
}

// A selection has left out what its query does not see. Later tokens see from later rows on, and up to later ones.
bool AttendTaskRun::is_visible_to_all(const SegmentOptions& segment, const Block& block) const {
  return block.rows != nullptr || (visible_to(segment, rows_ - 1).begin <= block.first &&
                                   visible_to(segment, 0).end >= block.first + block.count);
}

bool AttendTaskRun::is_hidden_from(const SegmentOptions& segment, const Block& block, int first, int last) const {
  return block.rows == nullptr && (visible_to(segment, last).end <= block.first ||
                                   visible_to(segment, first).begin >= block.first + block.count);
}

void AttendTaskRun::hide(const SegmentOptions& segment, const Block& block, int row, float* scores) const {
  const ops::RowRange range = visible_to(segment, row);
  const int64_t begin = std::clamp<int64_t>(range.begin - block.first, 0, block.count);
  const int64_t end = std::clamp<int64_t>(range.end - block.first, begin, block.count);
  std::fill(scores, scores + begin, kMinusInfinity);
  std::fill(scores + end, scores + block.count, kMinusInfinity);
}

void AttendTaskRun::store_part(float* to) const {
  const auto rounded = [](double v) { return static_cast<float>(v); };
  float* totals = to + rows_ * (value_width_ + 1);
  std::copy_n(tops_, rows_, to + rows_ * value_width_);
  if (pairs_ == nullptr) {
    std::transform(far_sums_, far_sums_ + rows_ * value_width_, to, rounded);
    std::transform(totals_, totals_ + rows_, totals, rounded);
    return;
  }
  std::copy_n(sums_, rows_ * value_width_, to);
  for (int r = 0; r < rows_; ++r) {
    const float* lanes = lane_totals_ + r * kTotalLanes;
    totals[r] = std::accumulate(lanes, lanes + kTotalLanes, 0.0f);
  }
}

// The sinks count once, in front of all parts.
void AttendTaskRun::start_joined(const AttendItem& item, ops::RowRange rows, double* joined) {
  begin(item);
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    double* row = joined + r * joined_stride(value_width_);
    std::fill_n(row, value_width_, 0.0);
    const float sink = sinks_ == nullptr ? kMinusInfinity : sinks_[head_of(static_cast<int>(r))];
    row[value_width_] = static_cast<double>(sink);
    double& total = row[value_width_ + 1];
    total = sinks_ == nullptr ? 0.0 : 1.0;
    // Beside a sink that is none or infinite no weight is a number.
    if (!(sink <= std::numeric_limits<float>::max())) total = std::numeric_limits<double>::quiet_NaN();
  }
}

void AttendTaskRun::join(const AttendItem& item, ops::RowRange rows, const float* part, double* joined) {
  begin(item);
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    double* row = joined + r * joined_stride(value_width_);
    double& top = row[value_width_];
    double& total = row[value_width_ + 1];
    const auto part_top = static_cast<double>(part[rows_ * value_width_ + r]);
    const double new_top = std::max(top, part_top);
    const double base = std::isinf(new_top) && new_top < 0 ? 0.0 : new_top;
    const double kept = top == new_top ? 1.0 : std::exp(top - base);
    const double factor = part_top == base ? 1.0 : std::exp(part_top - base);
    top = new_top;
    total = total * kept + factor * static_cast<double>(part[rows_ * value_width_ + rows_ + r]);
    form_.join(part + r * value_width_, factor, kept, row, value_width_);
  }
}

// A query that saw nothing gets zeros.
void AttendTaskRun::store_result(const AttendItem& item, ops::RowRange rows, const double* joined) {
  begin(item);
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    const double* row = joined + r * joined_stride(value_width_);
    float* out = call_.outputs[0].as<float>() + place_of(static_cast<int>(r)) * options_.value_width;
    const double total = row[value_width_ + 1];
    const double factor = total == 0 ? 0.0 : 1.0 / total;
    for (int64_t i = 0; i < options_.value_width; ++i) out[i] = static_cast<float>(row[i] * factor);
  }
}

}  // namespace firstlight::kernels
