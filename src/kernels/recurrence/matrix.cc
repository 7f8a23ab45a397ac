// SPDX-License-Identifier: Apache-2.0
#include "kernels/recurrence/matrix.h"

#include <algorithm>
#include <cstring>

#include "kernels/common/cpu/small_operand.h"

namespace firstlight::kernels {
namespace {

struct Sizes {
  int64_t groups, heads, key, value;
};

// Rows of `width` floats between two strides.
void copy_rows(const float* from, int64_t from_stride, float* to, int64_t to_stride, int64_t rows, int64_t width) {
  for (int64_t i = 0; i < rows; ++i) {
    std::memcpy(to + i * to_stride, from + i * from_stride, static_cast<size_t>(width) * sizeof(float));
  }
}

// The head's operands from row `row` of the batch on.
MatrixChunk chunk_at(const KernelCall& call, const Sizes& n, int64_t row, int64_t head, const MatrixOperands& places) {
  MatrixChunk c{};
  const int64_t group = head / (n.heads / n.groups);
  const tensor::View& decay = call.inputs[3];
  c.key = n.key;
  c.value = n.value;
  c.qk_stride = n.groups * n.key;
  c.q = call.inputs[0].as<const float>() + row * c.qk_stride + group * n.key;
  c.k = call.inputs[1].as<const float>() + row * c.qk_stride + group * n.key;
  c.v_stride = n.heads * n.value;
  c.v = call.inputs[2].as<const float>() + row * c.v_stride + head * n.value;
  c.y = call.outputs[0].as<float>() + row * c.v_stride + head * n.value;
  c.decay_per_key = decay.rank == 3;
  const int64_t width = c.decay_per_key ? n.key : 1;
  c.decay_stride = decay.rank == 1 ? 0 : n.heads * width;
  c.decay = decay.as<const float>() + row * c.decay_stride + head * width;
  if (places.beta >= 0) {
    c.beta_stride = n.heads;
    c.beta = call.inputs[static_cast<size_t>(places.beta)].as<const float>() + row * n.heads + head;
  }
  if (places.bonus >= 0 && static_cast<size_t>(places.bonus) < call.inputs.size()) {
    c.bonus = call.inputs[static_cast<size_t>(places.bonus)].as<const float>() + head * n.key;
  }
  return c;
}

}  // namespace

void run_matrix_recurrence(const KernelCall& call, Worker& worker, const RecurrenceForm& form,
                           const MatrixOperands& places) {
  const Sizes n{call.inputs[0].dim(1), call.inputs[2].dim(1), call.inputs[0].dim(2), call.inputs[2].dim(2)};
  const int64_t columns = padded(n.value);
  const int64_t copy = columns == n.value ? 0 : n.key * columns;
  float* scratch = scratch_floats(worker, copy + matrix_chunk_floats(n.key, n.value));
  std::fill(scratch, scratch + copy, 0.0f);
  // A chunk's sums are rounded otherwise than its tokens' one after the other, which is how answers come.
  const int64_t most = call.batch->invariant ? 1 : kMatrixChunk;
  for_parts(call, worker, n.heads, [&](size_t s, const plan::SequenceSpan& sequence, int64_t head) {
    float* stored = fixed_state(call, s) + head * n.key * n.value;
    if (copy > 0) copy_rows(stored, n.value, scratch, columns, n.key, n.value);
    for (int64_t done = 0; done < sequence.num_tokens; done += most) {
      MatrixChunk chunk = chunk_at(call, n, sequence.first_row + done, head, places);
      chunk.count = std::min(most, sequence.num_tokens - done);
      chunk.next = std::min(most, sequence.num_tokens - done - chunk.count);
      chunk.state = copy > 0 ? scratch : stored;
      chunk.state_stride = columns;
      chunk.scratch = scratch + copy;
      form.matrix_chunk(chunk);
    }
    if (copy > 0) copy_rows(scratch, columns, stored, n.value, n.key, n.value);
  });
}

}  // namespace firstlight::kernels
