// SPDX-License-Identifier: Apache-2.0
// The CPU's matrix products against the roofs of the machine, measured in the same run:
//   linear_bench [--threads N] [--type q4_1] [--tokens N] [--rows N] [--columns N] [--form avx2|avx512] [--steps]
// For one token the weights are larger than the caches and bytes per second count; for many, operations. --steps runs
// the steps of a small model's layers in turn, with a barrier after each, as a decode does.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/linear/matmul.h"
#include "kernels/linear/packing.h"
#include "kernels/linear/test/weights.h"
#include "roof.h"

namespace firstlight::bench {
namespace {

using catalog::ComputeMode;
using kernels::MatmulJob;
using kernels::OutputRows;
using kernels::ProductPath;
using kernels::WeightMatrix;
using tensor::DType;

struct Options {
  int threads = 2;
  std::string type;
  int64_t tokens = 0;
  int64_t rows = 0;
  int64_t columns = 1536;
  bool avx2 = false;
  bool steps = false;
};

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Roofs {
  double read;
  double operations[3];  // by Unit
};

const kernels::Form& form_of(const Options& options) {
  return options.avx2 || !__builtin_cpu_supports("avx512vnni") || !__builtin_cpu_supports("avx512bf16")
             ? kernels::form_avx2()
             : kernels::form_avx512();
}

Unit unit_of(ProductPath path) {
  return path == ProductPath::kInt8 ? Unit::kInt8 : (path == ProductPath::kBf16 ? Unit::kBf16 : Unit::kFloat32);
}

// Packed random weights: one matrix of random bytes, copied over as often as it fits.
std::byte* fill_weights(std::byte* memory, DType type, int64_t rows, int64_t columns, ThreadPool& pool) {
  std::mt19937 rng(1);
  const int64_t sample = std::min<int64_t>(rows, 256);
  const auto stored = kernels::random_weights(type, sample * columns, rng);
  const kernels::AlignedBytes one = kernels::packed(type, stored, 1, sample, columns, pool);
  const int64_t piece = kernels::packed_matrix_bytes(type, sample, columns);
  const int64_t total = kernels::packed_matrix_bytes(type, rows, columns);
  pool.run([&](Worker& worker) {
    const Worker::Range range = worker.share((total + piece - 1) / piece);
    for (int64_t at = range.begin; at < range.end; ++at) {
      std::memcpy(memory + at * piece, one.data, static_cast<size_t>(std::min(piece, total - at * piece)));
    }
  });
  return memory;
}

void bench_one(const Options& options, DType type, ComputeMode mode, int64_t rows, int64_t columns, int64_t tokens,
               std::byte* memory, ThreadPool& pool) {
  const ProductPath path = kernels::product_path(mode, type);
  fill_weights(memory, type, rows, columns, pool);
  std::vector<float> x(static_cast<size_t>(tokens * columns));
  std::mt19937 rng(2);
  std::normal_distribution<float> normal;
  for (float& value : x) value = normal(rng);
  std::vector<float> y(static_cast<size_t>(tokens * rows));
  const WeightMatrix weight{type, tensor::Layout::kPackedRows, path, memory, rows, nullptr};
  const OutputRows output{y.data(), rows};
  MatmulJob job{.x = x.data(),
                .tokens = tokens,
                .columns = columns,
                .x_stride = columns,
                .weights = {&weight, 1},
                .outputs = {&output, 1}};
  kernels::AlignedBytes workspace(kernels::matmul_workspace_bytes({&path, 1}, tokens, columns));
  const double bytes = static_cast<double>(kernels::packed_matrix_bytes(type, rows, columns));
  const double operations = 2.0 * static_cast<double>(rows * columns * tokens);
  double best = 1e9;
  double roof = 0;
  const double until = seconds_now() + 1.0;
  do {
    const double start = seconds_now();
    pool.run([&](Worker& w) {
      kernels::run_matmul(form_of(options), job, w, {workspace.data, workspace.storage.size()});
    });
    best = std::min(best, seconds_now() - start);
    if (tokens <= 8) {
      roof = std::max(roof, read_roof(pool, memory, static_cast<size_t>(bytes)));
    } else {
      roof = std::max(roof, compute_roof(pool, unit_of(path)));
    }
  } while (seconds_now() < until);
  const char* names[] = {"w8a8", "f32", "bf16"};
  std::printf("%-7s %-4s [%6ld, %5ld] x %-4ld %8.3f ms %7.1f GB/s %8.1f Gop/s  ",
              std::string(tensor::dtype_name(type)).c_str(), names[static_cast<int>(path)], rows, columns, tokens,
              best * 1e3, bytes / best * 1e-9, operations / best * 1e-9);
  if (tokens <= 8) {
    std::printf("%5.1f %% of %.1f GB/s\n", 100 * bytes / best / roof, roof * 1e-9);
  } else if (roof > 0) {
    std::printf("%5.1f %% of %.0f Gop/s\n", 100 * operations / best / roof, roof * 1e-9);
  } else {
    std::printf("\n");
  }
  std::fflush(stdout);
}

// Layers of four products each (qkv, out, gate and up, down) of a model with this hidden and inner size.
void bench_steps(const Options& options, DType type, int64_t hidden, int64_t inner, int64_t layers, std::byte* memory,
                 ThreadPool& pool) {
  const int64_t shapes[4][2] = {{hidden * 5 / 3, hidden}, {hidden, hidden}, {2 * inner, hidden}, {hidden, inner}};
  const ProductPath path = kernels::product_path(ComputeMode::kInt8, type);
  std::vector<WeightMatrix> weights;
  int64_t used = 0;
  for (int64_t i = 0; i < layers * 4; ++i) {
    const auto& shape = shapes[i % 4];
    fill_weights(memory + used, type, shape[0], shape[1], pool);
    weights.push_back({type, tensor::Layout::kPackedRows, path, memory + used, shape[0], nullptr});
    used += kernels::packed_matrix_bytes(type, shape[0], shape[1]);
  }
  std::vector<float> x(static_cast<size_t>(inner), 0.5f);
  std::vector<float> y(static_cast<size_t>(2 * inner + 2 * hidden));
  double best = 1e9;
  double roof = 0;
  const double until = seconds_now() + 2.0;
  do {
    const double start = seconds_now();
    pool.run([&](Worker& worker) {
      for (size_t i = 0; i < weights.size(); ++i) {
        const int64_t columns = shapes[i % 4][1];
        const OutputRows output{y.data(), weights[i].rows};
        const MatmulJob job{.x = x.data(),
                            .tokens = 1,
                            .columns = columns,
                            .x_stride = columns,
                            .norm = {.rms = i % 2 == 0, .eps = 1e-5},
                            .weights = {&weights[i], 1},
                            .outputs = {&output, 1}};
        kernels::run_matmul(form_of(options), job, worker, {});
        worker.barrier();
      }
    });
    best = std::min(best, seconds_now() - start);
    roof = std::max(roof, read_roof(pool, memory, static_cast<size_t>(used)));
  } while (seconds_now() < until);
  std::printf("%-7s steps hidden %ld inner %ld layers %ld: %.3f ms for %.0f MB, %.1f GB/s, %.1f %% of %.1f GB/s\n",
              std::string(tensor::dtype_name(type)).c_str(), hidden, inner, layers, best * 1e3,
              static_cast<double>(used) * 1e-6, static_cast<double>(used) / best * 1e-9,
              100 * static_cast<double>(used) / best / roof, roof * 1e-9);
  std::fflush(stdout);
}

int run(const Options& options) {
  ThreadPool pool(ThreadPool::Options{.num_threads = options.threads});
  constexpr size_t kBytes = size_t{512} << 20;
  std::byte* memory = large_memory(kBytes);
  if (memory == nullptr) return 1;
  std::memset(memory, 1, kBytes);
  struct Case {
    DType type;
    ComputeMode mode;
  };
  std::vector<Case> cases = {{DType::kF32, ComputeMode::kF32}, {DType::kBF16, ComputeMode::kBf16}};
  for (DType type : {DType::kQ4_0, DType::kQ4_1, DType::kQ8_0, DType::kQ5_0, DType::kQ5_1, DType::kQ4_K, DType::kQ5_K,
                     DType::kQ6_K, DType::kMXFP4}) {
    cases.push_back({type, ComputeMode::kInt8});
  }
  cases.push_back({DType::kQ4_1, ComputeMode::kF32});
  cases.push_back({DType::kQ4_1, ComputeMode::kBf16});
  cases.push_back({DType::kBF16, ComputeMode::kF32});
  cases.push_back({DType::kF16, ComputeMode::kF32});
  for (const Case& c : cases) {
    if (!options.type.empty() && tensor::dtype_name(c.type) != options.type) continue;
    if (options.steps) {
      bench_steps(options, c.type, 576, 1536, 30, memory, pool);
      bench_steps(options, c.type, 1536, 8960, 7, memory, pool);
      continue;
    }
    for (int64_t tokens : {1, 2, 4, 8, 16, 64, 512}) {
      if (options.tokens != 0 && options.tokens != tokens) continue;
      const int64_t columns = options.columns;
      const int64_t tile = kernels::packed_tile_bytes(c.type, columns);
      const int64_t large = tokens <= 16 ? (int64_t{192} << 20) / tile * 16 : 8960;
      const int64_t rows = options.rows != 0 ? options.rows : large;
      bench_one(options, c.type, c.mode, rows, columns, tokens, memory, pool);
    }
  }
  return 0;
}

}  // namespace
}  // namespace firstlight::bench

int main(int argc, char** argv) {
  firstlight::bench::Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    if (flag == "--steps") {
      options.steps = true;
    } else if (flag == "--threads") {
      options.threads = std::atoi(value), ++i;
    } else if (flag == "--type") {
      options.type = value, ++i;
    } else if (flag == "--tokens") {
      options.tokens = std::atoi(value), ++i;
    } else if (flag == "--rows") {
      options.rows = std::atoi(value), ++i;
    } else if (flag == "--columns") {
      options.columns = std::atoi(value), ++i;
    } else if (flag == "--form") {
      options.avx2 = std::string(value) == "avx2", ++i;
    } else {
      std::fprintf(stderr, "linear_bench: unknown flag %s\n", flag.c_str());
      return 2;
    }
  }
  return firstlight::bench::run(options);
}
