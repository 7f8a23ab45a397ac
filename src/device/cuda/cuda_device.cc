// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/cuda_device.h"

#include <algorithm>

#include "device/assemble.h"
#include "device/binary_cache.h"
#include "device/cuda/queue.h"

namespace firstlight::device::FL_VENDOR {
namespace {

struct Code final : Module::Code {
  explicit Code(std::shared_ptr<LoadedModule> module_) : module(std::move(module_)) {}

  Result<std::shared_ptr<Kernel::Body>> find(const KernelSignature& signature) override {
    Context& context = *module->context;
    const std::string what = "kernel '" + signature.name + "'";
    FL_TRY(context.enter());
    auto function = std::make_shared<Function>();
    function->module = module;
    FL_TRY(
        context.check(context.api->ModuleGetFunction(&function->handle, module->handle, signature.name.c_str()), what));
    int threads = 1;
    int local_bytes = 0;
    FL_TRY(context.check(
        context.api->FuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function->handle), what));
    FL_TRY(context.check(
        context.api->FuncGetAttribute(&local_bytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function->handle), what));
    function->max_block_threads = threads;
    function->static_local_bytes = local_bytes;
    function->allowed_dynamic_bytes = std::max(0, (48 << 10) - local_bytes);  // what needs no word to the driver
    return std::shared_ptr<Kernel::Body>(function);
  }
  std::shared_ptr<LoadedModule> module;
};

class CudaDevice final : public Device {
 public:
  CudaDevice(std::shared_ptr<Context> context, std::unique_ptr<StreamQueue> compute,
             std::unique_ptr<StreamQueue> transfer, RuntimeCompiler compiler, const OpenOptions& options)
      : Device(context->target),
        cache_(options.cache_dir, ".cubin"),
        compiler_(std::move(compiler)),
        context_(std::move(context)),
        compute_(std::move(compute)),
        transfer_(std::move(transfer)) {}

  Result<Buffer> allocate(int64_t bytes) override {
    FL_TRY(context_->enter());
    FL_CHECK(bytes >= 0);
    if (bytes == 0) return Buffer();
    return Buffer(FL_TRY(DeviceMemory::allocate(context_, bytes)), 0, bytes);
  }
  int64_t bytes_in_use() const override { return context_->used_bytes.load(); }
  int64_t available_bytes() const override;
  Queue& compute() override { return *compute_; }
  Queue& transfer() override { return *transfer_; }
  Result<Module> build(const ModuleSource& source) override;
  bool lost() const override { return context_->is_lost.load(); }
  void inject(Fault fault) override { context_->is_lost = fault == Fault::kLost; }

 private:
  Result<Module> load(const std::string& name, const std::vector<KernelSignature>& kernels, const std::string& binary,
                      bool from_cache);

  BinaryCache cache_;
  RuntimeCompiler compiler_;
  std::shared_ptr<Context> context_;
  std::unique_ptr<StreamQueue> compute_;
  std::unique_ptr<StreamQueue> transfer_;
};

int64_t CudaDevice::available_bytes() const {
  const int64_t left = target_.global_bytes - context_->used_bytes.load();
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  if (!context_->enter().ok() || context_->api->MemGetInfo(&free_bytes, &total_bytes) != CUDA_SUCCESS) return left;
  return std::min(left, static_cast<int64_t>(free_bytes));
}

Result<Module> CudaDevice::load(const std::string& name, const std::vector<KernelSignature>& kernels,
                                const std::string& binary, bool from_cache) {
  CUmodule handle = nullptr;
  FL_TRY(context_->check(context_->api->ModuleLoadData(&handle, binary.data()), "kernel source '" + name + "'"));
  return Module(name, kernels, std::make_shared<Code>(std::make_shared<LoadedModule>(context_, handle)), from_cache);
}

Result<Module> CudaDevice::build(const ModuleSource& source) {
  FL_TRY(context_->enter());
  const auto assembled = FL_TRY(assemble(target_, source, false));
  const std::string key = cache_key(target_, assembled.text);
  if (const auto binary = cache_.get(key)) {
    auto module = load(source.name, assembled.kernels, *binary, true);
    if (module.ok() || lost()) return module;
  }
  const std::string binary = FL_TRY(compiler_.compile(source.name, assembled.text, target_.architecture));
  FL_TRY(cache_.put(key, binary));
  return load(source.name, assembled.kernels, binary, false);
}

class Asker {
 public:
  Asker(const DriverApi& api, CUdevice id) : api_(api), id_(id) {}
  int64_t operator()(CUdevice_attribute what) const {
    int value = 0;
    return api_.DeviceGetAttribute(&value, what, id_) == CUDA_SUCCESS ? value : 0;
  }

 private:
  const DriverApi& api_;
  CUdevice id_;
};

target::DeviceTarget describe(const DriverApi& api, CUdevice id) {
  const Asker ask(api, id);
  target::DeviceTarget target;
  char name[256] = "";
  int version = 0;
  size_t bytes = 0;
  api.DeviceGetName(name, sizeof(name), id);
  api.DriverGetVersion(&version);
  api.DeviceTotalMem(&bytes, id);
  const int64_t major = ask(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  target.kind = FL_VENDOR_KIND;
  target.name = name;
  target.vendor = FL_VENDOR_KIND == target::DeviceKind::kCuda ? "NVIDIA" : "Moore Threads";
  target.driver_version = std::to_string(version);
  target.architecture =
      FL_ARCHITECTURE_PREFIX + std::to_string(major * 10 + ask(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
  target.compute_units = static_cast<int>(ask(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  target.warp_width = static_cast<int>(ask(CU_DEVICE_ATTRIBUTE_WARP_SIZE));
  target.warp_widths = {target.warp_width};
  target.warps_in_hardware = target.lockstep = true;
  target.max_block_threads = ask(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  target.max_block = {ask(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X), ask(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y),
                      ask(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z)};
  target.max_grid = {ask(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X), ask(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y),
                     ask(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z)};
  target.local_bytes = std::max(ask(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
                                ask(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK));
  target.global_bytes = target.max_allocation_bytes = static_cast<int64_t>(bytes);
  target.buffer_alignment = 256;
  target.max_argument_bytes = 4096;
  target.has_f64 = target.has_half = target.has_f32_atomics = true;
  target.has_bf16 = target.has_mma = FL_VENDOR_KIND == target::DeviceKind::kCuda && major >= 8;
  return target;
}

Result<std::vector<std::pair<CUdevice, target::DeviceTarget>>> find_devices(const DriverApi& api) {
  int count = 0;
  const CUresult code = api.DeviceGetCount(&count);
  if (code != CUDA_SUCCESS) return unsupported("the " FL_VENDOR_NAME " driver: " + api.error_name(code));
  std::vector<std::pair<CUdevice, target::DeviceTarget>> devices;
  for (int i = 0; i < count; ++i) {
    CUdevice id{};
    if (api.DeviceGet(&id, i) == CUDA_SUCCESS) devices.emplace_back(id, describe(api, id));
  }
  if (devices.empty()) return unsupported("the " FL_VENDOR_NAME " driver of this machine has no device");
  return devices;
}

}  // namespace

std::vector<target::DeviceTarget> list(std::string& absent) {
  std::vector<target::DeviceTarget> targets;
  const auto api = DriverApi::load();
  if (!api.ok()) {
    absent = api.status().message();
    return targets;
  }
  const auto devices = find_devices(**api);
  if (!devices.ok()) absent = devices.status().message();
  if (devices.ok()) {
    for (const auto& [id, target] : *devices) targets.push_back(target);
  }
  return targets;
}

Result<std::unique_ptr<Device>> open(const OpenOptions& options) {
  const auto api = FL_TRY(DriverApi::load());
  auto compiler = FL_TRY(RuntimeCompiler::load());
  auto devices = FL_TRY(find_devices(*api));
  if (options.index < 0 || static_cast<size_t>(options.index) >= devices.size()) {
    return unsupported(FL_VENDOR_NAME ": device " + std::to_string(options.index) + ", there are " +
                       std::to_string(devices.size()));
  }
  auto& [id, target] = devices[static_cast<size_t>(options.index)];
  FL_TRY(choose_warp_width(target, options.warp_width));
  target.compiler = compiler.version();
  if (options.memory_limit_bytes > 0) target.global_bytes = std::min(target.global_bytes, options.memory_limit_bytes);
  auto context = std::make_shared<Context>(api, id, target);
  FL_TRY(context->open());
  auto compute = FL_TRY(StreamQueue::make(context));
  auto transfer = FL_TRY(StreamQueue::make(context));
  std::unique_ptr<Device> device = std::make_unique<CudaDevice>(std::move(context), std::move(compute),
                                                                std::move(transfer), std::move(compiler), options);
  FL_TRY(device->health());
  return device;
}

Status compile_only(const std::string& name, const std::string& text, const std::string& architecture) {
  const auto compiler = FL_TRY(RuntimeCompiler::load());
  FL_TRY(compiler.compile(name, text, architecture));
  return ok_status();
}

}  // namespace firstlight::device::FL_VENDOR
