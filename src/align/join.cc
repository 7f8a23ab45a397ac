// SPDX-License-Identifier: Apache-2.0
#include "align/join.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <span>

#include "align/pack_builder.h"
#include "align/pair.h"
#include "align/sketch.h"

namespace firstlight::align {
namespace {

// One rank's part of a value.
struct Part {
  const Pack* pack = nullptr;
  size_t tap = 0;
  const TapInfo& info() const { return pack->taps[tap]; }
  const TapRecord& record(size_t prompt) const { return pack->prompts[prompt].taps[tap]; }
};

std::string rank_name(const Pack& pack) { return "rank " + std::to_string(pack.rank); }

Status check_ranks(const std::vector<Pack>& ranks) {
  if (ranks.empty()) return invalid_argument("no recordings of ranks");
  const Pack& first = ranks[0];
  std::set<int64_t> seen;
  for (const Pack& pack : ranks) {
    if (pack.ranks < 2) return invalid_argument(pack.model + ": a recording of a whole model, not of a rank");
    if (pack.ranks != first.ranks) {
      return invalid_argument(rank_name(pack) + " is one of " + std::to_string(pack.ranks) + ", " + rank_name(first) +
                              " one of " + std::to_string(first.ranks));
    }
    if (!seen.insert(pack.rank).second) return invalid_argument(rank_name(pack) + " is there twice");
    const auto same_tokens = [](const PromptRecord& a, const PromptRecord& b) { return a.tokens == b.tokens; };
    if (!std::equal(pack.prompts.begin(), pack.prompts.end(), first.prompts.begin(), first.prompts.end(), same_tokens))
      return invalid_argument(rank_name(pack) + " has other prompts than " + rank_name(first));
    if (pack.model != first.model || pack.spec_hash != first.spec_hash)
      return invalid_argument(rank_name(pack) + " is of another model or spec than " + rank_name(first));
    const PackLayout &a = pack.layout, &b = first.layout;
    if (a.seed != b.seed || a.projections != b.projections || a.sampled_rows != b.sampled_rows)
      return invalid_argument(rank_name(pack) + " has sketches of another layout or seed than " + rank_name(first));
  }
  for (int64_t rank = 0; rank < first.ranks; ++rank) {
    if (!seen.contains(rank)) {
      return invalid_argument("rank " + std::to_string(rank) + " of " + std::to_string(first.ranks) + " is missing");
    }
  }
  return ok_status();
}

bool same_record(const TapRecord& a, const TapRecord& b) {
  const auto numbers = [](const Statistics& s) {
    return std::array{s.min, s.max, s.mean, s.rms, s.absmax, s.count, s.not_finite, s.zeros};
  };
  // Rows are compared where both kept them: ranks have room for more or fewer.
  return numbers(a.statistics) == numbers(b.statistics) && a.histogram == b.histogram && a.norms == b.norms &&
         a.sketch == b.sketch && a.part_rows == b.part_rows;
}

class Joining {
 public:
  explicit Joining(const std::vector<Pack>& ranks) {
    for (const Pack& pack : ranks) by_rank_[pack.rank] = &pack;
  }

  Result<Joined> run() {
    start();
    const auto order = in_order();
    for (const std::string& name : order) {
      const auto parts = FL_TRY(parts_of(name).with_context(name));
      FL_TRY(join_value(parts).with_context(name));
    }
    return std::move(out_);
  }

 private:
  void start() {
    const Pack& first = *by_rank_.begin()->second;
    out_.pack.origin = first.origin;
    out_.pack.origin["joined_ranks"] = std::to_string(first.ranks);
    out_.pack.model = first.model;
    out_.pack.architecture = first.architecture;
    out_.pack.weights_hash = first.weights_hash;
    out_.pack.spec = first.spec;
    out_.pack.spec_hash = first.spec_hash;
    out_.pack.layout = first.layout;
    for (const PromptRecord& prompt : first.prompts) {
      auto& record = out_.pack.prompts.emplace_back();
      record.tokens = prompt.tokens;
      record.greedy = prompt.greedy;
    }
    for (const auto& [rank, pack] : by_rank_) {
      out_.pack.parameters = std::max(out_.pack.parameters, pack->parameters);
      if (pack->weights_hash != first.weights_hash) out_.pack.weights_hash.clear();
      for (size_t p = 0; p < pack->prompts.size(); ++p) {
        if (pack->prompts[p].greedy != first.prompts[p].greedy)
          out_.findings.push_back({.name = "greedy tokens", .rank_a = first.rank, .rank_b = rank});
      }
    }
  }

  // Names by their place in the whole model.
  std::vector<std::string> in_order() const {
    std::map<std::string, int64_t> places;
    for (const auto& [rank, pack] : by_rank_) {
      for (const TapInfo& tap : pack->taps) places.emplace(tap.name, tap.part.place);
    }
    std::vector<std::string> names;
    for (const auto& [name, place] : places) names.push_back(name);
    std::stable_sort(names.begin(), names.end(),
                     [&](const std::string& a, const std::string& b) { return places.at(a) < places.at(b); });
    return names;
  }

  // One of each part, in order; what other ranks have of the same part is compared with it.
  Result<std::vector<Part>> parts_of(const std::string& name) {
    std::map<int64_t, Part> parts;
    const TapInfo* first = nullptr;
    for (const auto& [rank, pack] : by_rank_) {
      const auto tap = find_tap(*pack, name);
      if (!tap) continue;
      const Part found{.pack = pack, .tap = *tap};
      const TapInfo& info = found.info();
      if (first == nullptr) first = &info;
      if (info.part.split != first->part.split || info.part.parts != first->part.parts || info.rate != first->rate ||
          info.is_integer != first->is_integer || info.part.whole_width != first->part.whole_width ||
          (info.part.split != Split::kFeatures && info.width != first->width)) {
        return invalid_argument(rank_name(*pack) + " has it split or shaped otherwise than the ranks before");
      }
      const auto [place, is_new] = parts.emplace(info.part.part, found);
      if (!is_new) compare_replicas(name, place->second, found);
    }
    std::vector<Part> list;
    for (int64_t i = 0; i < first->part.parts; ++i) {
      if (!parts.contains(i)) {
        return invalid_argument("part " + std::to_string(i) + " of " + std::to_string(first->part.parts) +
                                " is on no rank");
      }
      list.push_back(parts.at(i));
    }
    return list;
  }

  void compare_replicas(const std::string& name, const Part& a, const Part& b) {
    bool same = a.info().width == b.info().width && a.info().part.first_feature == b.info().part.first_feature;
    for (size_t p = 0; same && p < a.pack->prompts.size(); ++p) same = same_record(a.record(p), b.record(p));
    if (same) return;
    ReplicaFinding finding{.name = name, .rank_a = a.pack->rank, .rank_b = b.pack->rank};
    if (a.info().width == b.info().width) {
      const Distance distance = PackPair(*a.pack, *b.pack).distance(a.tap, b.tap);
      finding.rel_l2 = a.info().is_integer ? distance.mismatch : distance.rel_l2;
    }
    out_.findings.push_back(std::move(finding));
  }

  Status join_value(std::vector<Part> parts) {
    const Split split = parts[0].info().part.split;
    if (split == Split::kFeatures) FL_TRY(check_columns(parts));
    TapInfo whole = parts[0].info();
    if (split == Split::kFeatures) whole.width = whole.part.whole_width;
    whole.part = {};
    out_.pack.taps.push_back(whole);
    for (size_t p = 0; p < out_.pack.prompts.size(); ++p) {
      if (split == Split::kRows) FL_TRY(check_rows(parts, p));
      FL_TRY(join_prompt(whole, parts, p));
    }
    return ok_status();
  }

  // Columns from the first to the last, without a gap and none twice.
  static Status check_columns(std::vector<Part>& parts) {
    std::sort(parts.begin(), parts.end(),
              [](const Part& a, const Part& b) { return a.info().part.first_feature < b.info().part.first_feature; });
    int64_t next = 0;
    for (const Part& part : parts) {
      const int64_t first = part.info().part.first_feature;
      if (first != next) {
        return invalid_argument("columns " + std::to_string(std::min(first, next)) + " to " +
                                std::to_string(std::max(first, next) - 1) +
                                (first > next ? " are on no rank" : " are in two parts"));
      }
      next += part.info().width;
    }
    const int64_t width = parts[0].info().part.whole_width;
    if (next == width) return ok_status();
    return invalid_argument("columns " + std::to_string(next) + " to " + std::to_string(width - 1) + " are on no rank");
  }

  Status check_rows(const std::vector<Part>& parts, size_t prompt) const {
    const int64_t all = whole_rows(parts[0].info(), out_.pack.prompts[prompt]);
    std::vector<const Part*> owner(static_cast<size_t>(all), nullptr);
    for (const Part& part : parts) {
      for (const int32_t row : part.record(prompt).part_rows) {
        const Part*& place = owner[static_cast<size_t>(row)];
        if (place != nullptr) {
          return invalid_argument("row " + std::to_string(row) + " is on " + rank_name(*place->pack) + " and on " +
                                  rank_name(*part.pack));
        }
        place = &part;
      }
    }
    const auto missing = std::find(owner.begin(), owner.end(), nullptr);
    if (missing == owner.end()) return ok_status();
    return invalid_argument("row " + std::to_string(missing - owner.begin()) + " is on no rank");
  }

  Status join_prompt(const TapInfo& whole, const std::vector<Part>& parts, size_t p) {
    PromptRecord& prompt = out_.pack.prompts[p];
    TapRecord record;
    record.num_rows = whole_rows(whole, prompt);
    join_rows(whole, parts, p, record);
    const auto sampled = sampled_rows(out_.pack.layout, whole, prompt, record);
    const bool all_kept = static_cast<int64_t>(record.row_ids.size()) == record.num_rows;
    TapRecord recomputed;
    PromptRecord logits;
    recompute(whole, p, record, recomputed, logits);
    join_sketches(parts, p, sampled, record);
    join_counts(whole, parts, p, record);
    if (all_kept) {
      record.statistics = recomputed.statistics;
      record.histogram = recomputed.histogram;
    }
    const auto projections = static_cast<size_t>(out_.pack.layout.projections);
    for (size_t i = 0; i < sampled.size(); ++i) {  // where the row is there, everything is computed from it
      if (!std::binary_search(record.row_ids.begin(), record.row_ids.end(), sampled[i])) continue;
      record.norms[i] = recomputed.norms[i];
      std::copy_n(recomputed.sketch.begin() + static_cast<std::ptrdiff_t>(i * projections), projections,
                  record.sketch.begin() + static_cast<std::ptrdiff_t>(i * projections));
    }
    if (whole.name == "logits") FL_TRY(join_logits(parts, p, sampled, record, logits));
    prompt.taps.push_back(std::move(record));
    return ok_status();
  }

  // Rows that every part kept; of parts of the rows, those that any kept.
  static void join_rows(const TapInfo& whole, const std::vector<Part>& parts, size_t p, TapRecord& out) {
    const Split split = parts[0].info().part.split;
    std::map<int32_t, size_t> kept;
    for (const Part& part : parts) {
      for (const int32_t row : part.record(p).row_ids) ++kept[row];
    }
    for (const auto& [row, count] : kept) {
      if (split == Split::kRows || count == parts.size()) out.row_ids.push_back(row);
    }
    out.rows.reserve(out.row_ids.size() * static_cast<size_t>(whole.width));
    for (const int32_t row : out.row_ids) {
      std::vector<double> sum(static_cast<size_t>(whole.width), 0);
      for (const Part& part : parts) {
        const TapRecord& record = part.record(p);
        const auto place = std::lower_bound(record.row_ids.begin(), record.row_ids.end(), row);
        if (place == record.row_ids.end() || *place != row) continue;
        const int64_t width = part.info().width;
        const float* from = record.rows.data() + (place - record.row_ids.begin()) * width;
        const auto first = static_cast<size_t>(split == Split::kFeatures ? part.info().part.first_feature : 0);
        for (int64_t c = 0; c < width; ++c) sum[first + static_cast<size_t>(c)] += static_cast<double>(from[c]);
      }
      for (const double value : sum) out.rows.push_back(static_cast<float>(value));
    }
  }

  // What a recording of the whole would keep of those rows.
  void recompute(const TapInfo& whole, size_t p, const TapRecord& joined, TapRecord& out, PromptRecord& logits) const {
    Pack one;
    one.layout = out_.pack.layout;
    one.taps = {whole};
    auto& prompt = one.prompts.emplace_back();
    prompt.tokens = out_.pack.prompts[p].tokens;
    prompt.taps.emplace_back();
    auto builder = PackBuilder::like(one, one);
    for (size_t i = 0; i < joined.row_ids.size(); ++i) {
      const float* row = joined.rows.data() + static_cast<int64_t>(i) * whole.width;
      const auto type = tensor::Type::tensor(tensor::DType::kF32, {tensor::Dim(1), tensor::Dim(whole.width)});
      builder.add(0, 0, joined.row_ids[i], tensor::make_view(const_cast<float*>(row), type));
    }
    logits = std::move(builder).finish().prompts[0];
    out = logits.taps[0];
  }

  void join_sketches(const std::vector<Part>& parts, size_t p, const std::vector<int32_t>& sampled,
                     TapRecord& out) const {
    const auto projections = static_cast<size_t>(out_.pack.layout.projections);
    const Split split = parts[0].info().part.split;
    out.norms.assign(sampled.size(), 0);
    out.sketch.assign(sampled.size() * projections, 0);
    for (size_t i = 0; i < sampled.size(); ++i) {
      std::vector<double> sum(projections, 0);
      double squares = 0;
      std::vector<std::span<const float>> terms;
      for (const Part& part : parts) {
        const auto own = sampled_rows(out_.pack.layout, part.info(), part.pack->prompts[p], part.record(p));
        const auto place = std::lower_bound(own.begin(), own.end(), sampled[i]);
        if (place == own.end() || *place != sampled[i]) continue;
        const auto at = static_cast<size_t>(place - own.begin());
        const auto sketch = std::span(part.record(p).sketch).subspan(at * projections, projections);
        const double norm = part.record(p).norms[at];
        squares += norm * norm;
        for (size_t j = 0; j < projections; ++j) sum[j] += static_cast<double>(sketch[j]);
        // |x + y|^2 = |x|^2 + |y|^2 + 2 xy, and the projections estimate xy
        for (const auto& other : terms) squares += split == Split::kSum ? 2 * estimate_product(sketch, other) : 0;
        terms.push_back(sketch);
      }
      out.norms[i] = static_cast<float>(std::sqrt(std::max(squares, 0.0)));
      for (size_t j = 0; j < projections; ++j) out.sketch[i * projections + j] = static_cast<float>(sum[j]);
    }
  }

  // Histogram and statistics of disjoint elements; of terms of a sum there is no way to know.
  void join_counts(const TapInfo& whole, const std::vector<Part>& parts, size_t p, TapRecord& out) {
    if (parts.size() == 1) {
      out.histogram = parts[0].record(p).histogram;
      out.statistics = parts[0].record(p).statistics;
      return;
    }
    if (parts[0].info().part.split == Split::kSum) {
      for (const Part& part : parts)
        out.statistics.not_finite = std::max(out.statistics.not_finite, part.record(p).statistics.not_finite);
      if (!std::all_of(out.rows.begin(), out.rows.end(), is_plain))
        out.statistics.not_finite = std::max(out.statistics.not_finite, 1.0f);
      const auto all = static_cast<size_t>(out.num_rows);
      if (out.row_ids.size() == all) return;
      if (out_.unknown.empty() || out_.unknown.back() != whole.name) out_.unknown.push_back(whole.name);
      return;
    }
    double sum = 0, squares = 0, count = 0;
    Statistics& s = out.statistics;
    for (const Part& part : parts) {
      const Statistics& own = part.record(p).statistics;
      const double plain = static_cast<double>(own.count) - static_cast<double>(own.not_finite);
      if (plain > 0) {
        s.min = count > 0 ? std::min(s.min, own.min) : own.min;
        s.max = count > 0 ? std::max(s.max, own.max) : own.max;
      }
      s.absmax = std::max(s.absmax, own.absmax);
      s.count += own.count;
      s.not_finite += own.not_finite;
      s.zeros += own.zeros;
      count += plain;
      sum += plain * static_cast<double>(own.mean);
      squares += plain * static_cast<double>(own.rms) * static_cast<double>(own.rms);
      for (size_t b = 0; b < kHistogramBins; ++b) out.histogram[b] += part.record(p).histogram[b];
    }
    s.mean = static_cast<float>(sum / std::max(count, 1.0));
    s.rms = static_cast<float>(std::sqrt(squares / std::max(count, 1.0)));
  }

  Status join_logits(const std::vector<Part>& parts, size_t p, const std::vector<int32_t>& sampled,
                     const TapRecord& record, const PromptRecord& recomputed) {
    PromptRecord& prompt = out_.pack.prompts[p];
    constexpr auto kTop = static_cast<size_t>(kTopLogits);
    for (size_t i = 0; i < sampled.size(); ++i) {
      std::vector<std::pair<float, int32_t>> best;
      double most = -INFINITY;
      std::vector<double> log_sums;
      if (std::binary_search(record.row_ids.begin(), record.row_ids.end(), sampled[i])) {
        take_best(recomputed, i, best);
        log_sums.push_back(static_cast<double>(recomputed.log_sum_exp[i]));
      } else if (parts[0].info().part.split == Split::kSum) {
        return invalid_argument("logits as terms of a sum, of which row " + std::to_string(sampled[i]) +
                                " was not kept whole: record them with --full logits");
      } else {
        for (const Part& part : parts) {
          const auto own = sampled_rows(out_.pack.layout, part.info(), part.pack->prompts[p], part.record(p));
          const auto place = std::lower_bound(own.begin(), own.end(), sampled[i]);
          if (place == own.end() || *place != sampled[i]) continue;
          const auto at = static_cast<size_t>(place - own.begin());
          const PromptRecord& from = part.pack->prompts[p];
          if (at >= from.log_sum_exp.size()) return invalid_argument("a part without its largest logits");
          take_best(from, at, best);
          log_sums.push_back(static_cast<double>(from.log_sum_exp[at]));
        }
      }
      std::sort(best.begin(), best.end(), [](const auto& a, const auto& b) {
        return a.first != b.first ? a.first > b.first : a.second < b.second;
      });
      best.resize(kTop, {0.0f, -1});
      for (const auto& [logit, id] : best) {
        prompt.top_ids.push_back(id);
        prompt.top_logits.push_back(logit);
      }
      for (const double log_sum : log_sums) most = std::max(most, log_sum);
      double sum = 0;
      for (const double log_sum : log_sums) sum += std::exp(log_sum - most);
      prompt.log_sum_exp.push_back(log_sums.size() == 1 ? static_cast<float>(log_sums[0])
                                                        : static_cast<float>(most + std::log(sum)));
    }
    return ok_status();
  }

  static void take_best(const PromptRecord& from, size_t row, std::vector<std::pair<float, int32_t>>& best) {
    for (size_t k = row * kTopLogits; k < (row + 1) * kTopLogits; ++k) {
      if (from.top_ids[k] >= 0) best.emplace_back(from.top_logits[k], from.top_ids[k]);
    }
  }

  std::map<int64_t, const Pack*> by_rank_;
  Joined out_;
};

}  // namespace

Result<Joined> join_ranks(const std::vector<Pack>& ranks) {
  FL_TRY(check_ranks(ranks));
  return Joining(ranks).run();
}

}  // namespace firstlight::align
