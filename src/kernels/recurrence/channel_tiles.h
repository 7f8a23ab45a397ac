// SPDX-License-Identifier: Apache-2.0
// The forms whose channels do not meet: selective, elementwise, conv1d, with a lane per channel, in the words of
// simd_*.h; included by form_<isa>.cc alone, behind matrix_tiles.h.
#pragma once

namespace firstlight::kernels {
namespace {

// [rows][columns] to [columns][width] with rows <= width; columns of rows that are not there become 0.
void transpose_block(const float* from, int64_t rows, int64_t columns, int64_t width, float* to) {
  for (int64_t n = 0; n < columns; ++n) {
    for (int64_t c = 0; c < width; ++c) to[n * width + c] = c < rows ? from[c * columns + n] : 0.0f;
  }
}

// `count` floats, at most kLanes of them real.
FL_INLINE Float load_some(const float* from, int64_t count) {
  if (count >= kLanes) return load_f(from);
  float lanes[kLanes] = {};
  for (int64_t i = 0; i < count; ++i) lanes[i] = from[i];
  return load_f(lanes);
}
FL_INLINE void store_some(float* to, Float v, int64_t count) {
  if (count >= kLanes) return store_f(to, v);
  float lanes[kLanes];
  store_f(lanes, v);
  for (int64_t i = 0; i < count; ++i) to[i] = lanes[i];
}

void selective(const SelectiveBlock& block) {
  constexpr int64_t kWidth = kChannelBlock;
  float* a = block.scratch;
  float* state = a + kWidth * block.states;
  transpose_block(block.a, block.channels, block.states, kWidth, a);
  transpose_block(block.state, block.channels, block.states, kWidth, state);
  for (int64_t first = 0; first < block.channels; first += kLanes) {
    const int64_t here = block.channels - first;
    for (int64_t t = 0; t < block.count; ++t) {
      const float* b = block.b + t * block.states;
      const float* c = block.c + t * block.states;
      const Float dt = load_some(block.dt + t * block.stride + first, here);
      const Float added = mul_f(dt, load_some(block.x + t * block.stride + first, here));
      Float y = zero_f();
      for (int64_t n = 0; n < block.states; ++n) {
        float* s = state + n * kWidth + first;
        const Float factor = exp_f(mul_f(dt, load_f(a + n * kWidth + first)));
        const Float next = fma_f(factor, load_f(s), mul_f(added, set_f(b[n])));
        store_f(s, next);
        y = fma_f(set_f(c[n]), next, y);
      }
      store_some(block.y + t * block.stride + first, y, here);
    }
  }
  for (int64_t c = 0; c < block.channels; ++c) {
    for (int64_t n = 0; n < block.states; ++n) block.state[c * block.states + n] = state[n * kWidth + c];
  }
}

void elementwise(const float* a, const float* b, float* y, int64_t stride, int64_t count, int64_t width, float* h) {
  for (int64_t c = 0; c < width; c += kLanes) {
    const int64_t here = width - c;
    Float state = load_some(h + c, here);
    for (int64_t t = 0; t < count; ++t) {
      state = fma_f(load_some(a + t * stride + c, here), state, load_some(b + t * stride + c, here));
      store_some(y + t * stride + c, state, here);
    }
    store_some(h + c, state, here);
  }
}

void conv1d(const ConvBlock& block) {
  float taps[kMostConvTaps * kConvBlock];
  float bias[kConvBlock];
  const float* rows[kMostConvTaps];
  transpose_block(block.weight, block.channels, block.taps, kConvBlock, taps);
  for (int64_t c = 0; c < kConvBlock; ++c) bias[c] = block.bias != nullptr && c < block.channels ? block.bias[c] : 0.0f;
  const int64_t kept = (block.taps - 1) * block.dilation;
  for (int64_t t = 0; t < block.count; ++t) {
    for (int64_t j = 0; j < block.taps; ++j) {
      const int64_t row = t - (block.taps - 1 - j) * block.dilation;
      rows[j] = row >= 0 ? block.x + row * block.stride : block.before + (kept + row) * block.stride;
    }
    for (int64_t c = 0; c < block.channels; c += kLanes) {
      const int64_t here = block.channels - c;
      Float sum = load_f(bias + c);
      for (int64_t j = 0; j < block.taps; ++j) {
        sum = fma_f(load_f(taps + j * kConvBlock + c), load_some(rows[j] + c, here), sum);
      }
      store_some(block.y + t * block.stride + c, sum, here);
    }
  }
}

RecurrenceForm make_form() {
  return {
      .matrix_chunk = matrix_chunk, .dplr = dplr, .selective = selective, .conv1d = conv1d, .elementwise = elementwise};
}

}  // namespace
}  // namespace firstlight::kernels
