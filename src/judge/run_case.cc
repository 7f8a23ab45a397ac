// SPDX-License-Identifier: Apache-2.0
#include "judge/run_case.h"

#include <algorithm>
#include <cstring>

#include "catalog/attend_forms.h"
#include "kernels/kernel.h"
#include "tensor/codec.h"
#include "tensor/state_rows.h"

namespace firstlight::judge {
namespace {

constexpr size_t kGuard = 64;

// 64-byte aligned memory with guard bytes behind it.
struct Memory {
  explicit Memory(size_t bytes) : size(bytes), storage(bytes + kGuard + 64, std::byte{0xff}) {
    const auto address = reinterpret_cast<uintptr_t>(storage.data());
    data = storage.data() + (64 - address % 64) % 64;
  }
  bool is_guard_intact() const {
    return std::all_of(data + size, data + size + kGuard, [](std::byte b) { return b == std::byte{0xff}; });
  }
  size_t size;
  std::vector<std::byte> storage;
  std::byte* data;
};

// The pages of a case's state, and the views on them.
class Pages {
 public:
  explicit Pages(const State& state) : decl_(&state.decl) {
    int64_t offset = 0;
    for (const ops::StateComponent& c : state.decl.components) {
      components_.push_back({c.dtype, c.heads, c.width, offset});
      offset += c.heads * state.page_rows * tensor::state_row_bytes(c.dtype, c.width);
      offset = (offset + 63) / 64 * 64;
    }
    for (const Sequence& s : state.sequences) {
      const int64_t rows = rows_of(state.decl, s);
      pages_.emplace_back();
      for (int64_t p = 0; p * state.page_rows < rows; ++p) {
        memory_.emplace_back(static_cast<size_t>(offset));
        pages_.back().push_back(memory_.back().data);
      }
    }
    for (const auto& pages : pages_) spans_.emplace_back(pages);
    view_ = {state.page_rows, components_, spans_};
    fill(state);
  }
  const plan::StateView& view() const { return view_; }
  std::vector<std::vector<std::byte>> contents() const {
    std::vector<std::vector<std::byte>> all;
    for (const Memory& m : memory_) all.emplace_back(m.data, m.data + m.size);
    return all;
  }

 private:
  void fill(const State& state) {
    for (size_t c = 0; c < components_.size(); ++c) {
      const plan::StateComponentView& component = components_[c];
      const int64_t size = tensor::state_row_bytes(component.dtype, component.width);
      for (size_t s = 0; s < state.rows[c].size(); ++s) {
        const std::vector<float>& values = state.rows[c][s];
        const int64_t lines = static_cast<int64_t>(values.size()) / component.width;
        for (int64_t line = 0; line < lines; ++line) {
          const int64_t row = line / component.heads;
          const int64_t head = line % component.heads;
          std::byte* to = pages_[s][static_cast<size_t>(row / state.page_rows)] + component.offset_bytes +
                          (head * state.page_rows + row % state.page_rows) * size;
          const std::span part(values.data() + line * component.width, static_cast<size_t>(component.width));
          if (component.dtype == tensor::DType::kI32) {
            for (size_t i = 0; i < part.size(); ++i) reinterpret_cast<int32_t*>(to)[i] = static_cast<int32_t>(part[i]);
          } else {
            FL_CHECK(tensor::encode_row(component.dtype, part, {to, static_cast<size_t>(size)}).ok());
          }
        }
      }
    }
  }

  const ops::StateDecl* decl_;
  std::vector<plan::StateComponentView> components_;
  std::vector<Memory> memory_;
  std::vector<std::vector<std::byte*>> pages_;
  std::vector<std::span<std::byte* const>> spans_;
  plan::StateView view_;
};

std::vector<plan::SequenceSpan> sequence_spans(const Case& c) {
  std::vector<plan::SequenceSpan> spans;
  int64_t row = 0;
  if (c.state.empty()) return spans;
  for (const Sequence& s : c.state[0].sequences) {
    spans.push_back({row, s.num_tokens, s.start_position, s.planned_length});
    row += s.num_tokens;
  }
  return spans;
}

std::vector<const ops::StateDecl*> declarations(const Case& c) {
  std::vector<const ops::StateDecl*> all;
  for (const State& state : c.state) all.push_back(&state.decl);
  return all;
}

// The type with its groups counted.
tensor::Type counted(tensor::Type type, const std::vector<plan::SequenceSpan>& spans) {
  for (tensor::Dim& dim : type.shape) {
    if (dim.symbol != tensor::Symbol::kGroups) continue;
    int64_t count = 0;
    for (const auto& span : spans) count += plan::groups_completed(span, dim.rate);
    dim = tensor::Dim(dim.factor * count);
  }
  return type;
}

}  // namespace

int64_t rows_of(const ops::StateDecl& decl, const Sequence& sequence) {
  const int64_t tokens = sequence.start_position + sequence.num_tokens;
  if (decl.kind == ops::StateKind::kFixed) return 1;
  return decl.kind == ops::StateKind::kRateLog ? tokens / decl.rate : tokens;
}

std::vector<double> fixed_component(const State& state, size_t component, const std::vector<std::byte>& page) {
  size_t offset = 0;
  for (size_t i = 0; i < component; ++i) {
    const ops::StateComponent& before = state.decl.components[i];
    offset = (offset + static_cast<size_t>(before.heads * before.width) * sizeof(float) + 63) / 64 * 64;
  }
  const ops::StateComponent& part = state.decl.components[component];
  std::vector<float> values(static_cast<size_t>(part.heads * part.width));
  FL_CHECK(offset + values.size() * sizeof(float) <= page.size());
  std::memcpy(values.data(), page.data() + offset, values.size() * sizeof(float));
  return {values.begin(), values.end()};
}

std::vector<std::vector<std::byte>> page_contents(const State& state) { return Pages(state).contents(); }

std::vector<tensor::Type> operand_types(const Case& c) {
  std::vector<tensor::Type> types;
  for (const Tensor& t : c.operands) types.push_back(t.type);
  return types;
}

Result<std::vector<tensor::Type>> try_result_types(const Case& c) {
  const auto types = operand_types(c);
  const ops::OpDef& def = ops::op_def(c.op);
  FL_TRY(ops::check_operands(def, types));
  if (!c.result_types.empty()) return c.result_types;
  const auto states = declarations(c);
  auto results = FL_TRY(def.infer({types, c.attributes, states.empty() ? nullptr : states[0], {}, states}));
  for (tensor::Type& type : results) type = counted(std::move(type), sequence_spans(c));
  return results;
}

std::vector<tensor::Type> result_types(const Case& c) {
  auto results = try_result_types(c);
  FL_CHECK(results.ok());
  return *std::move(results);
}

bool computes_in(const catalog::KernelRow& row, catalog::ComputeMode mode) {
  if (is_product(row.op)) return true;
  return mode == (catalog::attends_in_bf16(row.symbol) ? catalog::ComputeMode::kBf16 : catalog::ComputeMode::kF32);
}

Result<Outcome> run_case(const Case& c, const catalog::KernelRow& row, catalog::ComputeMode mode, ThreadPool& pool) {
  const kernels::KernelBody* body = kernels::find_kernel(row.symbol);
  if (body == nullptr) return not_found("no body for " + std::string(row.symbol));
  const auto operands = operand_types(c);
  const auto results = result_types(c);
  const catalog::Signature signature{c.op, operands, results, c.attributes, mode};

  std::vector<Memory> inputs;
  std::vector<tensor::View> input_views;
  for (const Tensor& t : c.operands) {
    inputs.emplace_back(t.data.size());
    std::copy(t.data.begin(), t.data.end(), inputs.back().data);
    input_views.push_back(t.type.is_state() ? tensor::View{} : tensor::make_view(inputs.back().data, t.type));
  }
  std::vector<Memory> outputs;
  std::vector<tensor::View> output_views;
  for (const tensor::Type& type : results) {
    outputs.emplace_back(type.is_state() ? 0 : static_cast<size_t>(tensor::size_bytes(type)));
    output_views.push_back(type.is_state() ? tensor::View{} : tensor::make_view(outputs.back().data, type));
  }
  std::vector<Pages> pages;
  pages.reserve(c.state.size());
  for (const State& state : c.state) pages.emplace_back(state);

  const auto spans = sequence_spans(c);
  plan::Batch batch;
  batch.sequences = spans;
  std::unique_ptr<kernels::Prepared> prepared;
  if (body->prepare != nullptr) {
    const auto states = declarations(c);
    prepared = FL_TRY(body->prepare({signature, states.empty() ? nullptr : states[0], states}));
  }
  int64_t tokens = 0;
  for (const auto& s : spans) tokens += s.num_tokens;
  tensor::SymbolValues values{tokens, 0, static_cast<int64_t>(spans.size()), 0};
  Memory workspace(body->workspace_bytes == nullptr
                       ? 0
                       : static_cast<size_t>(body->workspace_bytes(signature, values, pool.num_threads())));
  std::vector<const plan::StateView*> views;
  for (const Pages& state : pages) views.push_back(&state.view());
  const kernels::KernelCall call{prepared.get(),
                                 input_views,
                                 output_views,
                                 &batch,
                                 pages.empty() ? nullptr : &pages[0].view(),
                                 {workspace.data, workspace.size},
                                 views};
  pool.run([&](Worker& worker) { body->run(call, worker); });

  Outcome outcome;
  if (!workspace.is_guard_intact()) return internal_error("wrote past its workspace");
  for (size_t i = 0; i < results.size(); ++i) {
    if (!outputs[i].is_guard_intact()) return internal_error("wrote past result " + std::to_string(i));
    outcome.results.push_back({results[i], {outputs[i].data, outputs[i].data + outputs[i].size}});
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!std::equal(c.operands[i].data.begin(), c.operands[i].data.end(), inputs[i].data)) {
      return internal_error("changed operand " + std::to_string(i));
    }
  }
  for (const Pages& state : pages) {
    for (auto& page : state.contents()) outcome.pages.push_back(std::move(page));
  }
  return outcome;
}

}  // namespace firstlight::judge
