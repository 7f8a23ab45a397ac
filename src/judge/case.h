// SPDX-License-Identifier: Apache-2.0
// One call of one operator with everything it sees: operands, state, the batch's sequences. Written by hand in the
// conformance tests, captured from a running plan by the operator gate.
#pragma once

#include <string>
#include <vector>

#include "ops/op.h"
#include "tensor/type.h"

namespace firstlight::judge {

struct Tensor {
  tensor::Type type;  // shape static: symbols are already resolved
  std::vector<std::byte> data;

  std::vector<double> values() const;  // decoded
};

// A sequence of the batch. Rows below start_position are in the state before the call.
struct Sequence {
  int64_t start_position = 0;
  int64_t num_tokens = 0;
  int64_t planned_length = 0;
};

struct State {
  ops::StateDecl decl;
  int64_t page_rows = 16;
  std::vector<Sequence> sequences;
  // Contents by [component][sequence][row][head][element], as float32 values exact in the stored type; rows the batch
  // appends are in it too for `attend`.
  std::vector<std::vector<std::vector<float>>> rows;
};

// |found - wanted| <= absolute + relative * |wanted| + scaled * scale_of(element), the last where the case gives it.
struct Bound {
  double absolute = 0;
  double relative = 0;
};

struct Case {
  std::string name;
  ops::OpKind op;
  ops::Attributes attributes;
  std::vector<Tensor> operands;  // a state operand stands as an empty tensor of type state
  std::vector<State> state;      // none, one, or several of the same sequences
  Bound bound{1e-6, 2e-6};
  std::vector<tensor::Type> result_types{};  // empty: the operator's own rule says them
};

bool is_product(ops::OpKind op);

// Operators that read and update a component of a fixed state (recent_tokens is not one: its state is a log).
bool is_recurrence(ops::OpKind op);

}  // namespace firstlight::judge
