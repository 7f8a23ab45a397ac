// SPDX-License-Identifier: Apache-2.0
// Kernel sources that are part of the program (cmake/firstlight_dialect.cmake), and their forms for the simt device, so
// that it needs no compiler for them.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

struct fl_simt_module;  // dialect/simt.fl.h

namespace firstlight::device {

struct ModuleSource;

struct EmbeddedText {
  std::string_view path;  // relative to the folder it was embedded from: "norm/rms_norm.fl.cl"
  std::string_view text;  // with its #includes resolved
};

struct PrebuiltModule {
  std::string_view path;
  std::string_view defines;  // "TYPE=bf16,TILE=64"
  const fl_simt_module* module = nullptr;
};

struct KernelLibrary {
  std::span<const EmbeddedText> texts;
  std::span<const PrebuiltModule> prebuilt;

  // Errors: kNotFound.
  Result<std::string_view> text(std::string_view path) const;
  // The module of exactly this text and these defines; nullptr: none.
  const fl_simt_module* find_prebuilt(const ModuleSource& source) const;
};

// The probe of health(), part of this module.
const KernelLibrary& device_kernels();

}  // namespace firstlight::device
