// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear/activations.h"

#include <algorithm>

namespace firstlight::kernels {
namespace {

constexpr int64_t round_up(int64_t bytes) { return (bytes + 63) / 64 * 64; }

struct PartBytes {
  int64_t codes, blocks, f32, bf16;
};

PartBytes part_bytes(const ActivationNeeds& needs, int64_t tokens, int64_t columns) {
  const int64_t padded = padded_columns(columns);
  const int64_t blocks = tokens * (padded / 32) * static_cast<int64_t>(sizeof(Int8Block));
  return {.codes = needs.int8 ? round_up(tokens * padded) : 0,
          .blocks = needs.int8 ? round_up(blocks) : 0,
          .f32 = needs.f32 ? round_up((tokens + kPanelSlack) * padded * 4) : 0,
          .bf16 = needs.bf16 ? round_up((tokens + kPanelSlack) * padded * 2) : 0};
}

}  // namespace

void ActivationNeeds::add(ProductPath path) {
  int8 |= path == ProductPath::kInt8;
  f32 |= path == ProductPath::kF32;
  bf16 |= path == ProductPath::kBf16;
}

int64_t activation_group_bytes(const ActivationNeeds& needs, int64_t tokens, int64_t columns) {
  const PartBytes parts = part_bytes(needs, tokens, columns);
  return parts.codes + parts.blocks + parts.f32 + parts.bf16;
}

ActivationGroup activation_group(const ActivationNeeds& needs, std::byte* memory, int64_t tokens, int64_t columns) {
  const PartBytes parts = part_bytes(needs, tokens, columns);
  const int64_t padded = padded_columns(columns);
  ActivationGroup group{};
  group.int8 = {reinterpret_cast<int8_t*>(memory), reinterpret_cast<Int8Block*>(memory + parts.codes), tokens};
  memory += parts.codes + parts.blocks;
  group.f32 = {memory, tokens, padded};
  group.bf16 = {memory + parts.f32, tokens, padded};
  return group;
}

int64_t fill_activations(const Form& form, const MatmulJob& job, const ActivationNeeds& needs, int64_t first_token,
                         int64_t start, const ActivationGroup& group, float* rows) {
  const int64_t padded = padded_columns(job.columns);
  const int64_t count = panel_count(form.panel_tokens, group.int8.num_tokens - start);
  const float* from = job.x + (first_token + start) * job.x_stride;
  int64_t stride = job.x_stride;
  if (job.norm.rms || padded != job.columns) {  // else the rows are what the products want, where they lie
    for (int64_t i = 0; i < count; ++i) {
      form.normalise_row(from + i * stride, job.columns, padded, job.norm, rows + i * padded);
    }
    from = rows;
    stride = padded;
  }
  if (needs.int8) {
    int64_t i = 0;
    for (; form.quantise_four != nullptr && i + 4 <= count; i += 4) {
      form.quantise_four(from + i * stride, stride, padded, start + i, group.int8);
    }
    for (; i < count; ++i) form.quantise_row(from + i * stride, padded, start + i, group.int8);
  }
  if (needs.f32) form.store_panel_f32(from, stride, count, padded, group.f32.data + start * padded * 4);
  if (needs.bf16) form.store_panel_bf16(from, stride, count, padded, group.bf16.data + start * padded * 2);
  return count;
}

}  // namespace firstlight::kernels
