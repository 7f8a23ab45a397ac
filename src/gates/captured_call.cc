// SPDX-License-Identifier: Apache-2.0
#include "gates/captured_call.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <set>

#include "catalog/attend_forms.h"
#include "tensor/codec.h"
#include "tensor/state_rows.h"

namespace firstlight::gates {
namespace {

using ops::OpKind;
using tensor::View;

// Products of one judged call: what a second of one core can do, roughly.
constexpr int64_t kMostProducts = int64_t{1} << 25;
constexpr int64_t kMostRows = 24;

tensor::Type counted(const tensor::Type& type, const tensor::SymbolValues& values) {
  tensor::Type out = type;
  out.layout = tensor::Layout::kRowMajor;
  for (tensor::Dim& dim : out.shape) dim = tensor::Dim(dim.at(values));
  return out;
}

// Ascending numbers below `total`, `most` of them: the first, the last (twice as many) and some drawn between.
std::vector<int64_t> sample(int64_t total, int64_t most, uint32_t seed) {
  std::vector<int64_t> all;
  if (total <= most) {
    for (int64_t i = 0; i < total; ++i) all.push_back(i);
    return all;
  }
  std::set<int64_t> chosen;
  for (int64_t i = 0; i < most / 6; ++i) chosen.insert(i);
  for (int64_t i = total - most / 2; i < total; ++i) chosen.insert(i);
  std::mt19937 random(seed);
  while (static_cast<int64_t>(chosen.size()) < most)
    chosen.insert(static_cast<int64_t>(random() % static_cast<uint32_t>(total)));
  return {chosen.begin(), chosen.end()};
}

// Operators whose rows (of the first axis) do not see one another.
bool is_by_rows(OpKind op) {
  switch (op) {
    case OpKind::kGatherRows:
    case OpKind::kCast:
    case OpKind::kMap:
    case OpKind::kSoftmax:
    case OpKind::kTopK:
    case OpKind::kIndexMask:
    case OpKind::kFakeQuant:
    case OpKind::kImap:
    case OpKind::kFusedRows:
    case OpKind::kRmsNorm:
    case OpKind::kLayerNorm:
    case OpKind::kLinear:
    case OpKind::kBatchedLinear:
    case OpKind::kFusedLinear:
    case OpKind::kRoute:
      return true;
    default:
      return false;
  }
}

class Capturer {
 public:
  Capturer(const runtime::StepCall& call, const plan::Plan& plan, WeightSource& weights)
      : call_(call), plan_(plan), weights_(weights) {}

  Result<CapturedCall> run() {
    const plan::KernelStep& step = call_.step;
    out_.call.name = std::string(call_.label);
    out_.call.op = step.op;
    out_.call.attributes = step.attributes;
    out_.kernel = std::string(call_.form);
    out_.mode = catalog::attends_in_bf16(out_.kernel) ? catalog::ComputeMode::kBf16 : mode_of(step.attributes);
    out_.label = std::string(call_.label);
    for (const plan::BufferId id : step.outputs)
      out_.call.result_types.push_back(counted(plan_.buffer(id).type, call_.values));
    if (step.outputs.empty()) out_.call.result_types.push_back(tensor::Type::state());
    choose_rows();
    for (size_t i = 0; i < step.inputs.size(); ++i) FL_TRY(add_operand(i));
    FL_TRY(choose_columns());
    FL_TRY(shrink_table());
    add_states();
    // No bound: what the operands make of it (judge/bounds.cc). A router's weights by the formula of its scores.
    out_.call.bound = step.op == OpKind::kRoute ? judge::Bound{2e-6, 1e-5} : judge::Bound{0, 0};
    describe();
    return std::move(out_);
  }

 private:
  const tensor::Type& type_of(plan::BufferId id) const { return plan_.buffer(id).type; }

  bool has_rows(const tensor::Type& type) const {
    return !type.is_state() && !type.shape.empty() && type.shape[0] == leading_;
  }

  void choose_rows() {
    const plan::KernelStep& step = call_.step;
    if (step.outputs.empty() || type_of(step.outputs[0]).shape.empty()) return;
    leading_ = type_of(step.outputs[0]).shape[0];
    const int64_t rows = leading_.at(call_.values);
    out_.rows = out_.rows_judged = rows;
    if (leading_.is_static() || rows <= kMostRows || !is_by_rows(step.op)) return;
    for (const plan::BufferId id : step.outputs) {
      if (!has_rows(type_of(id))) return;
    }
    for (const plan::BufferId id : step.inputs) {
      if (id < 0) return;
      const tensor::Type& type = type_of(id);
      const bool of_broadcast = step.op == OpKind::kMap || step.op == OpKind::kFusedRows;
      if (has_rows(type) && (!of_broadcast || type.shape.size() == type_of(step.outputs[0]).shape.size())) continue;
      if (!tensor::is_static(type.shape)) return;
    }
    out_.kept_rows = sample(rows, kMostRows, 7);
    out_.rows_judged = static_cast<int64_t>(out_.kept_rows.size());
    for (tensor::Type& type : out_.call.result_types) type.shape[0] = tensor::Dim(out_.rows_judged);
  }

  Status add_operand(size_t index) {
    const plan::BufferId id = call_.step.inputs[index];
    if (id < 0) {
      out_.call.operands.push_back({tensor::Type::state(), {}});
      return ok_status();
    }
    if (weights_.is_weight(id)) {
      const Weight weight = FL_TRY(weights_.get(id, call_.expert));
      const bool is_later = is_table(index) || is_product_weight(index);  // taken in parts, or whole, below
      out_.call.operands.push_back({weight.type, {}});
      if (is_later) {
        later_.emplace_back(index, weight);
      } else {
        out_.call.operands.back().data.assign(weight.bytes.begin(), weight.bytes.end());
      }
      return ok_status();
    }
    const View& view = call_.inputs[index];
    judge::Tensor t{counted(type_of(id), call_.values), {}};
    const auto* from = view.as<const std::byte>();
    const auto bytes = static_cast<size_t>(tensor::size_bytes(t.type));
    if (out_.kept_rows.empty() || !has_rows(type_of(id))) {
      t.data.assign(from, from + bytes);
    } else {
      t.type.shape[0] = tensor::Dim(out_.rows_judged);
      const size_t row = bytes / static_cast<size_t>(out_.rows);
      for (const int64_t r : out_.kept_rows) {
        t.data.insert(t.data.end(), from + static_cast<size_t>(r) * row, from + static_cast<size_t>(r + 1) * row);
      }
    }
    out_.call.operands.push_back(std::move(t));
    return ok_status();
  }

  bool is_table(size_t index) const { return call_.step.op == OpKind::kGatherRows && index == 0; }
  bool is_product_weight(size_t index) const {
    if (call_.step.op == OpKind::kLinear) return index == 1;
    if (call_.step.op != OpKind::kFusedLinear) return false;
    const auto places = ops::fused_linear_operands(call_.step.attributes);
    const auto at = static_cast<int>(index);
    return at >= places.first_weight && at < places.first_weight + places.num_weights;
  }

  static std::vector<std::byte> rows_of(const Weight& weight, const std::vector<int64_t>& rows) {
    std::vector<std::byte> out;
    const auto count = static_cast<size_t>(std::max<int64_t>(weight.type.shape[0].factor, 1));
    const size_t row = weight.bytes.size() / count;
    for (const int64_t r : rows) {
      const auto from = weight.bytes.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(r) * row);
      out.insert(out.end(), from, from + static_cast<std::ptrdiff_t>(row));
    }
    return out;
  }

  // Of products that are too many: the results' columns, that is the weights' rows.
  Status choose_columns() {
    const OpKind op = call_.step.op;
    if (op != OpKind::kLinear && op != OpKind::kFusedLinear) return ok_status();
    int64_t products = 0;
    for (const auto& [index, weight] : later_) products += tensor::num_elements(weight.type.shape);
    int64_t rows = 1;
    const tensor::Shape& x = out_.call.operands[0].type.shape;
    for (size_t i = 0; i + 1 < x.size(); ++i) rows *= x[i].factor;
    const bool has_epilogue = op == OpKind::kFusedLinear && !out_.call.attributes.get_expressions("epilogue").empty();
    double share = static_cast<double>(kMostProducts) / static_cast<double>(std::max<int64_t>(products * rows, 1));
    // Weights that the call does not read from the plan (activations as weights) are whole.
    const size_t weights =
        op == OpKind::kLinear ? 1 : static_cast<size_t>(ops::fused_linear_operands(out_.call.attributes).num_weights);
    if (later_.size() != weights) share = 1;
    std::vector<std::vector<int64_t>> kept;
    for (const auto& [index, weight] : later_) {
      const int64_t width = weight.type.shape[0].factor;
      out_.columns += width;
      const auto most = std::max<int64_t>(96, static_cast<int64_t>(share * static_cast<double>(width)));
      kept.push_back(sample(width, share >= 1 ? width : most, has_epilogue ? 3 : static_cast<uint32_t>(index)));
      out_.columns_judged += static_cast<int64_t>(kept.back().size());
      judge::Tensor& operand = out_.call.operands[index];
      operand.type.shape[0] = tensor::Dim(static_cast<int64_t>(kept.back().size()));
      operand.data = rows_of(weight, kept.back());
    }
    if (out_.columns == out_.columns_judged) return ok_status();
    shrink_columns(kept, has_epilogue);
    return ok_status();
  }

  void shrink_columns(const std::vector<std::vector<int64_t>>& kept, bool has_epilogue) {
    const auto shrink = [](judge::Tensor& t, const std::vector<int64_t>& columns) {
      const auto width = static_cast<size_t>(t.type.shape.back().factor);
      const size_t element =
          t.data.size() / std::max<size_t>(static_cast<size_t>(tensor::num_elements(t.type.shape)), 1);
      std::vector<std::byte> out;
      for (size_t first = 0; first < t.data.size(); first += width * element) {
        for (const int64_t c : columns) {
          const auto from = t.data.begin() + static_cast<std::ptrdiff_t>(first + static_cast<size_t>(c) * element);
          out.insert(out.end(), from, from + static_cast<std::ptrdiff_t>(element));
        }
      }
      t.type.shape.back() = tensor::Dim(static_cast<int64_t>(columns.size()));
      t.data = std::move(out);
    };
    if (call_.step.op == OpKind::kLinear) {
      if (out_.call.operands.size() > 2) shrink(out_.call.operands[2], kept[0]);
    } else {
      const auto places = ops::fused_linear_operands(out_.call.attributes);
      for (size_t w = 0; w < places.biases.size(); ++w) {
        if (places.biases[w] >= 0) shrink(out_.call.operands[static_cast<size_t>(places.biases[w])], kept[w]);
      }
      for (int e = 0; e < places.num_extras; ++e)
        shrink(out_.call.operands[static_cast<size_t>(places.first_extra + e)], kept[0]);
    }
    for (size_t r = 0; r < out_.call.result_types.size(); ++r) {
      out_.kept_columns.push_back(kept[has_epilogue ? 0 : r]);
      out_.call.result_types[r].shape.back() = tensor::Dim(static_cast<int64_t>(out_.kept_columns.back().size()));
    }
  }

  // A table's rows that are looked up, and numbers of these.
  Status shrink_table() {
    if (call_.step.op != OpKind::kGatherRows || later_.empty()) return ok_status();
    const Weight& table = later_[0].second;
    judge::Tensor& ids = out_.call.operands[1];
    const auto count = static_cast<size_t>(tensor::num_elements(ids.type.shape));
    std::vector<int64_t> rows;
    for (size_t i = 0; i < count; ++i) {
      int32_t id = 0;
      std::memcpy(&id, ids.data.data() + 4 * i, 4);
      const bool inside = id >= 0 && id < table.type.shape[0].factor;
      const int32_t number = inside ? static_cast<int32_t>(rows.size()) : -1;
      if (inside) rows.push_back(id);
      std::memcpy(ids.data.data() + 4 * i, &number, 4);
    }
    if (rows.empty()) rows.push_back(0);
    judge::Tensor& operand = out_.call.operands[0];
    operand.type.shape[0] = tensor::Dim(static_cast<int64_t>(rows.size()));
    operand.data = rows_of(table, rows);
    return ok_status();
  }

  void add_states();

  void describe() {
    out_.shape = leading_.is_static() ? "" : leading_.to_string() + "=" + std::to_string(out_.rows);
    if (call_.states.empty()) return;
    int64_t least = INT64_MAX, most = 0;
    for (const auto& s : call_.batch.sequences) {
      least = std::min(least, s.start_position);
      most = std::max(most, s.start_position + s.num_tokens);
    }
    out_.shape += (out_.shape.empty() ? "" : ", ") + std::to_string(call_.batch.sequences.size()) +
                  " sequences, positions " + std::to_string(least) + " to " + std::to_string(most);
  }

  const runtime::StepCall& call_;
  const plan::Plan& plan_;
  WeightSource& weights_;
  CapturedCall out_;
  tensor::Dim leading_;
  std::vector<std::pair<size_t, Weight>> later_;
};

std::vector<judge::Sequence> sequences_of(const plan::Batch& batch) {
  std::vector<judge::Sequence> out;
  for (const auto& s : batch.sequences) out.push_back({s.start_position, s.num_tokens, s.planned_length});
  return out;
}

// One row of a component, of one head.
void read_line(const plan::StateComponentView& part, const std::byte* from, float* to) {
  if (part.dtype == tensor::DType::kI32) {
    for (int64_t i = 0; i < part.width; ++i) {
      int32_t value = 0;
      std::memcpy(&value, from + 4 * i, 4);
      to[i] = static_cast<float>(value);
    }
    return;
  }
  const auto bytes = static_cast<size_t>(tensor::state_row_bytes(part.dtype, part.width));
  FL_CHECK(tensor::decode_row(part.dtype, {from, bytes}, {to, static_cast<size_t>(part.width)}).ok());
}

// What the pages hold; rows whose page has been given back are zeros.
judge::State read_state(const ops::StateDecl& decl, const plan::StateView& view, const plan::Batch& batch) {
  judge::State state{.decl = decl, .page_rows = view.page_rows, .sequences = sequences_of(batch), .rows = {}};
  for (const plan::StateComponentView& part : view.components) {
    auto& rows = state.rows.emplace_back();
    const int64_t size = tensor::state_row_bytes(part.dtype, part.width);
    for (size_t s = 0; s < state.sequences.size(); ++s) {
      const int64_t count = judge::rows_of(decl, state.sequences[s]);
      auto& values = rows.emplace_back(static_cast<size_t>(count * part.heads * part.width), 0.0f);
      for (int64_t r = 0; r < count; ++r) {
        const auto place = static_cast<size_t>(r / view.page_rows);
        const std::byte* page = place < view.pages[s].size() ? view.pages[s][place] : nullptr;
        for (int64_t h = 0; page != nullptr && h < part.heads; ++h) {
          read_line(part, page + part.offset_bytes + (h * view.page_rows + r % view.page_rows) * size,
                    values.data() + (r * part.heads + h) * part.width);
        }
      }
    }
  }
  return state;
}

std::vector<judge::State> read_states(const runtime::StepCall& call, const plan::Plan& plan) {
  std::vector<judge::State> states;
  for (size_t s = 0; s < call.states.size(); ++s) {
    states.push_back(read_state(plan.states[static_cast<size_t>(call.step.states[s])], *call.states[s], call.batch));
  }
  return states;
}

void Capturer::add_states() {
  out_.call.state = read_states(call_, plan_);
  if (call_.step.op == OpKind::kRope) {  // it has no state, yet the sequences' lengths choose its table
    out_.call.state.push_back({.decl = {}, .page_rows = 1, .sequences = sequences_of(call_.batch), .rows = {}});
  }
}

judge::Tensor taken(const View& view, const tensor::Type& whole, const CapturedCall& captured, size_t result) {
  judge::Tensor t{whole, {}};
  const auto* from = view.as<const std::byte>();
  const auto bytes = static_cast<size_t>(tensor::size_bytes(whole));
  std::vector<std::byte> rows;
  if (captured.kept_rows.empty()) {
    rows.assign(from, from + bytes);
  } else {
    const size_t row = bytes / static_cast<size_t>(captured.rows);
    for (const int64_t r : captured.kept_rows)
      rows.insert(rows.end(), from + static_cast<size_t>(r) * row, from + static_cast<size_t>(r + 1) * row);
  }
  t.type = captured.call.result_types[result];
  if (captured.kept_columns.empty()) {
    t.data = std::move(rows);
    return t;
  }
  const auto element = static_cast<size_t>(tensor::dtype_info(whole.dtype).block_bytes);
  const size_t line = static_cast<size_t>(whole.shape.back().factor) * element;
  for (size_t first = 0; first < rows.size(); first += line) {
    for (const int64_t c : captured.kept_columns[result]) {
      const auto begin = rows.begin() + static_cast<std::ptrdiff_t>(first + static_cast<size_t>(c) * element);
      t.data.insert(t.data.end(), begin, begin + static_cast<std::ptrdiff_t>(element));
    }
  }
  return t;
}

}  // namespace

catalog::ComputeMode mode_of(const ops::Attributes& attributes) {
  if (!attributes.has("compute")) return catalog::ComputeMode::kF32;
  const std::string& name = attributes.get_string("compute");
  for (const auto mode : {catalog::ComputeMode::kInt8, catalog::ComputeMode::kBf16}) {
    if (name == catalog::compute_mode_name(mode)) return mode;
  }
  return catalog::ComputeMode::kF32;
}

Result<CapturedCall> capture_before(const runtime::StepCall& call, const plan::Plan& plan, WeightSource& weights) {
  return Capturer(call, plan, weights).run();
}

void capture_after(const runtime::StepCall& call, const plan::Plan& plan, CapturedCall& captured) {
  for (size_t i = 0; i < call.step.outputs.size(); ++i) {
    const tensor::Type whole = counted(plan.buffer(call.step.outputs[i]).type, call.values);
    captured.found.results.push_back(taken(call.outputs[i], whole, captured, i));
  }
  if (call.step.outputs.empty()) captured.found.results.push_back({tensor::Type::state(), {}});
  for (const judge::State& state : read_states(call, plan)) {
    for (auto& page : judge::page_contents(state)) captured.found.pages.push_back(std::move(page));
  }
}

}  // namespace firstlight::gates
