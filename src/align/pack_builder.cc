// SPDX-License-Identifier: Apache-2.0
#include "align/pack_builder.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "align/sketch.h"
#include "base/check.h"

namespace firstlight::align {
namespace {

constexpr int64_t kPromptHead = 2048;  // bytes of JSON that a prompt's tensors cost
constexpr int64_t kTapHead = 200;      // and a tap in the manifest
constexpr int64_t kFixedBytes = 4096;
constexpr int64_t kMostIntegers = 64;  // columns of an integer tap whose rows are all kept: routing decisions

// From much to little: projections per row, rows.
constexpr std::array<std::pair<int64_t, int64_t>, 10> kLayouts = {
    {{32, 64}, {16, 64}, {16, 32}, {8, 32}, {8, 16}, {8, 8}, {8, 4}, {4, 4}, {4, 2}, {4, 1}}};

// Of a rank: as if it had every value of the whole model, so that all ranks come to the same.
int64_t sketch_bytes(const Pack& pack, const PackLayout& layout) {
  const auto taps = static_cast<int64_t>(pack.taps.size());
  const int64_t elsewhere = pack.ranks > 1 ? std::max<int64_t>(pack.whole_values - taps, 0) : 0;
  int64_t bytes = kFixedBytes + (taps + elsewhere) * kTapHead;
  for (const PromptRecord& prompt : pack.prompts) {
    const auto of_value = [&](int64_t rows) {
      return static_cast<int64_t>(4 * (kNumStatistics + kHistogramBins)) + 4 * rows * (1 + layout.projections);
    };
    const auto tokens = static_cast<int64_t>(prompt.tokens.size());
    bytes += tokens * 8 + kPromptHead + elsewhere * of_value(num_sampled(layout, tokens));
    bool has_logits = pack.ranks > 1;
    for (const TapInfo& tap : pack.taps) {
      bytes += of_value(num_sampled(layout, whole_rows(tap, prompt)));
      has_logits = has_logits || tap.name == "logits";
    }
    if (has_logits) bytes += num_sampled(layout, tokens) * (8 * kTopLogits + 4);
  }
  return bytes;
}

void keep(std::vector<int32_t>& ids, int64_t row) {
  const auto place = std::lower_bound(ids.begin(), ids.end(), static_cast<int32_t>(row));
  if (place == ids.end() || *place != row) ids.insert(place, static_cast<int32_t>(row));
}

bool is_here(const TapInfo& info, const TapRecord& record, int64_t row) {
  return info.part.split != Split::kRows ||
         std::binary_search(record.part_rows.begin(), record.part_rows.end(), static_cast<int32_t>(row));
}

}  // namespace

PackBuilder::PackBuilder(Pack pack) : pack_(std::move(pack)) {
  for (PromptRecord& prompt : pack_.prompts) {
    prompt.taps.resize(pack_.taps.size());
    for (size_t t = 0; t < pack_.taps.size(); ++t) {
      TapRecord& record = prompt.taps[t];
      record.num_rows = pack_.taps[t].part.split == Split::kRows ? static_cast<int64_t>(record.part_rows.size())
                                                                 : whole_rows(pack_.taps[t], prompt);
    }
  }
}

Result<PackBuilder> PackBuilder::create(Pack pack, const std::set<std::string>& full, int64_t limit) {
  PackBuilder builder(std::move(pack));
  for (const std::string& name : full) {
    const auto is_named = [&](const TapInfo& tap) { return tap.name == name; };
    if (name != "all" && std::none_of(builder.pack_.taps.begin(), builder.pack_.taps.end(), is_named)) {
      return not_found("--full " + name + ": no value of that name is recorded");
    }
  }
  int64_t left = 0;
  FL_TRY(builder.choose_layout(limit, left));
  builder.choose_rows(full, left);
  builder.allocate();
  return builder;
}

PackBuilder PackBuilder::like(Pack pack, const Pack& other) {
  PackBuilder builder(std::move(pack));
  builder.pack_.layout = other.layout;
  for (size_t p = 0; p < builder.pack_.prompts.size() && p < other.prompts.size(); ++p) {
    for (size_t t = 0; t < builder.pack_.taps.size(); ++t) {
      const auto same = std::find_if(other.taps.begin(), other.taps.end(),
                                     [&](const TapInfo& tap) { return tap.name == builder.pack_.taps[t].name; });
      if (same == other.taps.end()) continue;
      TapRecord& record = builder.pack_.prompts[p].taps[t];
      const TapRecord& wanted = other.prompts[p].taps[static_cast<size_t>(same - other.taps.begin())];
      if (wanted.num_rows == record.num_rows) record.row_ids = wanted.row_ids;
    }
  }
  builder.allocate();
  return builder;
}

Status PackBuilder::choose_layout(int64_t limit, int64_t& left) {
  constexpr double kShare = 0.6;  // of the limit that sketches may take, unless there is nothing smaller
  int64_t needed = 0;
  for (const auto& [projections, rows] : kLayouts) {
    pack_.layout.projections = projections;
    pack_.layout.sampled_rows = rows;
    needed = sketch_bytes(pack_, pack_.layout);
    if (static_cast<double>(needed) <= kShare * static_cast<double>(limit)) break;
  }
  if (needed > limit) {
    return invalid_argument("a pack of " + std::to_string(pack_.taps.size()) + " values for " +
                            std::to_string(pack_.prompts.size()) + " prompts needs " + std::to_string(needed) +
                            " bytes, at most " + std::to_string(limit) + " wanted: fewer prompts, or no --operators");
  }
  left = limit - needed - limit / 32;
  return ok_status();
}

// By worth: routing decisions, the last row of logits, ends of layers, ends of operators, then layers and operators whole.
void PackBuilder::choose_rows(const std::set<std::string>& full, int64_t left) {
  const auto take = [&](auto wanted, int64_t first, int64_t last) {
    for (PromptRecord& prompt : pack_.prompts) {
      for (size_t t = 0; t < pack_.taps.size(); ++t) {
        TapRecord& record = prompt.taps[t];
        if (!wanted(pack_.taps[t]) || record.num_rows == 0) continue;
        const int64_t all = whole_rows(pack_.taps[t], prompt);
        const int64_t begin = first < 0 ? 0 : all - 1 - std::min(last, all - 1);
        const int64_t end = first < 0 ? all : begin + 1;
        const int64_t bytes = (end - begin) * (4 * pack_.taps[t].width + 4);
        if (bytes > left) continue;
        left -= bytes;
        for (int64_t row = begin; row < end; ++row) {
          if (is_here(pack_.taps[t], record, row)) keep(record.row_ids, row);
        }
      }
    }
  };
  constexpr int64_t kFirst = INT64_MAX;
  const auto is_layer = [](const TapInfo& tap) { return tap.is_layer_output && tap.name != "logits"; };
  const auto is_other = [](const TapInfo& tap) { return !tap.is_layer_output && tap.name != "logits"; };
  take([](const TapInfo& tap) { return tap.is_integer && tap.width <= kMostIntegers; }, -1, 0);
  take([](const TapInfo& tap) { return tap.name == "logits"; }, 0, 0);
  take(is_layer, 0, 0);
  take(is_other, 0, 0);
  take(is_layer, 0, kFirst);
  take(is_other, 0, kFirst);
  take(is_layer, -1, 0);  // all rows, as far as they fit: what stands behind a fault can then be run with right operands
  take(is_other, -1, 0);
  for (PromptRecord& prompt : pack_.prompts) {
    for (size_t t = 0; t < pack_.taps.size(); ++t) {
      if (!full.contains("all") && !full.contains(pack_.taps[t].name)) continue;
      const auto before = static_cast<int64_t>(prompt.taps[t].row_ids.size());
      full_bytes_ += (prompt.taps[t].num_rows - before) * (4 * pack_.taps[t].width + 4);
      TapRecord& record = prompt.taps[t];
      if (pack_.taps[t].part.split == Split::kRows) {
        record.row_ids = record.part_rows;
      } else {
        record.row_ids.resize(static_cast<size_t>(record.num_rows));
        std::iota(record.row_ids.begin(), record.row_ids.end(), 0);
      }
    }
  }
}

void PackBuilder::allocate() {
  const auto projections = static_cast<size_t>(pack_.layout.projections);
  sums_.assign(pack_.prompts.size(), std::vector<Sums>(pack_.taps.size()));
  sampled_.clear();
  for (PromptRecord& prompt : pack_.prompts) {
    auto& of_prompt = sampled_.emplace_back();
    for (size_t t = 0; t < pack_.taps.size(); ++t) {
      TapRecord& record = prompt.taps[t];
      const size_t sampled = of_prompt.emplace_back(sampled_rows(pack_.layout, pack_.taps[t], prompt, record)).size();
      record.norms.assign(sampled, 0);
      record.sketch.assign(sampled * projections, 0);
      record.rows.assign(record.row_ids.size() * static_cast<size_t>(pack_.taps[t].width), 0);
      if (pack_.taps[t].name != "logits") continue;
      prompt.top_ids.assign(sampled * static_cast<size_t>(kTopLogits), -1);
      prompt.top_logits.assign(sampled * static_cast<size_t>(kTopLogits), 0);
      prompt.log_sum_exp.assign(sampled, 0);
    }
  }
}

int64_t PackBuilder::bytes() const {
  int64_t bytes = 0;
  for (const PromptRecord& prompt : pack_.prompts) {
    for (const TapRecord& record : prompt.taps) {
      bytes += static_cast<int64_t>(sizeof(TapRecord) + sizeof(Sums) +
                                    4 * (record.norms.size() + record.sketch.size() + record.rows.size()));
    }
  }
  return bytes;
}

void PackBuilder::add(size_t tap, size_t prompt, int64_t first_row, const tensor::View& rows) {
  const TapInfo& info = pack_.taps[tap];
  PromptRecord& record = pack_.prompts[prompt];
  const auto width = static_cast<size_t>(info.width);
  FL_CHECK(rows.rank > 0 && rows.num_elements() == rows.dim(0) * info.width);
  FL_CHECK(rows.dtype == tensor::DType::kF32 || rows.dtype == tensor::DType::kI32);
  for (int64_t r = 0; r < rows.dim(0); ++r) {
    std::span<const float> values;
    if (rows.dtype == tensor::DType::kF32) {
      values = {rows.as<float>() + static_cast<size_t>(r) * width, width};
    } else {
      const int32_t* from = rows.as<int32_t>() + static_cast<size_t>(r) * width;
      scratch_.assign(from, from + width);
      values = scratch_;
    }
    const TapRecord& kept = record.taps[tap];
    const int64_t row = kept.part_rows.empty() ? first_row + r : kept.part_rows[static_cast<size_t>(first_row + r)];
    const auto& sampled = sampled_[prompt][tap];
    const auto place = std::lower_bound(sampled.begin(), sampled.end(), static_cast<int32_t>(row));
    const int64_t at = place == sampled.end() || *place != row ? -1 : place - sampled.begin();
    add_row(info, record.taps[tap], sums_[prompt][tap], row, at, values);
    if (info.name == "logits" && info.part.split != Split::kSum && at >= 0) add_logits(info, record, at, values);
  }
}

void PackBuilder::add_row(const TapInfo& info, TapRecord& record, Sums& sums, int64_t row, int64_t sampled,
                          std::span<const float> values) {
  double squares = 0;
  for (const float value : values) {
    if (!is_plain(value)) {
      ++sums.not_finite;
      continue;
    }
    const double x = value;
    sums.min = sums.count == 0 ? x : std::min(sums.min, x);
    sums.max = sums.count == 0 ? x : std::max(sums.max, x);
    ++sums.count;
    sums.sum += x;
    squares += x * x;
    if (value == 0) {
      ++sums.zeros;
    } else {
      ++record.histogram[histogram_bin(value)];
    }
  }
  sums.squares += squares;
  if (sampled >= 0) {
    const auto projections = static_cast<size_t>(pack_.layout.projections);
    record.norms[static_cast<size_t>(sampled)] = static_cast<float>(std::sqrt(squares));
    sketch_row(values, pack_.layout.seed,
               std::span(record.sketch).subspan(static_cast<size_t>(sampled) * projections, projections),
               info.part.first_feature);
  }
  const auto kept = std::lower_bound(record.row_ids.begin(), record.row_ids.end(), static_cast<int32_t>(row));
  if (kept == record.row_ids.end() || *kept != row) return;
  std::copy(values.begin(), values.end(), record.rows.begin() + (kept - record.row_ids.begin()) * info.width);
}

void PackBuilder::add_logits(const TapInfo& info, PromptRecord& prompt, int64_t sampled,
                             std::span<const float> values) {
  std::vector<int32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  const auto value = [&](int32_t id) { return values[static_cast<size_t>(id)]; };
  const auto best = std::min<size_t>(static_cast<size_t>(kTopLogits), order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(best), order.end(),
                    [&](int32_t a, int32_t b) { return value(a) != value(b) ? value(a) > value(b) : a < b; });
  double sum = 0;
  for (const float x : values) sum += std::exp(static_cast<double>(x) - static_cast<double>(value(order[0])));
  prompt.log_sum_exp[static_cast<size_t>(sampled)] =
      static_cast<float>(static_cast<double>(value(order[0])) + std::log(sum));
  for (size_t k = 0; k < best; ++k) {
    const size_t place = static_cast<size_t>(sampled * kTopLogits) + k;
    prompt.top_ids[place] = order[k] + static_cast<int32_t>(info.part.first_feature);
    prompt.top_logits[place] = value(order[k]);
  }
}

Pack PackBuilder::finish() && {
  for (size_t p = 0; p < pack_.prompts.size(); ++p) {
    for (size_t t = 0; t < pack_.taps.size(); ++t) {
      const Sums& sums = sums_[p][t];
      const double count = static_cast<double>(std::max<int64_t>(sums.count, 1));
      pack_.prompts[p].taps[t].statistics = {.min = static_cast<float>(sums.min),
                                             .max = static_cast<float>(sums.max),
                                             .mean = static_cast<float>(sums.sum / count),
                                             .rms = static_cast<float>(std::sqrt(sums.squares / count)),
                                             .absmax = static_cast<float>(std::max(-sums.min, sums.max)),
                                             .count = static_cast<float>(sums.count + sums.not_finite),
                                             .not_finite = static_cast<float>(sums.not_finite),
                                             .zeros = static_cast<float>(sums.zeros)};
    }
  }
  return std::move(pack_);
}

}  // namespace firstlight::align
