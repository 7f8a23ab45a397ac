// SPDX-License-Identifier: Apache-2.0
// Counts what a test has compared, by place and by the low-precision types that took part, and records it as properties
// of the running test, from which tools/conformance_table.py makes docs/conformance.md.
#pragma once

#include <map>
#include <string>

#include "compare.h"

namespace firstlight::conformance {

class Ledger {
 public:
  void add(const std::string& place, const Case& c, const Judgement& judgement);
  // As properties of the running test: "count/<operator>/<place>/<type>" with "cases failures worst".
  void record() const;

 private:
  struct Entry {
    int64_t cases = 0, failures = 0;
    double worst = 0;
  };
  std::map<std::string, Entry> entries_;
};

// The column of a host's row: "reference", "cpu", "cpu avx2", …
std::string place_of(const catalog::KernelRow& row);

// The narrowest type among a case's operands and states: "f32" where nothing is stored in less.
std::string narrowest_type(const Case& c);

}  // namespace firstlight::conformance
