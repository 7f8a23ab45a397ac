// SPDX-License-Identifier: Apache-2.0
#include "run_device_case.h"

#include <algorithm>
#include <cstring>

#include "tensor/state_rows.h"

namespace firstlight::conformance {
namespace {

constexpr size_t kGuard = 64;

// Device memory with guard bytes behind it.
class Guarded {
 public:
  static Result<Guarded> make(device::Device& device, std::span<const std::byte> contents) {
    Guarded made;
    made.bytes_ = contents.size();
    made.whole_ = FL_TRY(device.allocate(static_cast<int64_t>(contents.size() + kGuard)));
    std::vector<std::byte> all(contents.begin(), contents.end());
    all.resize(contents.size() + kGuard, std::byte{0xff});
    FL_TRY(device.transfer().copy_in(made.whole_, all));
    FL_TRY(device.transfer().finish());
    return made;
  }
  // Of exactly the size that was asked for, so that checked devices see every access beyond it.
  device::Buffer buffer() const { return whole_.view(0, static_cast<int64_t>(bytes_)); }

  Result<std::vector<std::byte>> read(device::Device& device, const std::string& what) const {
    std::vector<std::byte> all(bytes_ + kGuard);
    FL_TRY(device.transfer().copy_out(all, whole_));
    FL_TRY(device.transfer().finish());
    if (!std::all_of(all.begin() + static_cast<std::ptrdiff_t>(bytes_), all.end(),
                     [](std::byte b) { return b == std::byte{0xff}; })) {
      return internal_error("wrote past " + what);
    }
    all.resize(bytes_);
    return all;
  }

 private:
  device::Buffer whole_;
  size_t bytes_ = 0;
};

// The case's state as one pool with a table of places.
struct PoolOfPages {
  std::vector<plan::StateComponentView> components;
  std::vector<std::byte> bytes;
  std::vector<int64_t> places;  // [sequence][max_pages]
  size_t page_bytes = 0;
  int64_t max_pages = 0, longest = 0;
};

PoolOfPages pool_of(const State& state) {
  PoolOfPages pool;
  int64_t offset = 0;
  for (const ops::StateComponent& c : state.decl.components) {
    pool.components.push_back({c.dtype, c.heads, c.width, offset});
    offset += c.heads * state.page_rows * tensor::state_row_bytes(c.dtype, c.width);
    offset = (offset + 63) / 64 * 64;
  }
  for (const auto& page : page_contents(state)) {
    pool.page_bytes = page.size();
    pool.bytes.insert(pool.bytes.end(), page.begin(), page.end());
  }
  const auto pages_of = [&](const Sequence& s) {
    return (rows_of(state.decl, s) + state.page_rows - 1) / state.page_rows;
  };
  for (const Sequence& s : state.sequences) {
    pool.max_pages = std::max(pool.max_pages, pages_of(s));
    pool.longest = std::max(pool.longest, s.start_position + s.num_tokens);  // tokens
  }
  int64_t next = 0;
  for (const Sequence& s : state.sequences) {
    for (int64_t p = 0; p < pool.max_pages; ++p) {
      pool.places.push_back(p < pages_of(s) ? next++ * static_cast<int64_t>(pool.page_bytes) : int64_t{1} << 60);
    }
  }
  return pool;
}

template <typename T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

}  // namespace

Result<Outcome> run_device_case(const Case& c, const catalog::KernelRow& row, kernels::DeviceModules& modules) {
  device::Device& device = modules.device();
  const kernels::DeviceBody* body = kernels::find_device_kernel(row.symbol);
  if (body == nullptr) return not_found("no body for " + std::string(row.symbol));
  const auto operands = operand_types(c);
  const auto results = result_types(c);
  std::vector<const ops::StateDecl*> decls;
  for (const State& state : c.state) decls.push_back(&state.decl);
  const auto step = FL_TRY(
      body->prepare({.signature = {c.op, operands, results, c.attributes}, .states = decls, .modules = modules}));

  std::vector<Guarded> inputs, outputs;
  std::vector<kernels::DeviceView> input_views, output_views;
  for (const Tensor& t : c.operands) {
    inputs.push_back(FL_TRY(Guarded::make(device, t.data)));
    if (t.type.is_state()) {
      input_views.emplace_back();
    } else {
      input_views.push_back({tensor::make_view(nullptr, t.type), inputs.back().buffer()});
    }
  }
  for (const tensor::Type& type : results) {
    const auto bytes = type.is_state() ? 0 : static_cast<size_t>(tensor::size_bytes(type));
    outputs.push_back(FL_TRY(Guarded::make(device, std::vector<std::byte>(bytes, std::byte{0xff}))));
    if (!type.is_state()) output_views.push_back({tensor::make_view(nullptr, type), outputs.back().buffer()});
  }

  std::vector<plan::SequenceSpan> spans;
  std::vector<int32_t> row_sequence, numbers;
  for (const Sequence& s : c.state.empty() ? std::vector<Sequence>{} : c.state[0].sequences) {
    const auto first = static_cast<int64_t>(row_sequence.size());
    numbers.insert(numbers.end(), {static_cast<int32_t>(first), static_cast<int32_t>(s.num_tokens),
                                   static_cast<int32_t>(s.start_position), 0});
    row_sequence.resize(row_sequence.size() + static_cast<size_t>(s.num_tokens), static_cast<int32_t>(spans.size()));
    spans.push_back({first, s.num_tokens, s.start_position, s.planned_length});
  }
  const Guarded row_table = FL_TRY(Guarded::make(device, bytes_of(row_sequence)));
  const Guarded span_table = FL_TRY(Guarded::make(device, bytes_of(numbers)));
  const kernels::DeviceBatch batch{
      .sequences = spans, .row_sequence = row_table.buffer(), .spans = span_table.buffer()};

  std::vector<PoolOfPages> pools;
  std::vector<Guarded> pool_memory, places;
  std::vector<kernels::DeviceState> device_states;
  for (const State& state : c.state) {
    if (state.decl.components.empty()) continue;  // a batch without a state
    pools.push_back(pool_of(state));
    pool_memory.push_back(FL_TRY(Guarded::make(device, pools.back().bytes)));
    places.push_back(FL_TRY(Guarded::make(device, bytes_of(pools.back().places))));
  }
  for (size_t i = 0; i < pools.size(); ++i) {
    device_states.push_back({.page_rows = c.state[i].page_rows,
                             .components = pools[i].components,
                             .pool = pool_memory[i].buffer(),
                             .pages = places[i].buffer(),
                             .max_pages = pools[i].max_pages,
                             .longest = pools[i].longest});
  }
  std::vector<const kernels::DeviceState*> states;
  for (const kernels::DeviceState& state : device_states) states.push_back(&state);

  const auto tokens = static_cast<int64_t>(row_sequence.size());
  const auto workspace_bytes = static_cast<size_t>(
      step->workspace_bytes({.tokens = tokens, .outputs = 0, .sequences = static_cast<int64_t>(spans.size())}));
  const Guarded workspace = FL_TRY(Guarded::make(device, std::vector<std::byte>(workspace_bytes, std::byte{0xff})));
  std::vector<Guarded> uploads;
  const std::function<Result<device::Buffer>(std::span<const std::byte>)> upload =
      [&](std::span<const std::byte> bytes) -> Result<device::Buffer> {
    uploads.push_back(FL_TRY(Guarded::make(device, bytes)));
    return uploads.back().buffer();
  };
  const std::function<Result<device::Buffer>(int64_t)> scratch = [&](int64_t bytes) -> Result<device::Buffer> {
    uploads.push_back(
        FL_TRY(Guarded::make(device, std::vector<std::byte>(static_cast<size_t>(bytes), std::byte{0xff}))));
    return uploads.back().buffer();
  };
  FL_TRY(step->launch({.queue = device.compute(),
                       .inputs = input_views,
                       .outputs = output_views,
                       .batch = &batch,
                       .states = states,
                       .workspace = workspace.buffer(),
                       .upload = upload,
                       .scratch = scratch}));
  FL_TRY(device.compute().finish());

  Outcome outcome;
  FL_TRY(workspace.read(device, "its workspace"));
  for (size_t i = 0; i < results.size(); ++i) {
    outcome.results.push_back({results[i], FL_TRY(outputs[i].read(device, "result " + std::to_string(i)))});
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (FL_TRY(inputs[i].read(device, "operand " + std::to_string(i))) != c.operands[i].data) {
      return internal_error("changed operand " + std::to_string(i));
    }
  }
  if (pools.empty()) {
    for (const State& state : c.state) outcome.pages = page_contents(state);
  }
  for (size_t i = 0; i < pools.size(); ++i) {
    const auto bytes = FL_TRY(pool_memory[i].read(device, "the pages"));
    for (size_t at = 0; at < bytes.size(); at += pools[i].page_bytes) {
      const auto first = bytes.begin() + static_cast<std::ptrdiff_t>(at);
      outcome.pages.emplace_back(first, first + static_cast<std::ptrdiff_t>(pools[i].page_bytes));
    }
  }
  return outcome;
}

}  // namespace firstlight::conformance
