// SPDX-License-Identifier: Apache-2.0
// Matrix products on devices: linear, batched_linear and fused_linear. A kernel is printed around the parts of
// linear.fl.cl: any number of weights of the same rows, each of its own stored type, then biases and, where the step
// has formulas, its epilogue in the same kernel. A norm in front is a launch of its own, into the workspace.
#include <algorithm>

#include "kernels/dialect/launches.h"
#include "ops/expression_source.h"

namespace firstlight::kernels {
namespace {

using tensor::DType;
using tensor::Type;

constexpr std::string_view kPath = "dialect/linear.fl.cl";
constexpr int64_t kTile = 32;
constexpr int64_t kWarpsPerBlock = 4;
constexpr int64_t kFewTokens = 16;  // up to here weights are read once per few tokens, above tiles pay

// What one kernel computes.
struct Product {
  std::vector<DType> weights;
  std::vector<bool> biased;
  std::vector<DType> biases;  // f32 where there is none
  std::vector<DType> extras;
  std::vector<bool> extra_is_row;  // [R] instead of [T, R]
  std::vector<ops::Expression> epilogue;
};

std::string number(size_t i) { return std::to_string(i); }

std::string signature_text(const Product& p) {
  std::string text = "FL_GLOBAL(const float) x, ";
  for (size_t i = 0; i < p.weights.size(); ++i) {
    const std::string n = number(i);
    text += "FL_GLOBAL(const fl_u8) w" + n + ", FL_GLOBAL(const fl_u8) bias" + n + ", fl_i64 stride" + n + ", ";
  }
  for (size_t i = 0; i < p.extras.size(); ++i) text += "FL_GLOBAL(const fl_u8) extra" + number(i) + ", ";
  for (size_t i = 0; i < std::max<size_t>(p.epilogue.size(), 1); ++i) text += "FL_GLOBAL(float) out" + number(i) + ", ";
  return text +
         "fl_i32 tokens, fl_i32 rows, fl_i32 columns, fl_i64 x_stride, fl_i64 out_stride, fl_i64 x_head, "
         "fl_i64 out_head";
}

// Statements that store the results of token t and row r; `sums[i]` is the C text of product i.
std::string store_text(const Product& p, const std::vector<std::string>& sums, const std::string& indent) {
  std::string text = indent + "const fl_i64 at = head * out_head + t * out_stride + r;\n";
  std::vector<std::string> inputs;
  for (size_t i = 0; i < sums.size(); ++i) {
    const std::string bias = p.biased[i] ? " + " + load_word(p.biases[i]) + "(bias" + number(i) + ", r)" : "";
    text += indent + "const float a" + number(i) + " = " + sums[i] + bias + ";\n";
    inputs.push_back("a" + number(i));
  }
  for (size_t i = 0; i < p.extras.size(); ++i) {
    text += indent + "const float e" + number(i) + " = " + load_word(p.extras[i]) + "(extra" + number(i) + ", " +
            (p.extra_is_row[i] ? "r" : "at") + ");\n";
    inputs.push_back("e" + number(i));
  }
  if (p.epilogue.empty()) return text + indent + "out0[at] = a0;\n";
  for (size_t i = 0; i < p.epilogue.size(); ++i) {
    const auto body = ops::expression_source(p.epilogue[i], inputs, "f" + number(i) + "_", indent);
    text += body.statements + indent + "out" + number(i) + "[at] = " + body.value + ";\n";
  }
  return text;
}

std::string decoder(DType dtype) { return "fl_decode_" + std::string(tensor::dtype_name(dtype)); }

// One weight row for a thread or a warp, `tokens_at_once` tokens at a time.
std::string rows_source(const Product& p, bool by_warps, int tokens_at_once, const std::string& name) {
  std::string text = "#undef FL_TOKENS\n#define FL_TOKENS " + std::to_string(tokens_at_once) + "\nFL_KERNEL(" + name +
                     ")(" + signature_text(p) + ") {\n";
  if (by_warps) text += "  FL_WARP_STATE;\n";
  text += by_warps ? "  const fl_i32 own = fl_group_id(0) * (fl_local_size(0) / FL_WARP) + fl_warp_id();\n"
                     "  const fl_i32 r = own < rows ? own : rows - 1;\n"
                   : "  const fl_i32 r = (fl_i32)fl_global_id(0);\n  if (r >= rows) return;\n";
  text +=
      "  const fl_i32 first = fl_group_id(1) * FL_TOKENS;\n  const fl_i64 head = fl_group_id(2);\n"
      "  x += head * x_head;\n";
  std::vector<std::string> sums;
  for (size_t i = 0; i < p.weights.size(); ++i) {
    const std::string n = number(i);
    text += "  float acc" + n + "[FL_TOKENS];\n  for (int i = 0; i < FL_TOKENS; ++i) acc" + n + "[i] = 0.0f;\n";
    text += "  {\n    FL_GLOBAL(const fl_u8) weight_row = w" + n + " + (head * rows + r) * stride" + n + ";\n    " +
            (by_warps ? "FL_ROWS_BY_WARPS" : "FL_ROWS_BY_THREADS") + "(acc" + n + ", weight_row, " +
            decoder(p.weights[i]) + ", first, tokens)\n  }\n";
    sums.push_back("acc" + n + "[i]");
  }
  if (by_warps) text += "  if (fl_lane() != 0 || own >= rows) return;\n";
  return text + "  for (int i = 0; i < FL_TOKENS && first + i < tokens; ++i) {\n    const fl_i64 t = first + i;\n" +
         store_text(p, sums, "    ") + "  }\n}\n";
}

std::string tiles_source(const Product& p) {
  std::string text = "FL_KERNEL(linear_tiles)(" + signature_text(p) + ") {\n" +
                     "  FL_LOCAL(float, weight_tile, [FL_TILE][FL_TILE + 1]);\n"
                     "  FL_LOCAL(float, x_tile, [FL_TILE][FL_TILE + 1]);\n"
                     "  const fl_i32 first_row = fl_group_id(0) * FL_TILE;\n"
                     "  const fl_i32 first_token = fl_group_id(1) * FL_TILE;\n"
                     "  const fl_i64 head = fl_group_id(2);\n  x += head * x_head;\n";
  std::vector<std::string> sums;
  for (size_t i = 0; i < p.weights.size(); ++i) {
    const std::string n = number(i);
    text += "  float acc" + n + "[4][4];\n  for (int i = 0; i < 16; ++i) acc" + n + "[i / 4][i % 4] = 0.0f;\n" +
            "  {\n    FL_GLOBAL(const fl_u8) weights = w" + n + " + head * rows * stride" + n + ";\n    FL_TILES(acc" +
            n + ", weights, stride" + n + ", " + decoder(p.weights[i]) + ")\n  }\n";
    sums.push_back("acc" + n + "[i / 4][i % 4]");
  }
  return text +
         "  for (int i = 0; i < 16; ++i) {\n"
         "    const fl_i64 t = first_token + fl_local_id(1) + 8 * (i / 4);\n"
         "    const fl_i32 r = first_row + fl_local_id(0) + 8 * (i % 4);\n"
         "    if (t >= tokens || r >= rows) continue;\n" +
         store_text(p, sums, "    ") + "  }\n}\n";
}

// The three ways of one product.
class ProductKernels {
 public:
  static Result<ProductKernels> build(const Product& product, DeviceModules& modules) {
    const target::DeviceTarget& target = modules.device().target();
    // Processors that run a block as a loop over its threads have nothing of warps: a thread takes a whole row.
    const bool by_warps = target.kind != target::DeviceKind::kOpencl || target.warps_in_hardware;
    DeviceModules::Defines defines;
    for (const DType dtype : product.weights) {
      const std::pair<std::string, std::string> define{"FL_WANT_" + std::string(tensor::dtype_name(dtype)), "1"};
      if (std::find(defines.begin(), defines.end(), define) == defines.end()) defines.push_back(define);
    }
    const std::string rows =
        rows_source(product, by_warps, 1, "linear_row") + rows_source(product, by_warps, 4, "linear_rows");
    auto one = FL_TRY(modules.kernel(kPath, rows, defines, "linear_row"));
    auto few = FL_TRY(modules.kernel(kPath, rows, defines, "linear_rows"));
    auto many = FL_TRY(modules.kernel(kPath, tiles_source(product), defines, "linear_tiles"));
    return ProductKernels(std::move(one), std::move(few), std::move(many), by_warps ? kWarpsPerBlock : kDeviceThreads,
                          by_warps ? kWarpsPerBlock * target.warp_width : kDeviceThreads);
  }

  Status launch(device::Queue& queue, int64_t tokens, int64_t rows, int64_t heads, const Arguments& arguments) const {
    if (tokens == 0 || rows == 0 || heads == 0) return ok_status();
    const auto blocks = [](int64_t total, int64_t part) { return (total + part - 1) / part; };
    if (tokens > kFewTokens) {
      return queue.launch(
          many_,
          {.grid = {blocks(rows, kTile), blocks(tokens, kTile), heads}, .block = {8, 8, 1}, .arguments = arguments});
    }
    return queue.launch(tokens == 1 ? one_ : few_,
                        {.grid = {blocks(rows, rows_per_block_), tokens == 1 ? 1 : blocks(tokens, 4), heads},
                         .block = {threads_, 1, 1},
                         .arguments = arguments});
  }

 private:
  ProductKernels(device::Kernel one, device::Kernel few, device::Kernel many, int64_t rows_per_block, int64_t threads)
      : one_(std::move(one)),
        few_(std::move(few)),
        many_(std::move(many)),
        rows_per_block_(rows_per_block),
        threads_(threads) {}

  device::Kernel one_, few_, many_;
  int64_t rows_per_block_, threads_;
};

device::Buffer buffer_of(const DeviceView* view) { return view != nullptr ? view->data : device::Buffer(); }

// linear, and per head batched_linear.
class Linear final : public DeviceKernel {
 public:
  Linear(ProductKernels kernels, bool batched) : kernels_(std::move(kernels)), batched_(batched) {}

  Status launch(const DeviceCall& call) const override {
    const tensor::View& x = call.inputs[0].view;
    const tensor::View& w = call.inputs[1].view;
    const int64_t columns = view_row_elements(x);
    const int64_t rows = w.dim(-2);
    const int64_t heads = batched_ ? x.dim(1) : 1;
    const int64_t tokens = batched_ ? x.dim(0) : x.num_rows();
    const Arguments arguments = {call.inputs[0].data,
                                 call.inputs[1].data,
                                 buffer_of(device_operand(call.inputs, 2)),
                                 *tensor::row_bytes(w.dtype, columns),
                                 call.outputs[0].data,
                                 i32(tokens),
                                 i32(rows),
                                 i32(columns),
                                 heads * columns,
                                 heads * rows,
                                 columns,
                                 rows};
    return kernels_.launch(call.queue, tokens, rows, heads, arguments);
  }

 private:
  ProductKernels kernels_;
  bool batched_;
};

Result<std::unique_ptr<DeviceKernel>> prepare_linear(const DevicePrepare& prepare) {
  const auto operands = prepare.signature.operands;
  Product product;
  product.weights = {operands[1].dtype};
  product.biased = {operands.size() > 2};
  product.biases = {operands.size() > 2 ? operands[2].dtype : DType::kF32};
  auto kernels = FL_TRY(ProductKernels::build(product, prepare.modules));
  return std::unique_ptr<DeviceKernel>(
      std::make_unique<Linear>(std::move(kernels), prepare.signature.op == ops::OpKind::kBatchedLinear));
}

class FusedLinear final : public DeviceKernel {
 public:
  FusedLinear(const ops::Attributes& attributes, std::vector<ProductKernels> products,
              std::unique_ptr<DeviceKernel> norm)
      : places_(ops::fused_linear_operands(attributes)),
        has_epilogue_(!attributes.get_expressions("epilogue").empty()),
        products_(std::move(products)),
        norm_(std::move(norm)) {}

  int64_t workspace_bytes(const tensor::SymbolValues& values) const override {
    return norm_ == nullptr ? 0 : tensor::num_elements(x_shape_, values) * 4;
  }
  void set_x_shape(tensor::Shape shape) { x_shape_ = std::move(shape); }

  Status launch(const DeviceCall& call) const override {
    const tensor::View& x = call.inputs[0].view;
    device::Buffer rows = call.inputs[0].data;
    if (norm_ != nullptr && x.num_elements() > 0) {
      const DeviceView normed{x, call.workspace.view(0, x.num_elements() * 4)};
      std::vector<DeviceView> inputs = {call.inputs[0]};
      if (places_.norm_weight >= 0) inputs.push_back(call.inputs[static_cast<size_t>(places_.norm_weight)]);
      FL_TRY(norm_->launch({.queue = call.queue,
                            .inputs = inputs,
                            .outputs = {&normed, 1},
                            .batch = call.batch,
                            .states = {},
                            .workspace = {},
                            .upload = call.upload,
                            .scratch = call.scratch}));
      rows = normed.data;
    }
    const auto num_weights = static_cast<size_t>(places_.num_weights);
    if (has_epilogue_) return launch_product(call, rows, 0, num_weights, products_[0], call.outputs);
    for (size_t i = 0; i < num_weights; ++i) {
      FL_TRY(launch_product(call, rows, i, i + 1, products_[i], call.outputs.subspan(i, 1)));
    }
    return ok_status();
  }

 private:
  Status launch_product(const DeviceCall& call, const device::Buffer& x, size_t first, size_t end,
                        const ProductKernels& kernels, std::span<const DeviceView> outputs) const {
    const tensor::View& shape = call.inputs[0].view;
    const int64_t columns = view_row_elements(shape);
    int64_t rows = 0;
    Arguments arguments = {x};
    for (size_t i = first; i < end; ++i) {
      const DeviceView& w = call.inputs[static_cast<size_t>(places_.first_weight) + i];
      const int bias = places_.biases[i];
      rows = w.view.dim(0);
      arguments.emplace_back(w.data);
      arguments.emplace_back(bias < 0 ? device::Buffer() : call.inputs[static_cast<size_t>(bias)].data);
      arguments.emplace_back(*tensor::row_bytes(w.view.dtype, columns));
    }
    for (int i = 0; i < places_.num_extras && has_epilogue_; ++i) {
      arguments.emplace_back(call.inputs[static_cast<size_t>(places_.first_extra + i)].data);
    }
    for (const DeviceView& out : outputs) arguments.emplace_back(out.data);
    const int64_t tokens = shape.num_rows();
    for (const int64_t n : {tokens, rows, columns}) arguments.emplace_back(i32(n));
    for (const int64_t n : {columns, rows, int64_t{0}, int64_t{0}}) arguments.emplace_back(n);
    return kernels.launch(call.queue, tokens, rows, 1, arguments);
  }

  ops::FusedLinearOperands places_;
  bool has_epilogue_;
  std::vector<ProductKernels> products_;
  std::unique_ptr<DeviceKernel> norm_;
  tensor::Shape x_shape_;
};

// The products of a fused step: one kernel with the epilogue, or one per weight.
std::vector<Product> products_of(const catalog::Signature& signature, const ops::FusedLinearOperands& places) {
  const auto operand = [&](int i) -> const Type& { return signature.operands[static_cast<size_t>(i)]; };
  std::vector<Product> products;
  for (int i = 0; i < places.num_weights; ++i) {
    const int bias = places.biases[static_cast<size_t>(i)];
    Product one;
    one.weights = {operand(places.first_weight + i).dtype};
    one.biased = {bias >= 0};
    one.biases = {bias < 0 ? DType::kF32 : operand(bias).dtype};
    products.push_back(std::move(one));
  }
  const auto& epilogue = signature.attributes.get_expressions("epilogue");
  if (epilogue.empty()) return products;
  Product all;
  for (const Product& one : products) {
    all.weights.push_back(one.weights[0]);
    all.biased.push_back(one.biased[0]);
    all.biases.push_back(one.biases[0]);
  }
  for (int i = 0; i < places.num_extras; ++i) {
    const Type& extra = operand(places.first_extra + i);
    all.extras.push_back(extra.dtype);
    all.extra_is_row.push_back(extra.shape.size() == 1 && signature.results[0].shape.size() > 1);
  }
  all.epilogue = epilogue;
  return {std::move(all)};
}

Result<std::unique_ptr<DeviceKernel>> prepare_fused(const DevicePrepare& prepare) {
  const catalog::Signature& signature = prepare.signature;
  const ops::FusedLinearOperands places = ops::fused_linear_operands(signature.attributes);
  std::vector<ProductKernels> products;
  for (const Product& product : products_of(signature, places)) {
    products.push_back(FL_TRY(ProductKernels::build(product, prepare.modules)));
  }
  std::unique_ptr<DeviceKernel> norm;
  if (signature.attributes.get_string("norm") == "rms") {
    std::vector<Type> operands = {signature.operands[0]};
    if (places.norm_weight >= 0) operands.push_back(signature.operands[static_cast<size_t>(places.norm_weight)]);
    ops::Attributes attributes;
    attributes.set("eps", signature.attributes.get_float("norm_eps"));
    attributes.set("offset", signature.attributes.get_float("norm_offset"));
    const catalog::Signature own{
        .op = ops::OpKind::kRmsNorm, .operands = operands, .results = {operands.data(), 1}, .attributes = attributes};
    norm = FL_TRY(find_device_kernel("rms_norm_any_f32_dialect")
                      ->prepare({.signature = own, .states = {}, .modules = prepare.modules}));
  }
  auto step = std::make_unique<FusedLinear>(signature.attributes, std::move(products), std::move(norm));
  step->set_x_shape(signature.operands[0].shape);
  return std::unique_ptr<DeviceKernel>(std::move(step));
}

constexpr DeviceBody kBodies[] = {
    {"linear_f32any_f32_dialect", prepare_linear},
    {"batched_linear_f32any_f32_dialect", prepare_linear},
    {"fused_linear_f32any_f32_dialect", prepare_fused},
};

}  // namespace

std::span<const DeviceBody> device_linear_bodies() { return kBodies; }

}  // namespace firstlight::kernels
