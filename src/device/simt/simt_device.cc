// SPDX-License-Identifier: Apache-2.0
#include "device/simt/simt_device.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <optional>

#include "base/thread_pool.h"
#include "device/assemble.h"
#include "device/cpu/detect.h"
#include "device/dialect/simt.fl.h"
#include "device/host_compiler.h"
#include "device/kernel_library.h"
#include "device/simt/block.h"
#include "device/simt/host_memory.h"
#include "device/simt/host_queue.h"

namespace firstlight::device {
namespace {

struct SimtBody final : Kernel::Body {
  const fl_simt_kernel* kernel = nullptr;
  std::shared_ptr<LoadedLibrary> library;  // keeps the code; empty: part of the program
};

struct SimtCode final : Module::Code {
  const fl_simt_module* module = nullptr;
  std::shared_ptr<LoadedLibrary> library;

  Result<std::shared_ptr<Kernel::Body>> find(const KernelSignature& signature) override {
    for (int i = 0; i < module->num_kernels; ++i) {
      if (signature.name != module->kernels[i].name) continue;
      auto body = std::make_shared<SimtBody>();
      body->kernel = &module->kernels[i];
      body->library = library;
      return std::shared_ptr<Kernel::Body>(body);
    }
    return not_found("the compiled module has no kernel '" + signature.name + "'");
  }
};

HostMemory* host(const Buffer& buffer) { return static_cast<HostMemory*>(buffer.memory()); }
std::byte* address(const Buffer& buffer) { return buffer ? host(buffer)->data() + buffer.offset() : nullptr; }

// What both queues and the device share.
struct Shared {
  std::atomic<bool> is_lost{false};
  target::DeviceTarget target;
  bool checked = false;
  int num_threads = 0;

  std::mutex pool_mutex;  // launches of both queues share the threads
  std::unique_ptr<ThreadPool> pool;
  std::vector<BlockRunner> runners;

  Status usable() const { return is_lost.load() ? device_lost(target, "the loss was injected") : ok_status(); }
};

// The launch itself, on a queue's thread. Holds its buffers and code until it has run.
struct Task {
  std::shared_ptr<Shared> shared;
  Kernel kernel;
  std::vector<Argument> arguments;
  BlockRunner::Shape shape;

  Status run();
  Status run_block(BlockRunner& runner, const std::vector<fl_simt_argument>& packed, int64_t index) const;
  std::vector<fl_simt_argument> pack() const;
  Status check_edges() const;
};

std::vector<fl_simt_argument> Task::pack() const {
  static const int nothing = 0;
  std::vector<fl_simt_argument> packed;
  for (const Argument& argument : arguments) {
    if (const auto* buffer = std::get_if<Buffer>(&argument)) {
      const auto* begin = reinterpret_cast<const char*>(address(*buffer));
      packed.push_back({begin, begin, begin == nullptr ? nullptr : begin + buffer->bytes()});
    } else {
      packed.push_back({std::visit([](const auto& v) -> const void* { return &v; }, argument), nullptr, nullptr});
    }
  }
  packed.push_back({&nothing, nullptr, nullptr});  // FL_DYNAMIC_LOCAL_PARAM
  return packed;
}

Status Task::check_edges() const {
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto* buffer = std::get_if<Buffer>(&arguments[i]);
    if (buffer == nullptr || !*buffer || host(*buffer)->edges_are_whole()) continue;
    host(*buffer)->mend_edges();  // told once
    return invalid_argument("kernel '" + kernel.signature().name + "': something was written beyond the memory of " +
                            kernel.signature().parameters[i].name);
  }
  return ok_status();
}

Status Task::run_block(BlockRunner& runner, const std::vector<fl_simt_argument>& packed, int64_t index) const {
  const int64_t x = shape.groups[0];
  const int64_t y = shape.groups[1];
  const std::array<int32_t, 3> group = {static_cast<int32_t>(index % x), static_cast<int32_t>(index / x % y),
                                        static_cast<int32_t>(index / x / y)};
  return runner.run(*static_cast<SimtBody*>(kernel.body())->kernel, packed.data(), shape, group);
}

Status Task::run() {
  const std::vector<fl_simt_argument> packed = pack();
  const int64_t num_blocks = int64_t{shape.groups[0]} * shape.groups[1] * shape.groups[2];
  const std::lock_guard lock(shared->pool_mutex);
  if (shared->pool == nullptr) {
    shared->pool = FL_TRY(ThreadPool::create({shared->num_threads, false, 20}));
    shared->runners.resize(static_cast<size_t>(shared->pool->num_threads()));
  }
  Status first;
  if (num_blocks == 1 || shared->pool->num_threads() == 1) {
    for (int64_t i = 0; i < num_blocks && first.ok(); ++i) first = run_block(shared->runners[0], packed, i);
  } else {
    std::mutex mutex;
    std::atomic<int64_t> next{0};
    shared->pool->run([&](Worker& worker) {
      for (int64_t i = next++; i < num_blocks; i = next++) {
        Status status = run_block(shared->runners[static_cast<size_t>(worker.index())], packed, i);
        if (status.ok()) continue;
        const std::lock_guard first_lock(mutex);
        if (first.ok()) first = std::move(status);
        next = num_blocks;
      }
    });
  }
  if (first.ok()) first = check_edges();
  return first;
}

class SimtQueue final : public Queue {
 public:
  explicit SimtQueue(std::shared_ptr<Shared> shared)
      : shared_(std::move(shared)), queue_([shared = shared_] { return shared->usable(); }) {}

  Status copy_in(const Buffer& to, std::span<const std::byte> from) override {
    FL_TRY(shared_->usable());
    FL_TRY(check_copy("copy in", to.bytes(), static_cast<int64_t>(from.size())));
    if (!from.empty()) push([to, from] { std::memcpy(address(to), from.data(), from.size()); });
    return ok_status();
  }
  Status copy_out(std::span<std::byte> to, const Buffer& from) override {
    FL_TRY(shared_->usable());
    FL_TRY(check_copy("copy out", static_cast<int64_t>(to.size()), from.bytes()));
    if (!to.empty()) push([to, from] { std::memcpy(to.data(), address(from), to.size()); });
    return ok_status();
  }
  Status copy(const Buffer& to, const Buffer& from) override {
    FL_TRY(shared_->usable());
    FL_TRY(check_copy(to, from));
    if (to.bytes() > 0) {
      push([to, from] { std::memcpy(address(to), address(from), static_cast<size_t>(to.bytes())); });
    }
    return ok_status();
  }
  Status fill(const Buffer& to, uint8_t value) override {
    FL_TRY(shared_->usable());
    if (to.bytes() > 0) push([to, value] { std::memset(address(to), value, static_cast<size_t>(to.bytes())); });
    return ok_status();
  }
  Status launch(const Kernel& kernel, const Launch& launch) override {
    FL_TRY(shared_->usable());
    FL_TRY(check_launch(shared_->target, kernel.signature(), launch));
    if (launch.grid[0] == 0 || launch.grid[1] == 0 || launch.grid[2] == 0) return ok_status();
    const auto narrow = [](const std::array<int64_t, 3>& v) {
      return std::array<int32_t, 3>{static_cast<int32_t>(v[0]), static_cast<int32_t>(v[1]), static_cast<int32_t>(v[2])};
    };
    auto task = std::make_shared<Task>(Task{shared_,
                                            kernel,
                                            {launch.arguments.begin(), launch.arguments.end()},
                                            {narrow(launch.grid), narrow(launch.block), shared_->target.warp_width,
                                             static_cast<uint32_t>(shared_->target.local_bytes),
                                             static_cast<uint32_t>(launch.local_bytes), shared_->checked}});
    queue_.push([task] { return task->run(); });
    return ok_status();
  }
  Result<Event> record() override {
    FL_TRY(shared_->usable());
    return queue_.record();
  }
  Status wait_for(const Event& event) override {
    FL_TRY(shared_->usable());
    queue_.wait_for(event);
    return ok_status();
  }
  Status finish() override { return queue_.finish(); }

 private:
  template <typename F>
  void push(F work) {
    queue_.push([work] {
      work();
      return ok_status();
    });
  }
  std::shared_ptr<Shared> shared_;
  HostQueue queue_;
};

class SimtDevice final : public Device {
 public:
  SimtDevice(target::DeviceTarget target, const OpenOptions& options)
      : Device(std::move(target)),
        cache_dir_(options.cache_dir),
        libraries_(options.libraries),
        host_program_(options.host_compiler),
        account_(std::make_shared<MemoryAccount>()),
        shared_(std::make_shared<Shared>()),
        compute_(prepare(options)),
        transfer_(shared_) {}

  Result<Buffer> allocate(int64_t bytes) override {
    FL_TRY(shared_->usable());
    if (bytes == 0) return Buffer();
    FL_CHECK(bytes > 0);
    auto memory = FL_TRY(HostMemory::allocate(account_, bytes, shared_->checked));
    return Buffer(std::move(memory), 0, bytes);
  }
  Result<Buffer> wrap(std::span<const std::byte> host) override {
    FL_TRY(shared_->usable());
    const auto bytes = static_cast<int64_t>(host.size());
    return Buffer(HostMemory::wrap(const_cast<std::byte*>(host.data()), bytes), 0, bytes);
  }
  int64_t bytes_in_use() const override { return account_->used_bytes.load(); }
  int64_t available_bytes() const override { return account_->limit_bytes - account_->used_bytes.load(); }
  Queue& compute() override { return compute_; }
  Queue& transfer() override { return transfer_; }
  Result<Module> build(const ModuleSource& source) override;
  bool lost() const override { return shared_->is_lost.load(); }
  void inject(Fault fault) override { shared_->is_lost = fault == Fault::kLost; }

 private:
  std::shared_ptr<Shared> prepare(const OpenOptions& options) {
    account_->limit_bytes = target_.global_bytes;
    shared_->target = target_;
    shared_->checked = options.checked;
    shared_->num_threads = options.num_threads;
    return shared_;
  }
  const fl_simt_module* find_prebuilt(const ModuleSource& source) const;
  Result<std::shared_ptr<SimtCode>> load(const std::filesystem::path& path) const;
  Result<const HostCompiler*> find_compiler();

  std::filesystem::path cache_dir_;
  std::vector<const KernelLibrary*> libraries_;
  std::string host_program_;
  std::shared_ptr<MemoryAccount> account_;
  std::shared_ptr<Shared> shared_;
  SimtQueue compute_;
  SimtQueue transfer_;
  std::mutex compiler_mutex_;
  std::optional<HostCompiler> compiler_;  // looked for when the first source needs it
};

Result<const HostCompiler*> SimtDevice::find_compiler() {
  const std::lock_guard lock(compiler_mutex_);
  if (!compiler_) compiler_ = FL_TRY(host_program_.empty() ? HostCompiler::find() : HostCompiler::of(host_program_));
  return &*compiler_;
}

const fl_simt_module* SimtDevice::find_prebuilt(const ModuleSource& source) const {
  if (const auto* probe = device_kernels().find_prebuilt(source)) return probe;
  if (shared_->checked) return nullptr;
  for (const KernelLibrary* library : libraries_) {
    if (const auto* module = library->find_prebuilt(source)) return module;
  }
  return nullptr;
}

Result<std::shared_ptr<SimtCode>> SimtDevice::load(const std::filesystem::path& path) const {
  auto code = std::make_shared<SimtCode>();
  code->library = FL_TRY(LoadedLibrary::load(path));
  code->module = static_cast<const fl_simt_module*>(code->library->symbol("fl_simt_module_loaded"));
  if (code->module == nullptr || code->module->version != FL_SIMT_VERSION ||
      (code->module->checked != 0) != shared_->checked) {
    return invalid_data(path.string() + " is not a module of this version");
  }
  return code;
}

Result<Module> SimtDevice::build(const ModuleSource& source) {
  FL_TRY(shared_->usable());
  auto assembled = FL_TRY(assemble(target_, source, shared_->checked));
  if (const fl_simt_module* prebuilt = find_prebuilt(source)) {
    auto code = std::make_shared<SimtCode>();
    code->module = prebuilt;
    return Module(source.name, std::move(assembled.kernels), std::move(code), true);
  }
  const HostCompiler* compiler =
      FL_TRY(find_compiler().with_context("kernel source '" + source.name + "' is not part of the program"));
  target::DeviceTarget built_for = target_;
  built_for.compiler += compiler->version();
  built_for.warp_width = 0;  // one module serves all
  const std::string file = cache_key(built_for, assembled.text) + ".so";
  if (!cache_dir_.empty()) {
    std::error_code error;
    std::filesystem::create_directories(cache_dir_, error);
    if (std::filesystem::exists(cache_dir_ / file, error)) {
      auto code = load(cache_dir_ / file);  // a file that does not load is made anew
      if (code.ok()) return Module(source.name, std::move(assembled.kernels), *std::move(code), true);
    }
  }
  const bool keep = !cache_dir_.empty();
  const auto path = (keep ? cache_dir_ : std::filesystem::temp_directory_path()) / (keep ? file : "firstlight-" + file);
  FL_TRY(compiler->compile(source.name, assembled.text, path));
  auto code = load(path);
  std::error_code error;
  if (!keep) std::filesystem::remove(path, error);
  if (!code.ok()) return std::move(code).status();
  return Module(source.name, std::move(assembled.kernels), *std::move(code), false);
}

}  // namespace

target::DeviceTarget simt_target() {
  const target::CpuTarget cpu = detect_cpu();
  target::DeviceTarget target;
  target.kind = target::DeviceKind::kSimt;
  target.name = cpu.model_name;
  target.vendor = "firstlight";
  target.driver_version = std::to_string(FL_SIMT_VERSION);
  target.compiler = "c++ -O2 -march=x86-64-v3";
  target.architecture = "x86-64-v3";
  target.compute_units = cpu.num_cores;
  target.warp_widths = {32, 64, 128};
  target.warp_width = 32;
  target.max_block_threads = 1024;
  target.max_block = {1024, 1024, 64};
  target.max_grid = {0x7fffffff, 65535, 65535};
  target.local_bytes = 64 << 10;
  target.global_bytes = cpu.available_bytes;
  target.max_allocation_bytes = cpu.available_bytes;
  target.buffer_alignment = HostMemory::kAlignment;
  target.has_f32_atomics = true;
  target.unified_memory = true;
  return target;
}

Result<std::unique_ptr<Device>> open_simt(const OpenOptions& options) {
  target::DeviceTarget target = simt_target();
  if (options.index != 0) return unsupported("simt: device " + std::to_string(options.index) + ", there is only 0");
  FL_TRY(choose_warp_width(target, options.warp_width));
  if (options.memory_limit_bytes > 0) {
    target.global_bytes = std::min(target.global_bytes, options.memory_limit_bytes);
    target.max_allocation_bytes = target.global_bytes;
  }
  std::unique_ptr<Device> device = std::make_unique<SimtDevice>(std::move(target), options);
  FL_TRY(device->health());
  return device;
}

}  // namespace firstlight::device
