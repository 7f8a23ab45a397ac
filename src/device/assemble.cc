// SPDX-License-Identifier: Apache-2.0
#include "device/assemble.h"

#include <cstdio>

#include "device/kernel_library.h"

namespace firstlight::device {

std::span<const EmbeddedText> dialect_texts();  // generated from dialect/

namespace {

std::string_view dialect_text(std::string_view path) {
  for (const EmbeddedText& embedded : dialect_texts()) {
    if (embedded.path == path) return embedded.text;
  }
  FL_CHECK(false && "a text of the dialect is missing from the program");
  return {};
}

// OpenCL 1.2 has no pointers into buffers: each kernel gets a byte offset per buffer, added before its first statement.
// All on the lines that are there, so that messages name the right ones.
std::string with_offsets(const std::string& text, const std::vector<KernelSignature>& kernels) {
  std::string out;
  size_t at = 0;
  for (const KernelSignature& kernel : kernels) {
    std::string parameters;
    std::string statements;
    for (const KernelParameter& parameter : kernel.parameters) {
      if (parameter.kind != ParameterKind::kBuffer) continue;
      const std::string offset = "fl_offset_of_" + parameter.name;
      parameters += ", fl_u64 " + offset;
      statements += " " + parameter.name + " = (" + parameter.type + ")((__global const fl_u8*)" + parameter.name +
                    " + " + offset + ");";
    }
    out += text.substr(at, kernel.parameters_end - at) + parameters;
    out += text.substr(kernel.parameters_end, kernel.body_begin - kernel.parameters_end) + statements;
    at = kernel.body_begin;
  }
  return out + text.substr(at);
}

std::string simt_entries(const std::vector<KernelSignature>& kernels, bool checked) {
  std::string text = "\nstatic const fl_simt_kernel fl_simt_kernels[] = {\n";
  for (const KernelSignature& kernel : kernels) text += "{\"" + kernel.name + "\", fl_run<&" + kernel.name + ">},\n";
  return text +
         "};\nextern \"C\" __attribute__((visibility(\"default\"))) const fl_simt_module fl_simt_module_loaded;\n" +
         "const fl_simt_module fl_simt_module_loaded = {FL_SIMT_VERSION, " + (checked ? "1" : "0") + ", " +
         std::to_string(kernels.size()) + ", fl_simt_kernels};\n";
}

std::string binding(const target::DeviceTarget& target, bool checked) {
  const std::string facts = "#define FL_WARP " + std::to_string(target.warp_width) + "\n#define FL_MAX_BLOCK " +
                            std::to_string(target.max_block_threads) + "\n";
  switch (target.kind) {
    case target::DeviceKind::kSimt:
      return (checked ? "#define FL_SIMT_CHECKED 1\n" : "") + std::string(dialect_text("simt.fl.h")) +
             std::string(dialect_text("simt.fl.cl"));
    case target::DeviceKind::kOpencl:
      return facts + (target.warps_in_hardware ? "#define FL_SUBGROUPS 1\n" : "") +
             std::string(dialect_text("opencl.fl.cl"));
    case target::DeviceKind::kCuda:
      return facts + std::string(dialect_text("cuda.fl.cl"));
    case target::DeviceKind::kMusa:
      return facts + "#define FL_MUSA 1\n" + std::string(dialect_text("cuda.fl.cl"));
  }
  return {};
}

// Two 64-bit FNV-1a sums with different seeds; a collision costs a wrong kernel, so 64 bits alone are too few.
uint64_t fnv(std::string_view text, uint64_t hash) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash ^ (hash >> 29);
}

}  // namespace

Result<Assembled> assemble(const target::DeviceTarget& target, const ModuleSource& source, bool checked) {
  auto kernels = FL_TRY(parse_signatures(source.text).with_context("kernel source '" + source.name + "'"));
  if (kernels.empty()) return invalid_data("kernel source '" + source.name + "' has no FL_KERNEL");
  std::string text = binding(target, checked) + std::string(dialect_text("core.fl.cl"));
  for (const auto& [name, value] : source.defines) text += "#define " + name + " " + value + "\n";
  text += "#line 1 \"" + source.name + "\"\n";
  text += target.kind == target::DeviceKind::kOpencl ? with_offsets(source.text, kernels) : source.text;
  if (target.kind == target::DeviceKind::kSimt) text += simt_entries(kernels, checked);
  return Assembled{std::move(text), std::move(kernels)};
}

std::string cache_key(const target::DeviceTarget& target, const std::string& assembled) {
  std::string device;
  for (const std::string* part :
       {&target.name, &target.vendor, &target.driver_version, &target.compiler, &target.architecture}) {
    device += *part + '\n';
  }
  char key[33];
  const uint64_t first = fnv(assembled, fnv(device, 0xcbf29ce484222325u));
  const uint64_t second = fnv(device, fnv(assembled, 0x9ae16a3b2f90404fu));
  std::snprintf(key, sizeof(key), "%016llx%016llx", static_cast<unsigned long long>(first),
                static_cast<unsigned long long>(second));
  return key;
}

std::string first_lines(std::string_view log, int num_lines) {
  std::string out;
  for (; num_lines > 0 && !log.empty(); --num_lines) {
    const size_t end = std::min(log.find('\n'), log.size());
    if (end > 0) out += (out.empty() ? "" : "\n") + std::string(log.substr(0, std::min<size_t>(end, 300)));
    log.remove_prefix(std::min(end + 1, log.size()));
  }
  return out;
}

}  // namespace firstlight::device
