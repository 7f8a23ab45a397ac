// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/runtime.h"

namespace firstlight::text::jinja {

Result<Value> Runtime::text(Text text) {
  if (text.size() > limits().string_bytes) {
    return unsupported("string of " + std::to_string(text.size()) + " bytes, at most " +
                       std::to_string(limits().string_bytes) + " wanted");
  }
  FL_TRY(charge(1 + text.size() / 8));
  return Value(std::move(text));
}

namespace {

std::vector<std::string_view> split_names(std::string_view names) {
  std::vector<std::string_view> out;
  while (!names.empty()) {
    const size_t end = std::min(names.find(' '), names.size());
    out.push_back(names.substr(0, end));
    names.remove_prefix(std::min(names.size(), end + 1));
  }
  return out;
}

}  // namespace

Result<Bound> Bound::bind(std::string_view function, std::string_view params, size_t required, CallArgs args) {
  const std::string who = std::string(function) + "()";
  const std::vector<std::string_view> names = split_names(params);
  Bound out;
  out.function_ = who;
  out.values_.resize(names.size());
  if (args.positional.size() > names.size()) {
    return invalid_data(who + " takes at most " + std::to_string(names.size()) + " arguments, " +
                        std::to_string(args.positional.size()) + " given");
  }
  for (size_t i = 0; i < args.positional.size(); ++i) out.values_[i] = std::move(args.positional[i]);
  for (auto& [name, value] : args.named) {
    size_t i = 0;
    while (i < names.size() && names[i] != name) ++i;
    if (i == names.size()) return invalid_data(who + " got an unexpected keyword argument '" + name + "'");
    if (out.values_[i].has_value()) return invalid_data(who + " got multiple values for argument '" + name + "'");
    out.values_[i] = std::move(value);
  }
  for (size_t i = 0; i < required; ++i) {
    if (!out.values_[i].has_value()) {
      return invalid_data(who + " missing required argument '" + std::string(names[i]) + "'");
    }
  }
  return out;
}

Result<int64_t> Bound::integer(size_t i, int64_t fallback) const {
  if (!has(i)) return fallback;
  const Value& value = *values_[i];
  if (value.is_undefined()) return invalid_data(value.undefined_message());
  if (!value.is_integral()) {
    return invalid_data(function_ + ": '" + type_name(value) + "' object cannot be interpreted as an integer");
  }
  const Int wide = value.as_int();
  if (wide > INT64_MAX || wide < INT64_MIN) return invalid_data(function_ + ": integer argument out of range");
  return static_cast<int64_t>(wide);
}

Result<std::optional<Text>> Bound::text(size_t i) const {
  if (!is_set(i)) return std::optional<Text>();
  const Value& value = *values_[i];
  if (value.is_string()) return std::optional<Text>(value.as_text());
  if (value.is_undefined()) return invalid_data(value.undefined_message());
  return invalid_data(function_ + ": a string is wanted, not '" + type_name(value) + "'");
}

Status refuse_named(std::string_view function, const CallArgs& args) {
  if (args.named.empty()) return ok_status();
  return invalid_data(std::string(function) + "() takes no keyword arguments");
}

}  // namespace firstlight::text::jinja
