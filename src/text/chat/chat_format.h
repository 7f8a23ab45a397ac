// SPDX-License-Identifier: Apache-2.0
// How a model writes its thoughts and its tool calls: data, from the files of chat_formats/ (embedded in the program)
// or one of the user's. Which of them a model follows is told by its chat template and its tokens; calls and thoughts
// are looked for apart, so that a file need not state both. docs/chat_formats.md describes the files.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/chat/pattern.h"

namespace firstlight::text {

class Tokenizer;

struct EmbeddedFile {
  std::string_view path;  // "hermes.toml"
  std::string_view text;
};
// Generated from chat_formats/ by cmake/embed_specs.cmake.
const std::vector<EmbeddedFile>& embedded_files();

struct ThinkingMarks {
  std::string open, close;
  bool anywhere = false;  // not at the beginning of an answer alone
};

struct CallSyntax {
  std::vector<std::string> begin, end;  // around all calls of an answer; empty: nothing is
  std::vector<Pattern> calls;           // one call (or a list of them); the first is how it should be written
  std::optional<Pattern> parameter;     // one of {parameters}
  std::string between;                  // what may separate calls besides white space
  std::vector<std::string> name_keys, argument_keys;  // of {call} and {calls}
  bool keyed = false;                                 // {call} is {"name": {arguments}}
  std::string quote;                                  // around the strings of {loose}
  std::string id;                                     // how ids are made
  bool ends_thinking = false;                         // calls are looked for in thoughts too, and end them
};

struct ChatFormat {
  std::string name;  // of the files it comes from, "hermes+think"; "" when nothing was recognised
  std::vector<ThinkingMarks> thinking;
  std::vector<Pattern> dropped;         // marks without a meaning of their own
  std::vector<std::string> prompt_end;  // what ends a prompt and is the beginning of an answer's first mark
  // How an answer should be written (text/chat/answer_structure.h): around its text, in front of its calls, and behind
  // its thoughts.
  std::string text_begin, text_end, before_calls, after_thinking;
  std::optional<CallSyntax> calls;
  // Template variables that take "low", "medium", …, and those that turn thinking on and off; a model knows a few of
  // them at most, which only its prompts tell.
  std::vector<std::string> effort_levels, effort_switches;

  // The end of a prompt that the answer goes on from: an opened mark of thoughts, or a prompt_end. `prompt` is trusted
  // text of the template.
  std::string_view open_end(std::string_view prompt) const;
  // The mark that ends the thoughts which that prompt leaves open; "" where it opens none.
  std::string_view open_thought(std::string_view prompt) const;

  // The special tokens that are a piece of a mark, so that they have to be seen though special tokens are left out of
  // the text. `calls`: whether calls are looked for.
  std::vector<int32_t> special_marks(const Tokenizer& tokenizer, bool with_calls) const;
};

// What a format file says.
struct ChatFormatFile {
  struct Clue {
    std::vector<std::string> template_marks, token_marks;  // all of them must be there
  };
  ChatFormat format;
  std::vector<Clue> clues;  // any of them will do
};

// Errors: kInvalidData with the file's name and what is wrong, unknown keys included.
Result<ChatFormatFile> read_chat_format(std::string_view toml, const std::string& name);

// The shipped ones, in alphabetical order.
Result<std::vector<ChatFormatFile>> shipped_chat_formats();

// What is known of a model.
struct ChatFormatClues {
  std::string_view template_text;        // of the chat template; "" when there is none
  const Tokenizer* tokenizer = nullptr;  // may be null
};

// Of the files whose marks are all there, the one that states calls and has most marks; the same for thoughts. Files
// that state several pairs of marks of thoughts give the pairs that are there.
ChatFormat recognise_chat_format(const std::vector<ChatFormatFile>& files, const ChatFormatClues& clues);

// A file of the user's whatever it is recognised by, its thoughts (if it states none) recognised.
ChatFormat forced_chat_format(const ChatFormatFile& file, const std::vector<ChatFormatFile>& files,
                              const ChatFormatClues& clues);

}  // namespace firstlight::text
