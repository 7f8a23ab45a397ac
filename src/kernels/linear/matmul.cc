// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear/matmul.h"

#include <algorithm>

#include "base/check.h"
#include "base/small_vector.h"
#include "kernels/linear/activations.h"
#include "kernels/linear/packing.h"
#include "tensor/dtype.h"

namespace firstlight::kernels {
namespace {

using tensor::DType;

// Up to so many tokens every worker prepares all rows for itself: cheaper than meeting at a barrier.
constexpr int64_t kAloneTokens = 8;
// From so many tokens per worker on, each takes its own through all tiles; fewer share the tiles.
constexpr int64_t kOwnTokens = 96;

constexpr int64_t round_up(int64_t bytes) { return (bytes + 63) / 64 * 64; }

// Parts of one worker's scratch memory, cut off one after the other.
class Cutter {
 public:
  explicit Cutter(std::byte* memory) : at_(memory) {}
  std::byte* bytes(int64_t count) {
    std::byte* part = at_;
    at_ += round_up(count);
    return part;
  }
  float* floats(int64_t count) { return reinterpret_cast<float*>(bytes(count * 4)); }

 private:
  std::byte* at_;
};

using Eight [[gnu::vector_size(32), gnu::aligned(4), gnu::may_alias]] = float;

void copy_tile(const float* from, float* to) {
  for (int64_t r = 0; r < kTileRows; r += 8) {
    *reinterpret_cast<Eight*>(to + r) = *reinterpret_cast<const Eight*>(from + r);
  }
}

void add_tile(const float* from, const float* more, float* to) {
  for (int64_t r = 0; r < kTileRows; r += 8) {
    const Eight sum = *reinterpret_cast<const Eight*>(from + r) + *reinterpret_cast<const Eight*>(more + r);
    *reinterpret_cast<Eight*>(to + r) = sum;
  }
}

// `count` rows of a tile's results, with what is added to them or null.
void copy_rows(const float* from, const float* bias, int64_t count, float* to) {
  if (count == kTileRows) return bias == nullptr ? copy_tile(from, to) : add_tile(from, bias, to);
  for (int64_t r = 0; r < count; ++r) to[r] = bias == nullptr ? from[r] : from[r] + bias[r];
}

int64_t num_tiles(int64_t rows) { return (rows + kTileRows - 1) / kTileRows; }

// Runs tiles of a job against groups of tokens; the state of one worker in one run.
class TileRunner {
 public:
  TileRunner(const Form& form, const MatmulJob& job) : form_(form), job_(job) {
    for (const WeightMatrix& weight : job.weights) needs_.add(weight.path);
    group_tokens_ = std::min(job.tokens, kGroupTokens);
    tiles_at_once_ = job.tokens == 1 ? form.single_tiles : form.batch_tiles;
    sums_floats_ = (group_tokens_ + kPanelSlack) * tiles_at_once_ * kTileRows;
    for (const WeightMatrix& weight : job.weights) {
      if (weight.layout == tensor::Layout::kRowMajor) {
        packed_bytes_ = std::max(packed_bytes_, packed_tile_bytes(weight.dtype, job.columns));
      }
      decodes_ |= weight.path != ProductPath::kInt8;
    }
    for (const ExpressionProgram& program : job.epilogue) {
      program_floats_ = std::max(program_floats_, program.scratch_floats());
    }
  }

  const ActivationNeeds& needs() const { return needs_; }

  // Takes the worker's scratch; `own_groups`: with room for a group of activations.
  void take_scratch(Worker& worker, bool own_groups) {
    const int64_t padded = padded_columns(job_.columns);
    const int64_t sums = num_sums() * round_up(sums_floats_ * 4);
    const int64_t group = own_groups ? activation_group_bytes(needs_, group_tokens_, job_.columns) : 0;
    const int64_t rows = round_up(form_.panel_tokens * padded * 4);
    const int64_t decode = decodes_ ? kMaxTiles * kChunkColumns * kTileRows * 4 : 0;
    const int64_t total = sums + group + rows + decode + kMaxTiles * packed_bytes_ + round_up(program_floats_ * 4);
    Cutter cutter(worker.scratch(static_cast<size_t>(total)));
    group_memory_ = cutter.bytes(group);
    rows_ = cutter.floats(form_.panel_tokens * padded);
    decode_ = cutter.floats(decode / 4);
    packed_ = cutter.bytes(kMaxTiles * packed_bytes_);
    program_ = cutter.floats(program_floats_);
    sums_.resize(static_cast<size_t>(num_sums()));
    for (float*& part : sums_) part = cutter.floats(sums_floats_);
  }

  // Prepares a whole group in the worker's own memory.
  ActivationGroup own_group(int64_t first_token, int64_t tokens) {
    const ActivationGroup group = activation_group(needs_, group_memory_, tokens, job_.columns);
    for (int64_t start = 0; start < tokens;) start += fill(first_token, start, group);
    return group;
  }

  // Prepares the panel that begins with token `start` of a group; returns its tokens.
  int64_t fill(int64_t first_token, int64_t start, const ActivationGroup& group) {
    return fill_activations(form_, job_, needs_, first_token, start, group, rows_);
  }

  // Tiles [begin, end) of weight `index` against a group: products, bias, output.
  void run_products(size_t index, int64_t begin, int64_t end, int64_t first_token, const ActivationGroup& group) {
    const WeightMatrix& weight = job_.weights[index];
    for (int64_t tile = begin; tile < end; tile += tiles_at_once_) {
      const int count = static_cast<int>(std::min<int64_t>(tiles_at_once_, end - tile));
      const int64_t following = std::min<int64_t>(tile + count, end - 1);
      multiply(weight, tile, count, tile_at(weight, following), group, sums_[0], &job_.outputs[index], first_token);
      store(sums_[0], weight, tile, count, first_token, group.int8.num_tokens, job_.outputs[index]);
    }
  }

  // Tiles [begin, end) of all weights against a group, then the epilogue.
  void run_fused(int64_t begin, int64_t end, int64_t first_token, const ActivationGroup& group) {
    const size_t n = job_.weights.size();
    for (int64_t tile = begin; tile < end; tile += tiles_at_once_) {
      const int count = static_cast<int>(std::min<int64_t>(tiles_at_once_, end - tile));
      for (size_t i = 0; i < n; ++i) {
        const bool last = i + 1 == n;
        const int64_t following = last ? std::min(tile + count, end - 1) : tile;
        multiply(job_.weights[i], tile, count, tile_at(job_.weights[last ? 0 : i + 1], following), group, sums_[i],
                 last ? job_.outputs.data() : nullptr, first_token);
      }
      apply_epilogue(tile, count, first_token, group.int8.num_tokens);
    }
  }

 private:
  // The products (or extras) of each input of the epilogue, and the result.
  int64_t num_sums() const {
    return static_cast<int64_t>(job_.epilogue.empty() ? 1 : job_.weights.size() + job_.extras.size() + 1);
  }

  const std::byte* tile_at(const WeightMatrix& weight, int64_t tile) const {
    if (weight.layout == tensor::Layout::kRowMajor) return packed_;
    return weight.data + tile * packed_tile_bytes(weight.dtype, job_.columns);
  }

  const std::byte* pack_row_major(const WeightMatrix& weight, int64_t tile, int place) {
    const int64_t row_bytes = *tensor::row_bytes(weight.dtype, job_.columns);
    const int64_t first = tile * kTileRows;
    const std::byte* rows[kTileRows];
    const int64_t count = std::min(kTileRows, weight.rows - first);
    for (int64_t r = 0; r < count; ++r) rows[r] = weight.data + (first + r) * row_bytes;
    std::byte* packed = packed_ + place * packed_tile_bytes(weight.dtype, job_.columns);
    pack_tile(weight.dtype, {rows, static_cast<size_t>(count)}, job_.columns, packed);
    return packed;
  }

  // `next`: the first of the tiles that will be read after these.
  void multiply(const WeightMatrix& weight, int64_t tile, int count, const std::byte* next,
                const ActivationGroup& group, float* sums, const OutputRows* output, int64_t first_token) {
    if (job_.columns == 0) {
      std::fill_n(sums, sums_floats_, 0.0f);
      return;
    }
    TileSet set{.tiles = {}, .next = {}, .count = count, .columns = job_.columns};
    const int64_t tile_bytes = packed_tile_bytes(weight.dtype, job_.columns);
    for (int n = 0; n < count; ++n) {
      const bool packed = weight.layout == tensor::Layout::kPackedRows;
      set.tiles[n] = packed ? tile_at(weight, tile + n) : pack_row_major(weight, tile + n, n);
      set.next[n] = next + n * tile_bytes;
    }
    if (output != nullptr && job_.tokens > kAloneTokens) look_ahead(*output, tile, first_token, set);
    switch (weight.path) {
      case ProductPath::kInt8:
        return form_.int8_kernel(weight.dtype)(set, group.int8, sums);
      case ProductPath::kF32:
        return form_.f32_kernel(weight.dtype)(set, group.f32, sums, decode_);
      case ProductPath::kBf16:
        return form_.bf16_kernel(weight.dtype)(set, group.bf16, sums, decode_);
    }
  }

  // Results and extras of these tiles, to arrive during the products.
  void look_ahead(const OutputRows& output, int64_t tile, int64_t first_token, TileSet& set) const {
    const auto add = [&](const float* data, int64_t stride, bool written) {
      const float* at = data + first_token * stride + tile * kTileRows;
      set.ahead[set.num_ahead++] = {reinterpret_cast<const std::byte*>(at), stride * 4, written};
    };
    add(output.data, output.stride, true);
    for (const ExtraOperand& extra : job_.extras) {
      if (extra.token_stride != 0 && set.num_ahead < kMaxAhead) add(extra.data, extra.token_stride, false);
    }
  }

  void store(const float* sums, const WeightMatrix& weight, int64_t tile, int count, int64_t first_token,
             int64_t tokens, const OutputRows& output) const {
    for (int64_t t = 0; t < tokens; ++t) {
      float* to = output.data + (first_token + t) * output.stride;
      for (int n = 0; n < count; ++n) {
        const int64_t row = (tile + n) * kTileRows;
        const int64_t valid = std::min(kTileRows, weight.rows - row);
        const float* from = sums + (t * count + n) * kTileRows;
        const float* bias = weight.bias == nullptr ? nullptr : weight.bias + row;
        copy_rows(from, bias, valid, to + row);
      }
    }
  }

  void add_bias(const WeightMatrix& weight, int64_t tile, int count, int64_t tokens, float* sums) const {
    for (int64_t t = 0; t < tokens; ++t) {
      for (int n = 0; n < count; ++n) {
        const int64_t row = (tile + n) * kTileRows;
        const int64_t valid = std::min(kTileRows, weight.rows - row);
        float* to = sums + (t * count + n) * kTileRows;
        for (int64_t r = 0; r < valid; ++r) to[r] += weight.bias[row + r];
      }
    }
  }

  void load_extra(const ExtraOperand& extra, int64_t tile, int count, int64_t first_token, int64_t tokens,
                  float* out) const {
    const int64_t rows = job_.weights[0].rows;
    for (int64_t t = 0; t < tokens; ++t) {
      const float* from = extra.data + (first_token + t) * extra.token_stride;
      for (int n = 0; n < count; ++n) {
        const int64_t row = (tile + n) * kTileRows;
        const int64_t valid = std::min(kTileRows, rows - row);
        float* to = out + (t * count + n) * kTileRows;
        copy_rows(from + row, nullptr, valid, to);
        std::fill(to + valid, to + kTileRows, 0.0f);
      }
    }
  }

  void apply_epilogue(int64_t tile, int count, int64_t first_token, int64_t tokens) {
    const size_t n = job_.weights.size();
    for (size_t i = 0; i < n; ++i) {
      if (job_.weights[i].bias != nullptr) add_bias(job_.weights[i], tile, count, tokens, sums_[i]);
    }
    for (size_t i = 0; i < job_.extras.size(); ++i) {
      load_extra(job_.extras[i], tile, count, first_token, tokens, sums_[n + i]);
    }
    float* result = sums_.back();
    const std::span<const float* const> inputs(sums_.data(), sums_.size() - 1);
    WeightMatrix plain = job_.weights[0];
    plain.bias = nullptr;
    for (size_t i = 0; i < job_.epilogue.size(); ++i) {
      job_.epilogue[i].run(*form_.vector_ops, inputs, tokens * count * kTileRows, program_, result);
      store(result, plain, tile, count, first_token, tokens, job_.outputs[i]);
    }
  }

  const Form& form_;
  const MatmulJob& job_;
  ActivationNeeds needs_;
  int64_t group_tokens_ = 0;
  int tiles_at_once_ = 1;
  int64_t sums_floats_ = 0;
  int64_t packed_bytes_ = 0;
  int64_t program_floats_ = 0;
  bool decodes_ = false;
  std::byte* group_memory_ = nullptr;
  float* rows_ = nullptr;
  float* decode_ = nullptr;
  std::byte* packed_ = nullptr;
  float* program_ = nullptr;
  SmallVector<float*, 16> sums_;
};

// A worker's tiles of every weight.
struct TileRange {
  int64_t begin;
  int64_t end;
};
using TileRanges = SmallVector<TileRange, 8>;  // per weight

// Contiguous in the order of the weights, equal in bytes; with an epilogue the same tiles of each.
void share_tiles(const MatmulJob& job, const Worker& worker, TileRanges& ranges) {
  if (!job.epilogue.empty()) {
    const Worker::Range range = worker.share(num_tiles(job.weights[0].rows));
    for (size_t i = 0; i < job.weights.size(); ++i) ranges.push_back({range.begin, range.end});
    return;
  }
  int64_t total = 0;
  for (const WeightMatrix& weight : job.weights) {
    total += num_tiles(weight.rows) * packed_tile_bytes(weight.dtype, job.columns);
  }
  const int64_t low = total * worker.index() / worker.count();
  const int64_t high = total * (worker.index() + 1) / worker.count();
  int64_t start = 0;
  for (const WeightMatrix& weight : job.weights) {
    const int64_t cost = packed_tile_bytes(weight.dtype, job.columns);
    const int64_t tiles = num_tiles(weight.rows);
    const auto cut = [&](int64_t at) {
      return cost == 0 ? 0 : std::clamp<int64_t>((at - start + cost / 2) / cost, 0, tiles);
    };
    ranges.push_back(
        {low <= start ? 0 : cut(low), high >= start + tiles * cost ? tiles : (high <= start ? 0 : cut(high))});
    start += tiles * cost;
  }
}

void all_tiles(const MatmulJob& job, TileRanges& ranges) {
  for (const WeightMatrix& weight : job.weights) ranges.push_back({0, num_tiles(weight.rows)});
}

// Asks for the beginning of the first weights, so that they arrive while the activations are prepared.
void prefetch_first_tiles(const Form& form, const MatmulJob& job, std::span<const TileRange> ranges) {
  constexpr int64_t kBytes = 2048;  // of each stream: as far as the kernels' own prefetching looks ahead
  size_t first = 0;
  while (first + 1 < ranges.size() && ranges[first].begin == ranges[first].end) ++first;
  const WeightMatrix& weight = job.weights[first];
  if (weight.layout != tensor::Layout::kPackedRows) return;
  const int64_t tile = ranges[first].begin;
  const int64_t tile_bytes = packed_tile_bytes(weight.dtype, job.columns);
  const std::byte* at = weight.data + tile * tile_bytes;
  const int streams = job.tokens == 1 ? form.single_tiles : form.batch_tiles;
  for (int64_t offset = 0; offset < kBytes; offset += 64) {
    for (int n = 0; n < streams; ++n) __builtin_prefetch(at + n * tile_bytes + offset);
  }
}

void run_group(TileRunner& runner, const MatmulJob& job, std::span<const TileRange> ranges, int64_t first_token,
               const ActivationGroup& group) {
  if (!job.epilogue.empty()) return runner.run_fused(ranges[0].begin, ranges[0].end, first_token, group);
  for (size_t i = 0; i < job.weights.size(); ++i) {
    runner.run_products(i, ranges[i].begin, ranges[i].end, first_token, group);
  }
}

}  // namespace

ProductPath product_path(catalog::ComputeMode mode, DType weight) {
  switch (mode) {
    case catalog::ComputeMode::kF32:
      return ProductPath::kF32;
    case catalog::ComputeMode::kBf16:
      return ProductPath::kBf16;
    case catalog::ComputeMode::kInt8:
      break;
  }
  if (tensor::dtype_info(weight).is_quantised && weight != DType::kFP8G) return ProductPath::kInt8;
  return weight == DType::kF32 || weight == DType::kF16 ? ProductPath::kF32 : ProductPath::kBf16;
}

int64_t matmul_workspace_bytes(std::span<const ProductPath> paths, int64_t tokens, int64_t columns) {
  if (tokens <= kAloneTokens) return 0;
  ActivationNeeds needs;
  for (ProductPath path : paths) needs.add(path);
  const int64_t groups = tokens / kGroupTokens;
  const int64_t rest = tokens % kGroupTokens;
  return groups * activation_group_bytes(needs, kGroupTokens, columns) +
         (rest > 0 ? activation_group_bytes(needs, rest, columns) : 0);
}

void run_matmul(const Form& form, const MatmulJob& job, Worker& worker, std::span<std::byte> workspace) {
  if (job.tokens == 0) return;
  TileRunner runner(form, job);
  TileRanges ranges;
  if (job.tokens >= kOwnTokens * worker.count()) {  // a worker's tokens never leave its core
    all_tiles(job, ranges);
    runner.take_scratch(worker, true);
    const Worker::Range own = worker.share(job.tokens, 4);
    const int64_t groups = (own.end - own.begin + kGroupTokens - 1) / kGroupTokens;
    const int64_t size = ((own.end - own.begin + groups - 1) / groups + 11) / 12 * 12;
    for (int64_t first = own.begin; first < own.end; first += size) {
      const ActivationGroup group = runner.own_group(first, std::min(size, own.end - first));
      run_group(runner, job, ranges, first, group);
    }
    return;
  }
  const bool alone = job.tokens <= kAloneTokens;
  runner.take_scratch(worker, alone);
  share_tiles(job, worker, ranges);
  if (alone) {
    prefetch_first_tiles(form, job, ranges);
    const ActivationGroup group = runner.own_group(0, job.tokens);
    return run_group(runner, job, ranges, 0, group);
  }
  const int64_t group_bytes = activation_group_bytes(runner.needs(), kGroupTokens, job.columns);
  const auto group_at = [&](int64_t first_token) {
    const int64_t tokens = std::min(kGroupTokens, job.tokens - first_token);
    return activation_group(runner.needs(), workspace.data() + first_token / kGroupTokens * group_bytes, tokens,
                            job.columns);
  };
  const Worker::Range panels = worker.share((job.tokens + form.panel_tokens - 1) / form.panel_tokens);
  int64_t panel = 0;
  for (int64_t first = 0; first < job.tokens; first += kGroupTokens) {
    const ActivationGroup group = group_at(first);
    for (int64_t start = 0; start < group.int8.num_tokens; ++panel) {
      const bool mine = panel >= panels.begin && panel < panels.end;
      start += mine ? runner.fill(first, start, group) : panel_count(form.panel_tokens, group.int8.num_tokens - start);
    }
  }
  worker.barrier();
  for (int64_t first = 0; first < job.tokens; first += kGroupTokens) {
    run_group(runner, job, ranges, first, group_at(first));
  }
}

void run_matmul_alone(const Form& form, const MatmulJob& job, int64_t first_tile, int64_t last_tile, Worker& worker) {
  TileRunner runner(form, job);
  runner.take_scratch(worker, true);
  for (int64_t first = 0; first < job.tokens; first += kGroupTokens) {
    const ActivationGroup group = runner.own_group(first, std::min(kGroupTokens, job.tokens - first));
    runner.run_products(0, first_tile, last_tile, first, group);
  }
}

}  // namespace firstlight::kernels
