// SPDX-License-Identifier: Apache-2.0
#include "align/segments.h"

#include <algorithm>
#include <map>

#include "ir/rewrite.h"
#include "ir/verify.h"

namespace firstlight::align {
namespace {

class Cutter {
 public:
  Cutter(const ir::Graph& graph, const std::vector<Tap>& taps)
      : graph_(graph), taps_(taps), runs_(find_layer_runs(graph)), run_of_(graph.nodes.size(), -1) {}

  Result<Cut> run() {
    for (size_t r = 0; r < runs_.size(); ++r) {
      for (const ir::NodeId id : runs_[r].nodes) run_of_[static_cast<size_t>(id)] = static_cast<int>(r);
    }
    join_inseparable();
    number_segments();
    find_crossings();
    for (size_t s = 0; s < cut_.segments.size(); ++s) FL_TRY(extract(s).with_context(cut_.segments[s].layer));
    return std::move(cut_);
  }

 private:
  int run_of_value(ir::ValueId id) const {
    const ir::NodeId producer = graph_.value(id).producer;
    return producer < 0 ? -1 : run_of_[static_cast<size_t>(producer)];
  }

  // last_of_[r]: the last run that must stay with r.
  void join_inseparable() {
    last_of_.resize(runs_.size());
    for (size_t r = 0; r < runs_.size(); ++r) last_of_[r] = r;
    std::map<int32_t, size_t> first_user;  // of each state
    for (size_t r = 0; r < runs_.size(); ++r) {
      for (const ir::NodeId id : runs_[r].nodes) {
        for (const ir::ValueId operand : values_used_by(graph_, id)) {
          const ir::Value& value = graph_.value(operand);
          if (value.type.is_state() && value.state >= 0) {
            const size_t first = first_user.emplace(value.state, r).first->second;
            last_of_[first] = std::max(last_of_[first], r);
          }
          const int producer = run_of_value(operand);
          if (producer >= 0 && !has_token_rows(value.type)) {
            last_of_[static_cast<size_t>(producer)] = std::max(last_of_[static_cast<size_t>(producer)], r);
          }
        }
      }
    }
  }

  void number_segments() {
    segment_of_.resize(runs_.size());
    size_t end = 0;  // the last run of the open segment
    for (size_t r = 0; r < runs_.size(); ++r) {
      if (r == 0 || r > end) {
        cut_.segments.push_back({.layer = runs_[r].layer});
        end = r;
      }
      end = std::max(end, last_of_[r]);
      segment_of_[r] = cut_.segments.size() - 1;
    }
  }

  void find_crossings() {
    for (size_t r = 0; r < runs_.size(); ++r) {
      const size_t reader = segment_of_[r];
      for (const ir::NodeId id : runs_[r].nodes) {
        for (const ir::ValueId operand : values_used_by(graph_, id)) {
          const int producer = run_of_value(operand);
          if (producer < 0 || segment_of_[static_cast<size_t>(producer)] == reader) continue;
          const auto [place, is_new] = crossing_of_.emplace(operand, cut_.crossings.size());
          if (is_new) {
            cut_.crossings.push_back({.value = operand,
                                      .name = "crossing." + std::to_string(place->second),
                                      .type = graph_.value(operand).type});
            cut_.segments[segment_of_[static_cast<size_t>(producer)]].writes.push_back(place->second);
          }
          cut_.crossings[place->second].last_reader = reader;
          auto& reads = cut_.segments[reader].reads;
          if (std::find(reads.begin(), reads.end(), place->second) == reads.end()) reads.push_back(place->second);
        }
      }
    }
    for (size_t t = 0; t < taps_.size(); ++t) {
      const int run = run_of_value(taps_[t].value);
      cut_.segments[segment_of_[static_cast<size_t>(run)]].taps.push_back(t);
    }
  }

  Status extract(size_t index) {
    Segment& segment = cut_.segments[index];
    ir::Graph piece = graph_;
    for (const size_t c : segment.reads) {
      ir::Value& value = piece.value(cut_.crossings[c].value);
      value.kind = ir::Value::Kind::kInput;
      value.name = cut_.crossings[c].name;
      value.producer = -1;
      piece.body.parameters.push_back(cut_.crossings[c].value);
    }
    std::erase_if(piece.body.nodes, [&](ir::NodeId id) {
      const int run = run_of_[static_cast<size_t>(id)];
      return run >= 0 && segment_of_[static_cast<size_t>(run)] != index;
    });
    piece.body.yields.clear();
    piece.output_names.clear();
    const auto add_output = [&](std::string name, ir::ValueId value) {
      piece.output_names.push_back(std::move(name));
      piece.body.yields.push_back(value);
    };
    for (const size_t c : segment.writes) add_output(cut_.crossings[c].name, cut_.crossings[c].value);
    for (const size_t t : segment.taps) add_output(tap_output_name(t), taps_[t].value);
    ir::eliminate_dead_code(piece);
    segment.graph = std::move(piece);
    return ir::verify(segment.graph);
  }

  const ir::Graph& graph_;
  const std::vector<Tap>& taps_;
  std::vector<LayerRun> runs_;
  std::vector<int> run_of_;  // per node; -1: it depends on weights alone, or stands in a region
  std::vector<size_t> last_of_;
  std::vector<size_t> segment_of_;  // per run
  std::map<ir::ValueId, size_t> crossing_of_;
  Cut cut_;
};

}  // namespace

Result<Cut> cut_into_segments(const ir::Graph& graph, const std::vector<Tap>& taps) {
  return Cutter(graph, taps).run();
}

std::string tap_output_name(size_t tap) { return "tap." + std::to_string(tap); }

}  // namespace firstlight::align
