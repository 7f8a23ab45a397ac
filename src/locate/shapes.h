// SPDX-License-Identifier: Apache-2.0
// On which shapes a backend's kernel is wrong: one value's operators, cut out and fed with the reference's rows, run on
// both for prompts of other lengths, in other chunks and batches; and what its error looks like.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "locate/reproduction.h"

namespace firstlight::locate {

// One value of the backend with the operands of the reference.
class ShapeProbe {
 public:
  // `known`: values whose rows may be taken for given. Not owned; all of it must outlive this. Errors: those of cutting
  // and running.
  static Result<ShapeProbe> create(const ir::Graph& graph, const Tap& target, const std::set<ir::ValueId>& known,
                                   const std::vector<Tap>& taps, const Prompts& prompts, const Resources& reference);

  // How far a backend is off: of the worst prompt (tokens 0), or for the first tokens of the longest one alone.
  // Infinite where it does not run.
  double error(const Resources& backend, const RunOptions& run, int64_t tokens = 0) const;

  // Token counts on which it is wrong, in words: "with 1 token alone", "from 17 tokens on", "with token counts that 8
  // does not divide"; empty: on all.
  std::string lengths(const Resources& backend, double allowed, int64_t& tried) const;
  // The fewest tokens on which it is wrong; 0: on none.
  int64_t fewest_tokens(const Resources& backend, double allowed, int64_t& tried) const;

  // Where in the rows the error is.
  struct Profile {
    bool everywhere = false;  // most of what is computed is off, by about as much
    bool like_noise = false;  // and as rounding to few bits would do it
    bool one_term = false;    // or by multiples of one row: a term of the sums is left out or counted twice
    std::string where;        // "columns 60 to 63 of 64", "rows 8 to 11 of 24"; empty: all over
  };
  Profile profile(const Resources& backend, const RunOptions& run, double allowed) const;

  // Whether the error of a sum of rows is the sum of their errors: so it is where a weight is decoded wrongly, not
  // where sums are rounded. None: the value is no product of one operand.
  std::optional<bool> error_is_linear(const Resources& backend) const;

  bool reads_state() const { return reads_state_; }
  // So many tokens of the longest prompt (0: all of all), with what the reference makes of them.
  Result<Reproduction> reproduction(int64_t tokens) const;

 private:
  struct Lengths {
    std::vector<int64_t> wrong, right;
  };
  Lengths try_lengths(const Resources& backend, double allowed, int64_t& tried) const;
  Result<RowTable> reference_rows(const KnownRows& rows, const Prompts& prompts) const;
  struct Cutting {
    Prompts prompts;
    KnownRows rows;
  };
  Cutting beginning(int64_t tokens) const;
  size_t longest() const;  // tokens of a prompt

  ir::Graph cut_;
  Tap target_;
  KnownRows rows_;
  Prompts prompts_;
  const Resources* reference_ = nullptr;
  bool reads_state_ = false;
};

}  // namespace firstlight::locate
