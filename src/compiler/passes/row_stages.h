// SPDX-License-Identifier: Apache-2.0
// Nodes over rows written as the stages of one fused_rows: operators that are no map or reduction by their own
// decomposition. For fuse_rows.
#pragma once

#include <map>
#include <vector>

#include "ir/graph.h"

namespace firstlight::compiler {

class RowStages final : public ops::DecomposeBuilder {
 public:
  explicit RowStages(const std::vector<ir::ValueId>& operands);

  // Nodes in order; operands are those of the step or results of earlier ones.
  Status add(const ir::Node& node);
  // Of fused_rows with these values as results; stages that one other alone reads stand inside it.
  ops::Attributes attributes(const std::vector<ir::ValueId>& results);

  Value emit(ops::OpKind op, std::span<const Value> operands, ops::Attributes attributes) override;
  const tensor::Type& type_of(Value value) const override;

 private:
  void join(size_t stage, std::vector<Value>& results);

  size_t num_operands_;
  std::vector<ops::RowStage> stages_;  // inputs numbered as fused_rows': operands, then stages
  std::map<ir::ValueId, Value> value_of_;
};

}  // namespace firstlight::compiler
