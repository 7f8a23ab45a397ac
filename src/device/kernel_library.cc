// SPDX-License-Identifier: Apache-2.0
#include "device/kernel_library.h"

#include "device/device.h"

namespace firstlight::device {

Result<std::string_view> KernelLibrary::text(std::string_view path) const {
  for (const EmbeddedText& embedded : texts) {
    if (embedded.path == path) return embedded.text;
  }
  return not_found("kernel source '" + std::string(path) + "' is not part of the program");
}

const fl_simt_module* KernelLibrary::find_prebuilt(const ModuleSource& source) const {
  std::string defines;
  for (const auto& [name, value] : source.defines) {
    defines += defines.empty() ? "" : ",";
    defines += name;
    defines += "=";
    defines += value;
  }
  for (const PrebuiltModule& module : prebuilt) {
    if (module.defines != defines) continue;
    const auto known = text(module.path);
    if (known.ok() && *known == source.text) return module.module;
  }
  return nullptr;
}

}  // namespace firstlight::device
