// SPDX-License-Identifier: Apache-2.0
// A golden model brought up as a gate gets it, with a fault planted where a test wants one. Include <gtest/gtest.h>
// first.
#pragma once

#include <memory>
#include <string>

#include "adapt/test/golden_model.h"
#include "device/cpu/detect.h"
#include "gates/candidate.h"
#include "gates/gates.h"

namespace firstlight::gates {

using Fault = std::function<void(const runtime::StepCall&)>;

struct GateSubject {
  std::string path;
  GateOptions options;
  std::unique_ptr<adapt::LoadedModel> loaded;
  adapt::TextAssets text;
  Golden golden;

  Candidate candidate() {
    adapt::BringUpOptions bring_up = options.bring_up;
    if (bring_up.device == nullptr) bring_up.device = loaded->device.get();
    return {.path = path,
            .options = options,
            .bring_up = bring_up,
            .target = device::detect_cpu(),
            .loaded = *loaded,
            .text = text,
            .golden = golden};
  }
};

inline GateSubject subject_of(const std::string& path, const adapt::BringUpOptions& bring_up) {
  GateSubject subject{.path = path, .options = {.bring_up = bring_up}, .loaded = nullptr, .text = {}, .golden = {}};
  auto loaded = adapt::bring_up(path, bring_up);
  EXPECT_TRUE(loaded.ok()) << path << ": " << loaded.status().message();
  if (loaded.ok()) subject.loaded = std::move(*loaded);
  return subject;
}

inline adapt::BringUpOptions cpu_options(Fault fault = {}) {
  adapt::BringUpOptions options = adapt::quick_options(catalog::Backend::kCpu);
  options.generated = runtime::GeneratedMode::kOff;
  options.fault = std::move(fault);
  return options;
}

// Multiplies elements [first, end) of a result by `factor`.
inline void scale_elements(const tensor::View& view, int64_t first, int64_t end, float factor) {
  for (int64_t i = first; i < end; ++i) view.as<float>()[i] *= factor;
}

}  // namespace firstlight::gates
