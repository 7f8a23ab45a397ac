// SPDX-License-Identifier: Apache-2.0
#include "compare.h"

#include <gtest/gtest.h>

#include <cmath>

#include "formulas.h"

namespace firstlight::conformance {

using catalog::ComputeMode;

namespace {

bool same_kind(double found, double wanted) {
  if (std::isnan(wanted)) return std::isnan(found);
  return std::isinf(wanted) ? found == wanted : std::isfinite(found);
}

}  // namespace

std::string first_difference(const std::vector<double>& values, const std::vector<double>& wanted, const Bound& bound,
                             const std::vector<double>* tolerance) {
  if (values.size() != wanted.size()) return "sizes differ";
  for (size_t i = 0; i < values.size(); ++i) {
    const double allowed =
        tolerance != nullptr ? (*tolerance)[i] : bound.absolute + bound.relative * std::fabs(wanted[i]);
    const bool fits =
        same_kind(values[i], wanted[i]) && (!std::isfinite(wanted[i]) || std::fabs(values[i] - wanted[i]) <= allowed);
    if (fits) continue;
    return "element " + std::to_string(i) + ": found " + ops::exact_decimal(values[i]) + ", wanted " +
           ops::exact_decimal(wanted[i]) + " within " + ops::exact_decimal(allowed);
  }
  return "";
}

// Rows computed on their way into the state: where a value lies on the border of two numbers of the stored type, the
// next one is as right.
void expect_near_pages(const Case& c, const Outcome& found, const Outcome& wanted, const std::string& where) {
  const tensor::DType dtype = c.state[0].decl.components[0].dtype;
  const double unit = dtype == tensor::DType::kF16 ? 0x1p-10 : dtype == tensor::DType::kBF16 ? 0x1p-7 : 0;
  ASSERT_EQ(found.pages.size(), wanted.pages.size()) << where;
  for (size_t p = 0; p < found.pages.size(); ++p) {
    const auto count = static_cast<int64_t>(found.pages[p].size()) / tensor::dtype_info(dtype).block_bytes;
    const Tensor page{tensor::Type::tensor(dtype, {count}), found.pages[p]};
    const Tensor other{tensor::Type::tensor(dtype, {count}), wanted.pages[p]};
    const Bound bound{c.bound.absolute, c.bound.relative + unit};
    EXPECT_EQ(first_difference(page.values(), other.values(), bound, nullptr), "") << where << ", page " << p;
  }
}

void expect_equal(const Case& c, const Outcome& found, const Outcome& wanted, ComputeMode mode,
                  const std::string& where) {
  const bool products = is_product(c.op);
  const Values tolerance = products ? product_tolerance(c, mode) : Values{};
  ASSERT_EQ(found.results.size(), wanted.results.size()) << where;
  for (size_t i = 0; i < found.results.size(); ++i) {
    if (!products && c.bound.absolute == 0 && c.bound.relative == 0 &&
        !tensor::dtype_info(found.results[i].type.dtype).is_float) {
      EXPECT_TRUE(found.results[i].data == wanted.results[i].data) << where << " result " << i;
      continue;
    }
    const std::string difference = first_difference(found.results[i].values(), wanted.results[i].values(), c.bound,
                                                    products ? &tolerance[i] : nullptr);
    EXPECT_EQ(difference, "") << where << " result " << i;
  }
  if (c.op == ops::OpKind::kRopeAppend) return expect_near_pages(c, found, wanted, where);
  if (!is_recurrence(c.op)) {
    EXPECT_TRUE(found.pages == wanted.pages) << where << ": the state differs";
    return;
  }
  const State& state = c.state[0];
  ASSERT_EQ(found.pages.size(), wanted.pages.size()) << where;
  for (size_t s = 0; s < found.pages.size(); ++s) {
    for (size_t part = 0; part < state.decl.components.size(); ++part) {
      const bool own = state.decl.components[part].name == c.attributes.get_string("component");
      const std::string difference =
          first_difference(fixed_component(state, part, found.pages[s]), fixed_component(state, part, wanted.pages[s]),
                           own ? c.bound : Bound{0, 0}, nullptr);
      EXPECT_EQ(difference, "") << where << ", state of sequence " << s;
    }
  }
}

}  // namespace firstlight::conformance
