// SPDX-License-Identifier: Apache-2.0
// What an answer is made of, in the order in which it was written: text, thoughts, calls and their arguments, piece by
// piece. Parts of one kind joined are the whole.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat/pattern.h"

namespace firstlight::text {

struct ChatPart {
  enum class Kind : uint8_t {
    kContent,
    kReasoning,
    kCall,       // a call begins: text is its name
    kArguments,  // of the call that began last; JSON text
    kCallEnd,    // that call is whole
  };
  Kind kind = Kind::kContent;
  std::string text;
  std::string id;  // of a kCall
};

class ChatParts {
 public:
  explicit ChatParts(std::string id_form) : id_form_(std::move(id_form)) {}

  // Empty text adds nothing; neighbours of one kind become one.
  void add(ChatPart::Kind kind, std::string_view text);
  // The id follows the form: {random} is 24 letters and digits, {random9} 9, {index} the number as written or counted,
  // {id} and {name} as written. An id that an earlier call has, or that cannot be filled, becomes a random one.
  void begin_call(const std::string& name, const Captures& captures);
  void end_call();

  std::vector<ChatPart> take();
  int64_t num_begun() const { return static_cast<int64_t>(ids_.size()); }
  int64_t num_ended() const { return num_ended_; }

 private:
  std::string id_form_;
  std::vector<ChatPart> parts_;
  std::vector<std::string> ids_;
  int64_t num_ended_ = 0;
};

}  // namespace firstlight::text
