// SPDX-License-Identifier: Apache-2.0
// The calling convention of kernels on devices. A body is prepared once per plan step: it looks at the step's types and
// attributes, prints what has to be printed and has its modules built. Then it is launched many times: `launch` puts
// work into the compute queue and returns; the steps of a run follow each other there in order.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "catalog/kernel_row.h"
#include "device/device.h"
#include "plan/batch.h"
#include "tensor/view.h"

namespace firstlight::kernels {

// An operand: type and sizes (`view.data` means nothing), and where it lies.
struct DeviceView {
  tensor::View view;
  device::Buffer data;
  bool present() const { return view.rank > 0 || static_cast<bool>(data); }
};

// The batch's tables in device memory.
struct DeviceBatch {
  std::span<const plan::SequenceSpan> sequences;  // on the host
  device::Buffer row_sequence;                    // i32[T]: the sequence of every row
  device::Buffer spans;                           // i32[S, 4]: first row, rows, rows before, 0
};

// A state: every sequence's pages by their place in one pool.
struct DeviceState {
  int64_t page_rows = 0;
  std::span<const plan::StateComponentView> components;
  device::Buffer pool;
  device::Buffer pages;  // i64[S, max_pages]
  int64_t max_pages = 0;
  int64_t longest = 0;  // rows of the longest sequence after this batch
};

struct DeviceCall {
  device::Queue& queue;
  std::span<const DeviceView> inputs;  // in operand order; state operands and absent ones are empty
  std::span<const DeviceView> outputs;
  const DeviceBatch* batch = nullptr;
  std::span<const DeviceState* const> states;  // of the state operands, in order
  device::Buffer workspace;                    // workspace_bytes long
  // Brings a few bytes of this run to the device; they stay there until the run has ended.
  const std::function<Result<device::Buffer>(std::span<const std::byte>)>& upload;
  // Memory whose size depends on how long the sequences are, and so is not planned; until the step's work is done.
  const std::function<Result<device::Buffer>(int64_t bytes)>& scratch;
};

// A prepared step.
class DeviceKernel {
 public:
  virtual ~DeviceKernel() = default;
  virtual Status launch(const DeviceCall& call) const = 0;
  // The most that launches within these sizes need.
  virtual int64_t workspace_bytes(const tensor::SymbolValues&) const { return 0; }
};

// Builds modules from the texts of this folder and what a body prints behind them; equal ones once.
class DeviceModules {
 public:
  explicit DeviceModules(device::Device& device) : device_(device) {}

  using Defines = std::vector<std::pair<std::string, std::string>>;
  // `path` as in the folder of this module ("dialect/rows.fl.cl"); `printed` is put where the text says //@printed, or
  // behind it; `name` is the kernel's.
  Result<device::Kernel> kernel(std::string_view path, const std::string& printed, Defines defines,
                                std::string_view name);
  device::Device& device() { return device_; }
  size_t num_modules() const { return modules_.size(); }

 private:
  device::Device& device_;
  std::map<std::string, device::Module> modules_;
};

struct DevicePrepare {
  const catalog::Signature& signature;
  std::span<const ops::StateDecl* const> states;
  DeviceModules& modules;
};

struct DeviceBody {
  std::string_view symbol;
  // May refuse what the row's `accepts` cannot see (kUnsupported).
  Result<std::unique_ptr<DeviceKernel>> (*prepare)(const DevicePrepare& prepare) = nullptr;
};

// The body of a row of a device backend; null when this build has none.
const DeviceBody* find_device_kernel(std::string_view symbol);

}  // namespace firstlight::kernels
