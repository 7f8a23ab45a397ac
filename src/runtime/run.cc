// SPDX-License-Identifier: Apache-2.0
// The running half of the executor: all workers go through the plan's steps together and meet after each one.
#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include "base/check.h"
#include "runtime/executor_internal.h"

namespace firstlight::runtime {

int64_t Executor::max_batch_tokens() const { return static_cast<int64_t>(tokens_.size()); }
int64_t Executor::max_batch_outputs() const { return static_cast<int64_t>(output_rows_.size()); }
int64_t Executor::max_batch_sequences() const { return plan_.buckets.back().max_sequences; }

Status Executor::begin(const plan::Batch& batch, std::span<const plan::StateView> states) {
  const auto num_tokens = static_cast<int64_t>(batch.tokens.size());
  const auto num_outputs = static_cast<int64_t>(batch.output_rows.size());
  const auto num_sequences = static_cast<int64_t>(batch.sequences.size());
  const auto found = std::find_if(plan_.buckets.begin(), plan_.buckets.end(), [&](const plan::Bucket& bucket) {
    return num_tokens <= bucket.max_tokens && num_outputs <= bucket.max_outputs &&
           num_sequences <= bucket.max_sequences;
  });
  if (found == plan_.buckets.end()) {
    return invalid_argument("a batch of " + std::to_string(num_tokens) + " tokens with " + std::to_string(num_outputs) +
                            " outputs in " + std::to_string(num_sequences) + " sequences, at most " +
                            std::to_string(max_batch_tokens()) + ", " + std::to_string(max_batch_outputs()) + " and " +
                            std::to_string(max_batch_sequences()) + " wanted");
  }
  for (const int32_t row : batch.output_rows) {
    if (row < 0 || row >= num_tokens) {
      return invalid_argument("output row " + std::to_string(row) + " of a batch of " + std::to_string(num_tokens) +
                              " tokens");
    }
  }
  FL_CHECK(states.size() == plan_.states.size() && batch.positions.size() == batch.tokens.size());
  bucket_ = &*found;
  values_ = {.tokens = num_tokens, .outputs = num_outputs, .sequences = num_sequences, .rows = 0};
  for (const int64_t rate : rates_) values_.set_groups(rate, plan::groups_completed(batch, rate));
  return ok_status();
}

Status Executor::run(const plan::Batch& batch, std::span<const plan::StateView> states) {
  FL_TRY(begin(batch, states));
  std::copy(batch.tokens.begin(), batch.tokens.end(), tokens_.begin());
  std::copy(batch.positions.begin(), batch.positions.end(), positions_.begin());
  std::copy(batch.output_rows.begin(), batch.output_rows.end(), output_rows_.begin());
  install_generated();
  plan::Batch own = batch;
  own.invariant = options_.invariant;
  const bool compares = options_.canary_every > 0 && num_runs_++ % options_.canary_every == 0;
  routing_->lists.resize(static_cast<size_t>(pool_.num_threads()));
  const auto body = [&](Worker& worker) {
    Routing::Lists& lists = routing_->lists[static_cast<size_t>(worker.index())];
    Context context{.worker = worker,
                    .batch = &own,
                    .states = states,
                    .bucket = bucket_,
                    .values = values_,
                    .expert = -1,
                    .canary = compares,
                    .inputs = std::move(lists.inputs),
                    .outputs = std::move(lists.outputs),
                    .operands = std::move(lists.operands),
                    .step_states = std::move(lists.step_states)};
    run_block(plan_.body, context);
    lists = {.inputs = std::move(context.inputs),
             .outputs = std::move(context.outputs),
             .operands = std::move(context.operands),
             .step_states = std::move(context.step_states)};
  };
  pool_.run(std::ref(body));  // a function that refers to another needs no memory
  if (memory_check_ != nullptr && !memory_check_->fault.empty()) return internal_error(memory_check_->fault);
  return ok_status();
}

tensor::View Executor::output(std::string_view name) const {
  FL_CHECK(bucket_ != nullptr);
  for (const plan::PlanOutput& output : plan_.outputs) {
    if (output.name != name) continue;
    plan::BufferId id = output.buffer;
    while (plan_.buffer(id).kind == plan::Buffer::Kind::kAlias) id = plan_.buffer(id).alias_of;
    void* data = plan_.buffer(id).kind == plan::Buffer::Kind::kArena
                     ? arena_.get() + bucket_->offsets[static_cast<size_t>(id)]
                     : fixed_data_[static_cast<size_t>(id)];
    return tensor::make_view(data, plan_.buffer(output.buffer).type, values_);
  }
  return {};
}

int64_t Executor::place_in_arena(plan::BufferId id, const Context& context) const {
  const int64_t offset = context.bucket->offsets[static_cast<size_t>(id)];
  const tensor::Type& type = plan_.buffer(id).type;
  if (context.first_row == 0 || type.shape.empty() || type.shape[0].symbol != tensor::Symbol::kRows) return offset;
  tensor::SymbolValues before = context.values;
  before.rows = context.first_row;
  return offset + tensor::size_bytes(type, before);
}

tensor::View Executor::view(plan::BufferId id, const Context& context) const {
  if (id < 0) return {};
  const plan::Buffer& buffer = plan_.buffer(id);
  void* data = nullptr;
  switch (buffer.kind) {
    case plan::Buffer::Kind::kArena:
    case plan::Buffer::Kind::kWorkspace:
      data = arena_.get() + place_in_arena(id, context);
      break;
    case plan::Buffer::Kind::kAlias:
      data = view(buffer.alias_of, context).data;
      break;
    case plan::Buffer::Kind::kSlice:
      FL_DCHECK(context.expert >= 0);
      data = view(buffer.alias_of, context).as<std::byte>() + context.expert * plan::buffer_bytes(buffer);
      break;
    case plan::Buffer::Kind::kInput:
    case plan::Buffer::Kind::kFile:
    case plan::Buffer::Kind::kResident:
    case plan::Buffer::Kind::kTemporary:
      data = fixed_data_[static_cast<size_t>(id)];
      break;
  }
  return tensor::make_view(data, buffer.type, context.values);
}

void Executor::run_block(const plan::Block& block, Context& context) {
  Trace* trace = context.worker.index() == 0 ? options_.trace : nullptr;
  for (const plan::Step& step : block.steps) {
    StepTimer timer(trace, step.label, step.step_class);
    if (std::holds_alternative<plan::KernelStep>(step.body)) {
      run_watched(step, context);
    } else {
      std::visit([&](const auto& body) { run_step(body, context); }, step.body);
    }
    context.worker.barrier();
  }
}

void Executor::run_watched(const plan::Step& step, Context& context) {
  if (memory_check_ == nullptr) return run_kernel(step, context);
  Worker& worker = context.worker;
  worker.barrier();
  if (worker.index() == 0) watch(std::get<plan::KernelStep>(step.body), context);
  worker.barrier();
  run_kernel(step, context);
  worker.barrier();
  if (worker.index() == 0) memory_check_->after(step.label);
}

void Executor::run_kernel(const plan::Step& step, Context& context) {
  if (probe_ != nullptr && context.batch != nullptr) return run_probed(step, context);
  run_plain(step, context);
}

void Executor::run_plain(const plan::Step& step, Context& context) {
  if (context.canary) {
    run_with_canary(step, context);
  } else {
    run_step(std::get<plan::KernelStep>(step.body), context);
  }
  if (options_.fault && context.batch != nullptr) spoil(step, context);
}

void Executor::run_step(const plan::KernelStep& step, Context& context) {
  const PreparedKernel& kernel = prepared(step);
  context.inputs.clear();
  context.outputs.clear();
  for (const plan::BufferId id : step.inputs) context.inputs.push_back(view(id, context));
  for (const plan::BufferId id : step.outputs) context.outputs.push_back(view(id, context));
  run_form(kernel.forms[kernel.active], step, context);
}

void Executor::route(const plan::PerExpertStep& step, const tensor::View& indices, const tensor::View& weights) {
  auto& groups = routing_->groups;
  groups.resize(static_cast<size_t>(step.num_experts));
  for (size_t i = 0; i < groups.size(); ++i) {
    groups[i].expert = static_cast<int64_t>(i);
    groups[i].rows.clear();
  }
  const int64_t per_token = indices.dim(-1);
  for (int64_t token = 0; token < indices.dim(0); ++token) {
    for (int64_t k = 0; k < per_token; ++k) {
      const int32_t expert = indices.as<int32_t>()[token * per_token + k];
      if (expert < 0 || expert >= step.num_experts) continue;  // an index of nobody: the row gets nothing
      const auto has_token = [&](const ExpertRows& group) {
        return !group.rows.empty() && group.rows.back().token == token;
      };
      size_t place = static_cast<size_t>(expert);
      if (has_token(groups[place])) {
        place = static_cast<size_t>(step.num_experts);
        while (place < groups.size() && (groups[place].expert != expert || has_token(groups[place]))) ++place;
        if (place == groups.size()) groups.push_back({.expert = expert, .rows = {}});
      }
      groups[place].rows.push_back({static_cast<int32_t>(token), weights.as<float>()[token * per_token + k]});
    }
  }
  // A token's sum has one order, whoever else named an expert twice.
  std::stable_sort(groups.begin() + step.num_experts, groups.end(),
                   [](const ExpertRows& a, const ExpertRows& b) { return a.expert < b.expert; });
}

// What a step makes from an expert's weights alone has one place for all experts: such bodies run expert by expert, and
// so do those of the reference backend, which the others are compared with.
bool Executor::may_run_together(const plan::Block& body) const {
  const auto has_place_per_row = [&](plan::BufferId id) {
    const tensor::Shape& shape = plan_.buffer(id).type.shape;
    return !shape.empty() && shape[0].symbol == tensor::Symbol::kRows;
  };
  return plan_.backend != catalog::backend_name(catalog::Backend::kReference) &&
         std::all_of(body.steps.begin(), body.steps.end(), [&](const plan::Step& step) {
           const auto* kernel = std::get_if<plan::KernelStep>(&step.body);
           return kernel != nullptr && std::all_of(kernel->outputs.begin(), kernel->outputs.end(), has_place_per_row);
         });
}

// The chosen experts together, as many as the planned rows hold: each step of the body runs for all of them before the
// workers meet, so that a few rows cost a few meetings, not a few per expert.
void Executor::run_step(const plan::PerExpertStep& step, Context& context) {
  Worker& worker = context.worker;
  if (worker.index() == 0) route(step, view(step.indices, context), view(step.weights, context));
  const tensor::View output = view(step.output, context);
  const auto clear = worker.share(output.num_rows());
  std::fill(output.as<float>() + clear.begin * output.dim(-1), output.as<float>() + clear.end * output.dim(-1), 0.0f);
  worker.barrier();
  const int64_t capacity = may_run_together(*step.body) ? context.bucket->largest_values().rows : 0;
  const std::span<const ExpertRows> groups = routing_->groups;
  for (size_t begin = 0; begin < groups.size();) {
    size_t end = begin;
    int64_t rows = 0;
    for (; end < groups.size(); ++end) {
      const auto more = static_cast<int64_t>(groups[end].rows.size());
      if (rows > 0 && more > 0 && rows + more > capacity) break;
      rows += more;
    }
    if (rows > 0) run_experts(step, groups.subspan(begin, end - begin), context);
    begin = end;
  }
  context.expert = -1;
  context.first_row = 0;
  context.values.rows = 0;
}

void Executor::run_experts(const plan::PerExpertStep& step, std::span<const ExpertRows> groups, Context& context) {
  Worker& worker = context.worker;
  const tensor::View x = view(step.x, context);
  const int64_t in_width = x.dim(-1);
  context.first_row = 0;
  float* gathered = view(step.rows, context).as<float>();
  int64_t total = 0;
  for (const ExpertRows& group : groups) total += static_cast<int64_t>(group.rows.size());
  const auto mine = worker.share(total);
  int64_t r = 0;
  for (const ExpertRows& group : groups) {
    for (const ExpertRows::Row& row : group.rows) {
      if (r >= mine.begin && r < mine.end) {
        const float* from = x.as<float>() + row.token * in_width;
        const float scale = step.weight_on_input ? row.weight : 1.0f;
        for (int64_t i = 0; i < in_width; ++i) gathered[r * in_width + i] = from[i] * scale;
      }
      ++r;
    }
  }
  worker.barrier();
  run_body(*step.body, groups, context);
  add_results(step, groups, context);
  worker.barrier();
}

// Leaves all workers behind a barrier.
void Executor::run_body(const plan::Block& body, std::span<const ExpertRows> groups, Context& context) {
  const auto enter = [&](const ExpertRows& group, int64_t first_row) {
    context.expert = group.expert;
    context.first_row = first_row;
    context.values.rows = static_cast<int64_t>(group.rows.size());
  };
  const auto occupied =
      std::count_if(groups.begin(), groups.end(), [](const auto& group) { return !group.rows.empty(); });
  if (occupied == 1) {
    for (const ExpertRows& group : groups) {
      if (group.rows.empty()) continue;
      enter(group, 0);
      run_block(body, context);
    }
    return;
  }
  Trace* trace = context.worker.index() == 0 ? options_.trace : nullptr;
  for (const plan::Step& step : body.steps) {
    StepTimer timer(trace, step.label, step.step_class);
    int64_t first_row = 0;
    for (const ExpertRows& group : groups) {
      if (group.rows.empty()) continue;
      enter(group, first_row);
      run_watched(step, context);
      if (needs_workspace(std::get<plan::KernelStep>(step.body), context)) context.worker.barrier();
      first_row += context.values.rows;
    }
    context.worker.barrier();
  }
}

// Tokens are shared out; each gets its experts' rows in the order of the experts.
void Executor::add_results(const plan::PerExpertStep& step, std::span<const ExpertRows> groups, Context& context) {
  context.first_row = 0;
  const tensor::View output = view(step.output, context);
  const int64_t width = output.dim(-1);
  const auto mine = context.worker.share(output.num_rows());
  const float* result = view(step.result, context).as<float>();
  for (const ExpertRows& group : groups) {
    for (const ExpertRows::Row& row : group.rows) {
      if (row.token >= mine.begin && row.token < mine.end) {
        float* to = output.as<float>() + row.token * width;
        const float scale = step.weight_on_input ? 1.0f : row.weight;
        for (int64_t i = 0; i < width; ++i) to[i] += result[i] * scale;
      }
      result += width;
    }
  }
}

void Executor::run_step(const plan::IfStep& step, Context& context) {
  const tensor::View condition = view(step.condition, context);
  const bool taken = condition.dtype == tensor::DType::kF32    ? *condition.as<float>() != 0.0f
                     : condition.dtype == tensor::DType::kBool ? *condition.as<uint8_t>() != 0
                                                               : *condition.as<int32_t>() != 0;
  run_block(taken ? *step.then_block : *step.else_block, context);
  const auto& results = taken ? step.then_results : step.else_results;
  if (context.worker.index() != 0) return;
  for (size_t i = 0; i < step.outputs.size(); ++i) {
    const tensor::View to = view(step.outputs[i], context);
    std::memcpy(to.data, view(results[i], context).data,
                static_cast<size_t>(tensor::size_bytes(plan_.buffer(step.outputs[i]).type, context.values)));
  }
}

}  // namespace firstlight::runtime
