// SPDX-License-Identifier: Apache-2.0
// Rotations at positions up to 2^24 - 1 with the frequencies of every kind of scaling, against sines and cosines of the
// angle in long double. (That configs give these frequencies is tested beside the templates, intake/test/rope_test.cc.)
#include <gtest/gtest.h>

#include <cmath>

#include "kernel_run.h"

namespace firstlight::long_tests {
namespace {

constexpr int64_t kWidth = 128, kHeads = 2, kPairs = kWidth / 2;
constexpr double kPi = 3.14159265358979323846;

struct Scaling {
  std::string name;
  std::vector<double> freqs, beyond;  // beyond: of long sequences
  double scale = 1;
  std::string more;  // attributes
};

std::vector<double> plain(double base) {
  std::vector<double> freqs;
  for (int64_t i = 0; i < kPairs; ++i) freqs.push_back(std::pow(base, -2.0 * static_cast<double>(i) / kWidth));
  return freqs;
}

Scaling linear() {
  Scaling s{"linear, factor 8", plain(1e4), {}, 1, ""};
  for (double& f : s.freqs) f /= 8;
  return s;
}

// Base b' = b (factor L / max - (factor - 1))^(d / (d - 2)) for sequences planned for L tokens.
Scaling dynamic(int64_t planned) {
  Scaling s{"dynamic NTK", plain(1e4), {}, 1, ""};
  const double stretch = 4.0 * static_cast<double>(planned) / 8192 - 3;
  s.beyond = plain(1e4 * std::pow(stretch, kWidth / (kWidth - 2.0)));
  s.more = ", dynamic_base = 10000.0, dynamic_factor = 4.0, dynamic_max = 8192.0";
  return s;
}

// Peng et al. 2023: pairs that turn more than 32 times in the old length stay, those below one turn are divided by the
// factor, a ramp between.
Scaling yarn() {
  Scaling s{"YaRN, factor 32", plain(1e4), {}, 0.1 * std::log(32.0) + 1, ""};
  const auto place = [](double turns) { return kWidth * std::log(4096 / (turns * 2 * kPi)) / (2 * std::log(1e4)); };
  const double low = std::floor(place(32)), high = std::ceil(place(1));
  for (int64_t i = 0; i < kPairs; ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    double& f = s.freqs[static_cast<size_t>(i)];
    f = f / 32 * ramp + f * (1 - ramp);
  }
  return s;
}

// Llama 3.1: by wavelength, with a smooth passage between 8192 / 4 and 8192 / 1.
Scaling llama3() {
  Scaling s{"llama3, factor 8", plain(5e5), {}, 1, ""};
  for (double& f : s.freqs) {
    const double wavelength = 2 * kPi / f;
    const double smooth = std::clamp((8192 / wavelength - 1) / 3, 0.0, 1.0);
    f = (1 - smooth) * f / 8 + smooth * f;
  }
  return s;
}

// A divisor per pair: one list up to the old length, another beyond.
Scaling longrope() {
  Scaling s{"longrope", plain(1e4), plain(1e4), std::sqrt(1 + std::log(32.0) / std::log(4096.0)), ""};
  for (int64_t i = 0; i < kPairs; ++i) {
    s.freqs[static_cast<size_t>(i)] /= 1 + 0.01 * static_cast<double>(i);
    s.beyond[static_cast<size_t>(i)] /= 1 + 0.9 * static_cast<double>(i);
  }
  return s;
}

std::string list(const std::vector<double>& values) {
  std::string text;
  for (const double v : values) text += (text.empty() ? "" : ", ") + ops::exact_decimal(v);
  return "[" + text + "]";
}

std::vector<int32_t> positions() {
  std::vector<int32_t> all = {0, 1, 2, 4095, 4096, 8191, 8192, 32767, 65535, 131070, 131071, 131072};
  for (const int32_t far : {1 << 20, 1 << 22, (1 << 24) - 1}) {
    for (int32_t i = 0; i < 4; ++i) all.push_back(far - i);
  }
  Data data(5);
  while (all.size() < 64) all.push_back(static_cast<int32_t>(data.below(1 << 20)));
  return all;
}

class RopeLong : public testing::TestWithParam<std::tuple<int, bool>> {};

TEST_P(RopeLong, AnglesAreThoseOfTheFormula) {
  constexpr int64_t kPlanned = 1 << 20;
  const auto [kind, interleaved] = GetParam();
  const Scaling all[] = {{"none", plain(1e4), {}, 1, ""}, linear(), dynamic(kPlanned), yarn(), llama3(), longrope()};
  Scaling s = all[kind];
  std::string text = "{length = " + std::to_string(kWidth) + ", freqs = " + list(s.freqs) +
                     ", scale = " + ops::exact_decimal(s.scale) + s.more;
  if (s.name == "longrope") {
    text += ", long_freqs = " + list(s.beyond) + ", switch_length = 4096, long_scale = " + ops::exact_decimal(s.scale);
  }
  text += std::string(", style = \"") + (interleaved ? "interleaved" : "half") + "\"}";
  const std::vector<int32_t> places = positions();
  const auto tokens = static_cast<int64_t>(places.size());
  Data data(31);
  KernelRun call{ops::OpKind::kRope, conformance::attributes(text), {}, {}, {}, {{0, tokens, 0, kPlanned}}};
  call.operands = {data.floats(DType::kF32, {tokens, kHeads, kWidth}), Data::from_ints({tokens}, places)};
  const auto* x = reinterpret_cast<const float*>(call.operands[0].data.data());
  const std::vector<double>& freqs = s.beyond.empty() ? s.freqs : s.beyond;
  ThreadPool pool({1, false, 20});
  for (const catalog::KernelRow* row : host_rows(call, true)) {
    const auto y = run(call, *row, pool)[0];
    Tally tally;
    for (int64_t t = 0; t < tokens; ++t) {
      for (int64_t pair = 0; pair < kPairs; ++pair) {
        const long double angle = static_cast<long double>(places[static_cast<size_t>(t)]) *
                                  static_cast<long double>(freqs[static_cast<size_t>(pair)]);
        const auto c = static_cast<double>(cosl(angle)) * s.scale, sine = static_cast<double>(sinl(angle)) * s.scale;
        for (int64_t h = 0; h < kHeads; ++h) {
          const int64_t first = (t * kHeads + h) * kWidth + (interleaved ? 2 * pair : pair);
          const int64_t second = first + (interleaved ? 1 : kPairs);
          const auto a = static_cast<double>(x[first]), b = static_cast<double>(x[second]);
          const double bound = 5 * kUnit * s.scale * (std::fabs(a) + std::fabs(b));
          tally.add(static_cast<double>(y[static_cast<size_t>(first)]), a * c - b * sine, bound);
          tally.add(static_cast<double>(y[static_cast<size_t>(second)]), b * c + a * sine, bound);
        }
      }
    }
    tally.conclude("rope " + s.name + (interleaved ? ", interleaved" : ", halves"), place_of(*row));
  }
}

INSTANTIATE_TEST_SUITE_P(Scalings, RopeLong, testing::Combine(testing::Range(0, 6), testing::Bool()));

}  // namespace
}  // namespace firstlight::long_tests
