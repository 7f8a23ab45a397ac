// SPDX-License-Identifier: Apache-2.0
// Tensors: order of rows and columns, another tensor in the place, one that nothing reads, blocks of scales.
#include <algorithm>
#include <numeric>

#include "ir/builder.h"
#include "locate/draft.h"

namespace firstlight::locate {

using ops::OpKind;

namespace {

std::vector<int64_t> halves(int64_t n) {
  std::vector<int64_t> order;
  for (int64_t i = 0; i < n; ++i) order.push_back((i + n / 2) % n);
  return order;
}
// Rows 0, 2, 4, … then 1, 3, 5, … of every block; and back.
std::vector<int64_t> evens_first(int64_t n, int64_t block) {
  std::vector<int64_t> order;
  for (int64_t b = 0; b < n; b += block) {
    for (int64_t i = 0; i < block; i += 2) order.push_back(b + i);
    for (int64_t i = 1; i < block; i += 2) order.push_back(b + i);
  }
  return order;
}
std::vector<int64_t> inverse(const std::vector<int64_t>& order) {
  std::vector<int64_t> back(order.size());
  for (size_t i = 0; i < order.size(); ++i) back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  return back;
}

std::set<int64_t> blocks(Draft& draft, int64_t n) {
  std::set<int64_t> out = {n};
  for (const double heads : {draft.config_or("num_attention_heads", 1), draft.config_or("num_key_value_heads", 1)}) {
    const auto count = static_cast<int64_t>(heads);
    if (count > 0 && n % count == 0 && (n / count) % 2 == 0 && n / count > 2) out.insert(n / count);
  }
  for (const double width : draft.numbers_with("head_dim")) {
    const auto block = static_cast<int64_t>(width);
    if (block > 2 && block % 2 == 0 && n % block == 0) out.insert(block);
  }
  return out;
}

void orders(Draft& draft, size_t k, ir::ValueId value) {
  const auto& shape = draft.type(value).shape;
  const auto f32 = cast_step("f32");
  const auto rank = static_cast<int64_t>(shape.size());
  for (const int64_t axis : {rank - 2, rank - 1}) {
    const int64_t n = shape[static_cast<size_t>(axis)].factor;
    const std::string side = axis == rank - 1 ? "columns" : "rows";
    if (n % 2 != 0) continue;
    draft.tensor_step(k, "halves of its " + side + " swapped", "two parts of the tensor are exchanged",
                      {f32, take_step(axis, halves(n))}, 17);
    for (const int64_t block : blocks(draft, n)) {
      const auto order = evens_first(n, block);
      const std::string of = block == n ? "" : " of every " + std::to_string(block);
      draft.tensor_step(k, "even " + side + " first" + of,
                        "interleaved where halves are wanted: a layout of other files", {f32, take_step(axis, order)},
                        block == n ? 18 : 19);
      draft.tensor_step(k, side + " in turns from both halves" + of, "halves where interleaved is wanted",
                        {f32, take_step(axis, inverse(order))}, block == n ? 18 : 19);
    }
    for (const int64_t heads : {2, 4, 8}) {
      if (n % heads != 0 || n / heads < 2) continue;
      std::vector<int64_t> back;
      for (int64_t h = heads - 1; h >= 0; --h) {
        for (int64_t i = 0; i < n / heads; ++i) back.push_back(h * (n / heads) + i);
      }
      draft.tensor_step(k, std::to_string(heads) + " heads of its " + side + " from the last to the first",
                        "heads are in another order", {f32, take_step(axis, back)}, 29);
    }
  }
  if (shape[static_cast<size_t>(rank - 1)] == shape[static_cast<size_t>(rank - 2)]) {
    EditStep step{.op = OpKind::kTranspose, .attributes = {}};
    std::vector<int64_t> perm(static_cast<size_t>(rank));
    std::iota(perm.begin(), perm.end(), 0);
    std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
    step.attributes.set("perm", perm);
    draft.tensor_step(k, "transposed", "the file has the matrix as [in, out]", {f32, step}, 15);
  }
}

std::string layer_prefix(const std::string& name) {
  size_t dots = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '.' && ++dots == 3) return name.substr(0, i);
  }
  return "";
}
std::string without_digits(std::string name) {
  std::erase_if(name, [](char c) { return c >= '0' && c <= '9'; });
  return name;
}

void other_computed(Draft& draft, size_t k, ir::ValueId value) {
  for (size_t j = 0; j < draft.node.operands.size(); ++j) {
    const ir::ValueId other = draft.node.operands[j];
    if (j == k || other == value || j < k || !draft.is_weight(other) || draft.type(other) != draft.type(value))
      continue;
    draft
        .add(
            Cause::kWeight, "two of its tensors exchanged", "gate and up (or the like) are swapped",
            [j, k](ir::Graph& graph, ir::NodeId id) {
              std::swap(graph.node(id).operands[j], graph.node(id).operands[k]);
              return ok_status();
            },
            17)
        .of_weights = true;
  }
}

void replace(Draft& draft, size_t k, ir::ValueId other, const std::string& name, const std::string& own, int rank) {
  draft
      .add(
          Cause::kWeight, name + " instead of " + own, "the tensor has the contents of another one",
          [k, other](ir::Graph& graph, ir::NodeId id) { return graph.node(id).operands[k] = other, ok_status(); }, rank)
      .of_weights = true;
}

// Of another layer, or another tensor of this one, with the same type.
void other_tensors(Draft& draft, size_t k, ir::ValueId value) {
  const std::string own = draft.graph.value(value).name;
  if (own.empty()) {
    other_computed(draft, k, value);
    return;
  }
  for (size_t i = 0; i < draft.graph.values.size(); ++i) {
    const ir::Value& other = draft.graph.values[i];
    if (other.kind != ir::Value::Kind::kWeight || other.name == own || other.type.shape != draft.type(value).shape)
      continue;
    const bool same_layer = layer_prefix(other.name) == layer_prefix(own);
    const bool same_module = without_digits(other.name) == without_digits(own);
    if (!same_layer && !same_module) continue;
    replace(draft, k, static_cast<ir::ValueId>(i), other.name, own, same_module ? 16 : 17);
  }
}

// A tensor of the checkpoint that the graph does not read: bias, sinks, weight of a norm.
void unused_tensors(Draft& draft) {
  if (draft.hints.checkpoint == nullptr) return;
  const auto def = ops::op_def(draft.node.op).operands;
  const size_t next = draft.node.operands.size();
  if (next >= def.size() || def[next].arity != ops::OperandDef::Arity::kOptional) return;
  const int64_t wanted = draft.node.op == OpKind::kAttend ? draft.type(draft.node.operands[0]).shape[1].factor
                                                          : draft.last_dim(draft.node.results[0]);
  std::string folder = draft.node.scope;
  for (const ir::ValueId id : draft.node.operands) {
    const std::string& name = draft.graph.value(id).name;
    if (draft.graph.value(id).kind == ir::Value::Kind::kWeight && name.rfind('.') != std::string::npos)
      folder = name.substr(0, name.rfind('.'));
  }
  for (const auto& [name, record] : draft.hints.checkpoint->tensors()) {
    if (!name.starts_with(folder + ".") || draft.graph.weight_sources.contains(name) || !record.dtype) continue;
    if (record.shape != std::vector<int64_t>{wanted}) continue;
    tensor::Type of = tensor::Type::tensor(*record.dtype, {tensor::Dim(wanted)});
    draft.add(
        draft.node.op == OpKind::kAttend ? Cause::kMask : Cause::kWeight, "with " + name + ", which nothing reads",
        "the spec leaves this tensor out",
        [name = name, of](ir::Graph& graph, ir::NodeId id) {
          const ir::ValueId value = ir::Builder(graph).add_weight(name, of, name);
          graph.node(id).operands.push_back(value);
          return ok_status();
        },
        9);
  }
}

}  // namespace

void of_tensors(Draft& draft) {
  for (size_t k = 0; k < draft.node.operands.size(); ++k) {
    const ir::ValueId value = draft.node.operands[k];
    if (!draft.is_weight(value) || draft.type(value).is_state()) continue;
    const auto& shape = draft.type(value).shape;
    const bool is_matrix = shape.size() >= 2;
    other_tensors(draft, k, value);
    if (is_matrix && draft.node.op != OpKind::kGatherRows) orders(draft, k, value);
    if (!is_matrix) {
      const auto def = ops::op_def(draft.node.op).operands;
      const bool last = k + 1 == draft.node.operands.size();
      if (last && k < def.size() && def[k].arity == ops::OperandDef::Arity::kOptional &&
          draft.node.op != OpKind::kAttend) {
        draft
            .add(
                k == 1 ? Cause::kNorm : Cause::kWeight, std::string("without its ") + std::string(def[k].name),
                "the tensor does not belong here",
                [](ir::Graph& graph, ir::NodeId id) { return graph.node(id).operands.pop_back(), ok_status(); }, 22)
            .of_weights = true;
      }
    }
  }
  unused_tensors(draft);
}

void of_scales(Draft& draft) {
  const auto& shape = draft.type(draft.node.operands[1]).shape;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const int64_t n = shape[axis].factor;
    if (n < 2) continue;
    for (const int64_t by : {int64_t{1}, n - 1}) {
      std::vector<int64_t> order;
      for (int64_t i = 0; i < n; ++i) order.push_back((i + by) % n);
      draft.tensor_step(1, "scales moved by one block along axis " + std::to_string(axis),
                        "scales belong to other blocks",
                        {cast_step("f32"), take_step(static_cast<int64_t>(axis), order)}, 12);
    }
  }
  draft.tensor_step(1, "scales inverted", "the file has the reciprocal", {cast_step("f32"), map_step("div(1.0, x0)")},
                    14);
}

}  // namespace firstlight::locate
