// SPDX-License-Identifier: Apache-2.0
// append and attend on devices (attention.fl.cl).
#include <algorithm>

#include "kernels/attend/options.h"
#include "kernels/dialect/launches.h"
#include "ops/expression_source.h"

namespace firstlight::kernels {
namespace {

using tensor::DType;

constexpr std::string_view kPath = "dialect/attention.fl.cl";
constexpr int64_t kKeys = 64;  // FL_KEYS

class Append final : public DeviceKernel {
 public:
  Append(std::vector<device::Kernel> kernels, int64_t rate) : kernels_(std::move(kernels)), rate_(rate) {}

  Status launch(const DeviceCall& call) const override {
    const DeviceState& state = *call.states[0];
    device::Buffer owners = call.batch->row_sequence, spans = call.batch->spans;
    if (rate_ > 1) {
      DeviceGroups groups = FL_TRY(upload_groups(call, rate_));
      owners = std::move(groups.owners);
      spans = std::move(groups.spans);
    }
    for (size_t c = 0; c < state.components.size(); ++c) {
      const plan::StateComponentView& part = state.components[c];
      const int64_t total = call.inputs[c + 1].view.num_elements();
      FL_TRY(launch_elements(call.queue, kernels_[c], total,
                             {call.inputs[c + 1].data, state.pool, state.pages, owners, spans, total,
                              i32(state.max_pages), i32(state.page_rows), i32(part.heads), i32(part.width),
                              part.offset_bytes, i32(tensor::dtype_info(part.dtype).block_bytes)}));
    }
    return ok_status();
  }

 private:
  std::vector<device::Kernel> kernels_;  // per component
  int64_t rate_;
};

Result<std::unique_ptr<DeviceKernel>> prepare_append(const DevicePrepare& prepare) {
  FL_TRY(check_plain_states(prepare.states));
  const ops::StateDecl& state = *prepare.states[0];
  std::vector<device::Kernel> kernels;
  for (const ops::StateComponent& part : state.components) {
    const std::string store = "fl_store_" + std::string(tensor::dtype_name(part.dtype));
    kernels.push_back(FL_TRY(prepare.modules.kernel(kPath, "", {{"FL_APPEND", "1"}, {"FL_STORE", store}}, "append")));
  }
  return std::unique_ptr<DeviceKernel>(
      std::make_unique<Append>(std::move(kernels), state.kind == ops::StateKind::kRateLog ? state.rate : 1));
}

// ---- attend, attend_segments

std::string formula(const std::string& name, const ops::Expression& expr, std::vector<std::string> inputs) {
  std::string parameters;
  for (const std::string& input : inputs) parameters += (parameters.empty() ? "float " : ", float ") + input;
  const auto body = ops::expression_source(expr, inputs, "t", "  ");
  return "FL_FUNCTION float " + name + "(" + parameters + ") {\n" + body.statements + "  return " + body.value +
         ";\n}\n";
}

class Attend final : public DeviceKernel {
 public:
  Attend(std::unique_ptr<Prepared> options, std::vector<device::Kernel> kernels, device::Kernel merge, int64_t heads,
         int64_t most_blocks)
      : prepared_(std::move(options)),
        kernels_(std::move(kernels)),
        merge_(std::move(merge)),
        heads_(heads),
        most_blocks_(most_blocks) {}

  // Keys are split only while rows and parts together stay below most_blocks; every segment is a part of its own.
  int64_t workspace_bytes(const tensor::SymbolValues& values) const override {
    const auto segments = static_cast<int64_t>(options().segments.size());
    const int64_t parts = segments == 1 ? most_blocks_ : std::max(most_blocks_, values.tokens * heads_ * segments);
    return parts * (options().value_width + 2) * 4;
  }

  Status launch(const DeviceCall& call) const override {
    const int64_t tokens = call.inputs[0].view.dim(0);
    if (tokens == 0) return ok_status();
    std::vector<int64_t> parts;
    int64_t all_parts = 0;
    for (size_t i = 0; i < kernels_.size(); ++i) {
      parts.push_back(num_parts(i, tokens, call.states[i]->longest));
      all_parts += parts.back();
    }
    const DeviceView* sinks =
        options().sinks < 0 ? nullptr : device_operand(call.inputs, static_cast<size_t>(options().sinks));
    int64_t first_part = 0;
    for (size_t i = 0; i < kernels_.size(); ++i) {
      FL_TRY(launch_segment(call, i, tokens, sinks, first_part, parts[i], all_parts));
      first_part += parts[i];
    }
    if (all_parts == 1) return ok_status();
    const Arguments merging = {call.workspace,
                               sinks != nullptr ? sinks->data : device::Buffer(),
                               call.outputs[0].data,
                               i32(heads_),
                               i32(options().value_width),
                               i32(all_parts),
                               i32(sinks != nullptr)};
    return call.queue.launch(merge_, {.grid = {heads_, tokens, 1}, .block = {kKeys, 1, 1}, .arguments = merging});
  }

 private:
  const AttendOptions& options() const { return static_cast<const AttendOptions&>(*prepared_); }

  Status launch_segment(const DeviceCall& call, size_t index, int64_t tokens, const DeviceView* sinks,
                        int64_t first_part, int64_t parts, int64_t all_parts) const {
    const SegmentOptions& segment = options().segments[index];
    const DeviceState& state = *call.states[index];
    const plan::StateComponentView& keys = state.components[static_cast<size_t>(segment.key)];
    const plan::StateComponentView& values = state.components[static_cast<size_t>(segment.value)];
    const DeviceView* select =
        segment.rules.select_operand < 0 ? nullptr : &call.inputs[static_cast<size_t>(segment.rules.select_operand)];
    const Arguments arguments = {call.inputs[0].data,
                                 state.pool,
                                 state.pages,
                                 call.batch->row_sequence,
                                 call.batch->spans,
                                 select != nullptr ? select->data : device::Buffer(),
                                 sinks != nullptr ? sinks->data : device::Buffer(),
                                 call.outputs[0].data,
                                 call.workspace,
                                 i32(state.max_pages),
                                 i32(state.page_rows),
                                 i32(heads_),
                                 i32(keys.heads),
                                 i32(keys.width),
                                 i32(values.width),
                                 i32(options().value_width),
                                 keys.offset_bytes,
                                 values.offset_bytes,
                                 i32(tensor::dtype_info(keys.dtype).block_bytes),
                                 i32(tensor::dtype_info(values.dtype).block_bytes),
                                 static_cast<float>(options().scale),
                                 i32(segment.rules.causal),
                                 i32(segment.rules.window),
                                 i32(segment.rules.chunk),
                                 i32(segment.rules.from),
                                 i32(segment.rules.until),
                                 i32(segment.rate),
                                 i32(select != nullptr ? select->view.dim(1) : 1),
                                 i32(select != nullptr ? select->view.dim(2) : 0),
                                 i32(segment.rules.select_block),
                                 i32(sinks != nullptr),
                                 i32(first_part),
                                 i32(all_parts),
                                 i32(all_parts == 1)};
    return call.queue.launch(kernels_[index], {.grid = {heads_, tokens, parts},
                                               .block = {kKeys, 1, 1},
                                               .arguments = arguments,
                                               .local_bytes = keys.width * 4});
  }

  // Few rows over many keys: the keys are shared out, so that the device has enough to do.
  int64_t num_parts(size_t index, int64_t tokens, int64_t longest) const {
    const auto segments = static_cast<int64_t>(kernels_.size());
    const SegmentOptions& segment = options().segments[index];
    int64_t visible = segment.rules.window > 0 ? std::min(longest, segment.rules.window) : longest;
    if (segment.rules.until > 0) visible = std::min(visible, segment.rules.until);
    const int64_t room = most_blocks_ / (tokens * heads_ * segments);
    return std::clamp<int64_t>(std::min(room, visible / segment.rate / (4 * kKeys)), 1, 64);
  }

  std::unique_ptr<Prepared> prepared_;
  std::vector<device::Kernel> kernels_;  // per segment
  device::Kernel merge_;
  int64_t heads_, most_blocks_;
};

Result<std::unique_ptr<DeviceKernel>> prepare_attend_step(const DevicePrepare& prepare) {
  FL_TRY(check_plain_states(prepare.states));
  const catalog::Signature& signature = prepare.signature;
  auto prepared = FL_TRY(prepare_attend({.signature = signature,
                                         .state = prepare.states.empty() ? nullptr : prepare.states[0],
                                         .states = prepare.states}));
  const auto& options = static_cast<const AttendOptions&>(*prepared);
  ops::Expression score = options.score;
  if (score.empty()) score.input(0);
  const std::string sinks =
      options.sinks < 0 ? "fl_load_f32" : load_word(signature.operands[static_cast<size_t>(options.sinks)].dtype);
  std::vector<device::Kernel> kernels, merges;
  for (size_t i = 0; i < options.segments.size(); ++i) {
    const SegmentOptions& segment = options.segments[i];
    const auto& components = prepare.states[i]->components;
    std::string printed = formula("fl_traced_score", score, {"x0", "x1", "x2", "x3"});
    DeviceModules::Defines defines = {{"FL_ATTEND", "1"},
                                      {"FL_SCORE", "fl_traced_score"},
                                      {"FL_LOAD_K", load_word(components[static_cast<size_t>(segment.key)].dtype)},
                                      {"FL_LOAD_V", load_word(components[static_cast<size_t>(segment.value)].dtype)},
                                      {"FL_LOAD_S", sinks},
                                      {"FL_COLUMNS", std::to_string((options.value_width + kKeys - 1) / kKeys)}};
    if (!segment.rules.mask.empty()) {
      printed += formula("fl_traced_mask", segment.rules.mask, {"x0", "x1"});
      defines.emplace_back("FL_MASK", "fl_traced_mask");
    }
    kernels.push_back(FL_TRY(prepare.modules.kernel(kPath, printed, defines, "attend")));
    if (i == 0) merges.push_back(FL_TRY(prepare.modules.kernel(kPath, printed, defines, "attend_merge")));
  }
  const int64_t blocks = std::max<int64_t>(64, 4 * prepare.modules.device().target().compute_units);
  return std::unique_ptr<DeviceKernel>(std::make_unique<Attend>(
      std::move(prepared), std::move(kernels), std::move(merges[0]), signature.operands[0].shape[1].factor, blocks));
}

constexpr DeviceBody kBodies[] = {
    {"append_f32_any_dialect", prepare_append},
    {"attend_f32_f32_dialect", prepare_attend_step},
    {"attend_segments_f32_f32_dialect", prepare_attend_step},
};

}  // namespace

std::span<const DeviceBody> device_attention_bodies() { return kBodies; }

}  // namespace firstlight::kernels
