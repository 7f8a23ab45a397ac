// SPDX-License-Identifier: Apache-2.0
// rope and rope_append on devices (rope.fl.cl).
#include "kernels/rope/options.h"

#include <numbers>

#include "kernels/dialect/launches.h"

namespace firstlight::kernels {
namespace {

constexpr std::string_view kPath = "dialect/rope.fl.cl";

// Frequencies as turns per position in three float32 parts each, then the scale in a triple of its own.
void append_table(const RopeTable& table, size_t half, std::vector<float>& out) {
  for (size_t i = 0; i < half; ++i) {
    double rest = table.freqs[i] / (2 * std::numbers::pi);
    for (int part = 0; part < 3; ++part) {
      out.push_back(static_cast<float>(rest));
      rest -= static_cast<double>(out.back());
    }
  }
  out.insert(out.end(), {static_cast<float>(table.scale), 0.0f, 0.0f});
}

std::span<const std::byte> bytes_of(const auto& values) { return std::as_bytes(std::span(values)); }

// The tables of a step: one that holds for all, or made anew where the length of sequences decides.
class RopeTables {
 public:
  static Result<RopeTables> prepare(const DevicePrepare& prepare) {
    RopeTables tables;
    tables.prepared_ = FL_TRY(prepare_rope({.signature = prepare.signature}));
    std::vector<float> values;
    append_table(tables.options().plain, static_cast<size_t>(tables.options().length / 2), values);
    tables.plain_ = FL_TRY(resident_table(prepare.modules.device(), values));
    return tables;
  }

  const RopeOptions& options() const { return static_cast<const RopeOptions&>(*prepared_); }

  struct OfRun {
    device::Buffer tables, which;  // which: the table of each sequence, where there are several
  };
  Result<OfRun> of_run(const DeviceCall& call) const {
    const RopeOptions& o = options();
    const bool per_sequence =
        (o.switch_length > 0 || o.dynamic_base > 0) && call.batch != nullptr && !call.batch->sequences.empty();
    if (!per_sequence) return OfRun{plain_, {}};
    std::vector<float> values;
    std::vector<int32_t> numbers;
    RopeTable space;
    for (const plan::SequenceSpan& sequence : call.batch->sequences) {
      numbers.push_back(static_cast<int32_t>(numbers.size()));
      append_table(rope_table(o, sequence.planned_length, space), static_cast<size_t>(o.length / 2), values);
    }
    return OfRun{FL_TRY(call.upload(bytes_of(values))), FL_TRY(call.upload(bytes_of(numbers)))};
  }

 private:
  std::unique_ptr<Prepared> prepared_;
  device::Buffer plain_;
};

class Rope final : public DeviceKernel {
 public:
  Rope(device::Kernel kernel, RopeTables tables) : kernel_(std::move(kernel)), tables_(std::move(tables)) {}

  Status launch(const DeviceCall& call) const override {
    const RopeOptions& options = tables_.options();
    const tensor::View& x = call.inputs[0].view;
    const int64_t total = x.num_elements();
    if (total == 0) return ok_status();
    const RopeTables::OfRun run = FL_TRY(tables_.of_run(call));
    return launch_elements(call.queue, kernel_, total,
                           {call.inputs[0].data, call.inputs[1].data, call.outputs[0].data, run.tables, run.which,
                            call.batch != nullptr ? call.batch->row_sequence : device::Buffer(), total, i32(x.dim(1)),
                            i32(x.dim(2)), i32(options.offset), i32(options.length), i32(options.interleaved),
                            options.inverse ? -1.0f : 1.0f, i32(static_cast<bool>(run.which))});
  }

 private:
  device::Kernel kernel_;
  RopeTables tables_;
};

Result<std::unique_ptr<DeviceKernel>> prepare_rope_step(const DevicePrepare& prepare) {
  auto tables = FL_TRY(RopeTables::prepare(prepare));
  auto kernel = FL_TRY(prepare.modules.kernel(kPath, "", {{"FL_ROPE", "1"}}, "rope"));
  return std::unique_ptr<DeviceKernel>(std::make_unique<Rope>(std::move(kernel), std::move(tables)));
}

class RopeAppend final : public DeviceKernel {
 public:
  RopeAppend(device::Kernel kernel, RopeTables tables, const ops::Attributes& attributes)
      : kernel_(std::move(kernel)),
        tables_(std::move(tables)),
        eps_(static_cast<float>(attributes.get_float("norm_eps"))),
        offset_(static_cast<float>(attributes.get_float("norm_offset"))) {}

  Status launch(const DeviceCall& call) const override {
    const RopeOptions& options = tables_.options();
    const tensor::View& q = call.inputs[2].view;
    const tensor::View& k = call.inputs[3].view;
    if (q.dim(0) == 0) return ok_status();
    const DeviceState& state = *call.states[0];
    const plan::StateComponentView& keys = state.components[0];
    const plan::StateComponentView& values = state.components[1];
    const RopeTables::OfRun run = FL_TRY(tables_.of_run(call));
    const auto norm = [&](size_t i) {
      const DeviceView* weight = device_operand(call.inputs, i);
      return weight != nullptr ? weight->data : device::Buffer();
    };
    const Arguments arguments = {call.inputs[1].data,
                                 call.inputs[2].data,
                                 call.inputs[3].data,
                                 call.inputs[4].data,
                                 norm(5),
                                 norm(6),
                                 call.outputs[0].data,
                                 run.tables,
                                 run.which,
                                 call.batch->row_sequence,
                                 call.batch->spans,
                                 state.pool,
                                 state.pages,
                                 i32(q.dim(1)),
                                 i32(k.dim(1)),
                                 i32(values.heads),
                                 i32(q.dim(2)),
                                 i32(values.width),
                                 i32(options.offset),
                                 i32(options.length),
                                 i32(options.interleaved),
                                 options.inverse ? -1.0f : 1.0f,
                                 i32(static_cast<bool>(run.which)),
                                 eps_,
                                 offset_,
                                 i32(state.max_pages),
                                 i32(state.page_rows),
                                 keys.offset_bytes,
                                 values.offset_bytes,
                                 i32(tensor::dtype_info(keys.dtype).block_bytes),
                                 i32(tensor::dtype_info(values.dtype).block_bytes)};
    return call.queue.launch(kernel_, {.grid = {q.dim(1) + k.dim(1) + values.heads, q.dim(0), 1},
                                       .block = {kDeviceThreads, 1, 1},
                                       .arguments = arguments});
  }

 private:
  device::Kernel kernel_;
  RopeTables tables_;
  float eps_, offset_;
};

Result<std::unique_ptr<DeviceKernel>> prepare_rope_append(const DevicePrepare& prepare) {
  FL_TRY(check_plain_states(prepare.states));
  const auto operands = prepare.signature.operands;
  const auto& components = prepare.states[0]->components;
  const auto store = [&](size_t i) { return "fl_store_" + std::string(tensor::dtype_name(components[i].dtype)); };
  DeviceModules::Defines defines = {{"FL_ROPE_APPEND", "1"}, {"FL_STORE_K", store(0)}, {"FL_STORE_V", store(1)}};
  if (prepare.signature.attributes.get_string("norm") == "rms") defines.emplace_back("FL_NORM", "1");
  if (operands.size() > 5) {
    defines.emplace_back("FL_WEIGHTED", "1");
    defines.emplace_back("FL_LOAD_Q", load_word(operands[5].dtype));
    defines.emplace_back("FL_LOAD_K", load_word(operands[6].dtype));
  }
  auto tables = FL_TRY(RopeTables::prepare(prepare));
  auto kernel = FL_TRY(prepare.modules.kernel(kPath, "", std::move(defines), "rope_append"));
  return std::unique_ptr<DeviceKernel>(
      std::make_unique<RopeAppend>(std::move(kernel), std::move(tables), prepare.signature.attributes));
}

constexpr DeviceBody kBodies[] = {
    {"rope_f32_f32_dialect", prepare_rope_step},
    {"rope_append_f32_any_dialect", prepare_rope_append},
};

}  // namespace

std::span<const DeviceBody> device_rope_bodies() { return kBodies; }

}  // namespace firstlight::kernels
