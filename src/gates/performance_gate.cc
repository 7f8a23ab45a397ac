// SPDX-License-Identifier: Apache-2.0
#include "gates/performance_gate.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "base/json.h"
#include "device/cpu/measure.h"
#include "gates/gates.h"
#include "kv/state_cache.h"
#include "tolerance/tolerances.h"

namespace firstlight::gates {
namespace {

std::string format(const char* pattern, auto... values) {
  char text[256];
  std::snprintf(text, sizeof(text), pattern, values...);
  return text;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// One thing that is measured of a point: time to first token, prompt or decode.
struct Series {
  std::string what;  // "ttft_s", "prompt_tps", "decode_tps"
  std::vector<double> found, floor_s, share, others;
  std::string bound;
  std::optional<double> wanted;
  bool at_most = false;
};

class Judge {
 public:
  Judge(const Meter& meter, const Targets* targets, const std::vector<TargetPoint>& points)
      : meter_(meter), targets_(targets), points_(points) {
    for (const TargetPoint& point : points) {
      series_.push_back({{.what = "ttft_s", .wanted = point.ttft_s, .at_most = true},
                         {.what = "prompt_tps", .wanted = point.prompt_tps},
                         {.what = "decode_tps", .wanted = point.decode_tps}});
    }
  }

  Result<Verdict> run() {
    const Targets usual;
    const int64_t rounds = (targets_ != nullptr ? targets_ : &usual)->rounds;
    FL_TRY(measure(rounds));
    // Neighbours only ever make it slower: before it says no, it looks a second time.
    if (!judge()) FL_TRY(measure(rounds));
    return Verdict{.passed = judge(), .summary = summary(), .evidence = dump_json(evidence())};
  }

 private:
  Status measure(int64_t rounds) {
    const int64_t decode = targets_ != nullptr ? targets_->decode_tokens : Targets().decode_tokens;
    for (int64_t round = 0; round < rounds; ++round) {
      const target::CpuRoof roof = meter_.roof ? meter_.roof() : target::CpuRoof{};
      roofs_.push_back(roof);
      for (size_t i = 0; i < points_.size(); ++i) {
        const CoreTime before = core_time();
        const BenchmarkRow row = FL_TRY(meter_.measure(points_[i], decode));
        const double others = others_share(before, core_time());
        for (Series& series : series_[i]) series.others.push_back(others);
        add(points_[i], row, roof, decode, series_[i]);
      }
    }
    return ok_status();
  }

  CoreTime core_time() const { return meter_.core_time ? meter_.core_time() : CoreTime{}; }

  void add(const TargetPoint& point, const BenchmarkRow& row, const target::CpuRoof& roof, int64_t decode,
           std::vector<Series>& series) const {
    const Floor prompt = prompt_floor(point, roof);
    const Floor step = floor_of(meter_.work({.tokens = point.batch,
                                             .outputs = point.batch,
                                             .sequences = point.batch,
                                             .depth = point.depth + point.prompt + decode / 2}),
                                roof, meter_.step_s);
    const double sequences = static_cast<double>(point.batch);
    note(series[0], row.ttft_s, row.ttft_s, prompt);
    note(series[1], row.prompt_tps, static_cast<double>(point.prompt) * sequences / row.prompt_tps,
         {prompt.seconds * sequences, prompt.step_seconds * sequences, prompt.bound});
    note(series[2], row.decode_tps, sequences / row.decode_tps, step);
  }

  static void note(Series& series, double found, double seconds, const Floor& floor) {
    series.found.push_back(found);
    series.floor_s.push_back(floor.seconds);
    series.share.push_back(seconds > 0 ? floor.seconds / seconds : 0);
    series.bound = floor.bound;
  }

  // Of one sequence, in as many runs as it takes.
  Floor prompt_floor(const TargetPoint& point, const target::CpuRoof& roof) const {
    Floor sum;
    for (int64_t at = 0; at < point.prompt; at += meter_.max_run_tokens) {
      const int64_t tokens = std::min(meter_.max_run_tokens, point.prompt - at);
      const Floor one =
          floor_of(meter_.work({.tokens = tokens, .outputs = 1, .sequences = 1, .depth = point.depth + at}), roof,
                   meter_.step_s);
      sum.seconds += one.seconds;
      sum.step_seconds += one.step_seconds;
      sum.bound = one.bound;
    }
    return sum;
  }

  // Why a share of the roof is no measure here; empty: it is one.
  std::string not_judged(const Series& series) const {
    if (!meter_.roof) return "no roof is measured on this backend";
    if (series.what == "ttft_s") return "the prompt's rate says it";
    if (median(series.floor_s) <= 0) return "the roof could not be measured";
    if (series.bound == "steps") {
      return format("starting %lld steps costs more than what they do", static_cast<long long>(steps()));
    }
    if (weight_bytes() < meter_.cache_bytes) {
      return format(
          "weights of %.1f MB lie in the caches of %.1f MB: memory is no bound, and what stands between products "
          "takes as long as they do",
          weight_bytes() / 1e6, meter_.cache_bytes / 1e6);
    }
    const double others = median(series.others);
    if (others > tolerance::kOtherWork && median(series.share) < wanted_share(series)) {
      return format("other work took %.0f %% of the cores meanwhile: measure again on an idle machine", 100 * others);
    }
    return "";
  }

  int64_t steps() const { return meter_.work({}).steps; }
  // Of all weights: so many tokens reach every expert.
  double weight_bytes() const {
    constexpr int64_t kAll = int64_t{1} << 20;
    return meter_.work({.tokens = kAll, .outputs = 1, .sequences = 1, .depth = 0}).weight_bytes;
  }

  static double wanted_share(const Series& series) {
    return series.bound == "memory" ? tolerance::kShareOfReading : tolerance::kShareOfArithmetic;
  }

  bool passes(const Series& series) const {
    if (targets_ == nullptr) return !not_judged(series).empty() || median(series.share) >= wanted_share(series);
    if (!series.wanted) return true;
    const double found = median(series.found);
    return series.at_most ? found <= *series.wanted : found >= *series.wanted;
  }

  double memory_mb() const {
    int64_t tokens = 0, sequences = 1;
    for (const TargetPoint& point : points_) {
      tokens = std::max(tokens, point.depth + point.prompt + (targets_ != nullptr ? targets_->decode_tokens : 0));
      sequences = std::max(sequences, point.batch);
    }
    return meter_.memory_bytes ? meter_.memory_bytes(tokens, sequences) / 1e6 : 0;
  }
  bool memory_passes() const {
    return targets_ == nullptr || !targets_->memory_mb || memory_mb() <= *targets_->memory_mb;
  }

  bool judge() const {
    for (const auto& all : series_) {
      for (const Series& series : all) {
        if (!passes(series)) return false;
      }
    }
    return memory_passes();
  }

  static std::string name(const TargetPoint& point) {
    return format("prompt %lld, depth %lld, batch %lld", static_cast<long long>(point.prompt),
                  static_cast<long long>(point.depth), static_cast<long long>(point.batch));
  }

  std::string summary() const {
    std::string text, wrong;
    for (size_t i = 0; i < points_.size(); ++i) {
      const auto& all = series_[i];
      if (i == 0) {
        text = format("%s: first token after %.3f s, prompt %.0f tokens/s, decode %.1f tokens/s",
                      name(points_[i]).c_str(), median(all[0].found), median(all[1].found), median(all[2].found));
        if (meter_.roof)
          text += format(" (%.0f %% and %.0f %% of the roof)", 100 * median(all[1].share), 100 * median(all[2].share));
      }
      for (const Series& series : all) {
        if (passes(series)) continue;
        wrong += (wrong.empty() ? "" : "; ") + name(points_[i]) + ": ";
        if (targets_ != nullptr) {
          wrong += format("%s %.4g, %s %.4g wanted", series.what.c_str(), median(series.found),
                          series.at_most ? "at most" : "at least", *series.wanted);
        } else {
          wrong +=
              format("%s %.4g is %.1f %% of the roof (%s), %.0f %% wanted", series.what.c_str(), median(series.found),
                     100 * median(series.share), series.bound.c_str(), 100 * wanted_share(series));
        }
      }
    }
    if (!memory_passes())
      wrong += (wrong.empty() ? "" : "; ") +
               format("memory %.1f MB, at most %.1f wanted", memory_mb(), *targets_->memory_mb);
    if (!wrong.empty()) return wrong;
    if (targets_ == nullptr && !points_.empty()) {
      std::string first;
      for (const Series& series : series_[0]) {
        const std::string why = series.what == "ttft_s" ? "" : not_judged(series);
        if (why.empty() || why == first) continue;
        text += "; " + series.what + " not judged: " + why;
        first = why;
      }
    }
    return points_.empty() ? format("memory %.1f MB", memory_mb()) : text;
  }

  Json series_json(const Series& series) const {
    Json json = {
        {"what", series.what}, {"found", median(series.found)}, {"rounds", series.found}, {"passed", passes(series)}};
    if (meter_.roof) {
      json["share"] = median(series.share);
      json["shares"] = series.share;
      json["floor_s"] = median(series.floor_s);
      json["bound"] = series.bound;
    }
    if (targets_ != nullptr) {
      json["wanted"] = series.wanted ? Json(*series.wanted) : Json();
      json["judged"] = series.wanted.has_value();
      return json;
    }
    const std::string why = not_judged(series);
    json["judged"] = why.empty();
    if (why.empty()) {
      json["wanted_share"] = wanted_share(series);
    } else {
      json["why"] = why;
    }
    return json;
  }

  Json evidence() const {
    Json list = Json::array();
    for (size_t i = 0; i < points_.size(); ++i) {
      Json figures = Json::array();
      for (const Series& series : series_[i]) figures.push_back(series_json(series));
      list.push_back({{"prompt", points_[i].prompt},
                      {"depth", points_[i].depth},
                      {"batch", points_[i].batch},
                      {"figures", std::move(figures)}});
    }
    Json json = {{"judged_by", targets_ != nullptr ? "targets" : "share of the measured roof"},
                 {"points", std::move(list)},
                 {"steps", steps()},
                 {"generated_steps", meter_.generated_steps},
                 {"step_s", meter_.step_s},
                 {"weight_bytes", weight_bytes()},
                 {"memory_mb", memory_mb()}};
    if (targets_ != nullptr && targets_->memory_mb) json["wanted_memory_mb"] = *targets_->memory_mb;
    if (meter_.roof) json["roof"] = roof_json();
    return json;
  }

  Json roof_json() const {
    const auto of = [&](auto member) {
      std::vector<double> values;
      for (const target::CpuRoof& roof : roofs_) values.push_back(roof.*member);
      return median(values);
    };
    return {{"read_gbps", of(&target::CpuRoof::read_gbps)},
            {"f32_tflops", of(&target::CpuRoof::f32_tflops)},
            {"bf16_tflops", of(&target::CpuRoof::bf16_tflops)},
            {"int8_tops", of(&target::CpuRoof::int8_tops)},
            {"rounds", roofs_.size()}};
  }

  const Meter& meter_;
  const Targets* targets_;
  const std::vector<TargetPoint>& points_;
  std::vector<std::vector<Series>> series_;  // per point
  std::vector<target::CpuRoof> roofs_;
};

// What one step costs that does nothing: two meetings of all workers.
double measure_step(ThreadPool& pool) {
  constexpr int kTimes = 2000;
  const auto start = std::chrono::steady_clock::now();
  pool.run([](Worker& worker) {
    for (int i = 0; i < kTimes; ++i) worker.barrier();
  });
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / kTimes;
}

// A prompt of usual length, as far as the model's positions reach.
std::vector<TargetPoint> usual_points(const adapt::LoadedModel& loaded) {
  const int64_t room = loaded.context() - Targets().decode_tokens;
  return {{.prompt = std::clamp<int64_t>(room, 1, 512), .ttft_s = {}, .prompt_tps = {}, .decode_tps = {}}};
}

Status check_points(const adapt::LoadedModel& loaded, const Targets& targets) {
  for (size_t i = 0; i < targets.points.size(); ++i) {
    const TargetPoint& point = targets.points[i];
    const int64_t length = point.depth + point.prompt + targets.decode_tokens;
    if (loaded.model.max_positions && length > *loaded.model.max_positions) {
      return invalid_argument("point " + std::to_string(i + 1) + ": depth, prompt and decode_tokens are " +
                              std::to_string(length) + " tokens, at most the model's " +
                              std::to_string(*loaded.model.max_positions) + " positions wanted");
    }
  }
  return ok_status();
}

}  // namespace

Result<Verdict> judge_performance(const Meter& meter, const Targets* targets, const std::vector<TargetPoint>& points) {
  return Judge(meter, targets, points).run();
}

Result<Verdict> performance_gate(Candidate& candidate) {
  const adapt::LoadedModel& loaded = candidate.loaded;
  runtime::Executor& executor = *loaded.executor;
  std::optional<Targets> targets;
  if (!candidate.options.targets.empty()) {
    targets = FL_TRY(read_targets(candidate.options.targets));
    FL_TRY(check_points(loaded, *targets).with_context(candidate.options.targets));
  }
  Meter meter;
  meter.measure = [&](const TargetPoint& point, int64_t decode_tokens) -> Result<BenchmarkRow> {
    const auto rows = FL_TRY(benchmark(executor, {.prompts = {point.prompt},
                                                  .depths = {point.depth},
                                                  .batches = {point.batch},
                                                  .decode_tokens = decode_tokens}));
    return rows[0];
  };
  meter.work = [&](const RunShape& shape) { return work_of(executor.plan(), shape); };
  if (loaded.device == nullptr && executor.plan().backend != "reference") {  // the roof is the CPU's
    meter.roof = [&] { return device::measure_cpu(candidate.target, *loaded.pool); };
    meter.step_s = measure_step(*loaded.pool);
  }
  meter.core_time = [] { return core_time(); };
  meter.cache_bytes = static_cast<double>(candidate.target.l3_bytes + candidate.target.l2_bytes);
  meter.max_run_tokens = executor.max_batch_tokens();
  const auto cache = FL_TRY(kv::StateCache::create(executor.plan().states, {}));
  meter.memory_bytes = [&](int64_t tokens, int64_t sequences) {
    const runtime::MemoryUse& use = executor.memory();
    return static_cast<double>(use.mapped_bytes + use.resident_bytes + use.arena_bytes + use.workspace_bytes +
                               sequences * cache.bytes_for_length(tokens));
  };
  const auto own = usual_points(loaded);
  meter.generated_steps = executor.num_generated_steps();
  return judge_performance(meter, targets ? &*targets : nullptr, targets ? targets->points : own);
}

}  // namespace firstlight::gates
