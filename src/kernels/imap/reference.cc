// SPDX-License-Identifier: Apache-2.0
// imap: the formula in 64-bit integers that wrap.
#include "base/check.h"
#include "kernels/bodies.h"
#include "kernels/common/broadcast.h"
#include "kernels/common/rows.h"

namespace firstlight::kernels {
namespace {

using ops::ExprOp;
using ops::ExprTerm;

struct Options final : Prepared {
  ops::Expression expr;
};

Result<std::unique_ptr<Prepared>> prepare(const PrepareInput& input) {
  auto options = std::make_unique<Options>();
  options->expr = input.signature.attributes.get_expression("expr");
  return std::unique_ptr<Prepared>(std::move(options));
}

int64_t wrapped(uint64_t value) { return static_cast<int64_t>(value); }

// The remainder with the sign of b.
int64_t modulo(int64_t a, int64_t b) {
  if (b == 0 || b == -1) return 0;
  const int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

int64_t apply(ExprOp op, int64_t a, int64_t b, int64_t c) {
  const auto ua = static_cast<uint64_t>(a);
  const auto ub = static_cast<uint64_t>(b);
  switch (op) {
    case ExprOp::kAdd:
      return wrapped(ua + ub);
    case ExprOp::kSub:
      return wrapped(ua - ub);
    case ExprOp::kMul:
      return wrapped(ua * ub);
    case ExprOp::kMin:
      return std::min(a, b);
    case ExprOp::kMax:
      return std::max(a, b);
    case ExprOp::kNeg:
      return wrapped(0 - ua);
    case ExprOp::kAbs:
      return a < 0 ? wrapped(0 - ua) : a;
    case ExprOp::kSign:
      return a > 0 ? 1 : a < 0 ? -1 : 0;
    case ExprOp::kXor:
      return wrapped(ua ^ ub);
    case ExprOp::kMod:
      return modulo(a, b);
    case ExprOp::kLt:
      return a < b ? 1 : 0;
    case ExprOp::kLe:
      return a <= b ? 1 : 0;
    case ExprOp::kEq:
      return a == b ? 1 : 0;
    case ExprOp::kWhere:
      return a != 0 ? b : c;
    default:
      FL_CHECK(false);  // the operator's own rule admits no other
  }
}

int64_t element(const tensor::View& x, int64_t i) {
  return x.dtype == tensor::DType::kI32 ? x.as<const int32_t>()[i] : x.as<const int64_t>()[i];
}

void run(const KernelCall& call, Worker& worker) {
  const auto terms = static_cast<const Options&>(*call.prepared).expr.terms();
  const tensor::View& out = call.outputs[0];
  if (out.num_elements() == 0) return;
  const Broadcast broadcast(call.inputs, out);
  const int64_t width = row_elements(out);
  std::vector<int64_t> values(terms.size());
  for_rows(worker, out.num_rows(), [&](int64_t row) {
    for (int64_t i = 0; i < width; ++i) {
      for (size_t t = 0; t < terms.size(); ++t) {
        const ExprTerm& term = terms[t];
        const auto arg = [&](int k) { return term.args[k] < 0 ? 0 : values[static_cast<size_t>(term.args[k])]; };
        const auto operand = static_cast<size_t>(std::max(term.input, 0));
        values[t] =
            term.op == ExprOp::kInput
                ? element(call.inputs[operand], broadcast.row_offset(operand, row) + i * broadcast.last_stride(operand))
            : term.op == ExprOp::kConstant ? static_cast<int64_t>(term.constant)
                                           : apply(term.op, arg(0), arg(1), arg(2));
      }
      const int64_t at = row * width + i;
      if (out.dtype == tensor::DType::kI32) {
        out.as<int32_t>()[at] = static_cast<int32_t>(static_cast<uint32_t>(values.back()));
      } else {
        out.as<int64_t>()[at] = values.back();
      }
    }
  });
}

}  // namespace

KernelBody imap_reference() {
  KernelBody body;
  body.symbol = "imap_any_any_ref";
  body.prepare = prepare;
  body.run = run;
  return body;
}

}  // namespace firstlight::kernels
