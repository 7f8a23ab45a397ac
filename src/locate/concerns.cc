// SPDX-License-Identifier: Apache-2.0
// Which key of config.json or which tensor a hypothesis is about.
#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "compiler/weight_values.h"
#include "locate/hypotheses.h"
#include "ops/expression.h"

namespace firstlight::locate {
namespace {

std::vector<double> numbers_in(const std::string& text) {
  std::vector<double> numbers;
  for (const char* at = text.c_str(); *at != '\0';) {
    char* end = nullptr;
    const double value = std::strtod(at, &end);
    const bool inside_word = at != text.c_str() && (std::isalnum(at[-1]) != 0 || at[-1] == '_');
    if (end == at || inside_word) {
      ++at;
      continue;
    }
    numbers.push_back(value);
    at = end;
  }
  return numbers;
}

bool has_word(const std::string& name, const std::string& words) {
  for (size_t begin = 0; begin < words.size();) {
    const size_t end = std::min(words.find(' ', begin), words.size());
    if (end > begin && name.find(words.substr(begin, end - begin)) != std::string::npos) return true;
    begin = end + 1;
  }
  return false;
}

void tensors_behind(const ir::Graph& graph, ir::ValueId value, std::vector<std::string>& out) {
  const ir::Value& of = graph.value(value);
  constexpr size_t kMost = 4;
  if (out.size() >= kMost) return;
  if (of.kind == ir::Value::Kind::kWeight && std::find(out.begin(), out.end(), of.name) == out.end())
    out.push_back(of.name);
  if (of.producer < 0) return;
  for (const ir::ValueId operand : graph.node(of.producer).operands) tensors_behind(graph, operand, out);
}

}  // namespace

std::vector<std::string> concerned_keys(const Hypothesis& hypothesis, const Hints& hints) {
  const auto numbers = numbers_in(hypothesis.what);
  std::vector<std::string> named, exact;
  for (const auto& [name, value] : hints.config) {
    if (!has_word(name, hypothesis.words)) continue;
    const std::string text = name + " = " + ops::exact_decimal(value);
    named.push_back(text);
    if (std::find(numbers.begin(), numbers.end(), value) != numbers.end()) exact.push_back(text);
  }
  if (!exact.empty()) return exact;
  if (!named.empty()) return named;
  for (const double number : numbers) {
    const std::string name = config_name(number, hints);
    if (!name.empty() && std::find(exact.begin(), exact.end(), name) == exact.end()) exact.push_back(name);
  }
  return exact;
}

std::vector<std::string> concerned_tensors(const ir::Graph& graph, ir::NodeId id) {
  const auto of_weights_alone = compiler::weight_only_values(graph);
  std::vector<std::string> tensors;
  for (const ir::ValueId operand : graph.node(id).operands) {
    if (graph.value(operand).kind == ir::Value::Kind::kWeight || of_weights_alone[static_cast<size_t>(operand)])
      tensors_behind(graph, operand, tensors);
  }
  return tensors;
}

}  // namespace firstlight::locate
