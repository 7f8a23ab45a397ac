// SPDX-License-Identifier: Apache-2.0
// What only operators with a state of their own must hold: the state afterwards is the formula's, and it does not
// matter into how many runs a sequence is cut.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "device/cpu/detect.h"
#include "formulas.h"
#include "case.h"
#include "judge/run_case.h"

namespace firstlight::conformance {
namespace {

using catalog::Backend;
using catalog::ComputeMode;
using catalog::KernelRow;

std::vector<Case> cases() {
  std::vector<Case> out;
  for (Case& c : recurrence_cases()) {
    if (!is_recurrence(c.op)) continue;
    FL_CHECK(ops::check_attributes(ops::op_def(c.op), c.attributes).ok());
    out.push_back(std::move(c));
  }
  return out;
}

size_t component_of(const Case& c) {
  return static_cast<size_t>(c.state[0].decl.component_index(c.attributes.get_string("component")));
}

void expect_near(const std::vector<double>& found, const std::vector<double>& wanted, const Bound& bound,
                 const std::string& where) {
  ASSERT_EQ(found.size(), wanted.size()) << where;
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_LE(std::fabs(found[i] - wanted[i]), bound.absolute + bound.relative * std::fabs(wanted[i]))
        << where << ", element " << i << ": found " << found[i] << ", wanted " << wanted[i];
  }
}

// Results and states, the pieces put together.
struct Pieces {
  std::vector<double> y;
  std::vector<std::vector<double>> state;
};

// The rows of a [T, …] operand that the pieces starting at `done` take; other operands as they are.
Tensor piece_of(const Tensor& whole, const std::vector<int64_t>& rows, int64_t total) {
  if (whole.type.is_state() || whole.type.shape[0] != tensor::Dim(total)) return whole;
  Tensor out = whole;
  const size_t bytes = total == 0 ? 0 : whole.data.size() / static_cast<size_t>(total);
  out.type.shape[0] = tensor::Dim(static_cast<int64_t>(rows.size()));
  out.data.clear();
  for (const int64_t row : rows) {
    const auto* from = whole.data.data() + static_cast<size_t>(row) * bytes;
    out.data.insert(out.data.end(), from, from + bytes);
  }
  return out;
}

// Which operands have a row per token: all but weights, whose first axis might have that size by chance.
bool is_per_token(const Case& c, size_t operand) {
  const std::string_view name = ops::op_def(c.op).operands[operand].name;
  if (name == "weight" || name == "bias" || name == "bonus") return false;
  if (name == "a" && c.op == ops::OpKind::kRecurSelective) return false;
  return !(name == "decay" && c.operands[operand].type.shape.size() == 1);
}

// Runs every sequence `chunk` tokens at a time, all sequences side by side.
Pieces run_in_pieces(const Case& c, const KernelRow& row, int64_t chunk, ThreadPool& pool) {
  const State& whole = c.state[0];
  const size_t component = component_of(c);
  int64_t total = 0;
  std::vector<int64_t> first;
  for (const Sequence& s : whole.sequences) {
    first.push_back(total);
    total += s.num_tokens;
  }
  std::vector<int64_t> done(whole.sequences.size(), 0);
  Case piece = c;
  Pieces out;
  const std::vector<tensor::Type> types = result_types(c);
  const auto width = static_cast<size_t>(total == 0 ? 0 : tensor::num_elements(types[0].shape) / total);
  out.y.resize(static_cast<size_t>(total) * width);
  for (bool more = true; more;) {
    more = false;
    std::vector<int64_t> rows;
    for (size_t s = 0; s < done.size(); ++s) {
      const int64_t count = std::min(chunk, whole.sequences[s].num_tokens - done[s]);
      piece.state[0].sequences[s] = {whole.sequences[s].start_position + done[s], count, 0};
      for (int64_t i = 0; i < count; ++i) rows.push_back(first[s] + done[s] + i);
      done[s] += count;
      more = more || done[s] < whole.sequences[s].num_tokens;
    }
    for (size_t i = 0; i < c.operands.size(); ++i) {
      if (is_per_token(c, i)) piece.operands[i] = piece_of(c.operands[i], rows, total);
    }
    const auto found = run_case(piece, row, ComputeMode::kF32, pool);
    FL_CHECK(found.ok());
    const std::vector<double> y = found->results[0].values();
    for (size_t r = 0; r < rows.size(); ++r) {
      std::copy_n(y.begin() + static_cast<std::ptrdiff_t>(r * width), width,
                  out.y.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(rows[r]) * width));
    }
    out.state.clear();
    for (size_t s = 0; s < done.size(); ++s) {
      out.state.push_back(fixed_component(whole, component, found->pages[s]));
      piece.state[0].rows[component][s].assign(out.state[s].begin(), out.state[s].end());
    }
  }
  return out;
}

const KernelRow& reference_row(ops::OpKind op) {
  for (const KernelRow& row : catalog::all_kernels()) {
    if (row.op == op && row.backend == Backend::kReference) return row;
  }
  FL_CHECK(false);
}

TEST(Recurrences, TheReferenceLeavesTheStateThatTheFormulaSays) {
  ThreadPool pool({2, false, 20});
  for (const Case& c : cases()) {
    const RecurrenceAnswer wanted = recurrence(c);
    const Pieces found = run_in_pieces(c, reference_row(c.op), 1 << 20, pool);
    for (size_t s = 0; s < wanted.state.size(); ++s) {
      expect_near(found.state[s], wanted.state[s], {1e-12, 1.2e-7},
                  std::string(ops::op_name(c.op)) + " \"" + c.name + "\" sequence " + std::to_string(s));
    }
  }
}

class RecurrenceRowTest : public testing::TestWithParam<KernelRow> {};

TEST_P(RecurrenceRowTest, PiecesGiveWhatTheWholeGives) {
  const KernelRow& row = GetParam();
  if (!device::detect_cpu().features.has(row.needs)) {
    GTEST_SKIP() << "needs a CPU with " << target::features_to_string(row.needs);
  }
  ThreadPool pool({2, false, 20});
  int ran = 0;
  for (const Case& c : cases()) {
    const auto operands = operand_types(c);
    const auto results = result_types(c);
    if (c.op != row.op || !row.accepts({c.op, operands, results, c.attributes})) continue;
    const Pieces wanted = run_in_pieces(c, reference_row(c.op), 1 << 20, pool);
    for (const int64_t chunk : {1, 7, 64}) {
      const std::string where =
          std::string(ops::op_name(c.op)) + " \"" + c.name + "\" in pieces of " + std::to_string(chunk);
      const Pieces found = run_in_pieces(c, row, chunk, pool);
      expect_near(found.y, wanted.y, c.bound, where);
      for (size_t s = 0; s < wanted.state.size(); ++s) {
        expect_near(found.state[s], wanted.state[s], c.bound, where + ", state of sequence " + std::to_string(s));
      }
      ++ran;
    }
  }
  EXPECT_GT(ran, 0) << "no case for this row";
}

// Row `row` of an operand is no number.
Case with_nan_row(const Case& c, size_t operand, int64_t row) {
  Case out = c;
  Tensor& t = out.operands[operand];
  const auto width = static_cast<size_t>(tensor::num_elements(t.type.shape) / t.type.shape[0].factor);
  const std::vector<float> nothing(width, std::nanf(""));
  std::memcpy(t.data.data() + static_cast<size_t>(row) * width * sizeof(float), nothing.data(), width * sizeof(float));
  return out;
}

TEST_P(RecurrenceRowTest, ARowThatIsNoNumberSpoilsNothingBeforeItAndNoOtherSequence) {
  const KernelRow& row = GetParam();
  if (!device::detect_cpu().features.has(row.needs)) {
    GTEST_SKIP() << "needs a CPU with " << target::features_to_string(row.needs);
  }
  ThreadPool pool({2, false, 20});
  for (const Case& c : cases()) {
    const auto operands = operand_types(c);
    const auto results = result_types(c);
    if (c.op != row.op || !row.accepts({c.op, operands, results, c.attributes})) continue;
    const int64_t first = c.state[0].sequences[0].num_tokens;  // tokens of the first sequence
    const int64_t total = results[0].shape[0].factor;
    if (first < 8) continue;
    constexpr int64_t kSpoilt = 5;
    const std::vector<double> clean = run_case(c, row, ComputeMode::kF32, pool).value().results[0].values();
    const auto width = static_cast<int64_t>(clean.size()) / total;
    for (size_t i = 0; i < c.operands.size(); ++i) {
      if (c.operands[i].type.is_state() || !is_per_token(c, i)) continue;
      const auto y = run_case(with_nan_row(c, i, kSpoilt), row, ComputeMode::kF32, pool).value().results[0].values();
      const std::string where = std::string(ops::op_name(c.op)) + " \"" + c.name + "\" operand " + std::to_string(i);
      for (int64_t at = 0; at < total * width; ++at) {
        if (at / width >= kSpoilt && at / width < first) continue;
        ASSERT_EQ(y[static_cast<size_t>(at)], clean[static_cast<size_t>(at)]) << where << ", row " << at / width;
      }
      const auto spoilt = y.begin() + kSpoilt * width;
      EXPECT_TRUE(std::any_of(spoilt, spoilt + 2 * width, [](double v) { return std::isnan(v); })) << where;
    }
  }
}

constexpr int64_t kLong = 4096;
constexpr int64_t kVeryLong = 65536;

// One long sequence with factors near 1, so that much of its beginning is still there at its end; small heads where it
// is very long.
Case long_case(ops::OpKind op, bool by_key, int64_t tokens) {
  const int64_t heads = 2, key = tokens > kLong ? 24 : 64, value = tokens > kLong ? 16 : 48;
  Data data(1000);
  const auto floats = [&](tensor::Shape shape, double scale) { return data.floats(tensor::DType::kF32, shape, scale); };
  const auto map_values = [](Tensor t, auto&& f) {
    std::vector<float> values;
    for (const double v : t.values()) values.push_back(static_cast<float>(f(v)));
    return Data::from(t.type.shape, values);
  };
  const double scale = 1 / std::sqrt(static_cast<double>(key));  // rows of about unit length
  tensor::Shape shape = {tokens, heads};
  if (by_key) shape.emplace_back(key);
  std::vector<Tensor> operands = {floats({tokens, heads, key}, scale), floats({tokens, heads, key}, 0.9 * scale),
                                  floats({tokens, heads, value}, 1),
                                  map_values(floats(shape, 1), [](double v) { return -0.002 * std::fabs(v); })};
  if (op == ops::OpKind::kRecurDelta) {
    operands.push_back(map_values(floats({tokens, heads}, 1), [](double v) { return 1 / (1 + std::exp(-v)); }));
  }
  operands.push_back(Data::state());
  State state;
  state.decl.name = "s.0";
  state.decl.kind = ops::StateKind::kFixed;
  state.decl.components = {{"s", heads * key, value, tensor::DType::kF32}};
  state.page_rows = 1;
  state.sequences = {{0, tokens, 0}};
  state.rows = {{std::vector<float>(static_cast<size_t>(heads * key * value), 0.0f)}};
  // docs/numerics.md has the worst case, far above this; roundings are as often up as down and the worst seen
  // is 1.3e-5.
  return {"long", op, attributes("{component = \"s\"}"), std::move(operands), {std::move(state)}, {5e-5, 5e-5}};
}

class LongRecurrenceTest : public RecurrenceRowTest {};

TEST_P(LongRecurrenceTest, StaysWithinItsBound) {
  const KernelRow& row = GetParam();
  if (!device::detect_cpu().features.has(row.needs)) {
    GTEST_SKIP() << "needs a CPU with " << target::features_to_string(row.needs);
  }
  ThreadPool pool({2, false, 20});
  for (const auto& [tokens, by_key] : {std::pair{kLong, false}, std::pair{kLong, true}, std::pair{kVeryLong, true}}) {
    const Case c = long_case(row.op, by_key, tokens);
    const Pieces wanted = run_in_pieces(c, reference_row(c.op), 1 << 20, pool);
    for (const int64_t chunk : {1 << 20, 1000}) {
      const std::string where = std::to_string(tokens) + (by_key ? " tokens by key" : " tokens by head");
      const Pieces found = run_in_pieces(c, row, chunk, pool);
      expect_near(found.y, wanted.y, c.bound, where);
      expect_near(found.state[0], wanted.state[0], c.bound, where + ", state");
    }
  }
}

std::vector<KernelRow> recurrence_rows() {
  std::vector<KernelRow> rows;
  for (const KernelRow& row : catalog::all_kernels()) {
    const bool on_host =
        row.backend == Backend::kReference || row.backend == Backend::kCpu;  // devices_test.cc has the others
    if (on_host && is_recurrence(row.op)) rows.push_back(row);
  }
  return rows;
}

// The fast rows of the forms whose state is a matrix and whose tokens are taken in chunks.
std::vector<KernelRow> chunked_rows() {
  std::vector<KernelRow> rows;
  for (const KernelRow& row : recurrence_rows()) {
    const bool has_chunks = row.op == ops::OpKind::kRecurGla || row.op == ops::OpKind::kRecurDelta;
    if (has_chunks && row.backend == Backend::kCpu && row.rank > 0) rows.push_back(row);
  }
  return rows;
}

std::string row_name(const testing::TestParamInfo<KernelRow>& info) {
  return std::string(info.param.symbol) + "_on_" + std::string(catalog::backend_name(info.param.backend));
}

INSTANTIATE_TEST_SUITE_P(Catalog, LongRecurrenceTest, testing::ValuesIn(chunked_rows()), row_name);
INSTANTIATE_TEST_SUITE_P(Catalog, RecurrenceRowTest, testing::ValuesIn(recurrence_rows()), row_name);

}  // namespace
}  // namespace firstlight::conformance
