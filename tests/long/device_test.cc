// SPDX-License-Identifier: Apache-2.0
// Devices over long logs: a pool of more than 4 GiB, of which only the pages that are used ever exist, with the 2,048
// pages of a sequence of 131,072 tokens spread all over it. Rows are appended on both sides of 2 GiB and 4 GiB, and
// attend reads all of it; angles far out.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "attend_judge.h"
#include "device/open.h"
#include "kernel_run.h"
#include "kernels/dialect/device_kernel.h"
#include "tensor/codec.h"

namespace firstlight::long_tests {
namespace {

using device::Buffer;

constexpr int64_t kTokens = 131072, kPageRows = 64, kPoolBytes = (int64_t{9} << 29) + (1 << 20);

struct Place {
  target::DeviceKind kind;
  catalog::Backend backend;
  int warp_width;
};

AttendRules rules() {
  AttendRules r;
  r.heads = 2;
  r.kv_heads = 1;
  r.scale = 1 / std::sqrt(static_cast<double>(r.key_width));
  return r;
}

void fill(PagedLog& log) {
  Data data(61);
  std::vector<float> table(1 << 15);
  for (float& v : table) v = static_cast<float>(data.normal());
  std::vector<float> key(32), value(32);
  for (int64_t row = 0; row < kTokens; ++row) {
    size_t at = data.below(1 << 14);
    const bool is_equal = row % 20000 < 8000;
    for (float& v : key) v = is_equal ? 0.25f : table[at++];
    for (float& v : value) v = is_equal ? 1.1f : 1 + 0.5f * table[at++];
    log.set(0, row, 0, key);
    log.set(1, row, 0, value);
  }
}

class DeviceLong : public testing::TestWithParam<Place> {
 protected:
  void SetUp() override {
    auto opened =
        device::open_device(GetParam().kind, {.cache_dir = FL_CACHE_DIR, .warp_width = GetParam().warp_width});
    if (!opened.ok()) GTEST_SKIP() << opened.status().message();
    device_ = *std::move(opened);
    modules_ = std::make_unique<kernels::DeviceModules>(*device_);
  }
  std::string name() const { return std::string(catalog::backend_name(GetParam().backend)); }

  template <typename T>
  Buffer upload(const std::vector<T>& values) {
    return upload_bytes(std::as_bytes(std::span(values)));
  }
  Buffer upload_bytes(std::span<const std::byte> bytes) {
    auto buffer = device_->allocate(static_cast<int64_t>(std::max<size_t>(bytes.size(), 4)));
    FL_CHECK(buffer.ok());
    if (!bytes.empty())
      FL_CHECK(device_->transfer().copy_in(buffer->view(0, static_cast<int64_t>(bytes.size())), bytes).ok());
    FL_CHECK(device_->transfer().finish().ok());
    return *buffer;
  }

  // Runs a step; results of type tensor as floats.
  std::vector<std::vector<float>> run(const KernelRun& call, const kernels::DeviceState* state) {
    std::vector<tensor::Type> operands;
    std::vector<kernels::DeviceView> inputs, outputs;
    ops::Attributes attributes = call.attributes;
    FL_CHECK(ops::check_attributes(ops::op_def(call.op), attributes).ok());
    for (const Tensor& t : call.operands) {
      operands.push_back(t.type);
      if (t.type.is_state()) {
        inputs.emplace_back();
      } else {
        inputs.push_back({tensor::make_view(nullptr, t.type), upload_bytes(t.data)});
      }
    }
    const auto results = ops::op_def(call.op).infer(
        {operands, attributes, call.declarations.empty() ? nullptr : call.declarations[0], {}, call.declarations});
    FL_CHECK(results.ok());
    for (const tensor::Type& type : *results) {
      if (type.is_state()) continue;
      auto made = device_->allocate(tensor::size_bytes(type));
      FL_CHECK(made.ok());
      outputs.push_back({tensor::make_view(nullptr, type), *made});
    }
    std::vector<int32_t> row_sequence, numbers;
    for (const auto& s : call.spans) {
      numbers.insert(numbers.end(), {static_cast<int32_t>(s.first_row), static_cast<int32_t>(s.num_tokens),
                                     static_cast<int32_t>(s.start_position), 0});
      row_sequence.insert(row_sequence.end(), static_cast<size_t>(s.num_tokens),
                          static_cast<int32_t>(numbers.size() / 4 - 1));
    }
    const kernels::DeviceBatch batch{
        .sequences = call.spans, .row_sequence = upload(row_sequence), .spans = upload(numbers)};
    std::vector<Buffer> kept;
    const std::function<Result<Buffer>(std::span<const std::byte>)> bring = [&](std::span<const std::byte> bytes) {
      kept.push_back(upload_bytes(bytes));
      return Result<Buffer>(kept.back());
    };
    const std::function<Result<Buffer>(int64_t)> scratch = [&](int64_t bytes) -> Result<Buffer> {
      kept.push_back(FL_TRY(device_->allocate(bytes)));
      return kept.back();
    };
    const catalog::Signature signature{call.op, operands, *results, attributes};
    const catalog::KernelRow* row = catalog::select_kernel(GetParam().backend, {}, signature);
    FL_CHECK(row != nullptr);
    auto step = kernels::find_device_kernel(row->symbol)->prepare({signature, call.declarations, *modules_});
    EXPECT_TRUE(step.ok()) << step.status().message();
    std::vector<const kernels::DeviceState*> states;
    if (state != nullptr) states.push_back(state);
    const auto tokens = static_cast<int64_t>(row_sequence.size());
    const int64_t space = (*step)->workspace_bytes({tokens, 0, static_cast<int64_t>(call.spans.size()), 0});
    auto workspace = device_->allocate(std::max<int64_t>(space, 64));
    FL_CHECK(workspace.ok());
    const Status launched = (*step)->launch({.queue = device_->compute(),
                                             .inputs = inputs,
                                             .outputs = outputs,
                                             .batch = &batch,
                                             .states = states,
                                             .workspace = *workspace,
                                             .upload = bring,
                                             .scratch = scratch});
    EXPECT_TRUE(launched.ok()) << launched.message();
    EXPECT_TRUE(device_->compute().finish().ok());
    std::vector<std::vector<float>> found;
    for (const kernels::DeviceView& out : outputs) {
      found.emplace_back(static_cast<size_t>(out.data.bytes()) / sizeof(float));
      FL_CHECK(device_->transfer().copy_out(std::as_writable_bytes(std::span(found.back())), out.data).ok());
    }
    FL_CHECK(device_->transfer().finish().ok());
    return found;
  }

  std::unique_ptr<device::Device> device_;
  std::unique_ptr<kernels::DeviceModules> modules_;
};

TEST_P(DeviceLong, PagesBeyondFourGibibytes) {
  auto pool = device_->allocate(kPoolBytes);
  if (!pool.ok()) GTEST_SKIP() << pool.status().message();
  const AttendRules r = rules();
  PagedLog log({{"k", 1, r.key_width, DType::kF16}, {"v", 1, r.value_width, DType::kF16}}, kTokens, kPageRows);
  fill(log);
  const auto page_bytes = static_cast<int64_t>(log.page(0).size());
  const int64_t step = kPoolBytes / static_cast<int64_t>(log.num_pages()) / 64 * 64;
  std::vector<int64_t> places;
  for (size_t p = 0; p < log.num_pages(); ++p) {
    places.push_back(static_cast<int64_t>(p * 1021 % log.num_pages()) * step);  // scattered
    ASSERT_TRUE(device_->transfer().copy_in(pool->view(places.back(), page_bytes), log.page(p)).ok());
  }
  ASSERT_TRUE(device_->transfer().finish().ok());

  // Two tokens more for the last page that lies beyond 4 GiB, and for one on each side of 2 GiB.
  const std::vector<plan::StateComponentView> components = {
      {DType::kF16, 1, r.key_width, 0}, {DType::kF16, 1, r.value_width, kPageRows * r.key_width * 2}};
  KernelRun append{ops::OpKind::kAppend, {}, {}, {&log.declaration()}, {}, {}};
  std::vector<std::vector<int64_t>> targets;
  for (const int64_t border : {(int64_t{1} << 31) - step, int64_t{1} << 31, int64_t{1} << 32, kPoolBytes - 2 * step}) {
    for (size_t p = 0; p < places.size(); ++p) {
      if (places[p] < border || places[p] >= border + step) continue;
      const auto row = static_cast<int64_t>(p) * kPageRows + kPageRows - 2;
      append.spans.push_back({static_cast<int64_t>(append.spans.size()) * 2, 2, row, kTokens});
      targets.push_back({static_cast<int64_t>(p), row});
    }
  }
  ASSERT_EQ(targets.size(), 4u);
  Data data(62);
  append.operands = {Data::state(), data.floats(DType::kF32, {8, 1, r.key_width}),
                     data.floats(DType::kF32, {8, 1, r.value_width})};
  const auto table_of = [&](size_t sequences) {
    std::vector<int64_t> table;
    for (size_t s = 0; s < sequences; ++s) table.insert(table.end(), places.begin(), places.end());
    return upload(table);
  };
  kernels::DeviceState state{kPageRows, components, *pool, table_of(4), static_cast<int64_t>(places.size()), kTokens};
  run(append, &state);
  for (size_t s = 0; s < targets.size(); ++s) {
    for (int64_t i = 0; i < 2; ++i) {
      for (const size_t component : {0u, 1u}) {
        const int64_t width = component == 0 ? r.key_width : r.value_width;
        const auto* values = reinterpret_cast<const float*>(append.operands[component + 1].data.data());
        log.set(component, targets[s][1] + i, 0,
                {values + (static_cast<int64_t>(s) * 2 + i) * width, static_cast<size_t>(width)});
      }
    }
    const auto page = log.page(static_cast<size_t>(targets[s][0]));
    std::vector<std::byte> found(page.size());
    ASSERT_TRUE(
        device_->transfer().copy_out(found, pool->view(places[static_cast<size_t>(targets[s][0])], page_bytes)).ok());
    ASSERT_TRUE(device_->transfer().finish().ok());
    EXPECT_TRUE(std::equal(page.begin(), page.end(), found.begin())) << "page " << targets[s][0];
  }

  KernelRun attend{
      ops::OpKind::kAttend, conformance::attributes(attend_attributes(r)), {}, {&log.declaration()}, {}, {}};
  for (const int64_t position : {5, 4095, 32768, 65535, 98303, 131070, 131071}) {
    attend.spans.push_back({static_cast<int64_t>(attend.spans.size()), 1, position, kTokens});
  }
  const auto rows = static_cast<int64_t>(attend.spans.size());
  attend.operands = {data.floats(DType::kF32, {rows, r.heads, r.key_width}), Data::state()};
  state.pages = table_of(attend.spans.size());
  const auto y = run(attend, &state)[0];
  Tally tally;
  for (int64_t t = 0; t < rows; ++t) {
    for (int64_t h = 0; h < r.heads; ++h) {
      const int64_t place = t * r.heads + h;
      const auto* q = reinterpret_cast<const float*>(attend.operands[0].data.data()) + place * r.key_width;
      const AttendAnswer wanted = judge_attend(r, log, 0, q, attend.spans[static_cast<size_t>(t)].start_position, h);
      for (int64_t i = 0; i < r.value_width; ++i) {
        tally.add(static_cast<double>(y[static_cast<size_t>(place * r.value_width + i)]),
                  wanted.y[static_cast<size_t>(i)], wanted.bound_on_device);
      }
    }
  }
  tally.conclude("attend, pages over 4.5 GiB", name());
}

TEST_P(DeviceLong, AnglesFarOut) {
  constexpr int64_t kWidth = 64, kPairs = 32;
  std::string freqs;
  std::vector<double> frequencies;
  for (int64_t i = 0; i < kPairs; ++i) {
    frequencies.push_back(std::pow(1e4, -2.0 * static_cast<double>(i) / kWidth));
    freqs += (freqs.empty() ? "" : ", ") + ops::exact_decimal(frequencies.back());
  }
  std::vector<int32_t> places = {0, 1, 4095, 65535, 131071, 131072, 1 << 20, (1 << 20) - 1, (1 << 24) - 1};
  const auto tokens = static_cast<int64_t>(places.size());
  Data data(63);
  KernelRun call{
      ops::OpKind::kRope,       conformance::attributes("{length = 64, freqs = [" + freqs + "]}"), {}, {}, {},
      {{0, tokens, 0, 1 << 24}}};
  call.operands = {data.floats(DType::kF32, {tokens, 2, kWidth}), Data::from_ints({tokens}, places)};
  const auto* x = reinterpret_cast<const float*>(call.operands[0].data.data());
  const auto y = run(call, nullptr)[0];
  Tally tally;
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t i = 0; i < 2 * kPairs; ++i) {
      const int64_t first = t * 2 * kWidth + i / kPairs * kWidth + i % kPairs;
      const long double angle = static_cast<long double>(places[static_cast<size_t>(t)]) *
                                static_cast<long double>(frequencies[static_cast<size_t>(i % kPairs)]);
      const auto c = static_cast<double>(cosl(angle)), s = static_cast<double>(sinl(angle));
      const auto a = static_cast<double>(x[first]), b = static_cast<double>(x[first + kPairs]);
      const double bound = 16 * kUnit * (std::fabs(a) + std::fabs(b));
      tally.add(static_cast<double>(y[static_cast<size_t>(first)]), a * c - b * s, bound);
      tally.add(static_cast<double>(y[static_cast<size_t>(first + kPairs)]), b * c + a * s, bound);
    }
  }
  tally.conclude("rope, positions to 2^24", name());
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceLong,
                         testing::Values(Place{target::DeviceKind::kSimt, catalog::Backend::kSimt, 32},
                                         Place{target::DeviceKind::kOpencl, catalog::Backend::kOpencl, 0}),
                         [](const auto& tested) { return std::string(catalog::backend_name(tested.param.backend)); });

}  // namespace
}  // namespace firstlight::long_tests
