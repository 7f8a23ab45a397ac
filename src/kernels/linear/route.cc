// SPDX-License-Identifier: Apache-2.0
// route on the CPU: the product of all tokens into the workspace, then, token by token, scores, choice and weights.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/common/cpu/row_ops.h"
#include "kernels/linear/bodies.h"
#include "kernels/linear/matmul.h"

namespace firstlight::kernels {
namespace {

enum class Score : uint8_t { kNone, kSoftmax, kSigmoid };
enum class After : uint8_t { kNone, kSoftmax, kSum };

struct Options final : Prepared {
  ProductPath path = ProductPath::kF32;
  Score score = Score::kNone;
  After after = After::kNone;
  bool bias = false;
  bool correction = false;
  int64_t k = 1, groups = 1, top_groups = 1, group_best = 1;
  float eps = 0, scale = 1;
};

ProductPath path_of(const catalog::Signature& signature) {
  return product_path(step_mode(signature), signature.operands[1].dtype);
}

Result<std::unique_ptr<Prepared>> prepare(const PrepareInput& input) {
  const ops::Attributes& a = input.signature.attributes;
  auto options = std::make_unique<Options>();
  options->path = path_of(input.signature);
  const std::string& score = a.get_string("score");
  options->score = score == "softmax" ? Score::kSoftmax : score == "sigmoid" ? Score::kSigmoid : Score::kNone;
  const std::string& after = a.get_string("after");
  options->after = after == "softmax" ? After::kSoftmax : after == "sum" ? After::kSum : After::kNone;
  options->bias = a.get_bool("bias");
  options->correction = a.get_bool("correction");
  options->k = a.get_int("k");
  options->groups = a.get_int("groups");
  options->top_groups = a.get_int("top_groups");
  options->group_best = a.get_int("group_best");
  options->eps = static_cast<float>(a.get_float("eps"));
  options->scale = static_cast<float>(a.get_float("scale"));
  return std::unique_ptr<Prepared>(std::move(options));
}

// Whether x comes before y: larger, and a number before none.
bool is_before(float x, float y) { return std::isnan(y) ? !std::isnan(x) : x > y; }

// Writes the indices of the `count` largest of values[0 .. n), largest first, of equal ones the lower index first.
void largest(const float* values, int64_t n, int64_t count, int32_t* out) {
  int64_t filled = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (filled == count && !is_before(values[i], values[out[filled - 1]])) continue;
    int64_t at = filled < count ? filled++ : count - 1;
    for (; at > 0 && is_before(values[i], values[out[at - 1]]); --at) out[at] = out[at - 1];
    out[at] = static_cast<int32_t>(i);
  }
}

// Chooses for one token after another; keeps its scratch between them.
class Chooser {
 public:
  Chooser(const Options& options, const RowOps& ops, int64_t experts, const float* correction)
      : options_(options),
        ops_(ops),
        experts_(experts),
        correction_(correction),
        choice_(static_cast<size_t>(experts)),
        sums_(static_cast<size_t>(options.groups)),
        places_(static_cast<size_t>(std::max({options.k, options.top_groups, options.group_best}))) {}

  // `scores`: the token's products, changed in place.
  void run(float* scores, float* weights, int32_t* indices) {
    if (options_.score == Score::kSoftmax) ops_.softmax(scores, experts_, scores);
    if (options_.score == Score::kSigmoid) {
      for (int64_t e = 0; e < experts_; ++e) scores[e] = 1.0f / (1.0f + std::exp(-scores[e]));
    }
    const float* choice = scores;
    if (correction_ != nullptr || options_.groups > 1) {
      for (int64_t e = 0; e < experts_; ++e) {
        choice_[static_cast<size_t>(e)] = correction_ == nullptr ? scores[e] : scores[e] + correction_[e];
      }
      if (options_.groups > 1) keep_groups();
      choice = choice_.data();
    }
    largest(choice, experts_, options_.k, indices);
    float sum = options_.eps;
    for (int64_t i = 0; i < options_.k; ++i) {
      weights[i] = scores[indices[i]];
      sum += weights[i];
    }
    if (options_.after == After::kSoftmax) ops_.softmax(weights, options_.k, weights);
    const float divisor = options_.after == After::kSum ? sum : 1.0f;
    for (int64_t i = 0; i < options_.k; ++i) weights[i] = weights[i] / divisor * options_.scale;
  }

 private:
  void keep_groups() {
    const int64_t size = experts_ / options_.groups;
    for (int64_t g = 0; g < options_.groups; ++g) {
      const float* group = choice_.data() + g * size;
      largest(group, size, options_.group_best, places_.data());
      float sum = 0;
      for (int64_t i = 0; i < options_.group_best; ++i) sum += group[places_[static_cast<size_t>(i)]];
      sums_[static_cast<size_t>(g)] = sum;
    }
    largest(sums_.data(), options_.groups, options_.top_groups, places_.data());
    const auto end = places_.begin() + options_.top_groups;
    for (int64_t g = 0; g < options_.groups; ++g) {
      if (std::find(places_.begin(), end, static_cast<int32_t>(g)) != end) continue;
      std::fill_n(choice_.begin() + g * size, size, -3e38f);
    }
  }

  const Options& options_;
  const RowOps& ops_;
  int64_t experts_;
  const float* correction_;
  std::vector<float> choice_, sums_;
  std::vector<int32_t> places_;
};

int64_t scores_bytes(int64_t tokens, int64_t experts) { return (tokens * experts * 4 + 63) / 64 * 64; }

template <const Form& (*kForm)(), const RowOps& (*kOps)()>
void run(const KernelCall& call, Worker& worker) {
  const auto& options = *static_cast<const Options*>(call.prepared);
  const tensor::View& x = call.inputs[0];
  const tensor::View& w = call.inputs[1];
  const int64_t tokens = x.dim(0), columns = x.dim(1), experts = w.dim(0);
  if (tokens == 0) return;
  std::vector<float> bias_space(options.bias ? static_cast<size_t>(experts) : 0);
  std::vector<float> correction_space(options.correction ? static_cast<size_t>(experts) : 0);
  auto* scores = reinterpret_cast<float*>(call.workspace.data());
  const WeightMatrix weight{.dtype = w.dtype,
                            .layout = w.layout,
                            .path = options.path,
                            .data = w.as<const std::byte>(),
                            .rows = experts,
                            .bias = options.bias ? floats_of(call.inputs[2], bias_space) : nullptr};
  const OutputRows output{scores, experts};
  const MatmulJob job{.x = x.as<const float>(),
                      .tokens = tokens,
                      .columns = columns,
                      .x_stride = columns,
                      .norm = {},
                      .weights = {&weight, 1},
                      .epilogue = {},
                      .extras = {},
                      .outputs = {&output, 1}};
  run_matmul(kForm(), job, worker, call.workspace.subspan(static_cast<size_t>(scores_bytes(tokens, experts))));
  worker.barrier();
  const float* correction = options.correction ? floats_of(call.inputs.back(), correction_space) : nullptr;
  Chooser chooser(options, kOps(), experts, correction);
  const Worker::Range range = worker.share(tokens);
  for (int64_t t = range.begin; t < range.end; ++t) {
    chooser.run(scores + t * experts, call.outputs[0].as<float>() + t * options.k,
                call.outputs[1].as<int32_t>() + t * options.k);
  }
}

int64_t workspace_bytes(const catalog::Signature& signature, const tensor::SymbolValues& values, int) {
  const tensor::Type& x = signature.operands[0];
  const int64_t tokens = x.shape[0].at(values), columns = x.shape[1].at(values);
  const ProductPath path = path_of(signature);
  return scores_bytes(tokens, signature.operands[1].shape[0].factor) +
         matmul_workspace_bytes({&path, 1}, tokens, columns);
}

}  // namespace

std::span<const KernelBody> cpu_route_bodies() {
  static constexpr KernelBody kBodies[] = {
      {"route_f32any_f32_rows16_avx2", prepare, run<form_avx2, row_ops_avx2>, workspace_bytes},
      {"route_f32any_f32_rows16_avx512", prepare, run<form_avx512, row_ops_avx512>, workspace_bytes},
  };
  return kBodies;
}

}  // namespace firstlight::kernels
