// SPDX-License-Identifier: Apache-2.0
#include "adapt/quantise.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "adapt/output_directory.h"
#include "adapt/quantise_plan.h"
#include "formats/safetensors.h"
#include "tensor/codec.h"

namespace firstlight::adapt {
namespace {

constexpr int64_t kPieceElements = int64_t{1} << 20;
constexpr double kInfinite = std::numeric_limits<double>::infinity();

// The sums over a tensor's elements, and what they say in the end.
class ErrorSums {
 public:
  void add(std::span<const float> exact, std::span<const float> rounded) {
    for (size_t i = 0; i < exact.size(); ++i) {
      const double off = static_cast<double>(rounded[i]) - static_cast<double>(exact[i]);
      max_abs_ = std::max(max_abs_, std::abs(off));
      error_ += off * off;
      size_ += static_cast<double>(exact[i]) * static_cast<double>(exact[i]);
    }
  }
  void put(QuantisedTensor& tensor) const {
    tensor.max_abs = max_abs_;
    tensor.relative_l2 = size_ > 0 ? std::sqrt(error_ / size_) : 0;
    tensor.sqnr_db = error_ > 0 ? 10 * std::log10(size_ / error_) : kInfinite;
  }

 private:
  double max_abs_ = 0, error_ = 0, size_ = 0;
};

using PieceVisitor = std::function<Status(const QuantisedRows& rows, int64_t elements)>;

// One tensor, matrix by matrix and a few rows at a time.
class TensorRounder {
 public:
  TensorRounder(const formats::Checkpoint& checkpoint, const QuantJob& job) : checkpoint_(checkpoint), job_(job) {}

  Result<QuantisedTensor> run(const PieceVisitor& visit) {
    const formats::TensorRecord& record = *job_.record;
    bytes_ = FL_TRY(checkpoint_.bytes(record));
    QuantisedTensor tensor{.name = record.name, .format = job_.describe(), .elements = record.num_elements()};
    tensor.bytes_before = static_cast<int64_t>(bytes_.size());
    tensor.bytes_after = job_.bytes_after();
    ErrorSums sums;
    const int64_t rows = job_.rows(), columns = job_.format.columns, height = job_.format.rows_per_block();
    const int64_t few = std::max<int64_t>(1, kPieceElements / std::max<int64_t>(1, columns * height)) * height;
    const int64_t step = job_.gpt_oss_blocks ? rows : few;
    for (int64_t matrix = 0; matrix < job_.num_matrices(); ++matrix) {
      for (int64_t row = 0; row < rows; row += step) {
        const int64_t count = std::min(step, rows - row) * columns;
        FL_TRY(decode(matrix * rows * columns + row * columns, count));
        if (job_.gpt_oss_blocks) transpose(columns, rows);
        const QuantisedRows out = quantise_rows(job_.format, exact_);
        sums.add(exact_, out.values);
        FL_TRY(visit(out, count));
      }
    }
    sums.put(tensor);
    return tensor;
  }

 private:
  Status decode(int64_t first, int64_t count) {
    exact_.resize(static_cast<size_t>(count));
    const auto skip = static_cast<size_t>(*tensor::row_bytes(*job_.record->dtype, first));
    FL_TRY(tensor::decode_to_f32(*job_.record->dtype, bytes_.subspan(skip), exact_));
    if (std::all_of(exact_.begin(), exact_.end(), [](float value) { return std::isfinite(value); })) return ok_status();
    return invalid_data("a value is no finite number");
  }

  // exact_ is [height, width].
  void transpose(int64_t height, int64_t width) {
    std::vector<float> turned(exact_.size());
    for (int64_t r = 0; r < height; ++r) {
      for (int64_t c = 0; c < width; ++c) {
        turned[static_cast<size_t>(c * height + r)] = exact_[static_cast<size_t>(r * width + c)];
      }
    }
    exact_ = std::move(turned);
  }

  const formats::Checkpoint& checkpoint_;
  const QuantJob& job_;
  std::span<const std::byte> bytes_;
  std::vector<float> exact_;
};

class CheckpointWriter {
 public:
  CheckpointWriter(const QuantPlanner& planner, formats::SafetensorsWriter& writer,
                   const std::function<void(int64_t, int64_t)>* progress, int64_t total)
      : checkpoint_(planner.source().checkpoint), writer_(writer), progress_(progress), total_(total) {}

  Result<QuantisedTensor> write(const QuantJob& job) {
    auto written = FL_TRY((job.choice ? round(job) : copy(job)).with_context(job.record->name));
    checkpoint_.done_with(*job.record);
    return written;
  }

 private:
  Result<QuantisedTensor> copy(const QuantJob& job) {
    const auto bytes = FL_TRY(checkpoint_.bytes(*job.record));
    FL_TRY(writer_.append(job.record->name, bytes));
    advance(job.record->num_elements());
    QuantisedTensor tensor{.name = job.record->name,
                           .format = job.record->stored_type,
                           .kept_because = job.kept_because,
                           .sqnr_db = kInfinite,
                           .elements = job.record->num_elements()};
    tensor.bytes_before = tensor.bytes_after = static_cast<int64_t>(bytes.size());
    return tensor;
  }

  Result<QuantisedTensor> round(const QuantJob& job) {
    const std::string codes = job.codes_name(), scales = job.scales_name(), shape = job.shape_name();
    if (!shape.empty()) FL_TRY(writer_.append(shape, std::as_bytes(std::span(job.record->shape))));
    return TensorRounder(checkpoint_, job).run([&](const QuantisedRows& rows, int64_t elements) -> Status {
      FL_TRY(writer_.append(codes, rows.codes));
      FL_TRY(writer_.append(scales, rows.scales));
      advance(elements);
      return ok_status();
    });
  }

  void advance(int64_t elements) {
    done_ += elements;
    if (progress_ != nullptr && *progress_) (*progress_)(done_, total_);
  }

  const formats::Checkpoint& checkpoint_;
  formats::SafetensorsWriter& writer_;
  const std::function<void(int64_t, int64_t)>* progress_;  // may be null
  int64_t done_ = 0, total_ = 0;
};

std::vector<formats::TensorPlan> plans_of(const std::vector<QuantJob>& jobs, bool changed_alone) {
  std::vector<formats::TensorPlan> plans;
  for (const QuantJob& job : jobs) {
    if (changed_alone && !job.choice) continue;
    for (formats::TensorPlan& part : job.parts()) plans.push_back(std::move(part));
  }
  return plans;
}

std::string warning_of_decoded(const std::vector<QuantJob>& jobs) {
  const auto outward = [](const QuantJob& job) { return job.choice && job.inputs_in_rows && !job.gpt_oss_blocks; };
  const auto count = std::count_if(jobs.begin(), jobs.end(), outward);
  if (count == 0) return "";
  const auto first = std::find_if(jobs.begin(), jobs.end(), outward);
  return std::to_string(count) + " stacks of experts (" + first->record->name +
         " and so on) have their inputs in rows: scales go along their outputs, and loading decodes them to float32";
}

}  // namespace

Result<std::string> write_variant(const QuantPlanner& planner, const std::vector<QuantJob>& jobs,
                                  const std::string& directory) {
  auto writer = FL_TRY(formats::SafetensorsWriter::create(directory, plans_of(jobs, true), {.stem = "variant"}));
  CheckpointWriter out(planner, writer, nullptr, 0);
  for (const QuantJob& job : jobs) {
    if (job.choice) FL_TRY(out.write(job));
  }
  FL_TRY(writer.finish());
  return writer.files().at(0);
}

Result<QuantisedTensor> measure_rounding(const QuantPlanner& planner, const QuantJob& job) {
  const auto ignore = [](const QuantisedRows&, int64_t) { return ok_status(); };
  return TensorRounder(planner.source().checkpoint, job).run(ignore).with_context(job.record->name);
}

Result<QuantisedCheckpoint> quantise(const std::string& source_path, const std::string& directory,
                                     const QuantiseOptions& options) {
  const QuantSource source = FL_TRY(open_quant_source(source_path, options.intake));
  const QuantPlanner planner(source);
  const std::vector<QuantJob> jobs = FL_TRY(planner.plan(options.policy));
  FL_TRY(planner.trace(jobs).with_context("what would be written does not load"));
  auto output = FL_TRY(OutputDirectory::create(directory));
  QuantisedCheckpoint result{.warnings = source.model.warnings};
  if (std::string warning = warning_of_decoded(jobs); !warning.empty()) result.warnings.push_back(std::move(warning));
  auto writer = FL_TRY(formats::SafetensorsWriter::create(output.path(), plans_of(jobs, false),
                                                          {.max_shard_bytes = options.max_shard_bytes}));
  int64_t total = 0;
  for (const QuantJob& job : jobs) total += job.record->num_elements();
  CheckpointWriter out(planner, writer, &options.progress, total);
  for (const QuantJob& job : jobs) result.tensors.push_back(FL_TRY(out.write(job)));
  output.add(writer.files());
  FL_TRY(writer.finish());
  FL_TRY(output.write("config.json", FL_TRY(planner.config_text(jobs))));
  FL_TRY(output.copy_texts(source.files));
  result.files = output.keep();
  return result;
}

}  // namespace firstlight::adapt
