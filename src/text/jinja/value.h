// SPDX-License-Identifier: Apache-2.0
// The values a template computes with: Python's none, bool, int, float, str, list, tuple, dict and what Jinja2 adds
// (undefined, namespace, macro, loop). Values are cheap to copy; everything but a namespace and an iterator is
// immutable, as in Jinja2's immutable sandbox. Nesting depth is bounded at construction, so that recursion over a value
// is bounded too.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/status.h"
#include "text/jinja/provenance.h"

namespace firstlight::text::jinja {

using Int = __int128;  // Python's int as far as templates need it: every JSON integer, overflow is an error

inline constexpr int kMaxValueDepth = 200;
inline constexpr uint64_t kMaxValueWeight = uint64_t{1} << 27;

class Value;
struct Sequence;
struct Dict;
struct Namespace;
struct Callable;
struct LoopState;

struct None {};
// Why a value is missing; the message of the error that using it gives.
struct Undefined {
  std::shared_ptr<const std::string> message;
};

enum class Kind : uint8_t {
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kSequence,
  kDict,
  kNamespace,
  kCallable,
  kLoop
};

class Value {
 public:
  Value() = default;                                                          // undefined without a story
  Value(None) : data_(None{}) {}                                              // NOLINT: implicit
  Value(bool value) : data_(value) {}                                         // NOLINT: implicit
  Value(double value) : data_(value) {}                                       // NOLINT: implicit
  Value(Text text) : data_(std::make_shared<const Text>(std::move(text))) {}  // NOLINT: implicit
  Value(std::shared_ptr<const Text> text) : data_(std::move(text)) {}         // NOLINT: implicit
  Value(std::shared_ptr<Sequence> value) : data_(std::move(value)) {}         // NOLINT: implicit
  Value(std::shared_ptr<Dict> value) : data_(std::move(value)) {}             // NOLINT: implicit
  Value(std::shared_ptr<Namespace> value) : data_(std::move(value)) {}        // NOLINT: implicit
  Value(std::shared_ptr<Callable> value) : data_(std::move(value)) {}         // NOLINT: implicit
  Value(std::shared_ptr<LoopState> value) : data_(std::move(value)) {}        // NOLINT: implicit

  static Value undefined(std::string message);
  static Value integer(Int value) {
    Value out;
    out.data_ = value;
    return out;
  }
  static Value string(std::string bytes, bool trusted) { return Value(Text(std::move(bytes), trusted)); }

  Kind kind() const { return static_cast<Kind>(data_.index()); }
  bool is_undefined() const { return kind() == Kind::kUndefined; }
  bool is_none() const { return kind() == Kind::kNone; }
  bool is_bool() const { return kind() == Kind::kBool; }
  bool is_string() const { return kind() == Kind::kString; }
  bool is_dict() const { return kind() == Kind::kDict; }
  bool is_integral() const { return kind() == Kind::kInt || is_bool(); }  // bool is an int in Python
  bool is_number() const { return is_integral() || kind() == Kind::kFloat; }

  bool as_bool() const { return std::get<bool>(data_); }
  Int as_int() const { return is_bool() ? Int{as_bool()} : std::get<Int>(data_); }
  double as_double() const { return kind() == Kind::kFloat ? std::get<double>(data_) : static_cast<double>(as_int()); }
  const Text& as_text() const { return *std::get<std::shared_ptr<const Text>>(data_); }
  std::string_view as_view() const { return as_text().view(); }
  const std::shared_ptr<Sequence>& as_sequence() const { return std::get<std::shared_ptr<Sequence>>(data_); }
  const std::shared_ptr<Dict>& as_dict() const { return std::get<std::shared_ptr<Dict>>(data_); }
  const std::shared_ptr<Namespace>& as_namespace() const { return std::get<std::shared_ptr<Namespace>>(data_); }
  const std::shared_ptr<Callable>& as_callable() const { return std::get<std::shared_ptr<Callable>>(data_); }
  const std::shared_ptr<LoopState>& as_loop() const { return std::get<std::shared_ptr<LoopState>>(data_); }
  // The story of an undefined value, never empty.
  std::string undefined_message() const;

 private:
  std::variant<Undefined, None, bool, Int, double, std::shared_ptr<const Text>, std::shared_ptr<Sequence>,
               std::shared_ptr<Dict>, std::shared_ptr<Namespace>, std::shared_ptr<Callable>, std::shared_ptr<LoopState>>
      data_;
};

// What Python would call the sequence; it decides printing, `is sequence`, indexing and whether it can be read twice.
enum class SequenceKind : uint8_t { kList, kTuple, kRange, kItems, kKeys, kValues, kIterator };

struct Sequence {
  SequenceKind kind = SequenceKind::kList;
  std::vector<Value> items;
  int depth = 1;
  uint64_t weight = 1;
  size_t next = 0;                  // kIterator: what has been consumed already
  std::string repr;                 // kRange, kIterator: how Python prints it
  std::vector<std::string> fields;  // kTuple: field names of a named tuple (groupby), else empty
};

// Insertion-ordered; 1, 1.0 and True are the same key, as in Python.
struct Dict {
  std::vector<std::pair<Value, Value>> entries;
  std::unordered_map<std::string, size_t> string_index;  // kept for every string key
  int depth = 1;
  uint64_t weight = 1;

  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  // Replaces or appends. The key must be hashable.
  void set(const Value& key, Value value);
};

struct Namespace {
  Dict attributes;
};

// Sequences and dicts with their depth and weight computed; kUnsupported when nested deeper than kMaxValueDepth or
// heavier than kMaxValueWeight (sharing can make a small program build a value whose text would be astronomically
// long).
Result<Value> make_sequence(SequenceKind kind, std::vector<Value> items);
inline Result<Value> make_list(std::vector<Value> items) {
  return make_sequence(SequenceKind::kList, std::move(items));
}
inline Result<Value> make_tuple(std::vector<Value> items) {
  return make_sequence(SequenceKind::kTuple, std::move(items));
}
// A generator or another one-pass iterator of Python; `repr` is what printing it shows.
Result<Value> make_iterator(std::vector<Value> items, std::string repr);
Result<Value> make_dict(Dict entries);

int value_depth(const Value& value);
// Values plus bytes of strings that walking over the whole of it meets; a namespace counts one.
uint64_t value_weight(const Value& value);
bool is_truthy(const Value& value);
// Python's type(value).__name__.
std::string type_name(const Value& value);
// Python's ==; never fails.
bool equals(const Value& left, const Value& right);
// Python's `is` as far as it can be seen from a template.
bool is_same(const Value& left, const Value& right);
// Python's <; kInvalidData where Python raises a TypeError, naming both types and `op`.
Result<bool> less_than(const Value& left, const Value& right, std::string_view op = "<");
// Whether the value can be a key.
bool is_hashable(const Value& value);
// len(value), or an error.
Result<size_t> length_of(const Value& value);
// The items that iterating over the value gives (code points of a string, keys of a dict); an iterator is consumed.
Result<std::vector<Value>> items_of(const Value& value);
bool is_iterable(const Value& value);

}  // namespace firstlight::text::jinja
