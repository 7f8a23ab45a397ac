// SPDX-License-Identifier: Apache-2.0
// From token strings back to text, as a chain of stages that pass strings on as early as they can. Decoding a whole
// list and decoding it token by token run the same code, so that the joined pieces always equal the whole.
//
// A stage works on separate tokens until one of them (Fuse, ByteLevel) makes one long string of them; later stages then
// see that string in chunks. The last step replaces what is not UTF-8 by U+FFFD, one per maximal invalid subpart, and
// holds back only an incomplete valid sequence.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/status.h"
#include "text/tokenizers/regex.h"

namespace firstlight::text {

namespace dec {

struct ByteLevel {};
struct ByteFallback {};
struct Fuse {};
struct Metaspace {
  std::string replacement;
  bool strip_first = true;
};
struct WordPiece {
  std::string prefix;
  bool cleanup = true;
};
struct BpeSuffix {
  std::string suffix;
};
struct Strip {
  std::string content;
  size_t start = 0;
  size_t stop = 0;
};
struct Replace {
  std::string from;
  Regex pattern;
  bool is_regex = false;
  std::string content;
};
struct Ctc {
  std::string pad_token;
  std::string word_delimiter;
  bool cleanup = true;
};
struct JoinWithSpaces {};  // what is done where a file names no decoder

}  // namespace dec

using DecoderStep = std::variant<dec::ByteLevel, dec::ByteFallback, dec::Fuse, dec::Metaspace, dec::WordPiece,
                                 dec::BpeSuffix, dec::Strip, dec::Replace, dec::Ctc, dec::JoinWithSpaces>;

class Decoder {
 public:
  Decoder() = default;
  // Errors: kUnsupported for a stage that can not follow Fuse or ByteLevel.
  static Result<Decoder> build(std::vector<DecoderStep> steps);

  // The state of one decoding. Belongs to one thread; must not outlive its Decoder.
  struct Stage {
    size_t num_tokens = 0;  // seen so far
    std::string held;       // not passed on yet
    std::string last;       // the token before (Ctc)
    size_t stripped = 0;    // characters cut at the start (Strip after Fuse)
    bool past_start = false;
  };
  struct State {
    std::vector<Stage> stages;
    std::string bytes;  // decoded, maybe incomplete UTF-8 at the end
  };

  State begin() const;
  // Takes one token and appends the text that is certain now.
  void push(State& state, std::string_view token, std::string& out) const;
  // A token whose string is its text as it stands: past the stages, except those that work on one fused string.
  void push_raw(State& state, std::string_view token, std::string& out) const;
  // The tokens are over: appends the rest. The state is then as after begin().
  void finish(State& state, std::string& out) const;

  // The bytes the token stands for when it is neither the first nor the last one.
  std::string token_bytes(std::string_view token) const;

  // The bytes that the last of these tokens adds to a text that begins with the others.
  struct Token {
    std::string_view text;
    bool raw = false;  // as by push_raw
  };
  std::string opening_bytes(std::span<const Token> tokens) const;

  // Whether every text is its tokens' bytes joined: those of opening_bytes at the start, of token_bytes elsewhere. Not
  // where a token's text depends on the one after or on what was joined.
  bool joins_bytes() const;

 private:
  struct Item {
    DecoderStep step;
    bool fused = false;  // gets chunks of one string
  };
  void feed(State& state, size_t stage, std::string_view text) const;
  void end(State& state, size_t stage) const;
  void drain(State& state, std::string& out) const;

  std::vector<Item> items_;
};

}  // namespace firstlight::text
