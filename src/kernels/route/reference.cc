// SPDX-License-Identifier: Apache-2.0
// The reference route: its parts one after the other, each rounded to float32.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/bodies.h"
#include "kernels/common/dot.h"
#include "kernels/common/rows.h"

namespace firstlight::kernels {
namespace {

struct Options final : Prepared {
  std::string score, after;
  bool bias = false;
  bool correction = false;
  int64_t k = 1, groups = 1, top_groups = 1, group_best = 1;
  double eps = 0, scale = 1;
};

Result<std::unique_ptr<Prepared>> prepare(const PrepareInput& input) {
  const ops::Attributes& a = input.signature.attributes;
  auto options = std::make_unique<Options>();
  options->score = a.get_string("score");
  options->after = a.get_string("after");
  options->bias = a.get_bool("bias");
  options->correction = a.get_bool("correction");
  options->k = a.get_int("k");
  options->groups = a.get_int("groups");
  options->top_groups = a.get_int("top_groups");
  options->group_best = a.get_int("group_best");
  options->eps = a.get_float("eps");
  options->scale = a.get_float("scale");
  return std::unique_ptr<Prepared>(std::move(options));
}

using Row = std::vector<float>;

void softmax(Row& row) {
  const double top = static_cast<double>(*std::max_element(row.begin(), row.end()));
  double sum = 0;
  for (const float v : row) sum += std::exp(static_cast<double>(v) - top);
  for (float& v : row) v = static_cast<float>(std::exp(static_cast<double>(v) - top) / sum);
}

// Indices of the `count` largest, as top_k orders them.
std::vector<int32_t> largest(const Row& row, int64_t count) {
  std::vector<int32_t> order(row.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    const float x = row[static_cast<size_t>(a)], y = row[static_cast<size_t>(b)];
    return std::isnan(y) ? !std::isnan(x) : x > y;
  });
  order.resize(static_cast<size_t>(count));
  return order;
}

// Leaves the best groups of a choice; the others' experts get what nothing chooses.
void keep_groups(const Options& options, Row& choice) {
  if (options.groups == 1) return;
  const size_t size = choice.size() / static_cast<size_t>(options.groups);
  Row sums;
  for (size_t g = 0; g < static_cast<size_t>(options.groups); ++g) {
    const Row group(choice.begin() + static_cast<std::ptrdiff_t>(g * size),
                    choice.begin() + static_cast<std::ptrdiff_t>((g + 1) * size));
    double sum = 0;
    for (const int32_t i : largest(group, options.group_best)) {
      sum += static_cast<double>(group[static_cast<size_t>(i)]);
    }
    sums.push_back(static_cast<float>(sum));
  }
  const auto kept = largest(sums, options.top_groups);
  for (size_t i = 0; i < choice.size(); ++i) {
    if (std::find(kept.begin(), kept.end(), static_cast<int32_t>(i / size)) == kept.end()) choice[i] = -3e38f;
  }
}

void choose(const Options& options, Row scores, const Row& correction, float* weights, int32_t* indices) {
  if (options.score == "softmax") softmax(scores);
  if (options.score == "sigmoid") {
    for (float& v : scores) v = static_cast<float>(1 / (1 + std::exp(-static_cast<double>(v))));
  }
  Row choice = scores;
  for (size_t i = 0; i < correction.size(); ++i) choice[i] += correction[i];
  keep_groups(options, choice);
  const auto best = largest(choice, options.k);
  Row chosen;
  for (const int32_t i : best) chosen.push_back(scores[static_cast<size_t>(i)]);
  if (options.after == "softmax") softmax(chosen);
  double divisor = 1;
  if (options.after == "sum") {
    divisor = options.eps;
    for (const float v : chosen) divisor += static_cast<double>(v);
  }
  for (size_t i = 0; i < best.size(); ++i) {
    weights[i] = static_cast<float>(static_cast<double>(chosen[i]) / divisor * options.scale);
    indices[i] = best[i];
  }
}

void run(const KernelCall& call, Worker& worker) {
  const auto& options = static_cast<const Options&>(*call.prepared);
  const tensor::View& x = call.inputs[0];
  const tensor::View& w = call.inputs[1];
  const int64_t columns = row_elements(x);
  const Row bias = options.bias ? decode_vector(call.inputs[2]) : Row{};
  const Row correction = options.correction ? decode_vector(call.inputs.back()) : Row{};
  Row row(static_cast<size_t>(columns));
  for_rows(worker, x.num_rows(), [&](int64_t t) {
    Row scores(static_cast<size_t>(w.dim(0)));
    for (int64_t e = 0; e < w.dim(0); ++e) {
      decode_row(w, e, row.data());
      const auto at = static_cast<size_t>(e);
      const double shift = bias.empty() ? 0.0 : static_cast<double>(bias[at]);
      scores[at] = static_cast<float>(dot_f64(x.as<const float>() + t * columns, row.data(), columns) + shift);
    }
    choose(options, std::move(scores), correction, call.outputs[0].as<float>() + t * options.k,
           call.outputs[1].as<int32_t>() + t * options.k);
  });
}

}  // namespace

KernelBody route_reference() {
  KernelBody body;
  body.symbol = "route_any_f32_ref";
  body.prepare = prepare;
  body.run = run;
  return body;
}

}  // namespace firstlight::kernels
