// SPDX-License-Identifier: Apache-2.0
// Generated source against the tuned kernels of norms, softmax and element-wise chains, on the same rows in the same
// run, one thread, the two taking turns:
//   generated_bench
// Prints the best time of each and tuned / generated: 1 is as fast, 0.5 half as fast. map has no kernel of its own; its
// other form runs the formula term by term on vector primitives.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>

#include "compiler/codegen/cpu_source.h"
#include "device/cpu/detect.h"
#include "device/cpu/native_code.h"
#include "kernels/kernel.h"
#include "ops/infer.h"
#include "plan/plan.h"

namespace firstlight::bench {
namespace {

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Step {
  const char* name;
  ops::OpKind op;
  const char* attributes;
  int whole;    // operands of the rows' shape
  int vectors;  // operands of one row
};

constexpr Step kSteps[] = {
    {"rms_norm", ops::OpKind::kRmsNorm, "{eps = 1e-05}", 1, 1},
    {"layer_norm", ops::OpKind::kLayerNorm, "{eps = 1e-05}", 1, 2},
    {"softmax", ops::OpKind::kSoftmax, "", 1, 0},
    {"swiglu", ops::OpKind::kMap, "{expr = mul(mul(x0, sigmoid(x0)), x1)}", 2, 0},
    {"gelu (tanh)", ops::OpKind::kMap,
     "{expr = mul(mul(0.5, x0), add(1.0, tanh(mul(0.7978845608, add(x0, mul(0.044715, mul(x0, mul(x0, "
     "x0))))))))}",
     1, 0},
};

struct Operands {
  std::vector<std::vector<float>> data;
  std::vector<tensor::Type> types;
  std::vector<float> out;

  Operands(const Step& step, int64_t rows, int64_t width) : out(static_cast<size_t>(rows * width)) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (int i = 0; i < step.whole + step.vectors; ++i) {
      const tensor::Shape shape = i < step.whole ? tensor::Shape{rows, width} : tensor::Shape{width};
      data.emplace_back(static_cast<size_t>(tensor::num_elements(shape)));
      for (float& v : data.back()) v = normal(random);
      types.push_back(ops::f32(shape));
    }
  }
};

bool bench_one(const Step& step, int64_t rows, int64_t width, const device::NativeCodeBuilder& builder) {
  Operands operands(step, rows, width);
  auto attributes = *step.attributes == 0 ? ops::Attributes{} : ops::parse_attributes(step.attributes).value();
  if (!ops::check_attributes(ops::op_def(step.op), attributes).ok()) return false;
  const std::vector<tensor::Type> results = {ops::f32({rows, width})};
  const catalog::Signature signature{step.op, operands.types, results, attributes};
  const auto* row = catalog::select_kernel(catalog::Backend::kCpu, device::detect_cpu().features, signature);
  auto function = compiler::cpu_function(signature);
  if (row == nullptr || !function.ok()) return false;
  const bool by_rows = function->rows;
  compiler::CpuUnit unit;
  const std::string name = unit.add(*std::move(function));
  const auto code = builder.build(unit.text());
  if (!code.ok()) return false;
  const auto generated = reinterpret_cast<plan::GeneratedFunction>((*code)->symbol(name.c_str()));
  const kernels::KernelBody* body = kernels::find_kernel(row->symbol);
  std::unique_ptr<kernels::Prepared> prepared;
  if (body->prepare != nullptr) prepared = body->prepare({signature}).value();
  std::vector<tensor::View> inputs;
  std::vector<const float*> in;
  for (size_t i = 0; i < operands.data.size(); ++i) {
    inputs.push_back(tensor::make_view(operands.data[i].data(), operands.types[i]));
    in.push_back(operands.data[i].data());
  }
  const std::vector<tensor::View> outputs = {tensor::make_view(operands.out.data(), results[0])};
  const int64_t dims[] = {rows, width};
  const int64_t count = by_rows ? rows : rows * width;
  const int64_t calls = std::max<int64_t>(1, 2'000'000 / (rows * width));
  double tuned_best = 1e9, generated_best = 1e9;
  ThreadPool pool(ThreadPool::Options{.num_threads = 1});
  const double until = seconds_now() + 0.5;
  pool.run([&](Worker& worker) {
    do {
      double start = seconds_now();
      for (int64_t i = 0; i < calls; ++i) body->run({prepared.get(), inputs, outputs, nullptr, nullptr, {}}, worker);
      tuned_best = std::min(tuned_best, seconds_now() - start);
      start = seconds_now();
      for (int64_t i = 0; i < calls; ++i) generated(in.data(), operands.out.data(), dims, 0, count);
      generated_best = std::min(generated_best, seconds_now() - start);
    } while (seconds_now() < until);
  });
  const double unit_us = 1e6 / static_cast<double>(calls);
  std::printf("| %s | %ld x %ld | %s | %.2f | %.2f | %.2f |\n", step.name, static_cast<long>(rows),
              static_cast<long>(width), std::string(row->symbol).c_str(), tuned_best * unit_us,
              generated_best * unit_us, tuned_best / generated_best);
  std::fflush(stdout);
  return true;
}

int run() {
  const auto folder = std::filesystem::temp_directory_path() / "firstlight-generated-bench";
  const auto builder = device::NativeCodeBuilder::open(folder);
  if (!builder.ok()) {
    std::fprintf(stderr, "%s\n", builder.status().message().c_str());
    return 1;
  }
  std::printf(
      "| step | rows | tuned kernel | tuned, us | generated, us | tuned / generated |\n|---|---|---|---|---|---|\n");
  bool all = true;
  for (const Step& step : kSteps) {
    for (const auto& [rows, width] : {std::pair<int64_t, int64_t>{1, 576}, {1, 4096}, {512, 576}, {512, 4096}}) {
      all = bench_one(step, rows, width, *builder) && all;
    }
  }
  return all ? 0 : 1;
}

}  // namespace
}  // namespace firstlight::bench

int main() { return firstlight::bench::run(); }
