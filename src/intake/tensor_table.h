// SPDX-License-Identifier: Apache-2.0
// The tensors a trace may refer to: names, types and shapes without data. Complete (of a checkpoint or a list), or
// open: then everything asked for is taken to exist.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/dtype.h"

namespace firstlight::formats {
class Checkpoint;
}

namespace firstlight::intake {

struct TensorHeader;

struct TensorInfo {
  std::optional<tensor::DType> dtype;
  std::string stored_type;
  std::vector<int64_t> shape;
};

class TensorTable {
 public:
  static TensorTable open_ended() { return TensorTable(false); }
  static TensorTable of(const formats::Checkpoint& checkpoint);
  static TensorTable of(const std::vector<TensorHeader>& headers);

  bool is_complete() const { return complete_; }
  const TensorInfo* find(std::string_view name) const;
  const std::map<std::string, TensorInfo, std::less<>>& all() const { return tensors_; }

 private:
  explicit TensorTable(bool complete) : complete_(complete) {}
  bool complete_;
  std::map<std::string, TensorInfo, std::less<>> tensors_;
};

}  // namespace firstlight::intake
