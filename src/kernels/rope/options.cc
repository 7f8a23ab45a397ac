// SPDX-License-Identifier: Apache-2.0
#include "kernels/rope/options.h"

#include <cmath>

namespace firstlight::kernels {

Result<std::unique_ptr<Prepared>> prepare_rope(const PrepareInput& input) {
  const ops::Attributes& a = input.signature.attributes;
  auto options = std::make_unique<RopeOptions>();
  options->interleaved = a.get_string("style") == "interleaved";
  options->offset = a.get_int("offset");
  options->length = a.get_int("length");
  options->inverse = a.get_bool("inverse");
  options->plain = {a.get_floats("freqs"), a.get_float("scale")};
  options->beyond = {a.get_floats("long_freqs"), a.get_float("long_scale")};
  const auto padded = static_cast<size_t>((options->length / 2 + 3) / 4 * 4);
  options->plain.freqs.resize(padded, 0.0);
  options->beyond.freqs.resize(padded, 0.0);
  options->switch_length = a.get_int("switch_length");
  options->dynamic_base = a.get_float("dynamic_base");
  options->dynamic_factor = a.get_float("dynamic_factor");
  options->dynamic_max = a.get_float("dynamic_max");
  return std::unique_ptr<Prepared>(std::move(options));
}

const RopeTable& rope_table(const RopeOptions& options, int64_t planned_length, RopeTable& space) {
  if (options.switch_length > 0 && planned_length > options.switch_length) return options.beyond;
  const auto length = static_cast<double>(planned_length);
  if (options.dynamic_base <= 0 || length <= options.dynamic_max) return options.plain;
  const auto d = static_cast<double>(options.length);
  const double stretch = options.dynamic_factor * length / options.dynamic_max - (options.dynamic_factor - 1);
  const double base = options.dynamic_base * std::pow(stretch, d / (d - 2));
  space = options.plain;
  for (int64_t i = 0; i < options.length / 2; ++i) {
    space.freqs[static_cast<size_t>(i)] = std::pow(base, -2.0 * static_cast<double>(i) / d);
  }
  return space;
}

}  // namespace firstlight::kernels
