// SPDX-License-Identifier: Apache-2.0
// The code points whose upper or title case is more than one code point (Unicode's SpecialCasing, unconditional part).
#pragma once

#include <array>

namespace firstlight::text::jinja {

struct SpecialCase {
  char32_t from = 0;
  std::array<char16_t, 3> upper{};
  std::array<char16_t, 3> title{};
};

// The row of `c`, null if its mappings are single code points.
const SpecialCase* find_special_case(char32_t c);

}  // namespace firstlight::text::jinja
