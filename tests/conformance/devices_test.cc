// SPDX-License-Identifier: Apache-2.0
// Every kernel of the device dialect against the reference body of its operator, on every case that its row accepts: on
// simt with warps of 32, 64 and 128 lanes, every access checked, and on OpenCL where there is a platform.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "compare.h"
#include "device/open.h"
#include "hostile.h"
#include "ledger.h"
#include "run_device_case.h"

namespace firstlight::conformance {
namespace {

using catalog::Backend;
using catalog::ComputeMode;
using catalog::KernelRow;

struct Place {
  std::string name;
  target::DeviceKind kind;
  Backend backend;
  int warp_width;
};

const std::vector<Place>& places() {
  static const std::vector<Place> all = {{"simt32", target::DeviceKind::kSimt, Backend::kSimt, 32},
                                         {"simt64", target::DeviceKind::kSimt, Backend::kSimt, 64},
                                         {"simt128", target::DeviceKind::kSimt, Backend::kSimt, 128},
                                         {"opencl", target::DeviceKind::kOpencl, Backend::kOpencl, 0}};
  return all;
}

// Opened once per place; modules are kept for all tests.
struct Opened {
  std::unique_ptr<device::Device> device;
  std::unique_ptr<kernels::DeviceModules> modules;
  std::string absent;  // why there is none
};

Opened& opened(const Place& place) {
  static std::map<std::string, Opened> all;
  const auto [at, is_new] = all.try_emplace(place.name);
  if (!is_new) return at->second;
  auto device = device::open_device(
      place.kind,
      {.cache_dir = FL_CACHE_DIR, .warp_width = place.warp_width, .checked = place.kind == target::DeviceKind::kSimt});
  if (!device.ok()) {
    at->second.absent = device.status().message();
    return at->second;
  }
  at->second.device = *std::move(device);
  at->second.modules = std::make_unique<kernels::DeviceModules>(*at->second.device);
  return at->second;
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all = all_cases();
  return all;
}

// What the reference says, computed once per case.
const Outcome& wanted_of(size_t index) {
  static std::map<size_t, Outcome> all;
  const auto [at, is_new] = all.try_emplace(index);
  if (is_new) {
    const Case& c = cases()[index];
    const auto operands = operand_types(c);
    const auto results = result_types(c);
    const KernelRow* row = catalog::select_kernel(Backend::kReference, {}, {c.op, operands, results, c.attributes});
    ThreadPool pool({1, false, 0});
    at->second = run_case(c, *row, ComputeMode::kF32, pool).value();
  }
  return at->second;
}

class DialectTest : public testing::TestWithParam<std::tuple<size_t, size_t>> {};

const std::vector<KernelRow>& rows() {
  static const std::vector<KernelRow> all = [] {
    std::vector<KernelRow> found;
    for (const KernelRow& row : catalog::all_kernels()) {
      if (row.backend == Backend::kSimt) found.push_back(row);
    }
    return found;
  }();
  return all;
}

TEST_P(DialectTest, AgreesWithTheReference) {
  const KernelRow& row = rows()[std::get<0>(GetParam())];
  Opened& place = opened(places()[std::get<1>(GetParam())]);
  if (place.device == nullptr) GTEST_SKIP() << place.absent;
  int ran = 0;
  Ledger ledger;
  for (size_t index = 0; index < cases().size(); ++index) {
    const Case& c = cases()[index];
    const auto operands = operand_types(c);
    const auto results = result_types(c);
    if (c.op != row.op || !row.accepts({c.op, operands, results, c.attributes})) continue;
    const std::string where = std::string(ops::op_name(c.op)) + " \"" + c.name + "\"";
    const auto found = run_device_case(c, row, *place.modules);
    if (!found.ok() && found.code() == StatusCode::kUnsupported) continue;  // refused by name
    ASSERT_TRUE(found.ok()) << where << ": " << found.status().message();
    const Outcome& wanted = wanted_of(index);
    const Judgement judgement = judge_outcome(c, *found, wanted, stated_limits(c, wanted, ComputeMode::kF32));
    EXPECT_EQ(judgement.difference, "") << where;
    ledger.add(places()[std::get<1>(GetParam())].name, c, judgement);
    ++ran;
  }
  ledger.record();
  EXPECT_GT(ran, 0) << "no case for this row";
}

std::string place_name(const testing::TestParamInfo<std::tuple<size_t, size_t>>& info) {
  return std::string(rows()[std::get<0>(info.param)].symbol) + "_on_" + places()[std::get<1>(info.param)].name;
}

INSTANTIATE_TEST_SUITE_P(Catalog, DialectTest,
                         testing::Combine(testing::Range(size_t{0}, rows().size()),
                                          testing::Range(size_t{0}, places().size())),
                         place_name);

// Hostile values, sizes and batches (hostile.h), one test per operator: every variant on OpenCL and on one width of
// simt, the widths in turn.
class DialectHostileTest : public testing::TestWithParam<ops::OpKind> {
 protected:
  void run(const Variant& variant, const KernelRow& row, const Place& place) {
    Opened& at = opened(place);
    if (at.device == nullptr) return;
    const Case& c = variant.c;
    const auto found = run_device_case(c, row, *at.modules);
    if (!found.ok() && found.code() == StatusCode::kUnsupported) return;  // refused by name
    Judgement judgement;
    if (found.ok()) {
      judgement = judge_outcome(c, *found, wanted_, limits_);
    } else {
      judgement.difference = found.status().message();
    }
    EXPECT_EQ(judgement.difference, "") << row.symbol << "@" << place.name << " \"" << c.name << "\"";
    ledger_.add(place.name, c, judgement);
  }

  void run_all(const Variant& variant, size_t number) {
    const Case& c = variant.c;
    const auto operands = operand_types(c);
    const auto results = result_types(c);
    bool has_limits = false;
    for (const KernelRow& row : rows()) {
      if (row.op != c.op || !row.accepts({c.op, operands, results, c.attributes})) continue;
      if (!has_limits) {
        const auto* judge_row =
            catalog::select_kernel(Backend::kReference, {}, {c.op, operands, results, c.attributes});
        ThreadPool pool({1, false, 0});
        wanted_ = run_case(c, *judge_row, ComputeMode::kF32, pool).value();
        limits_ = derived_limits(c, wanted_, ComputeMode::kF32, true);
        has_limits = true;
      }
      run(variant, row, places()[number % 3]);
      run(variant, row, places()[3]);
    }
  }

  Outcome wanted_;
  Limits limits_;
  Ledger ledger_;
};

TEST_P(DialectHostileTest, AgreesWithTheReference) {
  constexpr size_t kMostBytes = 400'000;  // simt checks every access
  size_t number = 0;
  for (const Variant& variant : hostile_cases(GetParam())) {
    size_t bytes = 0;
    for (const Tensor& t : variant.c.operands) bytes += t.data.size();
    if (bytes <= kMostBytes) run_all(variant, number++);
  }
  ledger_.record();
}

std::vector<ops::OpKind> operators_with_rows() {
  std::vector<ops::OpKind> kinds;
  for (const KernelRow& row : rows()) {
    if (std::find(kinds.begin(), kinds.end(), row.op) == kinds.end()) kinds.push_back(row.op);
  }
  return kinds;
}

INSTANTIATE_TEST_SUITE_P(Catalog, DialectHostileTest, testing::ValuesIn(operators_with_rows()),
                         [](const auto& tested) { return std::string(ops::op_name(tested.param)); });

}  // namespace
}  // namespace firstlight::conformance
