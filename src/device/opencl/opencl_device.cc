// SPDX-License-Identifier: Apache-2.0
#include "device/opencl/opencl_device.h"

#include <algorithm>

#include "device/assemble.h"
#include "device/binary_cache.h"
#include "device/opencl/context.h"
#include "device/opencl/describe.h"
#include "device/opencl/queue.h"

namespace firstlight::device {
namespace {

struct OpenclCode final : Module::Code {
  OpenclCode(std::shared_ptr<OpenclContext> context_, cl_program program_)
      : context(std::move(context_)), program(program_) {}
  ~OpenclCode() override { context->api->ReleaseProgram(program); }

  Result<std::shared_ptr<Kernel::Body>> find(const KernelSignature& signature) override {
    FL_TRY(context->usable());
    cl_int code = CL_SUCCESS;
    cl_kernel handle = context->api->CreateKernel(program, signature.name.c_str(), &code);
    if (handle == nullptr) return context->check(code, "kernel '" + signature.name + "'");
    auto body = std::make_shared<OpenclBody>(context, handle);
    size_t threads = 1;
    FL_TRY(context->check(context->api->GetKernelWorkGroupInfo(handle, context->id, CL_KERNEL_WORK_GROUP_SIZE,
                                                               sizeof(threads), &threads, nullptr),
                          "kernel '" + signature.name + "'"));
    body->max_block_threads = static_cast<int64_t>(threads);
    return std::shared_ptr<Kernel::Body>(body);
  }
  std::shared_ptr<OpenclContext> context;
  cl_program program;
};

std::string build_log(const OpenclContext& context, cl_program program) {
  size_t bytes = 0;
  context.api->GetProgramBuildInfo(program, context.id, CL_PROGRAM_BUILD_LOG, 0, nullptr, &bytes);
  std::string log(bytes, '\0');
  context.api->GetProgramBuildInfo(program, context.id, CL_PROGRAM_BUILD_LOG, bytes, log.data(), nullptr);
  log.resize(std::min(log.find('\0'), log.size()));
  return log;
}

class OpenclDevice final : public Device {
 public:
  OpenclDevice(std::shared_ptr<OpenclContext> context, std::unique_ptr<OpenclQueue> compute,
               std::unique_ptr<OpenclQueue> transfer, const OpenOptions& options)
      : Device(context->target),
        cache_(options.cache_dir, ".clbin"),
        context_(std::move(context)),
        compute_(std::move(compute)),
        transfer_(std::move(transfer)) {}

  Result<Buffer> allocate(int64_t bytes) override {
    FL_TRY(context_->usable());
    FL_CHECK(bytes >= 0);
    if (bytes == 0) return Buffer();
    return Buffer(FL_TRY(OpenclMemory::allocate(context_, bytes)), 0, bytes);
  }
  Result<Buffer> wrap(std::span<const std::byte> host) override {
    if (!target_.unified_memory) return Device::wrap(host);
    FL_TRY(context_->usable());
    if (host.empty()) return Buffer();
    const auto bytes = static_cast<int64_t>(host.size());
    return Buffer(FL_TRY(OpenclMemory::wrap(context_, const_cast<std::byte*>(host.data()), bytes)), 0, bytes);
  }
  int64_t bytes_in_use() const override { return context_->used_bytes.load(); }
  int64_t available_bytes() const override { return context_->available_bytes(); }
  Queue& compute() override { return *compute_; }
  Queue& transfer() override { return *transfer_; }
  Result<Module> build(const ModuleSource& source) override;
  bool lost() const override { return context_->is_lost.load(); }
  void inject(Fault fault) override { context_->is_lost = fault == Fault::kLost; }

 private:
  std::string options() const { return std::string(target_.warps_in_hardware ? "-cl-std=CL3.0" : "-cl-std=CL1.2"); }
  Result<cl_program> compile(const std::string& name, const std::string& text);
  cl_program load(const std::string& binary);  // nullptr: not a binary of this driver
  Status keep(const std::string& key, cl_program program);

  BinaryCache cache_;
  std::shared_ptr<OpenclContext> context_;
  std::unique_ptr<OpenclQueue> compute_;
  std::unique_ptr<OpenclQueue> transfer_;
};

Result<cl_program> OpenclDevice::compile(const std::string& name, const std::string& text) {
  cl_int code = CL_SUCCESS;
  const char* lines = text.c_str();
  const size_t length = text.size();
  cl_program program = context_->api->CreateProgramWithSource(context_->context, 1, &lines, &length, &code);
  if (program == nullptr) return context_->check(code, "kernel source '" + name + "'");
  code = context_->api->BuildProgram(program, 1, &context_->id, options().c_str(), nullptr, nullptr);
  if (code == CL_SUCCESS) return program;
  const std::string log = first_lines(build_log(*context_, program));
  context_->api->ReleaseProgram(program);
  if (code != CL_BUILD_PROGRAM_FAILURE) return context_->check(code, "kernel source '" + name + "'");
  return invalid_data("kernel source '" + name + "' does not build: " + log);
}

cl_program OpenclDevice::load(const std::string& binary) {
  cl_int code = CL_SUCCESS;
  cl_int state = CL_SUCCESS;
  const size_t bytes = binary.size();
  const auto* data = reinterpret_cast<const unsigned char*>(binary.data());
  cl_program program =
      context_->api->CreateProgramWithBinary(context_->context, 1, &context_->id, &bytes, &data, &state, &code);
  if (program == nullptr) return nullptr;
  if (code == CL_SUCCESS && state == CL_SUCCESS &&
      context_->api->BuildProgram(program, 1, &context_->id, options().c_str(), nullptr, nullptr) == CL_SUCCESS) {
    return program;
  }
  context_->api->ReleaseProgram(program);
  return nullptr;
}

Status OpenclDevice::keep(const std::string& key, cl_program program) {
  size_t bytes = 0;
  FL_TRY(context_->check(
      context_->api->GetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof(bytes), &bytes, nullptr), "binary size"));
  if (bytes == 0) return ok_status();
  std::string binary(bytes, '\0');
  auto* data = reinterpret_cast<unsigned char*>(binary.data());
  FL_TRY(context_->check(context_->api->GetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof(data), &data, nullptr),
                         "binary"));
  return cache_.put(key, binary);
}

Result<Module> OpenclDevice::build(const ModuleSource& source) {
  FL_TRY(context_->usable());
  auto assembled = FL_TRY(assemble(target_, source, false));
  const std::string key = cache_key(target_, assembled.text);
  if (const auto binary = cache_.get(key)) {
    if (cl_program program = load(*binary)) {
      return Module(source.name, std::move(assembled.kernels), std::make_shared<OpenclCode>(context_, program), true);
    }
  }
  auto code = std::make_shared<OpenclCode>(context_, FL_TRY(compile(source.name, assembled.text)));
  FL_TRY(keep(key, code->program));
  return Module(source.name, std::move(assembled.kernels), std::move(code), false);
}

Result<std::unique_ptr<Device>> open_entry(const std::shared_ptr<const OpenclApi>& api, const OpenclEntry& entry,
                                           const OpenOptions& options) {
  auto context = std::make_shared<OpenclContext>(api, entry.id, entry.target);
  FL_TRY(context->open());
  auto compute = FL_TRY(OpenclQueue::make(context));
  auto transfer = FL_TRY(OpenclQueue::make(context));
  std::unique_ptr<Device> device =
      std::make_unique<OpenclDevice>(std::move(context), std::move(compute), std::move(transfer), options);
  FL_TRY(device->health());
  return device;
}

}  // namespace

std::vector<target::DeviceTarget> list_opencl(std::string& absent) {
  std::vector<target::DeviceTarget> targets;
  const auto api = OpenclApi::load();
  if (!api.ok()) {
    absent = api.status().message();
    return targets;
  }
  const auto entries = find_opencl_devices(**api);
  if (!entries.ok()) {
    absent = entries.status().message();
    return targets;
  }
  for (const OpenclEntry& entry : *entries) targets.push_back(entry.target);
  return targets;
}

Result<std::unique_ptr<Device>> open_opencl(const OpenOptions& options) {
  const auto api = FL_TRY(OpenclApi::load());
  auto entries = FL_TRY(find_opencl_devices(*api));
  if (options.index < 0 || static_cast<size_t>(options.index) >= entries.size()) {
    return unsupported("opencl: device " + std::to_string(options.index) + ", there are " +
                       std::to_string(entries.size()));
  }
  OpenclEntry& entry = entries[static_cast<size_t>(options.index)];
  FL_TRY(choose_warp_width(entry.target, options.warp_width));
  if (options.memory_limit_bytes > 0) {
    entry.target.global_bytes = std::min(entry.target.global_bytes, options.memory_limit_bytes);
  }
  if (entry.target.warps_in_hardware) {
    auto device = open_entry(api, entry, options);
    if (device.ok()) return device;
    entry.target.warps_in_hardware = entry.target.lockstep = false;
  }
  return open_entry(api, entry, options);
}

}  // namespace firstlight::device
