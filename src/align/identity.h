// SPDX-License-Identifier: Apache-2.0
// What a recording was made of, as hashes: of the tensors' bytes, whatever files they lie in, and of the graph. Not
// cryptographic: they tell one release from another, not from a forgery. docs/golden_pack.md has the definitions, for
// recorders in other languages.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "align/pack.h"
#include "formats/tensor_file.h"

namespace firstlight::align {

// Of all tensors in the order of their names. Reads the files in small pieces. Errors: kUnavailable (disk).
Result<std::string> weights_hash(const formats::Checkpoint& checkpoint);

int64_t count_parameters(const formats::Checkpoint& checkpoint);

std::string hex64(uint64_t value);

// Which kinds of fault a baseline can see, and why: what its origin does not share with the thing tested (null: with
// whatever this program runs from the same files). "spec", "weights", "kernels", "plan".
struct Sight {
  bool sees = false;
  std::string why;
};
std::map<std::string, Sight> visible_faults(const Pack& baseline, const Pack* tested);

}  // namespace firstlight::align
