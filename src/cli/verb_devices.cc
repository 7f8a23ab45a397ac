// SPDX-License-Identifier: Apache-2.0
// devices: what is there, measured on request.
#include <cstdio>
#include "base/json.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "device/cpu/detect.h"
#include "device/cpu/measure.h"

namespace firstlight::cli {

Result<int> verb_devices(const CommonFlags& common, const DevicesFlags& flags) {
  const target::CpuTarget cpu = device::detect_cpu();
  Json device = {{"backend", "cpu"},
                 {"name", cpu.model_name},
                 {"features", target::features_to_string(cpu.features)},
                 {"cores", cpu.num_cores},
                 {"l1d_bytes", cpu.l1d_bytes},
                 {"l2_bytes", cpu.l2_bytes},
                 {"l3_bytes", cpu.l3_bytes},
                 {"memory_bytes", cpu.memory_bytes},
                 {"available_bytes", cpu.available_bytes}};
  if (flags.measure) {
    ThreadPool pool({.num_threads = common.threads});
    const target::CpuRoof roof = device::measure_cpu(cpu, pool);
    device["measured"] = {{"threads", pool.num_threads()},
                          {"read_gbps", roof.read_gbps},
                          {"f32_tflops", roof.f32_tflops},
                          {"bf16_tflops", roof.bf16_tflops},
                          {"int8_tops", roof.int8_tops}};
  }
  if (common.json) {
    print_json({{"devices", Json::array({device})}});
    return 0;
  }
  std::printf("cpu: %s, %d cores (%s), %.1f GiB of memory, %.1f free\n", cpu.model_name.c_str(), cpu.num_cores,
              target::features_to_string(cpu.features).c_str(), static_cast<double>(cpu.memory_bytes) / (1 << 30),
              static_cast<double>(cpu.available_bytes) / (1 << 30));
  if (flags.measure) std::printf("     %s\n", dump_json(device["measured"]).c_str());
  return 0;
}

}  // namespace firstlight::cli
