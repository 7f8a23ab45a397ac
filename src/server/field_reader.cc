// SPDX-License-Identifier: Apache-2.0
#include "server/field_reader.h"

#include <cmath>
#include <sstream>

#include "base/json.h"

namespace firstlight::server {

std::string_view json_type_name(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return "null";
    case Json::value_t::object:
      return "an object";
    case Json::value_t::array:
      return "an array";
    case Json::value_t::string:
      return "a string";
    case Json::value_t::boolean:
      return "a boolean";
    default:
      return "a number";
  }
}

std::string number_text(double value) {
  if (value == std::floor(value) && std::abs(value) < 0x1p53) return std::to_string(static_cast<int64_t>(value));
  std::ostringstream text;
  text << value;
  return text.str();
}

FieldReader::FieldReader(const Json& object, std::string prefix) : object_(object), prefix_(std::move(prefix)) {}

void FieldReader::fail(const std::string& name, const std::string& what) { fail(bad_field(prefix_ + name, what)); }

void FieldReader::fail(ApiError error) {
  if (error_.ok()) error_ = std::move(error);
}

const Json* FieldReader::find(const std::string& name) {
  facts_.try_emplace(name);
  if (!ok()) return nullptr;
  const auto field = object_.find(name);
  return field == object_.end() || field->is_null() ? nullptr : &*field;
}

bool FieldReader::boolean(const std::string& name, bool otherwise) {
  const Json* value = find(name);
  facts_[name] = {.kind = FieldFact::Kind::kBoolean, .otherwise = otherwise ? 1.0 : 0.0, .text = {}};
  if (value == nullptr) return otherwise;
  if (value->is_boolean()) return value->get<bool>();
  fail(name, std::string(json_type_name(*value)) + ", a boolean wanted");
  return otherwise;
}

int64_t FieldReader::integer(const std::string& name, int64_t otherwise, int64_t low, int64_t high) {
  const double value =
      number(name, static_cast<double>(otherwise), static_cast<double>(low), static_cast<double>(high));
  facts_[name].kind = FieldFact::Kind::kInteger;
  if (value != std::floor(value)) {
    fail(name, number_text(value) + ", an integer wanted");
    return otherwise;
  }
  const Json* exact = find(name);
  if (exact == nullptr) return otherwise;
  return exact->is_number_integer() ? exact->get<int64_t>() : static_cast<int64_t>(value);
}

double FieldReader::number(const std::string& name, double otherwise, double low, double high) {
  const Json* value = find(name);
  facts_[name] = {.kind = FieldFact::Kind::kNumber, .otherwise = otherwise, .low = low, .high = high, .text = {}};
  if (value == nullptr) return otherwise;
  if (!value->is_number()) {
    fail(name, std::string(json_type_name(*value)) + ", a number wanted");
    return otherwise;
  }
  const double found = value->get<double>();
  if (found >= low && found <= high) return found;  // false for NaN
  fail(name, number_text(found) + ", " + number_text(low) + " to " + number_text(high) + " wanted");
  return otherwise;
}

std::string FieldReader::string(const std::string& name, const std::string& otherwise) {
  const Json* value = find(name);
  facts_[name] = {.kind = FieldFact::Kind::kString, .text = otherwise};
  if (value == nullptr) return otherwise;
  if (value->is_string()) return value->get<std::string>();
  fail(name, std::string(json_type_name(*value)) + ", a string wanted");
  return otherwise;
}

void FieldReader::accept(std::initializer_list<const char*> names) {
  for (const char* name : names) facts_[name].kind = FieldFact::Kind::kIgnored;
}

void FieldReader::accept_only(const std::string& name, const Json& value, const std::string& why) {
  const Json* found = find(name);
  facts_[name] = {.kind = FieldFact::Kind::kFixed, .text = dump_json(value)};
  if (found != nullptr && *found != value) fail(unsupported_field(prefix_ + name, why));
}

void FieldReader::refuse(std::initializer_list<const char*> names, const std::string& why) {
  for (const char* name : names) {
    const Json* found = find(name);
    facts_[name].kind = FieldFact::Kind::kRefused;
    if (found != nullptr) fail(unsupported_field(prefix_ + name, why));
  }
}

void FieldReader::finish() {
  for (const auto& [name, value] : object_.items()) {
    if (!facts_.contains(name) && !value.is_null()) fail(name.substr(0, 100), "unknown field");
  }
}

}  // namespace firstlight::server
