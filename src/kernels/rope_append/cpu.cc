// SPDX-License-Identifier: Apache-2.0
// rope_append on the CPU: heads of all tokens together are shared out over the workers; per token, sines and cosines of
// all pairs once.
#include "kernels/append/store_row.h"
#include "kernels/bodies.h"
#include "kernels/common/cpu/row_ops.h"
#include "kernels/common/cpu/small_operand.h"
#include "kernels/common/pages.h"
#include "kernels/rope/options.h"
#include "kernels/rope/rotate.h"

namespace firstlight::kernels {
namespace {

struct Options final : Prepared {
  std::unique_ptr<Prepared> rope;
  bool rms = false;
  double eps = 0;
  double offset = 0;
};

Result<std::unique_ptr<Prepared>> prepare(const PrepareInput& input) {
  auto options = std::make_unique<Options>();
  options->rope = FL_TRY(prepare_rope(input));
  options->rms = input.signature.attributes.get_string("norm") == "rms";
  options->eps = input.signature.attributes.get_float("norm_eps");
  options->offset = input.signature.attributes.get_float("norm_offset");
  return std::unique_ptr<Prepared>(std::move(options));
}

int64_t padded(int64_t count) { return (count + 15) / 16 * 16; }

// One worker's run. Its scratch: cosines, sines, a head, the two norms' weights.
class Run {
 public:
  Run(const KernelCall& call, const RowOps& ops, Worker& worker)
      : call_(call),
        options_(static_cast<const Options&>(*call.prepared)),
        rope_(static_cast<const RopeOptions&>(*options_.rope)),
        ops_(ops),
        q_(call.inputs[2]),
        k_(call.inputs[3]),
        values_(call.state->components[1]),
        width_(q_.dim(2)),
        pairs_((rope_.length / 2 + 3) / 4 * 4) {
    cosine_ = scratch_floats(worker, 2 * padded(pairs_) + 3 * padded(width_));
    sine_ = cosine_ + padded(pairs_);
    head_ = sine_ + padded(pairs_);
    q_weight_ = small_operand(operand(call.inputs, 5), head_ + padded(width_));
    k_weight_ = small_operand(operand(call.inputs, 6), head_ + 2 * padded(width_));
  }

  int64_t units() const { return q_.dim(0) * heads(); }

  // Heads [begin, end) of all tokens' heads: a token's queries first, then its keys, then its values.
  void run(int64_t begin, int64_t end) {
    const int64_t per_token = heads();
    for_rope_rows(rope_, call_.batch, begin / per_token, (end + per_token - 1) / per_token,
                  [&](int64_t t, const RopeTable& table) {
                    const int64_t first = std::max<int64_t>(begin - t * per_token, 0);
                    token(t, table, first, std::min(end - t * per_token, per_token));
                  });
  }

 private:
  int64_t heads() const { return q_.dim(1) + k_.dim(1) + values_.heads; }

  void token(int64_t t, const RopeTable& table, int64_t begin, int64_t end) {
    const int64_t queries = q_.dim(1);
    const int64_t keys = k_.dim(1);
    if (begin < queries + keys) {
      const auto position = static_cast<double>(call_.inputs[1].as<const int32_t>()[t]);
      fill_tables(table.freqs.data(), pairs_, position, table.scale, rope_.inverse, cosine_, sine_);
    }
    for (int64_t h = begin; h < std::min(end, queries); ++h) {
      turn(q_.as<const float>() + (t * queries + h) * width_, q_weight_,
           call_.outputs[0].as<float>() + (t * queries + h) * width_);
    }
    for (int64_t h = std::max(begin, queries); h < std::min(end, queries + keys); ++h) {
      turn(k_.as<const float>() + (t * keys + h - queries) * width_, k_weight_, head_);
      store(0, t, h - queries, head_);
    }
    for (int64_t h = std::max(begin, queries + keys); h < end; ++h) {
      const int64_t head = h - queries - keys;
      store(1, t, head, call_.inputs[4].as<const float>() + (t * values_.heads + head) * values_.width);
    }
  }

  // A head normalised and turned, from `from` to `to`; the rotation may work in place.
  void turn(const float* from, const float* weight, float* to) const {
    if (options_.rms) {
      ops_.rms_norm(from, width_, weight, options_.eps, options_.offset, to);
      from = to;
    } else if (rope_.length < width_) {
      std::memcpy(to, from, static_cast<size_t>(width_) * sizeof(float));
    }
    (rope_.interleaved ? rotate_pairs : rotate_halves)(from + rope_.offset, rope_.length / 2, cosine_, sine_,
                                                       to + rope_.offset);
  }

  void store(size_t component_idx, int64_t row, int64_t head, const float* from) {
    const plan::StateComponentView& component = call_.state->components[component_idx];
    const auto sequences = call_.batch->sequences;
    while (row >= sequences[sequence_].first_row + sequences[sequence_].num_tokens) ++sequence_;
    const plan::SequenceSpan& sequence = sequences[sequence_];
    store_row(component.dtype, from, component.width,
              state_row(*call_.state, component, sequence_, sequence.start_position + row - sequence.first_row, head));
  }

  const KernelCall& call_;
  const Options& options_;
  const RopeOptions& rope_;
  const RowOps& ops_;
  const tensor::View& q_;
  const tensor::View& k_;
  const plan::StateComponentView& values_;
  int64_t width_;
  int64_t pairs_;
  size_t sequence_ = 0;  // of the last row stored; rows come in order
  float* cosine_ = nullptr;
  float* sine_ = nullptr;
  float* head_ = nullptr;
  const float* q_weight_ = nullptr;
  const float* k_weight_ = nullptr;
};

template <const RowOps& (*kOps)()>
void run(const KernelCall& call, Worker& worker) {
  Run run(call, kOps(), worker);
  const Worker::Range range = worker.share(run.units());
  if (range.begin < range.end) run.run(range.begin, range.end);
}

}  // namespace

std::span<const KernelBody> rope_append_cpu_bodies() {
  static constexpr KernelBody kBodies[] = {{"rope_append_f32_any_avx2", prepare, run<row_ops_avx2>, nullptr},
                                           {"rope_append_f32_any_avx512", prepare, run<row_ops_avx512>, nullptr}};
  return kBodies;
}

}  // namespace firstlight::kernels
