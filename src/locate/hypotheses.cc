// SPDX-License-Identifier: Apache-2.0
// Which makers are asked about which operator.
#include "locate/hypotheses.h"

#include <optional>

#include "locate/draft.h"

namespace firstlight::locate {
namespace {

using ops::OpKind;

struct MakerRow {
  std::optional<OpKind> of;  // none: of every operator
  void (*make)(Draft& draft);
  const char* words = "";  // in config keys that it is about, where the maker does not say more
};

// Of operators on values.
constexpr MakerRow kMakers[] = {
    {std::nullopt, &numbers_of_attributes},
    {std::nullopt, &switches},
    {OpKind::kRmsNorm, &other_norm},
    {OpKind::kLayerNorm, &other_norm},
    {std::nullopt, &of_tensors},
    {OpKind::kRope, &of_rope, "rope theta rotary factor original_max"},
    {OpKind::kAttend, &of_attend, "window"},
    {OpKind::kMap, &of_formula},
    {OpKind::kConcat, &order_of_operands},
    {OpKind::kPerExpert, &of_expert_weights, "scal norm_topk score"},
    {std::nullopt, &of_routing, "norm_topk scoring rout"},
    {std::nullopt, &left_out},
    {std::nullopt, &inserted},
    {std::nullopt, &unread_tensors},
    {OpKind::kSlice, &of_parts},
    {OpKind::kRmsNorm, &gate_and_norm},
    {OpKind::kRmsNorm, &norm_by_groups},
    {std::nullopt, &missing_norm},
    {std::nullopt, &missing_activation},
    {std::nullopt, &other_operands},
    {OpKind::kAttend, &rope_of_others, "rope theta"},
};

// Of operators on tensors alone.
constexpr MakerRow kTensorMakers[] = {
    {OpKind::kDequantize, &of_scales},
};

}  // namespace

std::vector<Hypothesis> hypotheses(const ir::Graph& graph, ir::NodeId id, const Hints& hints) {
  Draft draft(graph, id, hints);
  const bool on_weights = !draft.node.results.empty() && draft.is_weight(draft.node.results[0]);
  const auto rows = on_weights ? std::span<const MakerRow>(kTensorMakers) : std::span<const MakerRow>(kMakers);
  for (const MakerRow& row : rows) {
    draft.words = row.words;
    if (!row.of || *row.of == draft.node.op) row.make(draft);
  }
  return std::move(draft.out);
}

}  // namespace firstlight::locate
