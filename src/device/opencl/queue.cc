// SPDX-License-Identifier: Apache-2.0
#include "device/opencl/queue.h"

#include <algorithm>

namespace firstlight::device {
namespace {

cl_mem handle_of(const Buffer& buffer) {
  return buffer ? static_cast<OpenclMemory*>(buffer.memory())->handle() : nullptr;
}
size_t offset_of(const Buffer& buffer) { return static_cast<size_t>(buffer.offset()); }
size_t bytes_of(const Buffer& buffer) { return static_cast<size_t>(buffer.bytes()); }

struct Point final : Event::State {
  Point(std::shared_ptr<OpenclContext> context_, cl_event event_) : context(std::move(context_)), event(event_) {}
  ~Point() override { context->api->ReleaseEvent(event); }
  Status wait() override {
    FL_TRY(context->usable());
    return context->check(context->api->WaitForEvents(1, &event), "waiting for an event");
  }
  bool done() override {
    cl_int state = CL_QUEUED;
    const cl_int code =
        context->api->GetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(state), &state, nullptr);
    return code != CL_SUCCESS || state <= CL_COMPLETE;
  }
  std::shared_ptr<OpenclContext> context;
  cl_event event;
};

}  // namespace

Result<std::unique_ptr<OpenclQueue>> OpenclQueue::make(std::shared_ptr<OpenclContext> context) {
  cl_int code = CL_SUCCESS;
  cl_command_queue queue = context->api->CreateCommandQueue(context->context, context->id, 0, &code);
  if (queue == nullptr) return context->check(code, "making a queue");
  return std::unique_ptr<OpenclQueue>(new OpenclQueue(std::move(context), queue));
}

OpenclQueue::~OpenclQueue() {
  if (!context_->is_lost.load()) context_->api->Finish(queue_);  // host memory that was handed over may end now
  context_->api->ReleaseCommandQueue(queue_);
}

Status OpenclQueue::copy_in(const Buffer& to, std::span<const std::byte> from) {
  FL_TRY(context_->usable());
  FL_TRY(check_copy("copy in", to.bytes(), static_cast<int64_t>(from.size())));
  if (from.empty()) return ok_status();
  return context_->check(context_->api->EnqueueWriteBuffer(queue_, handle_of(to), CL_FALSE, offset_of(to), from.size(),
                                                           from.data(), 0, nullptr, nullptr),
                         "copying in");
}

Status OpenclQueue::copy_out(std::span<std::byte> to, const Buffer& from) {
  FL_TRY(context_->usable());
  FL_TRY(check_copy("copy out", static_cast<int64_t>(to.size()), from.bytes()));
  if (to.empty()) return ok_status();
  return context_->check(context_->api->EnqueueReadBuffer(queue_, handle_of(from), CL_FALSE, offset_of(from), to.size(),
                                                          to.data(), 0, nullptr, nullptr),
                         "copying out");
}

Status OpenclQueue::copy(const Buffer& to, const Buffer& from) {
  FL_TRY(context_->usable());
  FL_TRY(check_copy(to, from));
  if (to.bytes() == 0) return ok_status();
  return context_->check(context_->api->EnqueueCopyBuffer(queue_, handle_of(from), handle_of(to), offset_of(from),
                                                          offset_of(to), bytes_of(to), 0, nullptr, nullptr),
                         "copying");
}

Status OpenclQueue::fill(const Buffer& to, uint8_t value) {
  FL_TRY(context_->usable());
  if (to.bytes() == 0) return ok_status();
  return context_->check(context_->api->EnqueueFillBuffer(queue_, handle_of(to), &value, 1, offset_of(to), bytes_of(to),
                                                          0, nullptr, nullptr),
                         "filling");
}

// In the order that assemble.cc gives the kernel: the parameters, dynamic local memory, an offset per buffer.
Status OpenclQueue::set_arguments(const OpenclBody& body, const KernelSignature& signature, const Launch& launch) {
  cl_uint at = 0;
  cl_int code = CL_SUCCESS;
  const auto set = [&](size_t bytes, const void* value) {
    const cl_int result = context_->api->SetKernelArg(body.handle, at++, bytes, value);
    if (code == CL_SUCCESS) code = result;
  };
  for (const Argument& argument : launch.arguments) {
    if (const auto* buffer = std::get_if<Buffer>(&argument)) {
      const cl_mem handle = handle_of(*buffer);
      set(sizeof(cl_mem), handle == nullptr ? nullptr : &handle);
    } else {
      std::visit([&](const auto& value) { set(sizeof(value), &value); }, argument);
    }
  }
  if (signature.has_dynamic_local) set(static_cast<size_t>(std::max<int64_t>(launch.local_bytes, 4)), nullptr);
  for (const Argument& argument : launch.arguments) {
    const auto* buffer = std::get_if<Buffer>(&argument);
    if (buffer == nullptr) continue;
    const cl_ulong offset = *buffer ? static_cast<cl_ulong>(buffer->offset()) : 0;
    set(sizeof(offset), &offset);
  }
  return context_->check(code, "arguments of kernel '" + signature.name + "'");
}

Status OpenclQueue::launch(const Kernel& kernel, const Launch& launch) {
  FL_TRY(context_->usable());
  const KernelSignature& signature = kernel.signature();
  FL_TRY(check_launch(context_->target, signature, launch));
  auto& body = *static_cast<OpenclBody*>(kernel.body());
  const int64_t threads = launch.block[0] * launch.block[1] * launch.block[2];
  if (threads > body.max_block_threads) {
    return invalid_argument("kernel '" + signature.name + "': blocks of " + std::to_string(threads) +
                            " threads, this kernel allows " + std::to_string(body.max_block_threads) +
                            " on this device");
  }
  std::array<size_t, 3> global;
  std::array<size_t, 3> local;
  for (size_t i = 0; i < 3; ++i) {
    if (launch.grid[i] == 0) return ok_status();
    local[i] = static_cast<size_t>(launch.block[i]);
    global[i] = static_cast<size_t>(launch.grid[i] * launch.block[i]);
  }
  const std::lock_guard lock(body.mutex);
  FL_TRY(set_arguments(body, signature, launch));
  return context_->check(context_->api->EnqueueNDRangeKernel(queue_, body.handle, 3, nullptr, global.data(),
                                                             local.data(), 0, nullptr, nullptr),
                         "launching kernel '" + signature.name + "'");
}

Result<Event> OpenclQueue::record() {
  FL_TRY(context_->usable());
  cl_event event = nullptr;
  FL_TRY(context_->check(context_->api->EnqueueMarkerWithWaitList(queue_, 0, nullptr, &event), "recording an event"));
  Event point(std::make_shared<Point>(context_, event));
  FL_TRY(context_->check(context_->api->Flush(queue_), "flushing"));
  return point;
}

Status OpenclQueue::wait_for(const Event& event) {
  FL_TRY(context_->usable());
  if (event.state() == nullptr) return ok_status();
  const cl_event handle = static_cast<Point*>(event.state())->event;
  return context_->check(context_->api->EnqueueBarrierWithWaitList(queue_, 1, &handle, nullptr), "waiting in a queue");
}

Status OpenclQueue::finish() {
  FL_TRY(context_->usable());
  return context_->check(context_->api->Finish(queue_), "finishing");
}

}  // namespace firstlight::device
