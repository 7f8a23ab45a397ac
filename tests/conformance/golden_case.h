// SPDX-License-Identifier: Apache-2.0
// A case of ../shared/data/kernel-goldens: one folder with a manifest (operator, arguments, tolerance) and operand and
// result tensors as .npy that another engine's own code gave.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/json.h"
#include "case.h"
#include "formats/npy.h"

namespace firstlight::conformance {

class Golden {
 public:
  explicit Golden(const std::string& name)
      : folder_(std::string(FL_SOURCE_DIR) + "/../shared/data/kernel-goldens/" + name) {
    std::ifstream file(folder_ + "/manifest.json");
    std::stringstream text;
    text << file.rdbuf();
    manifest_ = parse_json(text.str()).value();
  }
  static bool is_present() {
    return std::filesystem::exists(std::string(FL_SOURCE_DIR) + "/../shared/data/kernel-goldens");
  }
  const Json& args() const { return manifest_["args"]; }

  // int64 becomes int32, 16-bit words bfloat16.
  Tensor tensor(const std::string& name) const {
    formats::NpyArray array = formats::read_npy(folder_ + "/" + name + ".npy").value();
    tensor::Shape shape(array.shape.begin(), array.shape.end());
    if (array.dtype == tensor::DType::kI64) {
      std::vector<int32_t> values;
      const std::vector<int64_t> wide = array.as<int64_t>().value();
      for (const int64_t v : wide) values.push_back(static_cast<int32_t>(v));
      return Data::from_ints(std::move(shape), values);
    }
    const tensor::DType dtype = array.dtype == tensor::DType::kU16 ? tensor::DType::kBF16 : array.dtype;
    return {tensor::Type::tensor(dtype, std::move(shape)), std::move(array.data)};
  }
  Tensor floats(const std::string& name) const {
    const Tensor t = tensor(name);
    const auto values = t.values();
    return Data::from(t.type.shape, std::vector<float>(values.begin(), values.end()));
  }

  void expect(const std::string& name, const Tensor& found) const {
    const auto wanted = tensor(name).values();
    const auto values = found.values();
    ASSERT_EQ(values.size(), wanted.size());
    const double atol = manifest_["tol"]["atol"].get<double>();
    const double rtol = manifest_["tol"]["rtol"].get<double>();
    for (size_t i = 0; i < wanted.size(); ++i) {
      ASSERT_LE(std::fabs(values[i] - wanted[i]), atol + rtol * std::fabs(wanted[i]))
          << folder_ << " " << name << " element " << i;
    }
  }

 private:
  std::string folder_;
  Json manifest_;
};

}  // namespace firstlight::conformance
