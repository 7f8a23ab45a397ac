// SPDX-License-Identifier: Apache-2.0
#include "judge/verdict.h"

#include <algorithm>
#include <cmath>

namespace firstlight::judge {
namespace {

bool moves_values(ops::OpKind op) {
  using ops::OpKind;
  for (const OpKind moving :
       {OpKind::kGatherRows, OpKind::kGatherLast, OpKind::kReshape, OpKind::kTranspose, OpKind::kSlice, OpKind::kConcat,
        OpKind::kStack, OpKind::kTake, OpKind::kPad, OpKind::kShift, OpKind::kWindowEmit}) {
    if (op == moving) return true;
  }
  return false;
}

// Holds one list of numbers against its ranges; without ranges against equal numbers.
class Holder {
 public:
  explicit Holder(bool signs) : signs_(signs) {}

  void hold(const std::vector<double>& found, const std::vector<double>& wanted, const std::vector<Range>& ranges,
            const std::string& what, bool counts = true) {
    if (!result.difference.empty()) return;
    if (found.size() != wanted.size() || (!ranges.empty() && ranges.size() != wanted.size())) {
      result.difference = what + ": sizes differ";
      return;
    }
    for (size_t i = 0; i < found.size(); ++i) {
      const Range range = ranges.empty() ? exactly(wanted[i]) : ranges[i];
      const bool fits =
          range.holds(found[i]) && (!signs_ || found[i] != 0 || std::signbit(found[i]) == std::signbit(wanted[i]));
      if (!fits) {
        result.difference = what + ", element " + std::to_string(i) + ": found " + ops::exact_decimal(found[i]) +
                            ", wanted " + ops::exact_decimal(wanted[i]) + " in " + ops::exact_decimal(range.low) +
                            " to " + ops::exact_decimal(range.high);
        return;
      }
      const double room = std::max(range.high - wanted[i], wanted[i] - range.low);
      if (counts && room > 0 && std::isfinite(room) && std::isfinite(found[i])) {
        result.worst = std::max(result.worst, std::fabs(found[i] - wanted[i]) / room);
      }
    }
  }
  Judgement result;

 private:
  bool signs_;
};

}  // namespace

Judgement judge_outcome(const Case& c, const Outcome& found, const Outcome& wanted, const Limits& limits) {
  Holder holder(moves_values(c.op));
  if (found.results.size() != wanted.results.size() || found.pages.size() != wanted.pages.size()) {
    return {"the number of results differs", 0};
  }
  static const std::vector<Range> kEqual;
  for (size_t i = 0; i < found.results.size(); ++i) {
    const std::string what = "result " + std::to_string(i);
    const tensor::Type& type = found.results[i].type;
    if (found.results[i].data == wanted.results[i].data && limits.results.empty()) continue;
    if (!type.is_state() && !tensor::dtype_info(type.dtype).is_float && type.dtype != tensor::DType::kI32) {
      if (found.results[i].data != wanted.results[i].data) return {what + ": bytes differ", 0};
      continue;
    }
    const auto& ranges = limits.results.empty() || type.is_state() ? kEqual : limits.results[i];
    holder.hold(found.results[i].values(), wanted.results[i].values(), ranges, what,
                tensor::dtype_info(type.dtype).is_float);
  }
  const bool within = is_recurrence(c.op);
  for (size_t s = 0; s < found.pages.size(); ++s) {
    const std::string what = "page " + std::to_string(s);
    if (found.pages[s] == wanted.pages[s]) continue;
    if (!within) {
      const auto& ranges = limits.state.empty() ? kEqual : limits.state[s];
      holder.hold(page_values(c, found.pages[s]), page_values(c, wanted.pages[s]), ranges, what);
      continue;
    }
    const State& state = c.state[0];
    for (size_t part = 0; part < state.decl.components.size(); ++part) {
      const bool own = state.decl.components[part].name == c.attributes.get_string("component");
      holder.hold(fixed_component(state, part, found.pages[s]), fixed_component(state, part, wanted.pages[s]),
                  own && !limits.state.empty() ? limits.state[s] : kEqual, what);
    }
  }
  return holder.result;
}

}  // namespace firstlight::judge
