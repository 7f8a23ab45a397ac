// SPDX-License-Identifier: Apache-2.0
// A device: memory, two queues, kernels built from source in the dialect (docs/dialect.md). One interface for simt,
// opencl, cuda and musa; errors of drivers are translated here, so that nothing above sees a vendor's code.
//
//   auto device = FL_TRY(open_device(DeviceKind::kOpencl, {.cache_dir = "..."}));      // device/open.h
//   Buffer x = FL_TRY(device->allocate(4096));
//   Module module = FL_TRY(device->build({.name = "scale", .text = source, .defines = {{"BLOCK", "64"}}}));
//   Kernel scale = FL_TRY(module.kernel("scale"));
//   const Argument arguments[] = {x, 2.0f, 1024};
//   FL_TRY(device->compute().copy_in(x, bytes));
//   FL_TRY(device->compute().launch(scale, {.grid = {16, 1, 1}, .block = {64, 1, 1}, .arguments = arguments}));
//   FL_TRY(device->compute().copy_out(bytes, x));
//   FL_TRY(device->compute().finish());
//
// Errors: kOutOfMemory (message with needed and available bytes), kUnavailable for a lost device (message begins with
// "device lost", is_device_lost() tells), kInvalidArgument for wrong launches, kInvalidData for source that does not
// build (message with the first lines of the log), kNotFound for a kernel that a module does not have, kUnsupported for
// what this device can not do.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/status.h"
#include "device/kernel_signature.h"
#include "target/device_target.h"

namespace firstlight::device {

// What a buffer's memory is on its device; defined by each implementation. Freed with the last buffer that holds it.
class Memory {
 public:
  virtual ~Memory() = default;
};

// A range of device memory. A cheap handle: copies and views share the memory. Empty: a null pointer in a kernel.
class Buffer {
 public:
  Buffer() = default;
  Buffer(std::shared_ptr<Memory> memory, int64_t offset, int64_t bytes)
      : memory_(std::move(memory)), offset_(offset), bytes_(bytes) {}

  // The part from `offset` on; any offset will do on every device. Outside this buffer is a bug of ours.
  Buffer view(int64_t offset, int64_t bytes) const;

  Memory* memory() const { return memory_.get(); }
  int64_t offset() const { return offset_; }
  int64_t bytes() const { return bytes_; }
  explicit operator bool() const { return memory_ != nullptr; }

 private:
  std::shared_ptr<Memory> memory_;
  int64_t offset_ = 0;
  int64_t bytes_ = 0;
};

// A point in a queue. A cheap handle; an empty one has long happened.
class Event {
 public:
  class State {
   public:
    virtual ~State() = default;
    virtual Status wait() = 0;
    virtual bool done() = 0;
  };
  Event() = default;
  explicit Event(std::shared_ptr<State> state) : state_(std::move(state)) {}

  // Blocks until everything before the point has ended; the first error of it, if any.
  Status wait() const { return state_ ? state_->wait() : ok_status(); }
  bool done() const { return !state_ || state_->done(); }
  State* state() const { return state_.get(); }

 private:
  std::shared_ptr<State> state_;
};

// One kernel of a module.
class Kernel {
 public:
  class Body {
   public:
    virtual ~Body() = default;
  };
  Kernel(KernelSignature signature, std::shared_ptr<Body> body)
      : signature_(std::move(signature)), body_(std::move(body)) {}
  const KernelSignature& signature() const { return signature_; }
  Body* body() const { return body_.get(); }

 private:
  KernelSignature signature_;
  std::shared_ptr<Body> body_;
};

class Module {
 public:
  class Code {
   public:
    virtual ~Code() = default;
    virtual Result<std::shared_ptr<Kernel::Body>> find(const KernelSignature& signature) = 0;
  };
  Module(std::string name, std::vector<KernelSignature> kernels, std::shared_ptr<Code> code, bool from_cache)
      : name_(std::move(name)), kernels_(std::move(kernels)), code_(std::move(code)), from_cache_(from_cache) {}

  // Errors: kNotFound, listing the kernels there are.
  Result<Kernel> kernel(std::string_view name) const;
  const std::vector<KernelSignature>& kernels() const { return kernels_; }
  // No compiler ran: the binary came from the cache folder, or was part of the program.
  bool from_cache() const { return from_cache_; }

 private:
  std::string name_;
  std::vector<KernelSignature> kernels_;
  std::shared_ptr<Code> code_;
  bool from_cache_;
};

// Kernel source in the dialect, without its prologue. FL_WARP and the like are defined by the device; `defines` come
// after.
struct ModuleSource {
  std::string name;  // for messages and file names: "norm/rms_norm"
  std::string text;
  std::vector<std::pair<std::string, std::string>> defines;
};

// In the order of the kernel's parameters and exactly of their types: int is fl_i32, float is fl_f32, and so on.
using Argument = std::variant<Buffer, int32_t, uint32_t, int64_t, uint64_t, float>;

struct Launch {
  std::array<int64_t, 3> grid = {1, 1, 1};   // in blocks; with a zero in it nothing runs
  std::array<int64_t, 3> block = {1, 1, 1};  // in threads
  std::span<const Argument> arguments;
  int64_t local_bytes = 0;  // of FL_DYNAMIC_LOCAL; 0 where the kernel has none
};

// Work in order. Calls return before the work is done; host memory handed over stays untouched until an event recorded
// after the call has happened. One thread at a time per queue. An error that shows only when the work runs is returned
// by the events after it and by finish(), once.
class Queue {
 public:
  virtual ~Queue() = default;
  // `to` and `from` have the same number of bytes; else kInvalidArgument.
  virtual Status copy_in(const Buffer& to, std::span<const std::byte> from) = 0;
  virtual Status copy_out(std::span<std::byte> to, const Buffer& from) = 0;
  virtual Status copy(const Buffer& to, const Buffer& from) = 0;  // ranges that overlap are refused
  virtual Status fill(const Buffer& to, uint8_t value) = 0;
  // Checks count and types of the arguments, block and grid against the device's limits.
  virtual Status launch(const Kernel& kernel, const Launch& launch) = 0;

  virtual Result<Event> record() = 0;
  // What is queued from now on starts after `event`, which may be of the other queue.
  virtual Status wait_for(const Event& event) = 0;
  virtual Status finish() = 0;
};

// What tests break on purpose.
enum class Fault : uint8_t { kNone, kLost };

class Device {
 public:
  explicit Device(target::DeviceTarget target) : target_(std::move(target)) {}
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const target::DeviceTarget& target() const { return target_; }

  // Aligned to target().buffer_alignment; contents are undefined. 0 bytes give an empty buffer. Errors: kOutOfMemory,
  // also where `bytes` is above max_allocation_bytes.
  virtual Result<Buffer> allocate(int64_t bytes) = 0;
  // Host memory as a buffer for reading, without a copy; it must outlive the buffer. kUnsupported without unified
  // memory.
  virtual Result<Buffer> wrap(std::span<const std::byte> host);
  virtual int64_t bytes_in_use() const = 0;
  // What allocations may still take, as far as the device tells.
  virtual int64_t available_bytes() const = 0;

  virtual Queue& compute() = 0;
  virtual Queue& transfer() = 0;

  // May be called from any thread. Looks into the cache folder first (OpenOptions::cache_dir).
  virtual Result<Module> build(const ModuleSource& source) = 0;

  // Builds and runs the probe (device/health.h): copies, arithmetic, barriers, local memory and the width of the warps
  // are compared with what the host expects. The message of a failure names what was wrong.
  Status health();

  virtual bool lost() const = 0;
  virtual void inject(Fault fault) = 0;

 protected:
  target::DeviceTarget target_;
};

Status device_lost(const target::DeviceTarget& target, std::string_view what);
bool is_device_lost(const Status& status);

// What every queue checks before it copies: equal sizes, and no overlap within one memory.
Status check_copy(const char* what, int64_t to_bytes, int64_t from_bytes);
Status check_copy(const Buffer& to, const Buffer& from);
// Argument types, sizes and limits; what every queue checks before it launches.
Status check_launch(const target::DeviceTarget& target, const KernelSignature& signature, const Launch& launch);

}  // namespace firstlight::device
