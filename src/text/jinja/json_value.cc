// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/json_value.h"

#include <algorithm>
#include <iterator>

#include "base/json.h"

namespace firstlight::text::jinja {
namespace {

bool is_role_name(std::string_view text) {
  static constexpr std::string_view kRoles[] = {"system", "user",    "assistant", "tool",        "developer",
                                                "model",  "ipython", "function",  "observation", "tool_response"};
  return std::find(std::begin(kRoles), std::end(kRoles), text) != std::end(kRoles);
}

Result<Value> convert(const Json& json, JsonTrust trust, int depth) {
  if (depth > kMaxValueDepth)
    return unsupported("JSON nested deeper than " + std::to_string(kMaxValueDepth) + " levels");
  switch (json.type()) {
    case Json::value_t::null:
    case Json::value_t::discarded:
    case Json::value_t::binary:
      return Value(None{});
    case Json::value_t::boolean:
      return Value(json.get<bool>());
    case Json::value_t::number_integer:
      return Value::integer(json.get<int64_t>());
    case Json::value_t::number_unsigned:
      return Value::integer(static_cast<Int>(json.get<uint64_t>()));
    case Json::value_t::number_float:
      return Value(json.get<double>());
    case Json::value_t::string:
      return Value::string(json.get_ref<const std::string&>(), trust.trusted);
    case Json::value_t::array: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const Json& item : json) items.push_back(FL_TRY(convert(item, trust, depth + 1)));
      return make_list(std::move(items));
    }
    case Json::value_t::object:
      break;
  }
  Dict out;
  for (const auto& [key, item] : json.items()) {
    JsonTrust inner = trust;
    const bool is_role = trust.trust_roles && key == "role" && item.is_string();
    if (is_role && is_role_name(item.get_ref<const std::string&>())) inner.trusted = true;
    out.set(Value::string(key, trust.trusted), FL_TRY(convert(item, inner, depth + 1)));
  }
  return make_dict(std::move(out));
}

}  // namespace

Result<Value> from_json(const Json& json, JsonTrust trust) { return convert(json, trust, 0); }

}  // namespace firstlight::text::jinja
