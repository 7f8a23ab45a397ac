// SPDX-License-Identifier: Apache-2.0
// devices: what is there, measured on request, and for each kind of device that is not there, why.
#include <cstdio>

#include "base/json.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "device/cpu/detect.h"
#include "device/cpu/measure.h"
#include "device/measure_device.h"
#include "device/open.h"

namespace firstlight::cli {
namespace {

double gibibytes(int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

Json describe_cpu(const CommonFlags& common, bool measure) {
  const target::CpuTarget cpu = device::detect_cpu();
  Json entry = {{"backend", "cpu"},
                {"name", cpu.model_name},
                {"features", target::features_to_string(cpu.features)},
                {"cores", cpu.num_cores},
                {"l1d_bytes", cpu.l1d_bytes},
                {"l2_bytes", cpu.l2_bytes},
                {"l3_bytes", cpu.l3_bytes},
                {"memory_bytes", cpu.memory_bytes},
                {"available_bytes", cpu.available_bytes}};
  if (!measure) return entry;
  const auto pool = ThreadPool::create({.num_threads = common.threads});
  if (!pool.ok()) {
    entry["refused"] = pool.status().message();
    return entry;
  }
  const target::CpuRoof roof = device::measure_cpu(cpu, **pool);
  entry["measured"] = {{"threads", (*pool)->num_threads()},
                       {"read_gbps", roof.read_gbps},
                       {"f32_tflops", roof.f32_tflops},
                       {"bf16_tflops", roof.bf16_tflops},
                       {"int8_tops", roof.int8_tops}};
  return entry;
}

// A device that does not open is an entry with its reason: the list is asked for when something is wrong.
void measure(const target::DeviceTarget& target, int index, int threads, Json& entry) {
  auto opened = device::open_device(target.kind, {.index = index, .num_threads = threads});
  if (!opened.ok()) {
    entry["refused"] = opened.status().message();
    return;
  }
  const auto roof = device::measure_device(**opened);
  if (!roof.ok()) {
    entry["refused"] = roof.status().message();
    return;
  }
  entry["measured"] = {{"copy_in_gbps", roof->copy_in_gbps},
                       {"copy_out_gbps", roof->copy_out_gbps},
                       {"copy_gbps", roof->copy_gbps},
                       {"f32_tflops", roof->f32_tflops}};
}

Json describe(const target::DeviceTarget& target, int index) {
  return {{"backend", target::device_kind_name(target.kind)},
          {"index", index},
          {"name", target.name},
          {"vendor", target.vendor},
          {"driver", target.driver_version},
          {"architecture", target.architecture},
          {"compute_units", target.compute_units},
          {"warp_width", target.warp_width},
          {"warp_widths", target.warp_widths},
          {"warps", target.warps_in_hardware ? "hardware" : "emulated"},
          {"matrix_units", target.has_mma},
          {"local_bytes", target.local_bytes},
          {"memory_bytes", target.global_bytes},
          {"max_allocation_bytes", target.max_allocation_bytes},
          {"unified_memory", target.unified_memory}};
}

// What was measured, with its unit: "read 21.3 GB/s, f32 0.31 Tflop/s, on 2 threads".
void print_measured(const Json& measured) {
  constexpr struct {
    const char *key, *name, *unit;
  } kRates[] = {{"read_gbps", "read", "GB/s"},         {"copy_in_gbps", "copy in", "GB/s"},
                {"copy_out_gbps", "copy out", "GB/s"}, {"copy_gbps", "copy", "GB/s"},
                {"f32_tflops", "f32", "Tflop/s"},      {"bf16_tflops", "bf16", "Tflop/s"},
                {"int8_tops", "int8", "Top/s"}};
  std::string text;
  for (const auto& rate : kRates) {
    if (!measured.contains(rate.key)) continue;
    char part[64];
    std::snprintf(part, sizeof(part), "%s%s %.3g %s", text.empty() ? "" : ", ", rate.name,
                  measured.at(rate.key).get<double>(), rate.unit);
    text += part;
  }
  if (measured.contains("threads")) text += " on " + dump_json(measured.at("threads")) + " threads";
  std::printf("     %s\n", text.c_str());
}

void print_entry(const Json& entry) {
  const auto text = [&](const char* key) { return entry.at(key).get<std::string>(); };
  const auto bytes = [&](const char* key) { return gibibytes(entry.at(key).get<int64_t>()); };
  if (entry.contains("features")) {
    std::printf("%s: %s, %d cores (%s), %.1f GiB of memory, %.1f free\n", text("backend").c_str(), text("name").c_str(),
                entry.at("cores").get<int>(), text("features").c_str(), bytes("memory_bytes"),
                bytes("available_bytes"));
  } else {
    std::printf("%s %d: %s (%s, driver %s, %s), %d compute units, warps of %d (%s), %.1f GiB of memory\n",
                text("backend").c_str(), entry.at("index").get<int>(), text("name").c_str(), text("vendor").c_str(),
                text("driver").c_str(), text("architecture").c_str(), entry.at("compute_units").get<int>(),
                entry.at("warp_width").get<int>(), text("warps").c_str(), bytes("memory_bytes"));
  }
  if (entry.contains("measured")) print_measured(entry.at("measured"));
  if (entry.contains("refused")) std::printf("     refused: %s\n", text("refused").c_str());
}

}  // namespace

Result<int> verb_devices(const CommonFlags& common, const DevicesFlags& flags) {
  if (common.warp != 0) return invalid_argument("--warp: devices lists the widths that there are");
  Json devices = Json::array({describe_cpu(common, flags.measure)});
  Json absent = Json::array();
  for (const device::Listed& listed : device::list_devices()) {
    for (size_t i = 0; i < listed.devices.size(); ++i) {
      const int index = static_cast<int>(i);
      Json entry = describe(listed.devices[i], index);
      if (flags.measure) measure(listed.devices[i], index, common.threads, entry);
      devices.push_back(std::move(entry));
    }
    if (listed.devices.empty()) {
      absent.push_back({{"backend", target::device_kind_name(listed.kind)}, {"why", listed.absent}});
    }
  }
  if (common.json) {
    print_json({{"devices", devices}, {"absent", absent}});
    return 0;
  }
  for (const Json& entry : devices) print_entry(entry);
  for (const Json& entry : absent) {
    std::printf("%s: none: %s\n", entry.at("backend").get<std::string>().c_str(),
                entry.at("why").get<std::string>().c_str());
  }
  return 0;
}

}  // namespace firstlight::cli
