// SPDX-License-Identifier: Apache-2.0
// One call of a kernel on memory that the test holds, states included: nothing is copied but results, so that sequences
// of a hundred thousand tokens and batches of hundreds of sequences can be run. And the table of how far off each was.
#pragma once

#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "case.h"
#include "kernels/kernel.h"

namespace firstlight::long_tests {

using conformance::Data;
using conformance::Tensor;
using tensor::DType;

inline constexpr double kUnit = 0x1p-24;  // roundoff of float32

// FL_LONG=full in the environment: the whole grid in place of the samples that `make test` has time for.
bool is_full();

struct KernelRun {
  ops::OpKind op;
  ops::Attributes attributes;
  std::vector<Tensor> operands;  // a state operand stands as an empty tensor of type state
  std::vector<const ops::StateDecl*> declarations;
  std::vector<const plan::StateView*> states;
  std::vector<plan::SequenceSpan> spans;
};

// The results of type tensor, row-major. Memory of results is 0xff bytes first. FL_CHECKs that the call is well-formed.
std::vector<std::vector<float>> run(const KernelRun& call, const catalog::KernelRow& row, ThreadPool& pool);

// Rows of the host that accept the call and that this machine can run: the reference (if asked for) and every
// instruction set.
std::vector<const catalog::KernelRow*> host_rows(const KernelRun& call, bool with_reference);
std::string place_of(const catalog::KernelRow& row);  // "reference", "cpu avx2", "cpu avx512", "cpu"

// The largest share of its bound that an error took.
class Tally {
 public:
  void add(double found, double wanted, double bound);
  double share() const { return share_; }
  // Prints a line of the table and fails the test where a bound was passed.
  void conclude(const std::string& what, const std::string& place) const;

 private:
  double share_ = 0, error_ = 0, bound_ = 0, wanted_ = 0;
  int64_t count_ = 0, place_ = 0;  // of comparisons; the worst one's
};

}  // namespace firstlight::long_tests
