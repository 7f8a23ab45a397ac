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

// An error as rows of numbers, beside the right values.
struct Errors {
  size_t width = 1;
  std::vector<double> right, off;

  Errors(const RowTable& wanted, const RowTable& found, size_t row_width) : width(row_width) {
    for (size_t p = 0; p < wanted.size(); ++p) {
      const auto a = floats(wanted[p]), b = floats(found[p]);
      for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
        right.push_back(a[i]);
        off.push_back(static_cast<double>(b[i]) - static_cast<double>(a[i]));
      }
    }
  }
  size_t rows() const { return off.size() / width; }
};

double energy(const std::vector<double>& values) {
  double sum = 0;
  for (const double x : values) sum += x * x;
  return sum;
}

// What is left of the error's energy when each row's own multiple of `like` (one row, or the row itself where it is
// empty) is taken away.
double without_multiples(const Errors& errors, std::span<const double> like) {
  double rest = 0;
  for (size_t r = 0; r < errors.rows(); ++r) {
    const double* e = errors.off.data() + r * errors.width;
    const double* a = like.empty() ? errors.right.data() + r * errors.width : like.data();
    double product = 0, squares = 0, own = 0;
    for (size_t c = 0; c < errors.width; ++c) {
      product += e[c] * a[c];
      squares += a[c] * a[c];
      own += e[c] * e[c];
    }
    rest += own - (squares > 0 ? product * product / squares : 0);
  }
  return rest;
}

// The row whose error is largest.
std::span<const double> worst_row(const Errors& errors) {
  size_t worst = 0;
  double most = -1;
  for (size_t r = 0; r < errors.rows(); ++r) {
    double sum = 0;
    for (size_t c = 0; c < errors.width; ++c)
      sum += errors.off[r * errors.width + c] * errors.off[r * errors.width + c];
    if (sum > most) worst = r, most = sum;
  }
  return std::span(errors.off).subspan(worst * errors.width, errors.width);
}

// Of the error's energy, what is the same in every row.
double constant_share(const Errors& errors) {
  double constant = 0;
  for (size_t c = 0; c < errors.width; ++c) {
    double mean = 0;
    for (size_t r = 0; r < errors.rows(); ++r) mean += errors.off[r * errors.width + c];
    constant += mean * mean / static_cast<double>(errors.rows());
  }
  return constant / std::max(energy(errors.off), 1e-300);
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

// Of `tokens` 0: all prompts, whole; else the longest one's first tokens.
ShapeProbe::Cutting ShapeProbe::beginning(int64_t tokens) const {
  if (tokens == 0) return {prompts_, rows_};
  size_t longest = 0;
  for (size_t p = 0; p < prompts_.size(); ++p) {
    if (prompts_[p].size() > prompts_[longest].size()) longest = p;
  }
  Cutting out;
  const auto count = std::min(static_cast<size_t>(tokens), prompts_[longest].size());
  out.prompts.emplace_back(prompts_[longest].begin(), prompts_[longest].begin() + static_cast<std::ptrdiff_t>(count));
  for (const auto& [id, rows] : rows_) out.rows[id] = {rows[longest]};
  return out;
}

Result<RowTable> ShapeProbe::reference_rows(const KnownRows& rows, const Prompts& prompts) const {
  return run_cut_rows(cut_, target_, rows, prompts, {}, *reference_);
}

Result<Reproduction> ShapeProbe::reproduction(int64_t tokens) const {
  const Cutting cutting = beginning(tokens);
  const Prompts& prompts = cutting.prompts;
  Reproduction out{.graph = cut_, .rows = cutting.rows, .expected = {}};
  for (auto& [id, rows] : out.rows) {
    for (size_t p = 0; p < rows.size(); ++p) {  // rows come in order: of the first tokens, or groups of them
      const size_t whole = tokens == 0 ? prompts_[p].size() : longest();
      rows[p].resize(rows[p].size() / whole * prompts[p].size());
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
  out.expected = FL_TRY(run_cut(cut_, target_, cutting.rows, all, {}, *reference_));
  return out;
}

double ShapeProbe::error(const Resources& backend, const RunOptions& run, int64_t tokens) const {
  const auto [prompts, rows] = beginning(tokens);
  const auto wanted = reference_rows(rows, prompts);
  const auto found = run_cut_rows(cut_, target_, rows, prompts, run, backend);
  if (!wanted.ok() || !found.ok()) return INFINITY;
  return apart(*wanted, *found, target_.type.dtype == tensor::DType::kI32);
}

size_t ShapeProbe::longest() const {
  size_t most = 0;
  for (const auto& prompt : prompts_) most = std::max(most, prompt.size());
  return most;
}

ShapeProbe::Lengths ShapeProbe::try_lengths(const Resources& backend, double allowed, int64_t& tried) const {
  constexpr int64_t kAll = 34;  // up to here every length, then around multiples of 32 and the whole prompt
  const auto most = static_cast<int64_t>(longest());
  std::set<int64_t> lengths = {most};
  for (int64_t n = 1; n <= std::min(most, kAll); ++n) lengths.insert(n);
  for (int64_t n = 64; n <= most && lengths.size() < 2 * kAll; n *= 2) {
    for (const int64_t near : {n - 1, n, n + 1}) {
      if (near <= most) lengths.insert(near);
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
  const Errors errors(*wanted, *found, width);
  const auto count = static_cast<double>(std::max<size_t>(errors.off.size(), 1));
  const double usual = std::sqrt(energy(errors.right) / count), off = std::sqrt(energy(errors.off) / count);
  const double limit = std::max(allowed * usual, off / 50);
  size_t longest = 0;
  for (const auto& rows : *wanted) longest = std::max(longest, floats(rows).size() / width);
  std::vector<bool> columns(width, false), rows(longest, false);
  double wrong = 0, worst = 0;
  size_t place = 0;
  for (const auto& table : *wanted) {
    for (size_t i = 0; i < floats(table).size(); ++i, ++place) {
      const double d = std::abs(errors.off[place]);
      worst = std::max(worst, d);
      if (!(d > limit)) continue;
      ++wrong;
      columns[i % width] = true;
      rows[i / width] = true;
    }
  }
  for (const std::string& text : {range_text("row", rows), range_text("column", columns)}) {
    if (!text.empty()) out.where += (out.where.empty() ? "" : ", ") + text;
  }
  // Rounding to seven bits is below 2 %, its largest of some thousand errors below 8 times the usual one; it is no
  // multiple of the row, and another one in every row.
  constexpr double kMost = 0.02, kPeak = 8, kLeft = 0.1, kConstant = 0.5;
  out.everywhere = out.where.empty() && 2 * wrong > count;
  out.like_noise = out.everywhere && off < kMost * usual && worst < kPeak * off &&
                   without_multiples(errors, {}) > kLeft * energy(errors.off) && constant_share(errors) < kConstant;
  constexpr double kOneTerm = 0.05;
  out.one_term = out.everywhere && errors.rows() > 2 &&
                 without_multiples(errors, worst_row(errors)) < kOneTerm * energy(errors.off);
  if (out.one_term) out.where = "every row by a multiple of the same: a term of its sums";
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
