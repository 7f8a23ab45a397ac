// SPDX-License-Identifier: Apache-2.0
// A backend whose kernels are wrong on purpose: locate names the operator, the kernel, the kind of fault and the shapes
// it is wrong on, and what it writes reproduces the fault.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "adapt/bring_up.h"
#include "base/json.h"
#include "device/cpu/detect.h"
#include "kernels/kernel.h"
#include "locate/locate.h"

namespace firstlight {
namespace {

using kernels::KernelBody;
using kernels::KernelCall;

using Damage = void (*)(const KernelCall& call);
struct Plant {
  std::string_view part;  // of the symbol; empty: nothing is planted
  Damage damage = nullptr;
};
Plant planted;

// A body that runs another one and then the damage. Bodies have no memory of their own: one slot per symbol.
template <size_t I>
struct Slot {
  static inline const KernelBody* real = nullptr;
  static inline KernelBody body;
  static void run(const KernelCall& call, Worker& worker) {
    real->run(call, worker);
    planted.damage(call);
  }
};
constexpr size_t kSlots = 12;

template <size_t... I>
const KernelBody* wrapped(const KernelBody* body, std::index_sequence<I...>) {
  const KernelBody* out = nullptr;
  const auto take = [&]<size_t N>() {
    using S = Slot<N>;
    if (out != nullptr || (S::real != nullptr && S::real != body)) return;
    S::real = body;
    S::body = *body;
    S::body.run = &S::run;
    out = &S::body;
  };
  (take.template operator()<I>(), ...);
  return out == nullptr ? body : out;
}

}  // namespace
}  // namespace firstlight

// What the linker calls in the place of kernels::find_kernel, and its own name for that.
extern "C" {
const firstlight::kernels::KernelBody*
__real__ZN10firstlight7kernels11find_kernelESt17basic_string_viewIcSt11char_traitsIcEE(std::string_view symbol);

const firstlight::kernels::KernelBody*
__wrap__ZN10firstlight7kernels11find_kernelESt17basic_string_viewIcSt11char_traitsIcEE(std::string_view symbol) {
  const auto* body = __real__ZN10firstlight7kernels11find_kernelESt17basic_string_viewIcSt11char_traitsIcEE(symbol);
  // The plain kernels stay right: the reference's, and those of AVX2 where others are better.
  const bool best = firstlight::device::detect_cpu().features.has({firstlight::target::kAvx512});
  const bool plain = symbol.find("_ref") != std::string_view::npos || (best && symbol.find("_avx2") != symbol.npos);
  const auto& part = firstlight::planted.part;
  if (body == nullptr || plain || part.empty() || symbol.find(part) == std::string_view::npos) return body;
  return firstlight::wrapped(body, std::make_index_sequence<firstlight::kSlots>());
}
}

namespace firstlight {
namespace {

// Element i of row r of the first result.
void each(const KernelCall& call, const std::function<void(int64_t row, int64_t column, float& value)>& change) {
  const tensor::View& view = call.outputs[0];
  const int64_t rows = view.dim(0), width = view.num_elements() / std::max<int64_t>(rows, 1);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < width; ++c) change(r, c, view.as<float>()[r * width + c]);
  }
}

void wrong_tail(const KernelCall& call) {
  const int64_t rows = call.outputs[0].dim(0), whole = rows - rows % 4;
  each(call, [&](int64_t row, int64_t, float& value) { value *= row >= whole ? 1.05f : 1.0f; });
}
void wrong_on_one_token(const KernelCall& call) {
  if (call.outputs[0].dim(0) != 1 || call.batch->sequences[0].start_position == 0) return;
  each(call, [](int64_t, int64_t column, float& value) { value += column % 3 == 0 ? 0.05f : 0.0f; });
}
void wrong_behind_a_border(const KernelCall& call) {
  if (call.batch->sequences[0].start_position == 0) return;
  each(call, [](int64_t row, int64_t, float& value) { value *= row == 0 ? 1.1f : 1.0f; });
}
void few_bits(const KernelCall& call) {
  each(call, [](int64_t, int64_t, float& value) {
    value = std::bit_cast<float>((std::bit_cast<uint32_t>(value) + 0x8000u) & 0xffff0000u);
  });
}
void wrong_decoding(const KernelCall& call) {  // every weight row a little of the next one: linear in the operand
  const tensor::View& view = call.outputs[0];
  const int64_t width = view.dim(-1), rows = view.num_elements() / width;
  for (int64_t r = 0; r < rows; ++r) {
    float* y = view.as<float>() + r * width;
    for (int64_t c = 0; c + 1 < width; ++c) y[c] += 0.01f * y[c + 1];
    y[width - 1] *= 1.01f;
  }
}
void wrong_last_columns(const KernelCall& call) {
  const int64_t width = call.outputs[0].num_elements() / std::max<int64_t>(call.outputs[0].dim(0), 1);
  each(call, [&](int64_t, int64_t column, float& value) { value *= column >= width - 2 ? 1.02f : 1.0f; });
}

class PlantedKernelsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!device::detect_cpu().features.has({target::kAvx2})) GTEST_SKIP() << "needs AVX2: the plain kernels stay right";
    const std::string path = std::string(FL_SOURCE_DIR) + "/tests/golden/data/llama";
    checkpoint_ = std::make_unique<formats::Checkpoint>(formats::Checkpoint::open(path).value());
    model_ = intake::load_model(*checkpoint_, {}).value();
    std::ifstream file(path + "/golden.json");
    tokens_ = Json::parse(file)["prompt"].get<std::vector<int32_t>>();
    pool_ = std::make_unique<ThreadPool>(ThreadPool::Options{.num_threads = 1});
  }
  void TearDown() override { planted = {}; }

  align::Resources resources(catalog::Backend backend) const {
    adapt::BringUpOptions options;
    options.backend = backend;
    options.num_threads = 1;
    options.compute = catalog::ComputeMode::kF32;
    options.state_dtype = tensor::DType::kF32;
    options.generated = runtime::GeneratedMode::kOff;
    align::Resources out{.checkpoint = checkpoint_.get(), .pool = pool_.get()};
    out.compile = adapt::compile_options(options, device::detect_cpu());
    out.executor = {.memory_limit_bytes = int64_t{1} << 32, .generated = options.generated};
    return out;
  }

  locate::Location located(std::string_view part, Damage damage) {
    planted = {part, damage};
    const align::Resources reference = resources(catalog::Backend::kReference);
    const align::Resources cpu = resources(catalog::Backend::kCpu);
    const align::RecordOptions record{.operators = true, .full = {}, .greedy = 0, .run = {}};
    align::Pack head = {.origin = {{"kind", "firstlight"}, {"backend", "reference"}}};
    const auto baseline = align::record(model_.graph, {tokens_}, head, record, reference);
    EXPECT_TRUE(baseline.ok()) << baseline.status().to_string();
    const locate::LocateOptions options{.run = {}, .hints = {}, .reference = reference, .backend = &cpu, .exact = true};
    auto found = locate::locate(model_.graph, baseline->pack, head, options);
    EXPECT_TRUE(found.ok()) << found.status().to_string();
    return found.ok() ? std::move(*found) : locate::Location{};
  }

  // The one finding; empty words where there is none.
  locate::Finding finding(std::string_view part, Damage damage) {
    auto location = located(part, damage);
    EXPECT_EQ(location.findings.size(), 1u);
    if (location.findings.empty()) return {};
    EXPECT_FALSE(location.passed);
    EXPECT_TRUE(location.findings[0].of_backend);
    EXPECT_NE(location.findings[0].kernel.find(part), std::string::npos) << location.findings[0].kernel;
    return std::move(location.findings[0]);
  }

  std::unique_ptr<formats::Checkpoint> checkpoint_;
  intake::Model model_;
  std::vector<int32_t> tokens_;
  std::unique_ptr<ThreadPool> pool_;
};

TEST_F(PlantedKernelsTest, NothingIsFoundWhereNothingIsPlanted) {
  const auto location = located("", nullptr);
  EXPECT_TRUE(location.passed) << locate::location_text(location);
}

TEST_F(PlantedKernelsTest, ATailIsAKernelDefectOnAShape) {
  const auto found = finding("linear", &wrong_tail);
  EXPECT_EQ(found.op, "linear") << found.what;
  EXPECT_EQ(found.cause, locate::Cause::kKernel) << found.what;
  if (device::detect_cpu().features.has({target::kAvx512})) {
    EXPECT_FALSE(found.is_guess);
  }
  EXPECT_NE(found.shape.find("token counts that 4 does not divide"), std::string::npos) << found.shape;
}

TEST_F(PlantedKernelsTest, LastColumnsAreAKernelDefectOnAShape) {
  const auto found = finding("rms_norm", &wrong_last_columns);
  EXPECT_EQ(found.op, "rms_norm") << found.what;
  EXPECT_EQ(found.cause, locate::Cause::kKernel) << found.what;
  EXPECT_NE(found.shape.find("columns"), std::string::npos) << found.shape;
}

TEST_F(PlantedKernelsTest, DecodingAloneIsSeen) {
  const auto found = finding("attend", &wrong_on_one_token);
  EXPECT_EQ(found.op, "attend") << found.what;
  EXPECT_EQ(found.cause, locate::Cause::kKernel) << found.what;
  EXPECT_NE(found.shape.find("token by token"), std::string::npos) << found.shape;
}

TEST_F(PlantedKernelsTest, ABorderOfChunksIsStateHandling) {
  const auto found = finding("attend", &wrong_behind_a_border);
  EXPECT_EQ(found.op, "attend") << found.what;
  EXPECT_EQ(found.cause, locate::Cause::kState) << found.what;
}

TEST_F(PlantedKernelsTest, SumsOfFewBitsAreAccumulation) {
  const auto found = finding("linear", &few_bits);
  EXPECT_EQ(found.op, "linear") << found.what;
  EXPECT_EQ(found.cause, locate::Cause::kAccumulation) << found.what;
}

TEST_F(PlantedKernelsTest, AWeightDecodedWronglyIsFormatConversion) {
  const auto found = finding("linear", &wrong_decoding);
  EXPECT_EQ(found.op, "linear") << found.what;
  EXPECT_EQ(found.cause, locate::Cause::kFormat) << found.what;
}

TEST_F(PlantedKernelsTest, TheReproductionShowsTheFaultByItself) {
  const auto found = finding("linear", &wrong_tail);
  ASSERT_TRUE(found.reproduction.has_value());
  const std::string folder = testing::TempDir() + "planted_kernels_reproduction";
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(locate::write_finding(found, "firstlight baseline reproduce .", "MODEL", checkpoint_.get(), folder).ok());
  const auto read = locate::read_reproduction(folder);
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_EQ(read->expected.prompts[0].tokens.size(), 1u) << "the fewest tokens that show it";
  const auto alone = formats::Checkpoint::open(folder);
  ASSERT_TRUE(alone.ok());
  align::Resources cpu = resources(catalog::Backend::kCpu);
  cpu.checkpoint = &*alone;
  const auto wrong = locate::reproduce(*read, {}, cpu);
  ASSERT_TRUE(wrong.ok()) << wrong.status().to_string();
  EXPECT_TRUE(wrong->wrong()) << wrong->error;
  planted = {};
  const auto right = locate::reproduce(*read, {}, cpu);
  ASSERT_TRUE(right.ok()) << right.status().to_string();
  EXPECT_FALSE(right->wrong()) << right->error;
}

}  // namespace
}  // namespace firstlight
