// SPDX-License-Identifier: Apache-2.0
#include "device/cpu/detect.h"

#include <cpuid.h>
#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>

namespace firstlight::device {
namespace {

std::optional<std::string> read_text(const std::string& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::optional<int64_t> number_at_start(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  int64_t value = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end.ec != std::errc()) return std::nullopt;
  return value;
}

std::optional<int64_t> read_number(const std::string& path) {
  const auto text = read_text(path);
  return text.has_value() ? number_at_start(*text) : std::nullopt;
}

// The rest of the first line that starts with `key`.
std::string line_value(const std::string& text, std::string_view key) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(key)) return line.substr(key.size());
  }
  return "";
}

// AVX-VNNI by the CPU's own word (leaf 7, subleaf 1, bit 4 of EAX): clang 14's builtin does not know the name. Its
// registers are AVX's, so what lets the system keep those serves.
bool has_avx_vnni() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __builtin_cpu_supports("avx2") && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax >> 4 & 1) != 0;
}

target::Features detect_features() {
  target::Features features;
  const auto add = [&](bool has, target::Feature feature) {
    if (has) features.bits |= feature;
  };
  __builtin_cpu_init();
  add(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"), target::kAvx2);
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  add(avx512, target::kAvx512);
  add(avx512 && __builtin_cpu_supports("avx512vnni"), target::kAvx512Vnni);
  add(avx512 && __builtin_cpu_supports("avx512bf16"), target::kAvx512Bf16);
  add(has_avx_vnni(), target::kAvxVnni);
  return features;
}

int cores_of_affinity() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

// "48K" or "32768K" or "8M" in bytes.
int64_t cache_size(const std::string& text) {
  const int64_t number = number_at_start(text).value_or(0);
  if (text.find('K') != std::string::npos) return number << 10;
  if (text.find('M') != std::string::npos) return number << 20;
  return number;
}

void detect_caches(const std::string& root, target::CpuTarget& cpu) {
  for (int i = 0; i < 8; ++i) {
    const std::string index = root + "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(i);
    const auto level = read_number(index + "/level");
    if (!level.has_value()) return;
    const std::string type = read_text(index + "/type").value_or("");
    const int64_t size = cache_size(read_text(index + "/size").value_or(""));
    if (*level == 1 && type.starts_with("Data")) cpu.l1d_bytes = size;
    if (*level == 2 && !type.starts_with("Instruction")) cpu.l2_bytes = size;
    if (*level == 3 && !type.starts_with("Instruction")) cpu.l3_bytes = size;
  }
}

// The control groups this process is in, one per controller; version 2 has a single one without a controller's name.
struct ControlGroups {
  std::string cpu;  // directories under root
  std::string memory;
  bool unified = true;
};

ControlGroups find_groups(const std::string& root) {
  ControlGroups groups;
  const std::string mount = root + "/sys/fs/cgroup";
  groups.cpu = groups.memory = mount;
  std::istringstream lines(read_text(root + "/proc/self/cgroup").value_or(""));
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1) == "/" ? "" : line.substr(second + 1);
    if (controllers == ",,") groups.cpu = groups.memory = mount + path;
    if (controllers.find(",memory,") != std::string::npos) {
      groups.memory = mount + "/memory" + path;
      groups.unified = false;
    }
    if (controllers.find(",cpu,") != std::string::npos) groups.cpu = mount + "/cpu" + path;
  }
  return groups;
}

// Calls `visit` with the directory and every one above it, down to the mount.
template <typename Visit>
void for_ancestors(const std::string& root, std::string directory, Visit&& visit) {
  const std::string mount = root + "/sys/fs/cgroup";
  while (directory.size() >= mount.size()) {
    visit(directory);
    if (directory.size() == mount.size()) return;
    directory.resize(directory.rfind('/'));
  }
}

double cores_of_quota(const std::string& root, const ControlGroups& groups) {
  double cores = std::numeric_limits<double>::infinity();
  for_ancestors(root, groups.cpu, [&](const std::string& directory) {
    std::optional<int64_t> quota;
    std::optional<int64_t> period;
    if (const auto both = read_text(directory + "/cpu.max")) {
      quota = number_at_start(*both);  // "max" is no number
      const size_t space = both->find(' ');
      if (space != std::string::npos) period = number_at_start(std::string_view(*both).substr(space));
    } else {
      quota = read_number(directory + "/cpu.cfs_quota_us");
      period = read_number(directory + "/cpu.cfs_period_us");
    }
    if (quota.has_value() && *quota > 0 && period.value_or(0) > 0) {
      cores = std::min(cores, static_cast<double>(*quota) / static_cast<double>(*period));
    }
  });
  return cores;
}

void detect_memory(const std::string& root, const ControlGroups& groups, target::CpuTarget& cpu) {
  const std::string info = read_text(root + "/proc/meminfo").value_or("");
  cpu.memory_bytes = number_at_start(line_value(info, "MemTotal:")).value_or(0) << 10;
  cpu.available_bytes = number_at_start(line_value(info, "MemAvailable:")).value_or(0) << 10;
  const std::string limit_name = groups.unified ? "/memory.max" : "/memory.limit_in_bytes";
  const std::string used_name = groups.unified ? "/memory.current" : "/memory.usage_in_bytes";
  for_ancestors(root, groups.memory, [&](const std::string& directory) {
    const auto limit = read_number(directory + limit_name);  // "max" is no number
    if (!limit.has_value() || *limit <= 0 || *limit >= cpu.memory_bytes) return;
    cpu.memory_bytes = *limit;
    // Files kept in memory count as used but give way.
    const std::string stat = read_text(directory + "/memory.stat").value_or("");
    const int64_t files =
        number_at_start(line_value(stat, groups.unified ? "inactive_file " : "total_inactive_file ")).value_or(0);
    const int64_t used = std::max<int64_t>(0, read_number(directory + used_name).value_or(0) - files);
    cpu.available_bytes = std::min(cpu.available_bytes, std::max<int64_t>(0, *limit - used));
  });
}

std::string model_name(const std::string& root) {
  std::string name = line_value(read_text(root + "/proc/cpuinfo").value_or(""), "model name");
  const size_t start = name.find_first_not_of("\t :");
  return start == std::string::npos ? "" : name.substr(start);
}

}  // namespace

target::CpuTarget detect_cpu(const std::string& root) {
  target::CpuTarget cpu;
  cpu.model_name = model_name(root);
  cpu.features = detect_features();
  detect_caches(root, cpu);
  const ControlGroups groups = find_groups(root);
  const double quota = std::ceil(cores_of_quota(root, groups));
  const int cores = cores_of_affinity();
  cpu.num_cores = quota < static_cast<double>(cores) ? std::max(1, static_cast<int>(quota)) : cores;
  detect_memory(root, groups, cpu);
  return cpu;
}

}  // namespace firstlight::device
