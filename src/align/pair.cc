// SPDX-License-Identifier: Apache-2.0
#include "align/pair.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <span>

#include "align/sketch.h"
#include "tolerance/tolerances.h"

namespace firstlight::align {
namespace {

int32_t ordered(float value) {
  const auto bits = std::bit_cast<int32_t>(value);
  return bits < 0 ? std::numeric_limits<int32_t>::min() - bits : bits;
}

std::set<float> row_set(const TapRecord& record, size_t row, int64_t width) {
  const auto begin = record.rows.begin() + static_cast<std::ptrdiff_t>(row) * width;
  return {begin, begin + width};
}

// KL divergence of the distributions of two whole rows of logits.
double divergence(const float* a, const float* b, int64_t width) {
  const auto log_sum = [&](const float* row) {
    const double most = *std::max_element(row, row + width);
    double sum = 0;
    for (int64_t i = 0; i < width; ++i) sum += std::exp(static_cast<double>(row[i]) - most);
    return most + std::log(sum);
  };
  const double log_a = log_sum(a), log_b = log_sum(b);
  double kl = 0;
  for (int64_t i = 0; i < width; ++i) {
    const double p = static_cast<double>(a[i]) - log_a;
    kl += std::exp(p) * (p - (static_cast<double>(b[i]) - log_b));
  }
  return std::max(kl, 0.0);
}

// The same of what the two have in common of their largest logits, all the rest as one: joining outcomes never makes a
// divergence larger, so this is a lower bound.
double divergence_bound(const PromptRecord& a, const PromptRecord& b, int64_t i, int64_t j) {
  std::map<int32_t, double> of_b;
  const auto at = [](const PromptRecord& prompt, int64_t row, int64_t k) {
    const auto place = static_cast<size_t>(row * kTopLogits + k);
    return std::pair(prompt.top_ids[place], static_cast<double>(prompt.top_logits[place]) -
                                                static_cast<double>(prompt.log_sum_exp[static_cast<size_t>(row)]));
  };
  for (int64_t k = 0; k < kTopLogits; ++k) {
    if (at(b, j, k).first >= 0) of_b.insert(at(b, j, k));
  }
  double kl = 0, rest_a = 1, rest_b = 1;
  for (int64_t k = 0; k < kTopLogits; ++k) {
    const auto [id, log_p] = at(a, i, k);
    const auto other = of_b.find(id);
    if (id < 0 || other == of_b.end()) continue;
    kl += std::exp(log_p) * (log_p - other->second);
    rest_a -= std::exp(log_p);
    rest_b -= std::exp(other->second);
  }
  constexpr double kTiny = 1e-6;  // what is left of 1 in float32
  if (rest_a > kTiny && rest_b > kTiny) kl += rest_a * std::log(rest_a / rest_b);
  return std::max(kl, 0.0);
}

double number_of(const Pack& pack, const char* key, double otherwise) {
  const auto found = pack.origin.find(key);
  if (found == pack.origin.end()) return otherwise;
  const double value = std::atof(found->second.c_str());
  return value > 0 ? value : otherwise;
}

}  // namespace

size_t ulp_bin(float a, float b) {
  if (a == b) return 0;
  if (!std::isfinite(a) || !std::isfinite(b)) return kUlpBins - 1;
  const int64_t apart = std::abs(int64_t{ordered(a)} - int64_t{ordered(b)});
  return std::min(static_cast<size_t>(std::bit_width(static_cast<uint64_t>(apart))), kUlpBins - 1);
}

std::optional<size_t> find_tap(const Pack& pack, const std::string& name) {
  for (size_t i = 0; i < pack.taps.size(); ++i) {
    if (pack.taps[i].name == name) return i;
  }
  return std::nullopt;
}

PackRounding rounding_of(const Pack& pack) {
  const PackRounding usual;
  return {.step = number_of(pack, "rounding", usual.step),
          .products_per_layer = number_of(pack, "products_per_layer", usual.products_per_layer)};
}

double allowed_distance(const PackRounding& a, const PackRounding& b, int64_t layers, double noise) {
  const double step = std::sqrt(a.step * a.step * a.products_per_layer + b.step * b.step * b.products_per_layer);
  const auto products = static_cast<double>(layers);
  return noise > 0 ? tolerance::explained_beside_noise(step, products, noise) : tolerance::explained(step, products);
}

PackPair::PackPair(const Pack& a, const Pack& b, const std::set<std::vector<int32_t>>* only) : a_(a), b_(b) {
  for (size_t i = 0; i < b.taps.size(); ++i) tap_of_b_[b.taps[i].name] = i;
  for (size_t p = 0; p < a.prompts.size(); ++p) {
    const auto& tokens = a.prompts[p].tokens;
    const auto same = std::find_if(b.prompts.begin(), b.prompts.end(),
                                   [&](const PromptRecord& prompt) { return prompt.tokens == tokens; });
    if (same == b.prompts.end() || (only != nullptr && !only->contains(tokens))) continue;
    prompts_.emplace_back(p, static_cast<size_t>(same - b.prompts.begin()));
  }
  turned_.resize(prompts_.size());
}

int64_t PackPair::num_turned() const {
  size_t count = 0;
  for (const RowSet& rows : turned_) count += rows.size();
  return static_cast<int64_t>(count);
}

void PackPair::forget_turned() {
  for (RowSet& rows : turned_) rows.clear();
}

std::optional<size_t> PackPair::counterpart(size_t tap) const {
  const auto found = tap_of_b_.find(a_.taps[tap].name);
  if (found == tap_of_b_.end()) return std::nullopt;
  const TapInfo& other = b_.taps[found->second];
  const bool same = other.width == a_.taps[tap].width && other.rate == a_.taps[tap].rate;
  return same ? std::optional(found->second) : std::nullopt;
}

Distance PackPair::distance(size_t tap_a, size_t tap_b) {
  Distance out;
  out.estimated = false;
  int64_t rows = 0, mismatched = 0;
  for (size_t p = 0; p < prompts_.size(); ++p) {
    const TapRecord& a = a_.prompts[prompts_[p].first].taps[tap_a];
    const TapRecord& b = b_.prompts[prompts_[p].second].taps[tap_b];
    if (a_.taps[tap_a].is_integer) {
      compare_integers(a_.taps[tap_a].width, a, b, turned_[p], rows, mismatched);
    } else {
      compare_floats(a_.taps[tap_a], a, b, turned_[p], out);
    }
    out.finite = out.finite && a.statistics.not_finite == b.statistics.not_finite;
  }
  if (a_.taps[tap_a].is_integer) out.rows = rows;
  out.mismatch = rows > 0 ? static_cast<double>(mismatched) / static_cast<double>(rows) : 0;
  return out;
}

void PackPair::compare_integers(int64_t width, const TapRecord& a, const TapRecord& b, RowSet& turned, int64_t& rows,
                                int64_t& mismatched) {
  for (size_t i = 0; i < a.row_ids.size(); ++i) {
    const auto other = std::lower_bound(b.row_ids.begin(), b.row_ids.end(), a.row_ids[i]);
    if (other == b.row_ids.end() || *other != a.row_ids[i] || turned.contains(a.row_ids[i])) continue;
    ++rows;
    if (row_set(a, i, width) == row_set(b, static_cast<size_t>(other - b.row_ids.begin()), width)) continue;
    ++mismatched;
    turned.insert(a.row_ids[i]);
  }
}

void PackPair::compare_floats(const TapInfo& info, const TapRecord& a, const TapRecord& b, const RowSet& turned,
                              Distance& out) const {
  const bool whole = static_cast<int64_t>(a.row_ids.size()) == a.num_rows &&
                     static_cast<int64_t>(b.row_ids.size()) == b.num_rows && info.rate == 1;
  const bool sketched = !whole && a_.layout.seed == b_.layout.seed;
  Totals totals;
  compare_kept(info.width, a, b, turned, sketched ? nullptr : &totals, out);
  if (!whole) out.estimated = true;
  if (sketched) compare_sketches(a, b, turned, totals, out);
  out.rows += totals.rows;
  if (totals.norm_a == 0 && totals.difference == 0) return;
  const double relative = std::sqrt(totals.difference / std::max(totals.norm_a, 1e-300));
  if (std::isnan(relative) || relative > out.rel_l2) out.rel_l2 = relative;
  const double product = (totals.norm_a + totals.norm_b - totals.difference) / 2;
  const double norms = std::sqrt(totals.norm_a * totals.norm_b);
  if (norms > 0) out.cosine = std::min(out.cosine, std::min(1.0, product / norms));
}

void PackPair::compare_kept(int64_t width, const TapRecord& a, const TapRecord& b, const RowSet& turned, Totals* totals,
                            Distance& out) {
  for (size_t i = 0; i < a.row_ids.size(); ++i) {
    const auto other = std::lower_bound(b.row_ids.begin(), b.row_ids.end(), a.row_ids[i]);
    if (other == b.row_ids.end() || *other != a.row_ids[i] || turned.contains(a.row_ids[i])) continue;
    const float* x = a.rows.data() + static_cast<int64_t>(i) * width;
    const float* y = b.rows.data() + (other - b.row_ids.begin()) * width;
    Totals row;
    for (int64_t c = 0; c < width; ++c) {
      ++out.ulps[ulp_bin(x[c], y[c])];
      if (!is_plain(x[c]) || !is_plain(y[c])) continue;
      const double u = x[c], v = y[c];
      out.max_abs = std::max(out.max_abs, std::abs(u - v));
      row.difference += (u - v) * (u - v);
      row.norm_a += u * u;
      row.norm_b += v * v;
    }
    if (totals == nullptr) continue;
    ++totals->rows;
    totals->difference += row.difference;
    totals->norm_a += row.norm_a;
    totals->norm_b += row.norm_b;
    note_row(a, a.row_ids[i], row.difference, row.norm_a, out);
  }
}

void PackPair::compare_sketches(const TapRecord& a, const TapRecord& b, const RowSet& turned, Totals& totals,
                                Distance& out) const {
  const auto in_a = static_cast<int64_t>(a.norms.size()), in_b = static_cast<int64_t>(b.norms.size());
  const auto width = static_cast<size_t>(std::min(a_.layout.projections, b_.layout.projections));
  for (int64_t i = 0, j = 0; i < in_a; ++i) {
    const int64_t row = sampled_row(i, in_a, a.num_rows);
    while (j < in_b && sampled_row(j, in_b, b.num_rows) < row) ++j;
    if (j == in_b || sampled_row(j, in_b, b.num_rows) != row || turned.contains(row)) continue;
    const auto sketch_of = [&](const TapRecord& record, int64_t index, int64_t projections) {
      return std::span(record.sketch).subspan(static_cast<size_t>(index * projections), width);
    };
    const double difference =
        estimate_squared_distance(sketch_of(a, i, a_.layout.projections), sketch_of(b, j, b_.layout.projections));
    const double norm_a = a.norms[static_cast<size_t>(i)], norm_b = b.norms[static_cast<size_t>(j)];
    ++totals.rows;
    totals.difference += difference;
    totals.norm_a += norm_a * norm_a;
    totals.norm_b += norm_b * norm_b;
    note_row(a, row, difference, norm_a * norm_a, out);
  }
}

void PackPair::note_row(const TapRecord& a, int64_t row, double difference, double norm, Distance& out) {
  const double usual = static_cast<double>(a.statistics.rms) * static_cast<double>(a.statistics.rms) *
                       static_cast<double>(a.statistics.count) / static_cast<double>(std::max<int64_t>(a.num_rows, 1));
  const double relative = std::sqrt(difference / std::max({norm, usual / 100, 1e-300}));
  if (relative <= out.worst_row) return;
  out.worst_row = relative;
  out.worst_row_id = row;
}

LogitsComparison PackPair::logits(std::optional<size_t> tap_a, std::optional<size_t> tap_b) const {
  LogitsComparison out;
  if (!tap_a || !tap_b) return out;
  const int64_t width = a_.taps[*tap_a].width;
  double equal = 0, common = 0, bound = 0;
  for (const auto& [p, q] : prompts_) {
    const PromptRecord &a = a_.prompts[p], &b = b_.prompts[q];
    const size_t greedy = std::min(a.greedy.size(), b.greedy.size());
    out.greedy_equal =
        out.greedy_equal &&
        std::equal(a.greedy.begin(), a.greedy.begin() + static_cast<std::ptrdiff_t>(greedy), b.greedy.begin());
    const TapRecord &ta = a.taps[*tap_a], &tb = b.taps[*tap_b];
    const auto in_a = static_cast<int64_t>(a.log_sum_exp.size()), in_b = static_cast<int64_t>(b.log_sum_exp.size());
    for (int64_t i = 0, j = 0; i < in_a; ++i) {
      const int64_t row = sampled_row(i, in_a, ta.num_rows);
      while (j < in_b && sampled_row(j, in_b, tb.num_rows) < row) ++j;
      if (j == in_b || sampled_row(j, in_b, tb.num_rows) != row) continue;
      ++out.rows;
      const auto first = [](const PromptRecord& prompt, int64_t r) {
        return prompt.top_ids.begin() + static_cast<std::ptrdiff_t>(r * kTopLogits);
      };
      equal += *first(a, i) == *first(b, j) ? 1 : 0;
      for (int k = 0; k < 5; ++k) common += std::count(first(b, j), first(b, j) + 5, first(a, i)[k]) > 0 ? 1 : 0;
      bound += divergence_bound(a, b, i, j);
    }
    for (size_t i = 0; i < ta.row_ids.size(); ++i) {
      const auto other = std::lower_bound(tb.row_ids.begin(), tb.row_ids.end(), ta.row_ids[i]);
      if (other == tb.row_ids.end() || *other != ta.row_ids[i]) continue;
      ++out.kl_rows;
      out.kl_worst = std::max(out.kl_worst, divergence(ta.rows.data() + static_cast<int64_t>(i) * width,
                                                       tb.rows.data() + (other - tb.row_ids.begin()) * width, width));
    }
  }
  if (out.rows > 0) {
    const auto rows = static_cast<double>(out.rows);
    out.top1 = equal / rows;
    out.top5 = common / rows / 5;
    out.kl_bound = bound / rows;
  }
  return out;
}

}  // namespace firstlight::align
