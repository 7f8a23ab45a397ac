// SPDX-License-Identifier: Apache-2.0
// The operator vocabulary. One operator is one file (ops/<group>/<name>.cc) that fills one OpDef: operands and
// attributes, shape and type rule, written meaning with its rounding points, decomposition into primitives, axis rules
// for sharding, cost and gradient. Everything that knows operators (verifier, printer, compiler, conformance suite,
// reports) reads these rows; ops/table.cc lists them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "ops/attributes.h"
#include "ops/state.h"
#include "tensor/type.h"

namespace firstlight::ops {

enum class OpKind : uint8_t {
  // data movement
  kGatherRows,
  kGatherLast,
  kReshape,
  kTranspose,
  kSlice,
  kConcat,
  kStack,
  kCast,
  kTake,
  kPad,
  kScatterRows,
  kConstant,
  // arithmetic
  kMap,
  kReduce,
  kSoftmax,
  kTopK,
  kIndexMask,
  kFakeQuant,
  kCumsum,
  kImap,
  kFusedRows,
  // normalisation
  kRmsNorm,
  kLayerNorm,
  // matrix products
  kLinear,
  kBatchedLinear,
  kFusedLinear,
  kEinsum,
  kRoute,
  // attention and state
  kRope,
  kAppend,
  kAttend,
  kAttendSegments,
  kIndexScores,
  kWindowEmit,
  // images
  kConv2d,
  kPool2d,
  kInterp2d,
  // recurrences on a fixed state, and the token history
  kRecentTokens,
  kShift,
  kConv1d,
  kRecurGla,
  kRecurDelta,
  kRecurSelective,
  kRecurElementwise,
  kRecurDplr,
  // the small steps before an attend, made by passes
  kRopeAppend,
  // weights
  kDequantize,
  kPackMxfp4,
  kAssembleWeight,
  kPackWeight,
  // control flow
  kPerExpert,
  kIf,
  kRepeat,
};

struct OperandDef {
  std::string_view name;
  enum class Arity : uint8_t {
    kOne,
    kOptional,
    kVariadic
  } arity = Arity::kOne;  // optional and variadic ones stand last
  bool is_state = false;
  bool may_be_state = false;  // of a variadic operand: states and tensors stand in it, as the operator's rule says
};

struct AttributeDef {
  std::string_view name;
  AttributeType type;
  bool required = false;
  Attribute fallback{};      // filled in when absent and not required; ignored otherwise
  std::string_view meaning;  // units and range in a few words
};

// What a shape and type rule sees. `operands` holds the types in order; missing trailing optional operands are not
// there.
struct InferInput {
  std::span<const tensor::Type> operands;
  const Attributes& attributes;
  const StateDecl* state = nullptr;                    // of the first state operand, where the op takes one
  std::span<const std::vector<tensor::Type>> regions;  // per region: the types it yields
  std::span<const StateDecl* const> states = {};       // of all state operands, in order
};

// One way to shard an operator over ranks. Axis numbers are of the operand's or result's shape; -1: replicated (whole
// on each rank). With `partial` the results are partial sums that an all-reduce completes.
struct ShardRule {
  std::string_view name;  // "rows", "columns", "heads", "tokens"
  std::vector<int> operand_axes;
  std::vector<int> result_axes;
  bool partial = false;
};

struct Cost {
  double operations = 0;  // multiply and add count as two
  double bytes_read = 0;
  double bytes_written = 0;
};

// Builds the decomposition of an operator out of others, without knowing the IR. Value handles are the builder's own.
class DecomposeBuilder {
 public:
  using Value = int32_t;
  virtual Value emit(OpKind op, std::span<const Value> operands, Attributes attributes) = 0;  // first result
  virtual const tensor::Type& type_of(Value value) const = 0;

 protected:
  ~DecomposeBuilder() = default;
};

struct OpDef {
  OpKind kind;
  std::string_view name;
  std::vector<OperandDef> operands;
  std::vector<AttributeDef> attributes;
  std::string_view meaning;   // what it computes, with shapes
  std::string_view rounding;  // where values are rounded, and to what
  int num_regions = 0;
  bool elementwise_rows = false;  // row t of the result depends on row t of the operands alone (rows = first axis)

  // Types of the results. Errors: kInvalidArgument naming the operand, the type found and the type wanted.
  Result<std::vector<tensor::Type>> (*infer)(const InferInput& input) = nullptr;
  // Null for primitives.
  Result<std::vector<DecomposeBuilder::Value>> (*decompose)(DecomposeBuilder& builder,
                                                            std::span<const DecomposeBuilder::Value> operands,
                                                            const Attributes& attributes) = nullptr;
  // Null: no legal sharding but replication.
  std::vector<ShardRule> (*shard)(const InferInput& input) = nullptr;
  Cost (*cost)(const InferInput& input, std::span<const tensor::Type> results,
               const tensor::SymbolValues& values) = nullptr;
  // Text of the gradient rule; empty where there is none yet.
  std::string_view gradient;
};

const OpDef& op_def(OpKind kind);
inline std::string_view op_name(OpKind kind) { return op_def(kind).name; }
std::optional<OpKind> op_from_name(std::string_view name);
std::span<const OpDef> all_ops();

// Holds attributes against the row: unknown names and wrong types are errors (kInvalidArgument naming op and
// attribute), absent optional ones get their fallback.
Status check_attributes(const OpDef& def, Attributes& attributes);
// Holds the number and kinds of operands against the row.
Status check_operands(const OpDef& def, std::span<const tensor::Type> operands);

// The types a region's parameters have, from the node's operands and (checked) attributes. Errors as for `infer`;
// kInvalidArgument too when the operator has no such region.
Result<std::vector<tensor::Type>> region_parameters(OpKind kind, int region_idx, std::span<const tensor::Type> operands,
                                                    const Attributes& attributes);

// The part of an axis of `size` that a slice's attributes name, negative indices resolved.
struct SliceRange {
  int64_t start;
  int64_t stop;
  int64_t step;
};
SliceRange slice_range(const Attributes& attributes, int64_t size);

// Where fused_linear's operands stand.
struct FusedLinearOperands {
  int norm_weight = -1;  // -1: none
  int first_weight = 1;
  int num_weights = 0;
  std::vector<int> biases;  // per weight; -1: none
  int first_extra = 0;
  int num_extras = 0;
};
FusedLinearOperands fused_linear_operands(const Attributes& attributes);

// One stage of fused_rows: a formula along a row, reduced to one number of the row or left as it is.
struct RowStage {
  enum class Reduce : uint8_t { kNone, kSum, kMean, kMax } reduce = Reduce::kNone;
  Expression formula;
};
// The stages that the attributes say; FL_CHECKs that they are well-formed (`infer` has looked).
std::vector<RowStage> row_stages(const Attributes& attributes);
std::optional<RowStage::Reduce> row_reduce_from_name(std::string_view name);  // "none", "sum", "mean", "max"
std::string_view row_reduce_name(RowStage::Reduce reduce);

}  // namespace firstlight::ops
