// SPDX-License-Identifier: Apache-2.0
// Test cases as text files. A file holds cases; a case holds named sections:
//
//   === norm with another reader
//   --- passes widen_linears, fuse_norms
//   --- in
//   graph @g { … }
//   --- out
//   graph @g { … }
//
// What stands behind a section's name on its line is its argument; the lines below are its text. With FL_UPDATE_CASES=1
// in the environment, expectations that differ are written back into the file and the test fails once.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace firstlight::cases {

struct Section {
  std::string name;
  std::string argument;
  std::string text;
};

struct Case {
  std::string name;
  std::vector<Section> sections;

  bool has(std::string_view section) const;
  const std::string& argument(std::string_view section) const;  // "" where there is no such section
  const std::string& text(std::string_view section) const;
  std::vector<std::string> list(std::string_view section) const;  // the argument, cut at commas, blanks trimmed
};

// Errors: kInvalidData with the line.
Result<std::vector<Case>> parse_cases(std::string_view text);
std::string print_cases(const std::vector<Case>& cases);

// Runs every case of every file of that ending in the folder (below the repository root) as a GoogleTest check:
// `produce` makes what section "out" should hold, errors as "error: message". Fails when there is no file.
void check_folder(const std::string& folder, const std::string& ending,
                  const std::function<std::string(const Case&)>& produce);

}  // namespace firstlight::cases
