// SPDX-License-Identifier: Apache-2.0
// A graph cut into pieces that run one after the other, each with its own weights and states alone: what recording a
// model larger than memory needs, and what runs a suspect with another's inputs. Pieces are layers; layers that share a
// state, or hand on something that has no row per token, stay together.
#pragma once

#include <string>
#include <vector>

#include "align/taps.h"
#include "ir/graph.h"

namespace firstlight::align {

// A value that one piece makes and later ones read.
struct Crossing {
  ir::ValueId value = -1;  // of the whole graph
  std::string name;        // as input and as output of pieces
  tensor::Type type;
  size_t last_reader = 0;  // piece
};

struct Segment {
  std::string layer;           // of its first node
  ir::Graph graph;             // inputs: the batch's, then `reads`; outputs: `writes`, then `taps`
  std::vector<size_t> reads;   // crossings
  std::vector<size_t> writes;  // crossings
  std::vector<size_t> taps;    // of those asked for; output name: tap_output_name()
};

struct Cut {
  std::vector<Segment> segments;
  std::vector<Crossing> crossings;
};

// Errors: kInternal when a piece is no legal graph.
Result<Cut> cut_into_segments(const ir::Graph& graph, const std::vector<Tap>& taps);

std::string tap_output_name(size_t tap);

}  // namespace firstlight::align
