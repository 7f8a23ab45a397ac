// SPDX-License-Identifier: Apache-2.0
// What the weights of a plan's steps are by their meaning: the checkpoint's bytes, or what the plan's load steps make
// of them when the reference bodies run them. Packing is left out, so that whoever compares a kernel on packed weights
// with the meaning of its operator judges the packing too; so does the decoding, the stacking and the rest.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "formats/tensor_file.h"
#include "judge/run_case.h"
#include "plan/plan.h"

namespace firstlight::gates {

struct Weight {
  tensor::Type type;  // row-major
  std::span<const std::byte> bytes;
  std::shared_ptr<const std::vector<std::byte>> owned;  // keeps `bytes` where they are not the file's
};

class WeightSource {
 public:
  // Both must outlive it.
  WeightSource(const plan::Plan& plan, const formats::Checkpoint& checkpoint);

  bool is_weight(plan::BufferId id) const;
  // `expert`: of a slice. Errors: kInternal for a buffer that no load step makes, those of the reference bodies.
  Result<Weight> get(plan::BufferId id, int64_t expert = -1);

 private:
  Result<Weight> part_of(plan::BufferId id, int64_t expert, const tensor::Type& type);
  Result<Weight> make(plan::BufferId id, const plan::KernelStep& step);
  const plan::KernelStep* maker(plan::BufferId id) const;

  static constexpr size_t kKept = size_t{512} << 20;  // bytes of made weights; then all are forgotten

  const plan::Plan& plan_;
  const formats::Checkpoint& checkpoint_;
  ThreadPool pool_;
  std::vector<const plan::KernelStep*> makers_;  // per buffer
  std::map<plan::BufferId, Weight> made_;
  size_t made_bytes_ = 0;
};

}  // namespace firstlight::gates
