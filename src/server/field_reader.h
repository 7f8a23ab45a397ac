// SPDX-License-Identifier: Apache-2.0
// Reads the fields of a JSON object from outside: each call states the field's type and range, null counts as absent,
// and the first fault is kept with the field's name. After a fault all further calls give defaults, so that a parser is
// a straight list. finish() refuses what nobody asked about. What was asked about is kept (facts()), so that a test can
// hold the documentation against it.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>

#include "base/json_fwd.h"
#include "server/api_error.h"

namespace firstlight::server {

// How a field was asked for.
struct FieldFact {
  enum class Kind : uint8_t { kAny, kBoolean, kInteger, kNumber, kString, kIgnored, kFixed, kRefused };
  Kind kind = Kind::kAny;
  double otherwise = 0, low = 0, high = 0;  // of numbers; of booleans `otherwise` alone
  std::string text;                         // of strings: what is taken for absent; kFixed: the one value, as JSON
};

class FieldReader {
 public:
  // `object` must outlive the reader and be an object; `prefix` goes in front of the names in messages.
  FieldReader(const Json& object, std::string prefix = "");

  const Json* find(const std::string& name);  // nullptr when absent or null
  bool boolean(const std::string& name, bool otherwise);
  int64_t integer(const std::string& name, int64_t otherwise, int64_t low, int64_t high);  // 3.0 is an integer too
  double number(const std::string& name, double otherwise, double low, double high);
  std::string string(const std::string& name, const std::string& otherwise);

  // Fields that may be there and change nothing.
  void accept(std::initializer_list<const char*> names);
  // A field that may only say what happens anyway.
  void accept_only(const std::string& name, const Json& value, const std::string& why);
  void refuse(std::initializer_list<const char*> names, const std::string& why);
  // Every field that was neither read nor accepted is an error.
  void finish();

  const std::map<std::string, FieldFact, std::less<>>& facts() const { return facts_; }

  bool ok() const { return error_.ok(); }
  const ApiError& error() const { return error_; }
  void fail(const std::string& name, const std::string& what);
  void fail(ApiError error);

 private:
  const Json& object_;
  std::string prefix_;
  std::map<std::string, FieldFact, std::less<>> facts_;
  ApiError error_;
};

// "a string", "an array", …, for messages.
std::string_view json_type_name(const Json& value);

// A number in a few words for a message.
std::string number_text(double value);

}  // namespace firstlight::server
