// SPDX-License-Identifier: Apache-2.0
// No pass may change what a graph means, whatever the graph: drawn ones of formulas, reductions, norms, products,
// reshapes, slices and concatenations, with values that are read several times, run by the reference backend and by the
// CPU plan with all passes, the memory of every step watched. FL_RANDOM_GRAPHS gives another number of graphs.
//
// The bound: formulas are bounded or of slope about one, so an error of one step stays of its size; with at most 60
// steps of rows of at most 32, 60 * 32 * 2^-24 = 1.1e-4, and ten times that where a norm divides by a small row. Wrong
// fusions err by more than 1e-2.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "ir/text.h"
#include "model.h"

namespace firstlight::plans {
namespace {

constexpr double kBound = 1e-3;

// Text of a graph. Values are [T, H, D] with H in {1, 4} left out where 1 ([T, D]); D is 8, 32 or 1 (one number a row).
class Drawn {
 public:
  explicit Drawn(uint32_t seed) : random_(seed) {}

  std::string text() {
    weight("embed", "bf16[48, 32]");
    emit("gather_rows @embed, %tokens", {1, 32});
    const int steps = 8 + below(24);
    for (int i = 0; i < steps; ++i) step();
    std::string outputs;
    const int num_outputs = 1 + below(3);
    for (int i = 0; i < num_outputs; ++i) {
      const size_t at = values_.size() - 1 - static_cast<size_t>(i == 0 ? 0 : below(static_cast<int>(values_.size())));
      outputs += "  output y" + std::to_string(i) + " = %" + std::to_string(at) + "\n";
    }
    return "graph @drawn {\n  input %tokens : i32[T]\n" + weights_ + body_ + outputs + "}\n";
  }

 private:
  struct Value {
    int heads = 1;
    int width = 1;
  };

  int below(int n) { return std::uniform_int_distribution<int>(0, n - 1)(random_); }

  static std::string shape(const Value& value) {
    return "T, " + (value.heads > 1 ? std::to_string(value.heads) + ", " : "") + std::to_string(value.width);
  }

  std::string weight(const std::string& name, const std::string& type) {
    weights_ += "  weight @" + name + " : " + type + "\n";
    return "@" + name;
  }

  std::string new_weight(const std::string& kind, const std::string& sizes) {
    static constexpr const char* kTypes[] = {"f32", "bf16", "f16"};
    return weight(kind + std::to_string(num_weights_++), kTypes[below(3)] + ("[" + sizes + "]"));
  }

  size_t emit(const std::string& operation, const Value& value) {
    body_ += "  %" + std::to_string(values_.size()) + " = " + operation + " : f32[" + shape(value) + "]\n";
    values_.push_back(value);
    return values_.size() - 1;
  }

  static std::string name(size_t value) { return "%" + std::to_string(value); }

  // Late ones more often, so that chains come about.
  size_t any() {
    const int back = std::min(below(static_cast<int>(values_.size())), below(static_cast<int>(values_.size())));
    return values_.size() - 1 - static_cast<size_t>(back);
  }

  // A value that broadcasts onto rows of `like`; a weight vector at times.
  std::string other(const Value& like) {
    if (below(4) == 0 && like.width > 1) return new_weight(below(2) == 0 ? "norm" : "w", std::to_string(like.width));
    std::vector<size_t> fits;
    for (size_t i = 0; i < values_.size(); ++i) {
      const Value& value = values_[i];
      if (value.heads == like.heads && (value.width == like.width || value.width == 1)) fits.push_back(i);
    }
    return name(fits[static_cast<size_t>(below(static_cast<int>(fits.size())))]);
  }

  void map() {
    static constexpr const char* kOne[] = {"tanh(x0)",
                                           "mul(x0, sigmoid(x0))",
                                           "add(x0, 0.25)",
                                           "mul(x0, 0.5)",
                                           "max(x0, 0.0)",
                                           "min(max(x0, -1.5), 1.5)",
                                           "exp(tanh(x0))",
                                           "neg(x0)",
                                           "erf(x0)",
                                           "rsqrt(add(mul(x0, x0), 0.5))",
                                           "(t0 = sigmoid(x0); mul(t0, sub(2.0, t0)))"};
    static constexpr const char* kTwo[] = {"add(x0, x1)",          "sub(x0, x1)", "mul(tanh(x0), x1)",
                                           "mul(x0, sigmoid(x1))", "max(x0, x1)", "div(x0, add(1.0, abs(x1)))"};
    const size_t x = any();
    const Value value = values_[x];
    switch (below(3)) {
      case 0:
        emit("map " + name(x) + " {expr = " + kOne[below(11)] + "}", value);
        return;
      case 1:
        emit("map " + name(x) + ", " + other(value) + " {expr = " + kTwo[below(6)] + "}", value);
        return;
      default:
        emit("map " + name(x) + ", " + other(value) + ", " + other(value) +
                 " {expr = add(mul(x0, tanh(x1)), mul(x2, 0.5))}",
             value);
    }
  }

  void row() {
    const size_t x = any();
    const Value value = values_[x];
    if (value.width == 1) return map();
    const std::string width = std::to_string(value.width);
    switch (below(5)) {
      case 0:
        emit("rms_norm " + name(x) + (below(2) == 0 ? ", " + new_weight("norm", width) : "") + " {eps = 0.01}", value);
        return;
      case 1:
        emit("layer_norm " + name(x) + ", " + new_weight("norm", width) + " {eps = 0.01}", value);
        return;
      case 2:
        emit("softmax " + name(x), value);
        return;
      default: {
        static constexpr const char* kReduces[] = {"sum", "mean", "max", "min"};
        emit("reduce " + name(x) + " {axis = -1, keep = true, op = \"" + kReduces[below(4)] + "\"}", {value.heads, 1});
      }
    }
  }

  void product() {
    const size_t x = any();
    const Value value = values_[x];
    if (value.heads != 1 || value.width == 1) return row();
    const int out = below(3) == 0 ? 8 : 32;
    const std::string sizes = std::to_string(out) + ", " + std::to_string(value.width);
    const std::string bias = below(3) == 0 ? ", " + new_weight("b", std::to_string(out)) : "";
    emit("linear " + name(x) + ", " + new_weight("m", sizes) + bias + " {compute = \"auto\"}", {1, out});
  }

  void form() {
    const size_t x = any();
    const Value value = values_[x];
    if (value.width == 1) return map();
    if (value.heads == 4 && value.width == 8 && below(2) == 0) {
      emit("reshape " + name(x) + " {shape = \"T,32\"}", {1, 32});
    } else if (value.heads == 1 && value.width == 32 && below(2) == 0) {
      emit("reshape " + name(x) + " {shape = \"T,4,8\"}", {4, 8});
    } else if (value.width == 32) {  // cut in parts, of which some are used
      const int start = 8 * below(4);
      emit("slice " + name(x) + " {axis = -1, start = " + std::to_string(start) +
               ", stop = " + std::to_string(start + 8) + "}",
           {value.heads, 8});
    } else {
      emit("concat " + name(x) + ", " + name(x) + ", " + name(x) + ", " + name(x) + " {axis = -1}", {value.heads, 32});
    }
  }

  void step() {
    switch (below(7)) {
      case 0:
      case 1:
      case 2:
        return map();
      case 3:
      case 4:
        return row();
      case 5:
        return product();
      default:
        return form();
    }
  }

  std::mt19937 random_;
  std::vector<Value> values_;
  std::string weights_, body_;
  int num_weights_ = 0;
};

TEST(RandomGraphs, MeanTheSameFused) {
  const char* wanted_count = std::getenv("FL_RANDOM_GRAPHS");
  const int count = wanted_count == nullptr ? 150 : std::atoi(wanted_count);
  ThreadPool pool({.num_threads = 2, .pin = false});
  int fused = 0;
  for (int seed = 1; seed <= count; ++seed) {
    const std::string text = Drawn(static_cast<uint32_t>(seed)).text();
    const auto model = make_model(text, 11);
    ASSERT_TRUE(model.ok()) << model.status().message() << "\n" << text;
    const auto wanted = run_model(*model, options_for(catalog::Backend::kReference), pool);
    ASSERT_TRUE(wanted.ok()) << wanted.status().message() << "\n" << text;
    const auto options = options_for(catalog::Backend::kCpu);
    const auto found = run_model(*model, options, pool, {.check_memory = true});
    ASSERT_TRUE(found.ok()) << "graph " << seed << ": " << found.status().message() << "\n" << text;
    EXPECT_LE(relative_difference(*found, *wanted), kBound) << "graph " << seed << "\n" << text;
    const auto plan = compiler::compile(model->graph, options).value();
    if (plan.body.steps.size() * 2 < model->graph.nodes.size()) ++fused;
  }
  EXPECT_GE(fused, count / 10) << "graphs of which half the steps went: too few to say anything about fusion";
}

}  // namespace
}  // namespace firstlight::plans
