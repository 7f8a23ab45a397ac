// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/queue.h"

#include <vector>

namespace firstlight::device::FL_VENDOR {
namespace {

struct Point final : Event::State {
  Point(std::shared_ptr<Context> context_, CUevent event_) : context(std::move(context_)), event(event_) {}
  ~Point() override {
    if (context->enter().ok()) context->api->EventDestroy(event);
  }
  Status wait() override {
    FL_TRY(context->enter());
    return context->check(context->api->EventSynchronize(event), "waiting for an event");
  }
  bool done() override { return !context->enter().ok() || context->api->EventQuery(event) != CUDA_ERROR_NOT_READY; }
  std::shared_ptr<Context> context;
  CUevent event;
};

}  // namespace

LoadedModule::~LoadedModule() {
  if (context->enter().ok()) context->api->ModuleUnload(handle);
}

Result<std::unique_ptr<StreamQueue>> StreamQueue::make(std::shared_ptr<Context> context) {
  FL_TRY(context->enter());
  CUstream stream = nullptr;
  FL_TRY(context->check(context->api->StreamCreate(&stream, CU_STREAM_NON_BLOCKING), "making a queue"));
  return std::unique_ptr<StreamQueue>(new StreamQueue(std::move(context), stream));
}

StreamQueue::~StreamQueue() {
  if (!context_->enter().ok()) return;
  context_->api->StreamSynchronize(stream_);  // host memory that was handed over may end now
  context_->api->StreamDestroy(stream_);
}

Status StreamQueue::copy_in(const Buffer& to, std::span<const std::byte> from) {
  FL_TRY(context_->enter());
  FL_TRY(check_copy("copy in", to.bytes(), static_cast<int64_t>(from.size())));
  if (from.empty()) return ok_status();
  return context_->check(context_->api->MemcpyHtoDAsync(address_of(to), from.data(), from.size(), stream_),
                         "copying in");
}

Status StreamQueue::copy_out(std::span<std::byte> to, const Buffer& from) {
  FL_TRY(context_->enter());
  FL_TRY(check_copy("copy out", static_cast<int64_t>(to.size()), from.bytes()));
  if (to.empty()) return ok_status();
  return context_->check(context_->api->MemcpyDtoHAsync(to.data(), address_of(from), to.size(), stream_),
                         "copying out");
}

Status StreamQueue::copy(const Buffer& to, const Buffer& from) {
  FL_TRY(context_->enter());
  FL_TRY(check_copy(to, from));
  if (to.bytes() == 0) return ok_status();
  const auto bytes = static_cast<size_t>(to.bytes());
  return context_->check(context_->api->MemcpyDtoDAsync(address_of(to), address_of(from), bytes, stream_), "copying");
}

Status StreamQueue::fill(const Buffer& to, uint8_t value) {
  FL_TRY(context_->enter());
  if (to.bytes() == 0) return ok_status();
  const auto bytes = static_cast<size_t>(to.bytes());
  return context_->check(context_->api->MemsetD8Async(address_of(to), value, bytes, stream_), "filling");
}

Status StreamQueue::check_limits(Function& function, const KernelSignature& signature, const Launch& launch) {
  const int64_t threads = launch.block[0] * launch.block[1] * launch.block[2];
  if (threads > function.max_block_threads) {
    return invalid_argument("kernel '" + signature.name + "': blocks of " + std::to_string(threads) +
                            " threads, this kernel allows " + std::to_string(function.max_block_threads) +
                            " on this device");
  }
  const int64_t local_bytes = function.static_local_bytes + launch.local_bytes;
  if (local_bytes > context_->target.local_bytes) {
    return invalid_argument("kernel '" + signature.name + "': " + std::to_string(local_bytes) +
                            " bytes of local memory, at most " + std::to_string(context_->target.local_bytes) +
                            " on this device");
  }
  const std::lock_guard lock(function.mutex);
  if (launch.local_bytes <= function.allowed_dynamic_bytes) return ok_status();
  FL_TRY(
      context_->check(context_->api->FuncSetAttribute(function.handle, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                                      static_cast<int>(launch.local_bytes)),
                      "local memory of kernel '" + signature.name + "'"));
  function.allowed_dynamic_bytes = launch.local_bytes;
  return ok_status();
}

Status StreamQueue::launch(const Kernel& kernel, const Launch& launch) {
  FL_TRY(context_->enter());
  const KernelSignature& signature = kernel.signature();
  FL_TRY(check_launch(context_->target, signature, launch));
  auto& function = *static_cast<Function*>(kernel.body());
  FL_TRY(check_limits(function, signature, launch));
  if (launch.grid[0] == 0 || launch.grid[1] == 0 || launch.grid[2] == 0) return ok_status();

  int nothing = 0;  // FL_DYNAMIC_LOCAL_PARAM
  std::vector<CUdeviceptr> addresses(launch.arguments.size());
  std::vector<void*> values;
  for (size_t i = 0; i < launch.arguments.size(); ++i) {
    if (const auto* buffer = std::get_if<Buffer>(&launch.arguments[i])) {
      addresses[i] = address_of(*buffer);
      values.push_back(&addresses[i]);
    } else {
      values.push_back(std::visit([](const auto& v) { return const_cast<void*>(static_cast<const void*>(&v)); },
                                  launch.arguments[i]));
    }
  }
  if (signature.has_dynamic_local) values.push_back(&nothing);
  const auto narrow = [](int64_t v) { return static_cast<unsigned>(v); };
  return context_->check(
      context_->api->LaunchKernel(function.handle, narrow(launch.grid[0]), narrow(launch.grid[1]),
                                  narrow(launch.grid[2]), narrow(launch.block[0]), narrow(launch.block[1]),
                                  narrow(launch.block[2]), narrow(launch.local_bytes), stream_, values.data(), nullptr),
      "launching kernel '" + signature.name + "'");
}

Result<Event> StreamQueue::record() {
  FL_TRY(context_->enter());
  CUevent event = nullptr;
  FL_TRY(context_->check(context_->api->EventCreate(&event, CU_EVENT_DISABLE_TIMING), "making an event"));
  Event point(std::make_shared<Point>(context_, event));
  FL_TRY(context_->check(context_->api->EventRecord(event, stream_), "recording an event"));
  return point;
}

Status StreamQueue::wait_for(const Event& event) {
  FL_TRY(context_->enter());
  if (event.state() == nullptr) return ok_status();
  const CUevent handle = static_cast<Point*>(event.state())->event;
  return context_->check(context_->api->StreamWaitEvent(stream_, handle, 0), "waiting in a queue");
}

Status StreamQueue::finish() {
  FL_TRY(context_->enter());
  return context_->check(context_->api->StreamSynchronize(stream_), "finishing");
}

}  // namespace firstlight::device::FL_VENDOR
