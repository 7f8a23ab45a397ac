// SPDX-License-Identifier: Apache-2.0
#include "locate/shapes.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace firstlight::locate {
namespace {

std::span<const float> floats(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)};
}

// Relative L2; of integers: the share that differs.
double apart(const RowTable& wanted, const RowTable& found, bool integer) {
  double worst = 0;
  for (size_t p = 0; p < wanted.size(); ++p) {
    if (wanted[p].size() != found[p].size()) return INFINITY;
    double difference = 0, norm = 0;
    if (integer) {
      const size_t count = wanted[p].size() / sizeof(int32_t);
      size_t other = 0;
      for (size_t i = 0; i < count; ++i) {
        other += std::memcmp(&wanted[p][i * sizeof(int32_t)], &found[p][i * sizeof(int32_t)], sizeof(int32_t)) != 0;
      }
      worst = std::max(worst, count == 0 ? 0 : static_cast<double>(other) / static_cast<double>(count));
      continue;
    }
    const auto a = floats(wanted[p]), b = floats(found[p]);
    for (size_t i = 0; i < a.size(); ++i) {
      if (!align::is_plain(a[i]) && !align::is_plain(b[i])) continue;
      const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
      difference += d * d;
      norm += static_cast<double>(a[i]) * static_cast<double>(a[i]);
    }
    const double relative = std::sqrt(difference / std::max(norm, 1e-300));
    if (std::isnan(relative)) return INFINITY;
    if (difference > 0) worst = std::max(worst, relative);
  }
  return worst;
}

std::string range_text(const char* name, const std::vector<bool>& wrong) {
  const auto count = std::count(wrong.begin(), wrong.end(), true);
  const auto n = static_cast<std::ptrdiff_t>(wrong.size());
  if (count == 0 || 4 * count > 3 * n) return "";
  const auto first = std::find(wrong.begin(), wrong.end(), true) - wrong.begin();
  const auto last = n - 1 - (std::find(wrong.rbegin(), wrong.rend(), true) - wrong.rbegin());
  const bool whole = last - first + 1 == count;
  const std::string of = " of " + std::to_string(n);
  if (count == 1) return std::string(name) + " " + std::to_string(first) + of;
  if (whole) return std::string(name) + "s " + std::to_string(first) + " to " + std::to_string(last) + of;
  return std::to_string(count) + of + " " + name + "s, the first of them " + std::to_string(first);
}

}  // namespace

Result<ShapeProbe> ShapeProbe::create(const ir::Graph& graph, const Tap& target, const std::set<ir::ValueId>& known,
                                      const std::vector<Tap>& taps, const Prompts& prompts,
                                      const Resources& reference) {
  ShapeProbe probe;
  probe.target_ = target;
  probe.prompts_ = prompts;
  probe.reference_ = &reference;
  std::set<ir::ValueId> read;
  std::set<ir::ValueId> others = known;
  others.erase(target.value);
  for (const ir::NodeId id : nodes_behind(graph, target.value, others, &read)) {
    probe.reads_state_ = probe.reads_state_ || !graph.states_of(graph.node(id).operands).empty();
  }
  probe.cut_ = FL_TRY(cut_out(graph, target, others));
  std::vector<Tap> wanted;
  for (const Tap& tap : taps) {
    if (read.contains(tap.value)) wanted.push_back(tap);
  }
  probe.rows_ = FL_TRY(whole_rows(graph, wanted, prompts, {}, reference));
  return probe;
}

Prompts ShapeProbe::beginnings(int64_t tokens) const {
  Prompts out = prompts_;
  for (auto& prompt : out) {
    if (tokens > 0 && static_cast<int64_t>(prompt.size()) > tokens) prompt.resize(static_cast<size_t>(tokens));
  }
  return out;
}

Result<RowTable> ShapeProbe::reference_rows(const KnownRows& rows, const Prompts& prompts) const {
  return run_cut_rows(cut_, target_, rows, prompts, {}, *reference_);
}

Result<Reproduction> ShapeProbe::reproduction(int64_t tokens) const {
  Reproduction out{.graph = cut_, .rows = {}, .expected = {}};
  const Prompts prompts = beginnings(tokens);
  for (const auto& [id, rows] : rows_) {
    auto& table = out.rows[id];
    for (size_t p = 0; p < rows.size(); ++p) {  // rows come in order: of the first tokens, or groups of them
      const size_t size = rows[p].size() / prompts_[p].size() * prompts[p].size();
      table.emplace_back(rows[p].begin(), rows[p].begin() + static_cast<std::ptrdiff_t>(size));
    }
  }
  Pack head = {.origin = {{"kind", "firstlight"}, {"backend", "reference"}}};
  head.taps = {{.name = target_.name,
                .layer = target_.layer,
                .op = target_.op,
                .is_integer = target_.type.dtype == tensor::DType::kI32,
                .is_layer_output = target_.is_layer_output,
                .is_module_output = target_.is_module_output,
                .width = target_.width(),
                .rate = target_.rate()}};
  for (const auto& prompt : prompts) head.prompts.push_back({.tokens = prompt, .greedy = {}, .taps = {}});
  const Pack all = FL_TRY(PackBuilder::create(std::move(head), {"all"}, INT64_MAX / 4)).pack();
  out.expected = FL_TRY(run_cut(cut_, target_, rows_, all, {}, *reference_));
  return out;
}

double ShapeProbe::error(const Resources& backend, const RunOptions& run, int64_t tokens) const {
  const Prompts prompts = beginnings(tokens);
  const auto wanted = reference_rows(rows_, prompts);
  const auto found = run_cut_rows(cut_, target_, rows_, prompts, run, backend);
  if (!wanted.ok() || !found.ok()) return INFINITY;
  return apart(*wanted, *found, target_.type.dtype == tensor::DType::kI32);
}

ShapeProbe::Lengths ShapeProbe::try_lengths(const Resources& backend, double allowed, int64_t& tried) const {
  constexpr int64_t kAll = 34;  // up to here every length, then around multiples of 32 and the whole prompt
  int64_t longest = 0;
  for (const auto& prompt : prompts_) longest = std::max(longest, static_cast<int64_t>(prompt.size()));
  std::set<int64_t> lengths = {longest};
  for (int64_t n = 1; n <= std::min(longest, kAll); ++n) lengths.insert(n);
  for (int64_t n = 64; n <= longest && lengths.size() < 2 * kAll; n *= 2) {
    for (const int64_t near : {n - 1, n, n + 1}) {
      if (near <= longest) lengths.insert(near);
    }
  }
  Lengths out;
  for (const int64_t n : lengths) {
    ++tried;
    (error(backend, {}, n) > allowed ? out.wrong : out.right).push_back(n);
  }
  return out;
}

int64_t ShapeProbe::fewest_tokens(const Resources& backend, double allowed, int64_t& tried) const {
  const Lengths lengths = try_lengths(backend, allowed, tried);
  return lengths.wrong.empty() ? 0 : lengths.wrong[0];
}

std::string ShapeProbe::lengths(const Resources& backend, double allowed, int64_t& tried) const {
  const Lengths lengths = try_lengths(backend, allowed, tried);
  const auto& [wrong, right] = lengths;
  if (wrong.empty() || right.empty()) return "";
  if (wrong == std::vector<int64_t>{1}) return "with one token alone";
  if (wrong.front() > right.back()) return "from " + std::to_string(wrong.front()) + " tokens on";
  for (const int64_t block : {64, 32, 16, 8, 4, 3, 2}) {
    const auto divides = [&](int64_t n) { return n % block == 0; };
    if (std::none_of(wrong.begin(), wrong.end(), divides) && std::all_of(right.begin(), right.end(), divides))
      return "with token counts that " + std::to_string(block) + " does not divide";
    // A tail shows only where a whole block stands before it.
    const auto after_one = [&](int64_t n) { return n < block || divides(n); };
    if (std::none_of(wrong.begin(), wrong.end(), after_one) && std::all_of(right.begin(), right.end(), after_one))
      return "behind whole blocks of " + std::to_string(block) + " tokens";
  }
  std::string text = "with";
  for (size_t i = 0; i < std::min<size_t>(wrong.size(), 6); ++i)
    text += (i > 0 ? ", " : " ") + std::to_string(wrong[i]);
  return text + (wrong.size() > 6 ? ", … tokens" : " tokens");
}

ShapeProbe::Profile ShapeProbe::profile(const Resources& backend, const RunOptions& run, double allowed) const {
  Profile out;
  const auto wanted = reference_rows(rows_, prompts_);
  const auto found = run_cut_rows(cut_, target_, rows_, prompts_, run, backend);
  if (!wanted.ok() || !found.ok() || target_.type.dtype == tensor::DType::kI32) return out;
  const auto width = static_cast<size_t>(target_.width());
  size_t longest = 0;
  for (const auto& rows : *wanted) longest = std::max(longest, floats(rows).size() / width);
  double squares = 0, errors = 0, worst = 0;
  size_t count = 0;
  for (size_t p = 0; p < wanted->size(); ++p) {
    const auto a = floats((*wanted)[p]), b = floats((*found)[p]);
    for (size_t i = 0; i < std::min(a.size(), b.size()); ++i, ++count) {
      const double d = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
      squares += static_cast<double>(a[i]) * static_cast<double>(a[i]);
      errors += d * d;
      worst = std::max(worst, d);
    }
  }
  const double usual = std::sqrt(squares / static_cast<double>(std::max<size_t>(count, 1)));
  const double off = std::sqrt(errors / static_cast<double>(std::max<size_t>(count, 1)));
  const double limit = std::max(allowed * usual, off / 50);
  std::vector<bool> columns(width, false), rows(longest, false);
  size_t wrong = 0;
  for (size_t p = 0; p < wanted->size(); ++p) {
    const auto a = floats((*wanted)[p]), b = floats((*found)[p]);
    for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
      if (!(std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])) > limit)) continue;
      ++wrong;
      columns[i % width] = true;
      rows[i / width] = true;
    }
  }
  for (const std::string& text : {range_text("row", rows), range_text("column", columns)}) {
    if (!text.empty()) out.where += (out.where.empty() ? "" : ", ") + text;
  }
  constexpr double kMost = 0.02, kPeak = 8;  // of rounding to seven bits, and of the largest of some thousand numbers
  out.everywhere = out.where.empty() && 2 * wrong > count;
  out.like_noise = out.everywhere && off < kMost * usual && worst < kPeak * off;
  return out;
}

std::optional<bool> ShapeProbe::error_is_linear(const Resources& backend) const {
  const bool product = std::any_of(cut_.body.nodes.begin(), cut_.body.nodes.end(),
                                   [&](ir::NodeId id) { return cut_.node(id).op == ops::OpKind::kLinear; });
  const bool simple = std::all_of(cut_.body.nodes.begin(), cut_.body.nodes.end(), [&](ir::NodeId id) {
    const auto op = cut_.node(id).op;
    return op == ops::OpKind::kLinear || op == ops::OpKind::kReshape || op == ops::OpKind::kCast ||
           op == ops::OpKind::kDequantize || op == ops::OpKind::kTranspose;
  });
  if (!product || !simple || rows_.size() != 1) return std::nullopt;
  // Every row but the first becomes the sum of itself and the one before.
  KnownRows summed = rows_;
  for (auto& bytes : summed.begin()->second) {
    auto* numbers = reinterpret_cast<float*>(bytes.data());
    const auto prompt = static_cast<size_t>(&bytes - summed.begin()->second.data());
    const size_t width = bytes.size() / sizeof(float) / prompts_[prompt].size();
    for (size_t i = bytes.size() / sizeof(float); i-- > width;) numbers[i] += numbers[i - width];
  }
  const auto wanted = reference_rows(rows_, prompts_), wanted_sum = reference_rows(summed, prompts_);
  const auto found = run_cut_rows(cut_, target_, rows_, prompts_, {}, backend);
  const auto found_sum = run_cut_rows(cut_, target_, summed, prompts_, {}, backend);
  if (!wanted.ok() || !wanted_sum.ok() || !found.ok() || !found_sum.ok()) return std::nullopt;
  const auto width = static_cast<size_t>(target_.width());
  double of_sum = 0, rest = 0;
  for (size_t p = 0; p < wanted->size(); ++p) {
    const auto a = floats((*wanted)[p]), b = floats((*found)[p]);
    const auto c = floats((*wanted_sum)[p]), d = floats((*found_sum)[p]);
    for (size_t i = width; i < a.size(); ++i) {
      const double e = static_cast<double>(d[i]) - static_cast<double>(c[i]);
      const double parts = static_cast<double>(b[i]) - static_cast<double>(a[i]) + static_cast<double>(b[i - width]) -
                           static_cast<double>(a[i - width]);
      of_sum += e * e;
      rest += (e - parts) * (e - parts);
    }
  }
  constexpr double kLinear = 0.1;  // independent roundings: about 2
  if (of_sum == 0) return std::nullopt;
  return rest < kLinear * of_sum;
}

}  // namespace firstlight::locate
