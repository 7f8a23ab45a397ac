// SPDX-License-Identifier: Apache-2.0
// What moves data on devices (data.fl.cl): one thread per element, or per unit of a copy.
#include <algorithm>
#include <array>

#include "kernels/common/strided_copy.h"
#include "kernels/dialect/launches.h"
#include "ops/infer.h"

namespace firstlight::kernels {
namespace {

using tensor::DType;

constexpr std::string_view kPath = "dialect/data.fl.cl";

// The unit that elements or blocks of `bytes` are moved in.
struct Unit {
  std::string type;
  int64_t bytes;
};
Unit unit_of(int64_t bytes) {
  if (bytes % 8 == 0) return {"fl_u64", 8};
  if (bytes % 4 == 0) return {"fl_u32", 4};
  if (bytes % 2 == 0) return {"fl_u16", 2};
  return {"fl_u8", 1};
}

int64_t element_bytes(DType type) { return tensor::dtype_info(type).block_bytes; }

class GatherRows final : public DeviceKernel {
 public:
  GatherRows(device::Kernel kernel, bool moves) : kernel_(std::move(kernel)), moves_(moves) {}
  Status launch(const DeviceCall& call) const override {
    const tensor::View& table = call.inputs[0].view;
    const tensor::View& out = call.outputs[0].view;
    const int64_t rows = table.dim(0);
    const int64_t ids = call.inputs[1].view.num_elements();
    int64_t inner = 1;
    for (int i = 1; i < table.rank; ++i) inner *= table.dim(i);
    if (moves_) {
      return launch_elements(call.queue, kernel_, out.num_elements(),
                             {call.inputs[0].data, call.inputs[1].data, call.outputs[0].data, out.num_elements(),
                              std::max<int64_t>(ids, 1), rows, inner, std::max<int64_t>(ids, 1)});
    }
    const int64_t columns = table.rank == 1 ? 1 : table.dim(-1);
    if (inner == 0) return ok_status();
    const int64_t lines = inner / columns;
    const int64_t line_bytes = *tensor::row_bytes(table.dtype, columns);
    const int64_t total = ids * lines * ((columns + 15) / 16);
    return launch_elements(call.queue, kernel_, total,
                           {call.inputs[0].data, call.inputs[1].data, call.outputs[0].data, total, lines, line_bytes,
                            i32(columns), i32(rows)});
  }

 private:
  device::Kernel kernel_;
  bool moves_;
};

Result<std::unique_ptr<DeviceKernel>> prepare_gather_rows(const DevicePrepare& prepare) {
  const DType table = prepare.signature.operands[0].dtype;
  const bool moves = prepare.signature.results[0].dtype == table;
  const std::string name(tensor::dtype_name(table));
  auto kernel =
      moves
          ? FL_TRY(prepare.modules.kernel(
                kPath, "", {{"FL_GATHER_UNITS", "1"}, {"FL_UNIT", unit_of(element_bytes(table)).type}}, "gather_units"))
          : FL_TRY(prepare.modules.kernel(
                kPath, "", {{"FL_GATHER_ROWS", "1"}, {"FL_WANT_" + name, "1"}, {"FL_DECODE", "fl_decode_" + name}},
                "gather_rows"));
  return std::unique_ptr<DeviceKernel>(std::make_unique<GatherRows>(std::move(kernel), moves));
}

class GatherLast final : public DeviceKernel {
 public:
  explicit GatherLast(device::Kernel kernel) : kernel_(std::move(kernel)) {}
  Status launch(const DeviceCall& call) const override {
    const tensor::View& out = call.outputs[0].view;
    return launch_elements(
        call.queue, kernel_, out.num_elements(),
        {call.inputs[0].data, call.inputs[1].data, call.outputs[0].data, out.num_elements(), view_row_elements(out),
         view_row_elements(call.inputs[0].view), int64_t{1}, out.num_elements()});
  }

 private:
  device::Kernel kernel_;
};

Result<std::unique_ptr<DeviceKernel>> prepare_gather_last(const DevicePrepare& prepare) {
  const Unit unit = unit_of(element_bytes(prepare.signature.operands[0].dtype));
  auto kernel =
      FL_TRY(prepare.modules.kernel(kPath, "", {{"FL_GATHER_UNITS", "1"}, {"FL_UNIT", unit.type}}, "gather_units"));
  return std::unique_ptr<DeviceKernel>(std::make_unique<GatherLast>(std::move(kernel)));
}

class Take final : public DeviceKernel {
 public:
  Take(device::Kernel kernel, int64_t unit_bytes, int64_t axis, int64_t count, device::Buffer indices)
      : kernel_(std::move(kernel)), unit_bytes_(unit_bytes), axis_(axis), count_(count), indices_(std::move(indices)) {}
  Status launch(const DeviceCall& call) const override {
    const UnitAxes from = unit_axes(call.inputs[0].view);
    const auto at = static_cast<size_t>(ops::resolve_axis(axis_, call.inputs[0].view.rank));
    const int64_t total = call.outputs[0].data.bytes() / unit_bytes_;
    return launch_elements(call.queue, kernel_, total,
                           {call.inputs[0].data, indices_, call.outputs[0].data, total, count_, from.dims[at],
                            from.strides[at] / unit_bytes_, count_});
  }

 private:
  device::Kernel kernel_;
  int64_t unit_bytes_, axis_, count_;
  device::Buffer indices_;
};

Result<std::unique_ptr<DeviceKernel>> prepare_take(const DevicePrepare& prepare) {
  const Unit unit = unit_of(element_bytes(prepare.signature.operands[0].dtype));
  auto kernel =
      FL_TRY(prepare.modules.kernel(kPath, "", {{"FL_GATHER_UNITS", "1"}, {"FL_UNIT", unit.type}}, "gather_units"));
  std::vector<int32_t> indices;
  for (const int64_t index : prepare.signature.attributes.get_ints("indices")) indices.push_back(i32(index));
  auto table = FL_TRY(resident_table(prepare.modules.device(), indices));
  return std::unique_ptr<DeviceKernel>(std::make_unique<Take>(std::move(kernel), unit.bytes,
                                                              prepare.signature.attributes.get_int("axis"),
                                                              static_cast<int64_t>(indices.size()), std::move(table)));
}

// A copy between two strided places; sizes in units of the type, strides in bytes.
struct Box {
  int rank = 0;
  std::array<int64_t, tensor::kMaxRank + 1> dims{}, from{}, to{};
  int64_t from_first = 0, to_first = 0;  // bytes
};

// Joins neighbouring axes that lie one behind the other on both sides; drops axes of one.
Box merged(const Box& box) {
  Box out;
  out.from_first = box.from_first;
  out.to_first = box.to_first;
  for (size_t i = 0; i < static_cast<size_t>(box.rank); ++i) {
    if (box.dims[i] == 1) continue;
    const auto last = static_cast<size_t>(out.rank) - 1;
    if (out.rank > 0 && out.from[last] == box.dims[i] * box.from[i] && out.to[last] == box.dims[i] * box.to[i]) {
      out.dims[last] *= box.dims[i];
      out.from[last] = box.from[i];
      out.to[last] = box.to[i];
      continue;
    }
    const auto at = static_cast<size_t>(out.rank++);
    out.dims[at] = box.dims[i];
    out.from[at] = box.from[i];
    out.to[at] = box.to[i];
  }
  return out;
}

// The operators that copy boxes: transpose, slice, concat, stack.
class Copies final : public DeviceKernel {
 public:
  Copies(device::Kernel kernel, int64_t unit_bytes, ops::OpKind op, const ops::Attributes& attributes)
      : kernel_(std::move(kernel)), unit_bytes_(unit_bytes), op_(op), attributes_(attributes) {}

  Status launch(const DeviceCall& call) const override {
    const UnitAxes to = unit_axes(call.outputs[0].view);
    int64_t place = 0;
    for (size_t i = 0; i < call.inputs.size(); ++i) {
      const tensor::View& x = call.inputs[i].view;
      const UnitAxes from = unit_axes(x);
      Box box = op_ == ops::OpKind::kTranspose ? transposed(from, to)
                : op_ == ops::OpKind::kSlice   ? sliced(x, from, to)
                : op_ == ops::OpKind::kStack   ? stacked(from, to, i, call.outputs[0].view.rank)
                                               : joined(from, to, place, x.rank);
      FL_TRY(copy(call, i, std::move(box), from.unit_bytes));
    }
    return ok_status();
  }

 private:
  static Box whole(const UnitAxes& from, const UnitAxes& to) {
    Box box;
    box.rank = from.rank;
    box.dims = from.dims;
    box.from = from.strides;
    box.to = to.strides;
    return box;
  }

  Box transposed(const UnitAxes& from, const UnitAxes& to) const {
    Box box = whole(to, to);
    const auto& perm = attributes_.get_ints("perm");
    for (size_t i = 0; i < perm.size(); ++i) box.from[i] = from.strides[static_cast<size_t>(perm[i])];
    return box;
  }

  Box sliced(const tensor::View& x, const UnitAxes& from, const UnitAxes& to) const {
    const int axis = ops::resolve_axis(attributes_.get_int("axis"), x.rank);
    const auto at = static_cast<size_t>(axis);
    const ops::SliceRange range = ops::slice_range(attributes_, x.dims[at]);
    const int64_t unit = axis == x.rank - 1 ? from.unit_elements : 1;
    Box box = whole(to, to);
    box.from = from.strides;
    box.from[at] *= range.step;
    box.from_first = range.start / unit * from.strides[at];
    return box;
  }

  Box stacked(const UnitAxes& from, const UnitAxes& to, size_t index, int rank) const {
    const auto axis = static_cast<size_t>(ops::resolve_axis(attributes_.get_int("axis"), rank));
    Box box = whole(from, from);
    for (size_t a = 0; a < static_cast<size_t>(from.rank); ++a) box.to[a] = to.strides[a < axis ? a : a + 1];
    box.to_first = static_cast<int64_t>(index) * to.strides[axis];
    return box;
  }

  Box joined(const UnitAxes& from, const UnitAxes& to, int64_t& place, int rank) const {
    const auto axis = static_cast<size_t>(ops::resolve_axis(attributes_.get_int("axis"), rank));
    Box box = whole(from, to);
    box.to_first = place;
    place += from.dims[axis] * to.strides[axis];
    return box;
  }

  Status copy(const DeviceCall& call, size_t input, Box box, int64_t type_bytes) const {
    if (type_bytes != unit_bytes_) {  // several words per block
      const auto at = static_cast<size_t>(box.rank++);
      box.dims[at] = type_bytes / unit_bytes_;
      box.from[at] = box.to[at] = unit_bytes_;
    }
    box = merged(box);
    int64_t total = 1;
    for (size_t i = 0; i < static_cast<size_t>(box.rank); ++i) total *= box.dims[i];
    if (box.rank > 6) return unsupported("a copy of more than 6 axes on a device");
    Arguments arguments = {call.inputs[input].data, call.outputs[0].data, total, box.from_first / unit_bytes_,
                           box.to_first / unit_bytes_};
    const int shift = 6 - box.rank;
    const auto value = [&](const auto& list, int i, int64_t none, int64_t divisor) {
      return i < shift ? none : list[static_cast<size_t>(i - shift)] / divisor;
    };
    for (int i = 1; i < 6; ++i) arguments.emplace_back(value(box.dims, i, 1, 1));
    for (int i = 0; i < 6; ++i) arguments.emplace_back(value(box.from, i, 0, unit_bytes_));
    for (int i = 0; i < 6; ++i) arguments.emplace_back(value(box.to, i, 0, unit_bytes_));
    return launch_elements(call.queue, kernel_, total, arguments);
  }

  device::Kernel kernel_;
  int64_t unit_bytes_;
  ops::OpKind op_;
  ops::Attributes attributes_;
};

Result<std::unique_ptr<DeviceKernel>> prepare_copies(const DevicePrepare& prepare) {
  const Unit unit = unit_of(element_bytes(prepare.signature.operands[0].dtype));
  auto kernel = FL_TRY(prepare.modules.kernel(kPath, "", {{"FL_COPY", "1"}, {"FL_UNIT", unit.type}}, "strided_copy"));
  return std::unique_ptr<DeviceKernel>(
      std::make_unique<Copies>(std::move(kernel), unit.bytes, prepare.signature.op, prepare.signature.attributes));
}

class Cast final : public DeviceKernel {
 public:
  explicit Cast(device::Kernel kernel) : kernel_(std::move(kernel)) {}
  Status launch(const DeviceCall& call) const override {
    const int64_t total = call.outputs[0].view.num_elements();
    return launch_elements(call.queue, kernel_, total, {call.inputs[0].data, call.outputs[0].data, total});
  }

 private:
  device::Kernel kernel_;
};

Result<std::unique_ptr<DeviceKernel>> prepare_cast(const DevicePrepare& prepare) {
  const DType from = prepare.signature.operands[0].dtype;
  const DType to = prepare.signature.results[0].dtype;
  DeviceModules::Defines defines = {{"FL_CAST", "1"},
                                    {"FL_LOAD_X", load_word(from)},
                                    {"FL_STORE", "fl_store_" + std::string(tensor::dtype_name(to))}};
  if (to == DType::kI32) {  // exact, where a float would not be
    const std::string read = from == DType::kI64                          ? "fl_narrow_i32(fl_at(const fl_i64, x, at))"
                             : from == DType::kI32                        ? "fl_at(const fl_i32, x, at)"
                             : from == DType::kI8                         ? "(fl_i8)x[at]"
                             : from == DType::kU8 || from == DType::kBool ? "x[at]"
                                                                          : "";
    if (!read.empty()) defines.emplace_back("FL_CAST_INTEGERS", read);
  }
  auto kernel = FL_TRY(prepare.modules.kernel(kPath, "", std::move(defines), "cast"));
  return std::unique_ptr<DeviceKernel>(std::make_unique<Cast>(std::move(kernel)));
}

class Constant final : public DeviceKernel {
 public:
  explicit Constant(device::Buffer values) : values_(std::move(values)) {}
  Status launch(const DeviceCall& call) const override {
    return values_ ? call.queue.copy(call.outputs[0].data, values_) : ok_status();
  }

 private:
  device::Buffer values_;
};

Result<std::unique_ptr<DeviceKernel>> prepare_constant(const DevicePrepare& prepare) {
  std::vector<float> values;
  for (const double v : prepare.signature.attributes.get_floats("values")) values.push_back(static_cast<float>(v));
  auto table = FL_TRY(resident_table(prepare.modules.device(), values));
  return std::unique_ptr<DeviceKernel>(std::make_unique<Constant>(std::move(table)));
}

class IndexMask final : public DeviceKernel {
 public:
  explicit IndexMask(device::Kernel kernel) : kernel_(std::move(kernel)) {}
  Status launch(const DeviceCall& call) const override {
    const tensor::View& out = call.outputs[0].view;
    return launch_elements(call.queue, kernel_, out.num_elements(),
                           {call.inputs[0].data, call.outputs[0].data, out.num_elements(), i32(view_row_elements(out)),
                            i32(view_row_elements(call.inputs[0].view))});
  }

 private:
  device::Kernel kernel_;
};

Result<std::unique_ptr<DeviceKernel>> prepare_index_mask(const DevicePrepare& prepare) {
  auto kernel = FL_TRY(prepare.modules.kernel(kPath, "", {{"FL_INDEX_MASK", "1"}}, "index_mask"));
  return std::unique_ptr<DeviceKernel>(std::make_unique<IndexMask>(std::move(kernel)));
}

constexpr DeviceBody kBodies[] = {
    {"gather_rows_any_any_dialect", prepare_gather_rows},
    {"gather_last_any_any_dialect", prepare_gather_last},
    {"constant_f32_dialect", prepare_constant},
    {"take_any_any_dialect", prepare_take},
    {"transpose_any_any_dialect", prepare_copies},
    {"slice_any_any_dialect", prepare_copies},
    {"concat_any_any_dialect", prepare_copies},
    {"stack_any_any_dialect", prepare_copies},
    {"cast_any_any_dialect", prepare_cast},
    {"index_mask_i32_f32_dialect", prepare_index_mask},
};

}  // namespace

std::span<const DeviceBody> device_data_bodies() { return kBodies; }

}  // namespace firstlight::kernels
