// SPDX-License-Identifier: Apache-2.0
// index_scores (select.fl.cl) and window_emit (window.fl.cl) on devices.
#include <algorithm>

#include "kernels/dialect/launches.h"
#include "kernels/index_scores/options.h"

namespace firstlight::kernels {
namespace {

class IndexScores final : public DeviceKernel {
 public:
  IndexScores(device::Kernel keys, device::Kernel select, std::unique_ptr<Prepared> options)
      : keys_(std::move(keys)), select_(std::move(select)), prepared_(std::move(options)) {}

  Status launch(const DeviceCall& call) const override {
    const auto& options = static_cast<const IndexScoresOptions&>(*prepared_);
    const DeviceState& state = *call.states[0];
    const plan::StateComponentView& part = state.components[static_cast<size_t>(options.key)];
    const tensor::View& q = call.inputs[0].view;
    const int64_t tokens = q.dim(0), groups = call.outputs[0].view.dim(1);
    if (tokens == 0) return ok_status();
    const bool weighted = options.at.weights >= 0, chosen = options.at.within >= 0;
    const DeviceView* within = chosen ? &call.inputs[static_cast<size_t>(options.at.within)] : nullptr;
    // As many as the longest sequence has; known only now.
    const int64_t units = std::max<int64_t>(options.visible_units(state.longest), 1);
    const device::Buffer keys = FL_TRY(call.scratch(tokens * groups * units * 4));
    const Arguments scoring = {call.inputs[0].data,
                               state.pool,
                               state.pages,
                               call.batch->row_sequence,
                               call.batch->spans,
                               weighted ? call.inputs[2].data : device::Buffer(),
                               chosen ? within->data : device::Buffer(),
                               keys,
                               i32(state.max_pages),
                               i32(state.page_rows),
                               i32(q.dim(1)),
                               i32(part.width),
                               part.offset_bytes,
                               i32(tensor::dtype_info(part.dtype).block_bytes),
                               i32(options.rate),
                               i32(options.block),
                               i32(options.local),
                               i32(options.first),
                               i32(options.within_block),
                               i32(chosen ? within->view.dim(1) : 1),
                               i32(chosen ? within->view.dim(2) : 0),
                               i32(options.relu),
                               i32(options.per_head),
                               i32(weighted),
                               i32(units)};
    FL_TRY(call.queue.launch(keys_, {.grid = {(units + kDeviceThreads - 1) / kDeviceThreads, tokens, groups},
                                     .block = {kDeviceThreads, 1, 1},
                                     .arguments = scoring}));
    const Arguments selecting = {keys,
                                 call.batch->row_sequence,
                                 call.batch->spans,
                                 call.outputs[0].data,
                                 i32(options.rate),
                                 i32(options.block),
                                 i32(units),
                                 i32(options.top)};
    return call.queue.launch(select_,
                             {.grid = {groups, tokens, 1}, .block = {kDeviceThreads, 1, 1}, .arguments = selecting});
  }

 private:
  device::Kernel keys_, select_;
  std::unique_ptr<Prepared> prepared_;
};

Result<std::unique_ptr<DeviceKernel>> prepare_index_scores_step(const DevicePrepare& prepare) {
  FL_TRY(check_plain_states(prepare.states));
  auto options = FL_TRY(
      prepare_index_scores({.signature = prepare.signature, .state = prepare.states[0], .states = prepare.states}));
  const auto key = static_cast<size_t>(static_cast<const IndexScoresOptions&>(*options).key);
  const DeviceModules::Defines defines = {{"FL_LOAD_K", load_word(prepare.states[0]->components[key].dtype)}};
  auto keys = FL_TRY(prepare.modules.kernel("dialect/select.fl.cl", "", defines, "index_keys"));
  auto select = FL_TRY(prepare.modules.kernel("dialect/select.fl.cl", "", defines, "index_select"));
  return std::unique_ptr<DeviceKernel>(
      std::make_unique<IndexScores>(std::move(keys), std::move(select), std::move(options)));
}

class WindowEmit final : public DeviceKernel {
 public:
  WindowEmit(device::Kernel emit, device::Kernel keep, size_t component, int64_t rate, int64_t rows, float fill)
      : emit_(std::move(emit)), keep_(std::move(keep)), component_(component), rate_(rate), rows_(rows), fill_(fill) {}

  Status launch(const DeviceCall& call) const override {
    const DeviceState& state = *call.states[0];
    const int64_t width = call.inputs[0].view.dim(1), offset = state.components[component_].offset_bytes;
    const int64_t total = call.outputs[0].view.num_elements();
    if (total > 0) {
      const DeviceGroups groups = FL_TRY(upload_groups(call, rate_));
      FL_TRY(launch_elements(call.queue, emit_, total,
                             {call.inputs[0].data, call.outputs[0].data, call.outputs[1].data, state.pool, state.pages,
                              call.batch->spans, groups.owners, groups.spans, total, i32(state.max_pages), offset,
                              i32(width), i32(rate_), i32(rows_), fill_}));
    }
    const int64_t columns = static_cast<int64_t>(call.batch->sequences.size()) * width;
    if (call.inputs[0].view.dim(0) == 0) return ok_status();
    return launch_elements(call.queue, keep_, columns,
                           {call.inputs[0].data, state.pool, state.pages, call.batch->spans, columns,
                            i32(state.max_pages), offset, i32(width), i32(rows_)});
  }

 private:
  device::Kernel emit_, keep_;
  size_t component_;
  int64_t rate_, rows_;
  float fill_;
};

Result<std::unique_ptr<DeviceKernel>> prepare_window_emit(const DevicePrepare& prepare) {
  const ops::Attributes& attributes = prepare.signature.attributes;
  const auto component = static_cast<size_t>(prepare.states[0]->component_index(attributes.get_string("component")));
  const int64_t rate = attributes.get_int("rate");
  auto emit = FL_TRY(prepare.modules.kernel("dialect/window.fl.cl", "", {}, "window_emit"));
  auto keep = FL_TRY(prepare.modules.kernel("dialect/window.fl.cl", "", {}, "window_keep"));
  return std::unique_ptr<DeviceKernel>(std::make_unique<WindowEmit>(std::move(emit), std::move(keep), component, rate,
                                                                    attributes.get_bool("overlap") ? 2 * rate : rate,
                                                                    static_cast<float>(attributes.get_float("fill"))));
}

constexpr DeviceBody kBodies[] = {
    {"index_scores_f32_i32_dialect", prepare_index_scores_step},
    {"window_emit_f32_f32_dialect", prepare_window_emit},
};

}  // namespace

Result<DeviceGroups> upload_groups(const DeviceCall& call, int64_t rate) {
  std::vector<int32_t> owners, numbers;
  for (size_t s = 0; s < call.batch->sequences.size(); ++s) {
    const plan::SequenceSpan& sequence = call.batch->sequences[s];
    const int64_t count = plan::groups_completed(sequence, rate);
    numbers.insert(numbers.end(),
                   {i32(static_cast<int64_t>(owners.size())), i32(count), i32(sequence.start_position / rate), 0});
    owners.insert(owners.end(), static_cast<size_t>(count), static_cast<int32_t>(s));
  }
  DeviceGroups groups;
  groups.owners = FL_TRY(call.upload(std::as_bytes(std::span(owners))));
  groups.spans = FL_TRY(call.upload(std::as_bytes(std::span(numbers))));
  return groups;
}

std::span<const DeviceBody> device_log_bodies() { return kBodies; }

}  // namespace firstlight::kernels
