// SPDX-License-Identifier: Apache-2.0
#include "gates/layer_gate.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "adapt/model_options.h"
#include "align/rounding.h"
#include "base/json.h"
#include "gates/layer_kinds.h"
#include "gates/segment_run.h"
#include "tolerance/tolerances.h"

namespace firstlight::gates {
namespace {

constexpr int64_t kLong = 24, kShort = 11, kChunk = 7;  // tokens of the two prompts, and of a chunk

// A value that leaves a piece.
struct Output {
  std::string name;   // as the piece has it
  std::string value;  // as people know it
  tensor::Type type;
};

struct Pieces {
  const char* name;
  std::vector<std::vector<align::Piece>> batches;
};

// Rows of one value where some decision (a router's, an indexer's) came out otherwise: [prompt][row].
using Turned = std::set<std::pair<size_t, int64_t>>;

struct ValueVerdict {
  std::string value;
  double found = 0, rounding = 0, beyond = 0, allowed = 0;
  double worst_row = 0, row_allowed = 0;
  int64_t worst_row_id = -1;
  size_t prompt = 0;
  double turned = 0;  // of integers: share of the rows
  bool passed = true;
};

int64_t width_of(const tensor::Type& type) {
  int64_t width = 1;
  for (size_t i = 1; i < type.shape.size(); ++i) width *= type.shape[i].factor;
  return width;
}

template <typename T>
std::span<const T> row(const std::vector<std::byte>& bytes, int64_t index, int64_t width) {
  return {reinterpret_cast<const T*>(bytes.data()) + index * width, static_cast<size_t>(width)};
}

int64_t rows_in(const std::vector<std::byte>& bytes, int64_t width) {
  return width == 0 ? 0 : static_cast<int64_t>(bytes.size()) / (4 * width);
}

// Distances of one value's rows on two sides, of those that count.
struct RowDistances {
  std::vector<std::vector<double>> squares;  // [prompt][row], of the difference
  std::vector<std::vector<double>> norms;    // of the first side
  double total = 0;                          // relative L2
  double usual = 0;                          // mean squared norm of a row
  bool finite = true;
};

RowDistances distances(const PromptRows& wanted, const PromptRows& found, int64_t width, const Turned& turned) {
  RowDistances out;
  double difference = 0, norm = 0, count = 0;
  for (size_t p = 0; p < wanted.size(); ++p) {
    auto& squares = out.squares.emplace_back();
    auto& norms = out.norms.emplace_back();
    for (int64_t r = 0; r < rows_in(wanted[p], width); ++r) {
      const auto a = row<float>(wanted[p], r, width), b = row<float>(found[p], r, width);
      double square = 0, size = 0;
      for (size_t i = 0; i < a.size(); ++i) {
        const auto x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
        if (!std::isfinite(x) || !std::isfinite(y)) {
          const bool same = x == y || (std::isnan(x) && std::isnan(y));
          if (!same && !turned.contains({p, r})) out.finite = false;
          continue;
        }
        square += (x - y) * (x - y);
        size += x * x;
      }
      squares.push_back(square);
      norms.push_back(size);
      if (turned.contains({p, r})) continue;
      difference += square;
      norm += size;
      count += 1;
    }
  }
  out.total = difference == 0 ? 0 : std::sqrt(difference / std::max(norm, 1e-300));
  out.usual = count > 0 ? norm / count : 0;
  return out;
}

// Against the larger of its own norm and a tenth of the usual one.
double of_row(const RowDistances& d, size_t p, size_t r) {
  return d.squares[p][r] == 0 ? 0 : std::sqrt(d.squares[p][r] / std::max({d.norms[p][r], d.usual / 100, 1e-300}));
}

class LayerGate {
 public:
  LayerGate(Candidate& candidate, const ir::Graph* tested)
      : candidate_(candidate),
        graph_(candidate.loaded.model.graph),
        tested_graph_(tested == nullptr ? graph_ : *tested),
        tested_(resources(candidate, candidate.bring_up)),
        reference_(resources(candidate, reference_options({}))),
        rounded_(resources(candidate, reference_options(tested_.compile.state_dtype))) {}

  Result<Verdict> run() {
    FL_TRY(prepare());
    for (size_t s = 0; s <= last_needed_; ++s) FL_TRY(visit(s).with_context(cut_.segments[s].layer));
    return verdict();
  }

 private:
  Status prepare() {
    for (align::Tap& tap : align::find_taps(graph_, true)) {
      const bool is_output =
          std::find(graph_.output_names.begin(), graph_.output_names.end(), tap.name) != graph_.output_names.end();
      if (is_output || tap.type.dtype == tensor::DType::kI32) taps_.push_back(std::move(tap));
    }
    cut_ = FL_TRY(align::cut_into_segments(graph_, taps_));
    tested_cut_ = FL_TRY(align::cut_into_segments(tested_graph_, taps_));
    if (cut_.segments.size() != tested_cut_.segments.size())
      return internal_error("the tested graph has other layers than the model");
    kinds_ = layer_kinds(cut_);
    for (const LayerKind& kind : kinds_) last_needed_ = std::max(last_needed_, kind.segments[0]);
    for (const align::Tap& tap : align::find_taps(graph_, true)) names_[tap.value] = tap.name;
    make_prompts();
    return ok_status();
  }

  void make_prompts() {
    int64_t vocab = 2;
    for (size_t i = 0; i < graph_.output_names.size(); ++i) {
      if (graph_.output_names[i] == "logits") vocab = graph_.value(graph_.body.yields[i]).type.shape.back().factor;
    }
    uint64_t seed = 42;
    const int64_t context = candidate_.loaded.context();
    for (const int64_t wanted : {kLong, kShort}) {
      auto& prompt = prompts_.emplace_back();
      for (int64_t i = 0; i < std::min(wanted, context); ++i) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        prompt.push_back(static_cast<int32_t>((seed >> 33) % static_cast<uint64_t>(vocab)));
      }
    }
    modes_ = {{"prefill", align::plan_pieces(prompts_, 0, false)},
              {"chunked", align::plan_pieces(prompts_, kChunk, true)},
              {"decode", align::plan_pieces(prompts_, 1, true)}};
  }

  static align::Resources resources(const Candidate& candidate, const adapt::BringUpOptions& options) {
    const bool generates = options.generated != runtime::GeneratedMode::kOff;
    return {.checkpoint = candidate.loaded.checkpoint.get(),
            .pool = candidate.loaded.pool.get(),
            .compile = adapt::compile_options(options, candidate.target, candidate.loaded.model.graph),
            .executor = {.device = catalog::is_device(options.backend) ? options.device : nullptr,
                         .generated = generates ? runtime::GeneratedMode::kCached : runtime::GeneratedMode::kOff,
                         .cache_dir = options.cache_dir,
                         .host_compiler = options.host_compiler,
                         .fault = options.fault}};
  }

  static adapt::BringUpOptions reference_options(std::optional<tensor::DType> state) {
    adapt::BringUpOptions options;
    options.backend = catalog::Backend::kReference;
    options.state_dtype = state;
    return options;
  }

  // Runs a layer on the reference backend for those behind it, and holds it against the others where it stands for a
  // kind.
  Status visit(size_t s) {
    const align::Segment& segment = cut_.segments[s];
    if (segment.graph.body.yields.empty()) return ok_status();
    ValueRows inputs;
    for (const size_t c : segment.reads) inputs[cut_.crossings[c].name] = crossings_.at(c);
    auto wanted = FL_TRY(run_segment({segment.graph, prompts_, modes_[0].batches, inputs, reference_}));
    const auto kind =
        std::find_if(kinds_.begin(), kinds_.end(), [&](const LayerKind& k) { return k.segments[0] == s; });
    if (kind != kinds_.end()) FL_TRY(judge(s, *kind, inputs, wanted));
    for (const size_t c : segment.writes) crossings_[c] = std::move(wanted[cut_.crossings[c].name]);
    std::erase_if(crossings_, [&](const auto& entry) { return cut_.crossings[entry.first].last_reader <= s; });
    return ok_status();
  }

  std::vector<Output> outputs_of(const align::Segment& segment) const {
    std::vector<Output> out;
    for (const size_t t : segment.taps) out.push_back({align::tap_output_name(t), taps_[t].name, taps_[t].type});
    for (const size_t c : segment.writes) {
      const auto known = names_.find(cut_.crossings[c].value);
      out.push_back({cut_.crossings[c].name, known == names_.end() ? cut_.crossings[c].name : known->second,
                     cut_.crossings[c].type});
    }
    // Decisions first: rows that they turn do not count in the rest.
    std::stable_sort(out.begin(), out.end(), [](const Output& a, const Output& b) {
      return (a.type.dtype == tensor::DType::kI32) > (b.type.dtype == tensor::DType::kI32);
    });
    return out;
  }

  Status judge(size_t s, const LayerKind& kind, const ValueRows& inputs, const ValueRows& wanted) {
    const align::Segment& segment = cut_.segments[s];
    const ir::Graph rounds = FL_TRY(align::with_rounded_products(segment.graph, tested_.compile));
    const auto rounded = FL_TRY(run_segment({rounds, prompts_, modes_[0].batches, inputs, rounded_}));
    Json modes = Json::array();
    for (const Pieces& mode : modes_) {
      const auto found = FL_TRY(run_segment({tested_cut_.segments[s].graph, prompts_, mode.batches, inputs, tested_})
                                    .with_context(mode.name));
      modes.push_back(hold(kind, mode.name, outputs_of(segment), {wanted, rounded, found}));
    }
    Json layers = Json::array();
    for (const size_t other : kind.segments) layers.push_back(cut_.segments[other].layer);
    evidence_.push_back({{"layer", kind.name},
                         {"stands_for", std::move(layers)},
                         {"operators", segment.graph.nodes.size()},
                         {"modes", std::move(modes)}});
    return ok_status();
  }

  struct Sides {
    const ValueRows &wanted, &rounded, &found;
  };

  Json hold(const LayerKind& kind, const char* mode, const std::vector<Output>& outputs, const Sides& sides) {
    Json values = Json::array();
    Turned turned;
    bool passed = true;
    for (const Output& output : outputs) {
      if (!sides.wanted.contains(output.name)) continue;
      const bool is_integer = output.type.dtype == tensor::DType::kI32;
      const ValueVerdict v = is_integer ? hold_integers(output, sides, turned) : hold_floats(output, sides, turned);
      passed = passed && v.passed;
      worst_ = std::max(worst_, v.allowed > 0 ? std::max(v.found, v.turned) / v.allowed : 0);
      if (!v.passed && failure_.empty()) {
        char text[200];
        std::snprintf(text, sizeof(text),
                      "%s off by %.2e (rounding explains %.2e), row %lld of prompt %zu by %.2e (%.2e)", v.value.c_str(),
                      std::max(v.found, v.turned), v.allowed, static_cast<long long>(v.worst_row_id), v.prompt,
                      v.worst_row, v.row_allowed);
        failure_ = kind.name + ", " + mode + ": " + text;
      }
      Json line = {{"value", v.value}, {"passed", v.passed}, {"allowed", v.allowed}};
      if (is_integer) {
        line["turned_rows"] = v.turned;
      } else {
        line.update({{"rel_l2", v.found},
                     {"rounding", v.rounding},
                     {"beyond_rounding", v.beyond},
                     {"worst_row", v.worst_row},
                     {"worst_row_allowed", v.row_allowed},
                     {"worst_row_at", {v.prompt, v.worst_row_id}}});
      }
      values.push_back(std::move(line));
    }
    return {{"mode", mode}, {"passed", passed}, {"rows_left_out", turned.size()}, {"values", std::move(values)}};
  }

  static ValueVerdict hold_integers(const Output& output, const Sides& sides, Turned& turned) {
    ValueVerdict v{.value = output.value};
    const int64_t width = width_of(output.type);
    const PromptRows& wanted = sides.wanted.at(output.name);
    double rows = 0, by_rounding = 0;
    const auto same = [&](const PromptRows& side, size_t p, int64_t r) {
      const auto a = row<int32_t>(wanted[p], r, width), b = row<int32_t>(side[p], r, width);
      return std::multiset<int32_t>(a.begin(), a.end()) == std::multiset<int32_t>(b.begin(), b.end());
    };
    for (size_t p = 0; p < wanted.size(); ++p) {
      for (int64_t r = 0; r < rows_in(wanted[p], width); ++r) {
        if (turned.contains({p, r})) continue;
        rows += 1;
        const bool is_same = same(sides.found.at(output.name), p, r);
        const bool rounds_so = same(sides.rounded.at(output.name), p, r);
        v.turned += is_same ? 0 : 1;
        by_rounding += rounds_so ? 0 : 1;
        if (!is_same || !rounds_so) turned.insert({p, r});
      }
    }
    v.turned /= std::max(rows, 1.0);
    v.allowed = tolerance::kTurnedRows + 2 * by_rounding / std::max(rows, 1.0);
    v.passed = v.turned <= v.allowed;
    return v;
  }

  static ValueVerdict hold_floats(const Output& output, const Sides& sides, const Turned& turned) {
    ValueVerdict v{.value = output.value};
    const int64_t width = width_of(output.type);
    const PromptRows& wanted = sides.wanted.at(output.name);
    const auto found = distances(wanted, sides.found.at(output.name), width, turned);
    const auto rounding = distances(wanted, sides.rounded.at(output.name), width, turned);
    const auto beyond = distances(sides.rounded.at(output.name), sides.found.at(output.name), width, turned);
    v.found = found.total;
    v.rounding = rounding.total;
    v.beyond = beyond.total;
    v.allowed = tolerance::explained_by(rounding.total);
    v.passed = found.finite && v.found <= v.allowed && v.beyond <= tolerance::apart_from_rounded(rounding.total);
    double worst = 0;
    for (size_t p = 0; p < wanted.size(); ++p) {
      for (size_t r = 0; r < found.squares[p].size(); ++r) {
        if (turned.contains({p, static_cast<int64_t>(r)})) continue;
        const double own = of_row(found, p, r);
        const double allowed = tolerance::row_explained_by(std::max(of_row(rounding, p, r), rounding.total));
        if (own / allowed <= worst) continue;
        worst = own / allowed;
        v.worst_row = own;
        v.row_allowed = allowed;
        v.worst_row_id = static_cast<int64_t>(r);
        v.prompt = p;
      }
    }
    v.passed = v.passed && worst <= 1;
    return v;
  }

  Result<Verdict> verdict() {
    size_t layers = 0;
    for (const LayerKind& kind : kinds_) layers += kind.segments.size();
    char worst[64];
    std::snprintf(worst, sizeof(worst), "worst distance %.2f of what rounding explains", worst_);
    Verdict out;
    out.passed = failure_.empty();
    out.summary = out.passed ? std::to_string(kinds_.size()) + " kinds of " + std::to_string(layers) +
                                   " layers, prefill, chunked and decode, " + worst
                             : failure_;
    out.evidence = dump_json({{"judge", "the reference backend on the same inputs, in float32 and rounded"},
                              {"kinds", evidence_},
                              {"prompt_tokens", {prompts_[0].size(), prompts_[1].size()}},
                              {"chunk", kChunk},
                              {"sampled", "one layer of each kind, the first; two prompts of drawn tokens"}});
    return out;
  }

  Candidate& candidate_;
  const ir::Graph& graph_;
  const ir::Graph& tested_graph_;
  const align::Resources tested_, reference_, rounded_;
  std::vector<align::Tap> taps_;
  align::Cut cut_, tested_cut_;
  std::vector<LayerKind> kinds_;
  size_t last_needed_ = 0;
  std::map<ir::ValueId, std::string> names_;
  align::Prompts prompts_;
  std::vector<Pieces> modes_;
  std::map<size_t, PromptRows> crossings_;
  Json evidence_ = Json::array();
  std::string failure_;
  double worst_ = 0;
};

}  // namespace

Result<Verdict> layer_gate(Candidate& candidate, const ir::Graph* tested) { return LayerGate(candidate, tested).run(); }
Result<Verdict> layer_gate(Candidate& candidate) { return layer_gate(candidate, nullptr); }

}  // namespace firstlight::gates
