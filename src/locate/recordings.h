// SPDX-License-Identifier: Apache-2.0
// What locating takes from the module below: recordings and their comparison, under their own names.
#pragma once

#include "align/compare.h"
#include "align/pack_builder.h"
#include "align/record.h"
#include "align/sketch.h"

namespace firstlight::locate {

using align::compare;
using align::Comparison;
using align::Distance;
using align::find_layer_runs;
using align::find_taps;
using align::is_plain;
using align::LayerRun;
using align::Pack;
using align::PackBuilder;
using align::Piece;
using align::PieceRunner;
using align::plan_pieces;
using align::PromptRecord;
using align::Prompts;
using align::record;
using align::record_like;
using align::RecordOptions;
using align::Resources;
using align::row_range;
using align::run_taps;
using align::RunOptions;
using align::Tap;
using align::TapInfo;
using align::TapRecord;
using align::ValueComparison;
using align::values_used_by;
using align::with_outputs;

}  // namespace firstlight::locate
