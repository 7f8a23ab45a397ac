// SPDX-License-Identifier: Apache-2.0
// einsum on devices: the kernel is printed for the number of letters, a thread per result; sizes and strides are
// arguments. Sums carry what each product and addition rounds off: mixing matrices cancel, and the work is small.
#include "ops/linear/einsum.h"
#include "kernels/dialect/launches.h"

namespace firstlight::kernels {
namespace {

int64_t stride_of(const std::string& letters, const tensor::View& x, char letter) {
  const size_t at = letters.find(letter);
  if (at == std::string::npos) return 0;
  int64_t stride = 1;
  for (size_t i = at + 1; i < letters.size(); ++i) stride *= x.dim(static_cast<int>(i));
  return stride;
}

// Letters are numbered: those of the result, then the summed ones.
std::string einsum_source(const ops::EinsumEquation& equation, tensor::DType a, tensor::DType b) {
  const size_t kept = equation.out.size(), all = kept + equation.summed.size();
  std::string parameters, places, opens, closes, a_sum = "a_first", b_sum = "b_first";
  for (size_t i = 0; i < all; ++i) {
    const std::string n = std::to_string(i);
    parameters += ", fl_i64 d" + n + ", fl_i64 a" + n + ", fl_i64 b" + n;
    if (i < kept) continue;
    opens += "  for (fl_i64 i" + n + " = 0; i" + n + " < d" + n + "; ++i" + n + ") {\n";
    closes += "  }\n";
    a_sum += " + i" + n + " * a" + n;
    b_sum += " + i" + n + " * b" + n;
  }
  for (size_t i = kept; i-- > 0;) {
    const std::string n = std::to_string(i);
    places += "  a_first += rest % d" + n + " * a" + n + ";\n  b_first += rest % d" + n + " * b" + n +
              ";\n  rest /= d" + n + ";\n";
  }
  return "FL_KERNEL(einsum)(FL_GLOBAL(const fl_u8) a, FL_GLOBAL(const fl_u8) b, FL_GLOBAL(float) out, fl_i64 total" +
         parameters + ") {\n  const fl_i64 at = fl_global_id(0);\n  if (at >= total) return;\n  fl_i64 rest = at;\n" +
         "  fl_i64 a_first = 0;\n  fl_i64 b_first = 0;\n" + places + "  fl_exact_sum sum = fl_exact_from(0.0f);\n" +
         opens + "  sum = fl_exact_add_product(sum, " + load_word(a) + "(a, " + a_sum + "), " + load_word(b) + "(b, " +
         b_sum + "));\n" + closes + "  out[at] = fl_exact_value(sum);\n}\n";
}

class Einsum final : public DeviceKernel {
 public:
  Einsum(device::Kernel kernel, ops::EinsumEquation equation)
      : kernel_(std::move(kernel)), equation_(std::move(equation)) {}

  Status launch(const DeviceCall& call) const override {
    const tensor::View &a = call.inputs[0].view, &b = call.inputs[1].view;
    const int64_t total = call.outputs[0].view.num_elements();
    Arguments arguments = {call.inputs[0].data, call.inputs[1].data, call.outputs[0].data, total};
    for (const char letter : equation_.out + equation_.summed) {
      const size_t in_a = equation_.a.find(letter);
      arguments.emplace_back(in_a != std::string::npos ? a.dim(static_cast<int>(in_a))
                                                       : b.dim(static_cast<int>(equation_.b.find(letter))));
      arguments.emplace_back(stride_of(equation_.a, a, letter));
      arguments.emplace_back(stride_of(equation_.b, b, letter));
    }
    return launch_elements(call.queue, kernel_, total, arguments);
  }

 private:
  device::Kernel kernel_;
  ops::EinsumEquation equation_;
};

Result<std::unique_ptr<DeviceKernel>> prepare_einsum(const DevicePrepare& prepare) {
  auto equation = ops::parse_einsum(prepare.signature.attributes.get_string("equation"));
  if (!equation) return invalid_argument("einsum: its equation can not be read");
  const auto operands = prepare.signature.operands;
  const std::string source = einsum_source(*equation, operands[0].dtype, operands[1].dtype);
  auto kernel = FL_TRY(prepare.modules.kernel("dialect/map.fl.cl", source, {}, "einsum"));
  return std::unique_ptr<DeviceKernel>(std::make_unique<Einsum>(std::move(kernel), *std::move(equation)));
}

constexpr DeviceBody kBodies[] = {{"einsum_any_f32_dialect", prepare_einsum}};

}  // namespace

std::span<const DeviceBody> device_einsum_bodies() { return kBodies; }

}  // namespace firstlight::kernels
