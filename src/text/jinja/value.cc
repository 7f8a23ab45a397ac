// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/value.h"

#include <algorithm>
#include <cmath>

#include "text/jinja/callable.h"
#include "text/unicode.h"

namespace firstlight::text::jinja {

Value Value::undefined(std::string message) {
  Value out;
  out.data_ = Undefined{std::make_shared<const std::string>(std::move(message))};
  return out;
}

std::string Value::undefined_message() const {
  const auto& message = std::get<Undefined>(data_).message;
  return message == nullptr ? "value is undefined" : *message;
}

const Value* Dict::find(std::string_view key) const {
  const auto it = string_index.find(std::string(key));
  return it == string_index.end() ? nullptr : &entries[it->second].second;
}

const Value* Dict::find(const Value& key) const {
  if (key.is_string()) return find(key.as_view());
  for (const auto& [k, v] : entries) {
    if (!k.is_string() && equals(k, key)) return &v;
  }
  return nullptr;
}

void Dict::set(const Value& key, Value value) {
  if (key.is_string()) {
    const auto [it, is_new] = string_index.try_emplace(std::string(key.as_view()), entries.size());
    if (!is_new) {
      entries[it->second].second = std::move(value);
      return;
    }
  } else {
    for (auto& [k, v] : entries) {
      if (k.is_string() || !equals(k, key)) continue;
      v = std::move(value);
      return;
    }
  }
  entries.emplace_back(key, std::move(value));
}

namespace {

Status check_size(int depth, uint64_t weight) {
  if (depth > kMaxValueDepth) {
    return unsupported("value nested deeper than " + std::to_string(kMaxValueDepth) + " levels");
  }
  if (weight > kMaxValueWeight)
    return unsupported("value with more than " + std::to_string(kMaxValueWeight) + " parts");
  return ok_status();
}

}  // namespace

uint64_t value_weight(const Value& value) {
  switch (value.kind()) {
    case Kind::kString:
      return 1 + value.as_text().size();
    case Kind::kSequence:
      return value.as_sequence()->weight;
    case Kind::kDict:
      return value.as_dict()->weight;
    default:
      return 1;
  }
}

int value_depth(const Value& value) {
  switch (value.kind()) {
    case Kind::kSequence:
      return value.as_sequence()->depth;
    case Kind::kDict:
      return value.as_dict()->depth;
    case Kind::kCallable:
      return 1 + value_depth(value.as_callable()->self);
    default:
      return 0;
  }
}

Result<Value> make_sequence(SequenceKind kind, std::vector<Value> items) {
  auto out = std::make_shared<Sequence>();
  out->kind = kind;
  for (const Value& item : items) {
    out->depth = std::max(out->depth, value_depth(item) + 1);
    out->weight += value_weight(item);
  }
  out->items = std::move(items);
  FL_TRY(check_size(out->depth, out->weight));
  return Value(std::move(out));
}

Result<Value> make_iterator(std::vector<Value> items, std::string repr) {
  Value out = FL_TRY(make_sequence(SequenceKind::kIterator, std::move(items)));
  out.as_sequence()->repr = std::move(repr);
  return out;
}

Result<Value> make_dict(Dict entries) {
  entries.depth = 1;
  entries.weight = 1;
  for (const auto& [key, value] : entries.entries) {
    entries.depth = std::max({entries.depth, value_depth(key) + 1, value_depth(value) + 1});
    entries.weight += value_weight(key) + value_weight(value);
  }
  FL_TRY(check_size(entries.depth, entries.weight));
  return Value(std::make_shared<Dict>(std::move(entries)));
}

bool is_truthy(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
      return value.as_bool();
    case Kind::kInt:
      return value.as_int() != 0;
    case Kind::kFloat:
      return value.as_double() != 0.0;
    case Kind::kString:
      return !value.as_text().empty();
    case Kind::kSequence:
      return value.as_sequence()->kind == SequenceKind::kIterator || !value.as_sequence()->items.empty();
    case Kind::kDict:
      return !value.as_dict()->entries.empty();
    case Kind::kNamespace:
    case Kind::kCallable:
    case Kind::kLoop:
      return true;
  }
  return false;
}

namespace {

std::string sequence_type_name(const Sequence& sequence) {
  switch (sequence.kind) {
    case SequenceKind::kList:
      return "list";
    case SequenceKind::kTuple:
      return "tuple";
    case SequenceKind::kRange:
      return "range";
    case SequenceKind::kItems:
      return "dict_items";
    case SequenceKind::kKeys:
      return "dict_keys";
    case SequenceKind::kValues:
      return "dict_values";
    case SequenceKind::kIterator:
      break;
  }
  return "generator";
}

}  // namespace

std::string type_name(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "NoneType";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return value.as_text().is_markup() ? "Markup" : "str";
    case Kind::kSequence:
      return sequence_type_name(*value.as_sequence());
    case Kind::kDict:
      return "dict";
    case Kind::kNamespace:
      return "Namespace";
    case Kind::kCallable:
      return value.as_callable()->type_name();
    case Kind::kLoop:
      return "LoopContext";
  }
  return "object";
}

namespace {

bool equal_numbers(const Value& left, const Value& right) {
  if (left.is_integral() && right.is_integral()) return left.as_int() == right.as_int();
  return left.as_double() == right.as_double();
}

bool equal_sequences(const Sequence& left, const Sequence& right) {
  if (left.kind != right.kind || left.items.size() != right.items.size()) return false;
  if (left.kind == SequenceKind::kIterator || left.kind == SequenceKind::kValues) return &left == &right;
  return std::equal(left.items.begin(), left.items.end(), right.items.begin(), equals);
}

bool equal_dicts(const Dict& left, const Dict& right) {
  if (left.entries.size() != right.entries.size()) return false;
  return std::all_of(left.entries.begin(), left.entries.end(), [&](const auto& entry) {
    const Value* other = right.find(entry.first);
    return other != nullptr && equals(entry.second, *other);
  });
}

}  // namespace

bool equals(const Value& left, const Value& right) {
  if (left.is_number() && right.is_number()) return equal_numbers(left, right);
  if (left.kind() != right.kind()) return false;
  switch (left.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kString:
      return left.as_view() == right.as_view();
    case Kind::kSequence:
      return equal_sequences(*left.as_sequence(), *right.as_sequence());
    case Kind::kDict:
      return equal_dicts(*left.as_dict(), *right.as_dict());
    default:
      return is_same(left, right);
  }
}

bool is_same(const Value& left, const Value& right) {
  if (left.kind() != right.kind()) return false;
  switch (left.kind()) {
    case Kind::kUndefined:
      return false;
    case Kind::kNone:
      return true;
    case Kind::kBool:
      return left.as_bool() == right.as_bool();
    case Kind::kInt:
      return left.as_int() == right.as_int();
    case Kind::kFloat:
      return left.as_double() == right.as_double();
    case Kind::kString:
      return left.as_view() == right.as_view();
    case Kind::kSequence:
      return left.as_sequence() == right.as_sequence();
    case Kind::kDict:
      return left.as_dict() == right.as_dict();
    case Kind::kNamespace:
      return left.as_namespace() == right.as_namespace();
    case Kind::kCallable:
      return left.as_callable() == right.as_callable();
    case Kind::kLoop:
      return left.as_loop() == right.as_loop();
  }
  return false;
}

Result<bool> less_than(const Value& left, const Value& right, std::string_view op) {
  if (left.is_undefined()) return invalid_data(left.undefined_message());
  if (right.is_undefined()) return invalid_data(right.undefined_message());
  if (left.is_integral() && right.is_integral()) return left.as_int() < right.as_int();
  if (left.is_number() && right.is_number()) return left.as_double() < right.as_double();
  if (left.is_string() && right.is_string()) return left.as_view() < right.as_view();  // UTF-8 sorts as code points do
  const bool lists = left.kind() == Kind::kSequence && right.kind() == Kind::kSequence &&
                     left.as_sequence()->kind == right.as_sequence()->kind &&
                     left.as_sequence()->kind <= SequenceKind::kTuple;
  if (!lists) {
    return invalid_data("'" + std::string(op) + "' not supported between instances of '" + type_name(left) + "' and '" +
                        type_name(right) + "'");
  }
  const std::vector<Value>& a = left.as_sequence()->items;
  const std::vector<Value>& b = right.as_sequence()->items;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (!equals(a[i], b[i])) return less_than(a[i], b[i], op);
  }
  return a.size() < b.size();
}

bool is_hashable(const Value& value) {
  if (value.is_dict()) return false;
  if (value.kind() != Kind::kSequence) return true;
  const Sequence& sequence = *value.as_sequence();
  if (sequence.kind != SequenceKind::kTuple) return sequence.kind != SequenceKind::kList;
  return std::all_of(sequence.items.begin(), sequence.items.end(), is_hashable);
}

Result<size_t> length_of(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return size_t{0};
    case Kind::kString:
      return count_code_points(value.as_view());
    case Kind::kDict:
      return value.as_dict()->entries.size();
    case Kind::kSequence:
      if (value.as_sequence()->kind != SequenceKind::kIterator) return value.as_sequence()->items.size();
      break;
    default:
      break;
  }
  return invalid_data("object of type '" + type_name(value) + "' has no len()");
}

bool is_iterable(const Value& value) {
  return value.is_undefined() || value.is_string() || value.is_dict() || value.kind() == Kind::kSequence ||
         value.kind() == Kind::kLoop;
}

Result<std::vector<Value>> items_of(const Value& value) {
  std::vector<Value> out;
  switch (value.kind()) {
    case Kind::kUndefined:
      return out;
    case Kind::kString: {
      const Text& text = value.as_text();
      for (size_t pos = 0; pos < text.size();) {
        const size_t end = pos + std::max<uint32_t>(1, decode_utf8(text.view(), pos).length);
        out.emplace_back(text.slice(pos, end));
        pos = end;
      }
      return out;
    }
    case Kind::kDict:
      for (const auto& [key, unused] : value.as_dict()->entries) out.push_back(key);
      return out;
    case Kind::kSequence: {
      Sequence& sequence = *value.as_sequence();
      if (sequence.kind != SequenceKind::kIterator) return sequence.items;
      out.assign(sequence.items.begin() + static_cast<ptrdiff_t>(sequence.next), sequence.items.end());
      sequence.next = sequence.items.size();
      return out;
    }
    default:
      return invalid_data("'" + type_name(value) + "' object is not iterable");
  }
}

}  // namespace firstlight::text::jinja
