// SPDX-License-Identifier: Apache-2.0
// Activations of a matrix product in the forms its kernels read, in groups of tokens: what fits near the core while a
// tile of weights passes over it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/linear/form.h"
#include "kernels/linear/matmul.h"

namespace firstlight::kernels {

inline constexpr int64_t kGroupTokens = 144;  // a multiple of every panel width

// Which forms the weights of a job ask for.
struct ActivationNeeds {
  bool int8 = false;
  bool f32 = false;
  bool bf16 = false;
  void add(ProductPath path);
};

constexpr int64_t padded_columns(int64_t columns) { return (columns + 31) / 32 * 32; }

// Bytes of a group of `tokens`, a multiple of 64.
int64_t activation_group_bytes(const ActivationNeeds& needs, int64_t tokens, int64_t columns);

// A group's parts inside its memory.
struct ActivationGroup {
  Int8Rows int8;
  Panels f32;
  Panels bf16;
};
ActivationGroup activation_group(const ActivationNeeds& needs, std::byte* memory, int64_t tokens, int64_t columns);

// Fills the panel that begins with token `start` of a group whose first token is `first_token` of the job; returns its
// tokens. `rows`: scratch of panel_tokens * padded_columns floats.
int64_t fill_activations(const Form& form, const MatmulJob& job, const ActivationNeeds& needs, int64_t first_token,
                         int64_t start, const ActivationGroup& group, float* rows);

}  // namespace firstlight::kernels
