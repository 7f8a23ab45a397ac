// SPDX-License-Identifier: Apache-2.0
#include "planner/tensor_list.h"

#include <charconv>
#include <set>

#include "base/json.h"
#include "formats/safetensors.h"
#include "formats/tensor_file.h"

namespace firstlight::planner {
namespace {

constexpr int64_t kMostNumber = 1'000'000;
constexpr size_t kMostTensors = 4'000'000;

Status bad_range(std::string_view text) {
  return invalid_data("range '" + std::string(text.substr(0, 80)) +
                      "': numbers a, a-b or a-b:step, with commas between, wanted");
}

// The number at the front of `text`, which is taken off.
Result<int64_t> take_number(std::string_view& text, std::string_view whole) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0 || number > kMostNumber) return bad_range(whole);
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return number;
}

bool take(std::string_view& text, char c) {
  if (text.empty() || text.front() != c) return false;
  text.remove_prefix(1);
  return true;
}

Result<std::vector<int64_t>> parse_range(std::string_view whole) {
  std::vector<int64_t> numbers;
  std::string_view text = whole;
  do {
    const int64_t first = FL_TRY(take_number(text, whole));
    int64_t last = first, step = 1;
    if (take(text, '-')) {
      last = FL_TRY(take_number(text, whole));
      if (take(text, ':')) step = FL_TRY(take_number(text, whole));
    }
    if (step < 1 || last < first) return bad_range(whole);
    for (int64_t i = first; i <= last; i += step) numbers.push_back(i);
  } while (take(text, ','));
  return text.empty() ? Result<std::vector<int64_t>>(std::move(numbers)) : bad_range(whole);
}

// Every name with `mark` replaced by each number.
Result<std::vector<std::string>> expand(const std::vector<std::string>& names, const Json& entry, const char* key) {
  const std::string mark = std::string("{") + key + "}";
  const bool has_mark = names.front().find(mark) != std::string::npos;
  if (has_mark != entry.contains(key)) {
    return invalid_data(has_mark ? "no range " + std::string(key) : "range " + std::string(key) + " and no " + mark);
  }
  if (!has_mark) return names;
  if (!entry[key].is_string()) return invalid_data("range " + std::string(key) + " is no string");
  const auto numbers = FL_TRY(parse_range(entry[key].get_ref<const std::string&>()));
  if (numbers.size() * names.size() > kMostTensors) {
    return invalid_data(std::to_string(numbers.size() * names.size()) + " tensors, at most " +
                        std::to_string(kMostTensors) + " wanted");
  }
  std::vector<std::string> expanded;
  for (const std::string& name : names) {
    for (const int64_t number : numbers) {
      std::string one = name;
      for (size_t at = one.find(mark); at != std::string::npos; at = one.find(mark)) {
        one.replace(at, mark.size(), std::to_string(number));
      }
      expanded.push_back(std::move(one));
    }
  }
  return expanded;
}

struct Entry {
  std::vector<std::string> names;
  tensor::DType dtype = tensor::DType::kF32;
  std::vector<int64_t> shape;
  int64_t elements = 1;
  int64_t bytes = 0;  // of each
};

Status parse_shape(const Json& shape, Entry& entry) {
  if (!shape.is_array()) return invalid_data("no shape");
  for (const Json& size : shape) {
    const int64_t most = int64_t{1} << 48;
    if (!size.is_number_integer() || size.get<int64_t>() < 0 || size.get<int64_t>() > most ||
        (size.get<int64_t>() > 0 && entry.elements > most / size.get<int64_t>())) {
      return invalid_data("shape " + shape.dump() + ": whole numbers wanted, and at most 2^48 elements");
    }
    entry.shape.push_back(size.get<int64_t>());
    entry.elements *= entry.shape.back();
  }
  return ok_status();
}

Result<Entry> parse_entry(const Json& json) {
  if (!json.is_object() || !json.contains("name") || !json["name"].is_string()) return invalid_data("no name");
  Entry entry{.names = {json["name"].get<std::string>()}, .shape = {}};
  const auto parse = [&]() -> Status {
    FL_TRY(parse_shape(json.value("shape", Json()), entry));
    const Json type = json.value("dtype", Json());
    const auto dtype =
        type.is_string() ? formats::safetensors_dtype_from_name(type.get_ref<const std::string&>()) : std::nullopt;
    if (!dtype) return unsupported("type " + type.dump() + ", one of safetensors wanted");
    entry.dtype = *dtype;
    const auto& info = tensor::dtype_info(*dtype);
    if (entry.elements % info.block_elements != 0) return invalid_data("no whole blocks of " + type.dump());
    entry.bytes = entry.elements / info.block_elements * info.block_bytes;
    for (const char* key : {"L", "E"}) entry.names = FL_TRY(expand(entry.names, json, key));
    return ok_status();
  };
  FL_TRY(parse().with_context("tensor " + formats::quote_name(json["name"].get_ref<const std::string&>())));
  return entry;
}

Status check_total(const Json& list, const char* key, int64_t found) {
  if (!list.contains(key)) return ok_status();
  const Json& stated = list[key];
  if (stated.is_number_integer() && stated.get<int64_t>() == found) return ok_status();
  return invalid_data(std::string(key) + " " + stated.dump() + ": the list holds " + std::to_string(found));
}

}  // namespace

Result<TensorList> parse_tensor_list(std::string_view text) {
  const Json json = FL_TRY(parse_json(text));
  if (!json.is_object() || !json.contains("tensors") || !json["tensors"].is_array()) {
    return invalid_data("an object with an array 'tensors' wanted");
  }
  TensorList list;
  std::set<std::string, std::less<>> seen;
  for (const Json& one : json["tensors"]) {
    Entry entry = FL_TRY(parse_entry(one));
    if (list.tensors.size() + entry.names.size() > kMostTensors) {
      return invalid_data("more than " + std::to_string(kMostTensors) + " tensors");
    }
    for (std::string& name : entry.names) {
      if (!seen.insert(name).second) return invalid_data("tensor " + formats::quote_name(name) + " comes twice");
      if (list.bytes > (int64_t{1} << 60)) return invalid_data("more than 2^60 bytes");
      list.elements += entry.elements;
      list.bytes += entry.bytes;
      list.tensors.push_back({.name = std::move(name), .dtype = entry.dtype, .shape = entry.shape});
    }
  }
  FL_TRY(check_total(json, "tensor_count", static_cast<int64_t>(list.tensors.size())));
  FL_TRY(check_total(json, "element_count", list.elements));
  FL_TRY(check_total(json, "total_bytes", list.bytes));
  return list;
}

}  // namespace firstlight::planner
