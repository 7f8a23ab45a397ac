// SPDX-License-Identifier: Apache-2.0
// window_emit: groups put together from the state's waiting rows and the batch's own; then the rows that later groups
// need are kept. Workers share the columns, so that nobody overwrites what another still reads.
#include <cstring>

#include "kernels/bodies.h"
#include "kernels/common/pages.h"

namespace firstlight::kernels {
namespace {

struct Options final : Prepared {
  int component = 0;
  int64_t rate = 1;
  int64_t rows = 1;  // of the state, and of what comes out per group
  float fill = 0;
};

Result<std::unique_ptr<Prepared>> prepare(const PrepareInput& input) {
  const ops::Attributes& attributes = input.signature.attributes;
  auto options = std::make_unique<Options>();
  options->component = input.state->component_index(attributes.get_string("component"));
  FL_CHECK(options->component >= 0);
  options->rate = attributes.get_int("rate");
  options->rows = attributes.get_bool("overlap") ? 2 * options->rate : options->rate;
  options->fill = static_cast<float>(attributes.get_float("fill"));
  return std::unique_ptr<Prepared>(std::move(options));
}

// One worker's columns of one sequence.
class Columns {
 public:
  Columns(const KernelCall& call, const Options& options, size_t sequence, Worker::Range range)
      : call_(call), options_(options), sequence_(call.batch->sequences[sequence]), range_(range) {
    width_ = call.inputs[0].dim(1);
    // A fixed state is one row of one page; the component's heads are the rows kept here.
    kept_ = reinterpret_cast<float*>(
        state_row(*call.state, call.state->components[static_cast<size_t>(options.component)], sequence, 0, 0));
  }

  void emit(int64_t first_group, float* out) const {
    const int64_t group = sequence_.start_position / options_.rate;
    const int64_t count = plan::groups_completed(sequence_, options_.rate);
    for (int64_t g = 0; g < count; ++g) {
      const int64_t end = (group + g + 1) * options_.rate;  // one behind the group's last token
      for (int64_t i = 0; i < options_.rows; ++i) {
        float* to = out + ((first_group + g) * options_.rows + i) * width_;
        copy_token(end - options_.rows + i, to);
      }
    }
  }

  // The last rows of the batch, each at its position's place.
  void keep() const {
    const int64_t end = sequence_.start_position + sequence_.num_tokens;
    for (int64_t p = std::max(sequence_.start_position, end - options_.rows); p < end; ++p) {
      copy(own_row(p), kept_row(p));
    }
  }

 private:
  void copy(const float* from, float* to) const {
    std::memcpy(to + range_.begin, from + range_.begin, static_cast<size_t>(range_.end - range_.begin) * sizeof(float));
  }
  void copy_token(int64_t position, float* to) const {
    if (position < 0) {
      std::fill(to + range_.begin, to + range_.end, options_.fill);
    } else {
      copy(position < sequence_.start_position ? kept_row(position) : own_row(position), to);
    }
  }
  float* kept_row(int64_t position) const { return kept_ + position % options_.rows * width_; }
  const float* own_row(int64_t position) const {
    return call_.inputs[0].as<const float>() + (sequence_.first_row + position - sequence_.start_position) * width_;
  }

  const KernelCall& call_;
  const Options& options_;
  const plan::SequenceSpan& sequence_;
  Worker::Range range_;
  int64_t width_;
  float* kept_;
};

void run(const KernelCall& call, Worker& worker) {
  const auto& options = static_cast<const Options&>(*call.prepared);
  const Worker::Range range = worker.share(call.inputs[0].dim(1));
  int64_t first_group = 0;
  for (size_t s = 0; s < call.batch->sequences.size(); ++s) {
    const plan::SequenceSpan& sequence = call.batch->sequences[s];
    const int64_t count = plan::groups_completed(sequence, options.rate);
    for (int64_t g = 0; worker.index() == 0 && g < count; ++g) {
      const int64_t number = sequence.start_position / options.rate + g;
      call.outputs[1].as<int32_t>()[first_group + g] = static_cast<int32_t>(number * options.rate);
    }
    if (range.begin < range.end && sequence.num_tokens > 0) {
      const Columns columns(call, options, s, range);
      columns.emit(first_group, call.outputs[0].as<float>());
      columns.keep();
    }
    first_group += count;
  }
}

}  // namespace

KernelBody window_emit_reference() {
  KernelBody body;
  body.symbol = "window_emit_f32_f32_ref";
  body.prepare = prepare;
  body.run = run;
  return body;
}

}  // namespace firstlight::kernels
