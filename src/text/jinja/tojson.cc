// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/tojson.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "text/jinja/numbers.h"
#include "text/jinja/print.h"
#include "text/jinja/sorting.h"
#include "text/jinja/text_ops.h"

namespace firstlight::text::jinja {
namespace {

std::string unit_escape(unsigned unit) {
  std::array<char, 16> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "\\u%04x", unit);
  return buffer.data();
}

// The escape of a code point inside a JSON string, empty if it stands for itself.
std::string json_escape(char32_t c, bool ensure_ascii) {
  switch (c) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    case '\b':
      return "\\b";
    case '\f':
      return "\\f";
    default:
      break;
  }
  if (c < 0x20 || (ensure_ascii && c > 0x7E && c < 0x10000)) return unit_escape(static_cast<unsigned>(c));
  if (!ensure_ascii || c < 0x7F) return {};
  const auto offset = static_cast<unsigned>(c) - 0x10000;
  return unit_escape(0xD800 + (offset >> 10)) + unit_escape(0xDC00 + (offset & 0x3FF));
}

std::string json_float(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
  return format_float(value);
}

class Writer {
 public:
  Writer(Runtime& runtime, const JsonStyle& style, bool trusted)
      : runtime_(runtime), style_(style), trusted_(trusted) {}

  Status write(const Value& value, int level) {
    if (out_.size() > runtime_.limits().string_bytes) return unsupported("tojson result too long");
    switch (value.kind()) {
      case Kind::kNone:
        return plain("null");
      case Kind::kBool:
        return plain(value.as_bool() ? "true" : "false");
      case Kind::kInt:
        return plain(format_int(value.as_int()));
      case Kind::kFloat:
        return plain(json_float(value.as_double()));
      case Kind::kString:
        return string(value.as_text());
      case Kind::kDict:
        return dict(*value.as_dict(), level);
      case Kind::kSequence:
        if (value.as_sequence()->kind <= SequenceKind::kTuple) return list(value.as_sequence()->items, level);
        break;
      default:
        break;
    }
    return invalid_data("Object of type " + type_name(value) + " is not JSON serializable");
  }

  Text take() && { return std::move(out_); }

 private:
  Status plain(std::string_view text) {
    out_.append(text, trusted_);
    return ok_status();
  }

  Status string(const Text& text) {
    const bool edge = text.is_trusted();
    out_.append("\"", edge && trusted_);
    size_t clean_from = 0;
    for_each_code_point(text.view(), [&](char32_t c, size_t pos, size_t length) {
      const std::string escape = json_escape(c, style_.ensure_ascii);
      if (escape.empty()) return true;
      out_.append_slice(text, clean_from, pos);
      out_.append(escape, text.trusted_at(pos));
      clean_from = pos + length;
      return true;
    });
    out_.append_slice(text, clean_from, text.size());
    out_.append("\"", edge && trusted_);
    return ok_status();
  }

  void line(int level) {
    if (!style_.indent.has_value()) return;
    plain("\n").value();
    for (int i = 0; i < level; ++i) out_.append(style_.indent->view(), trusted_ && style_.indent->is_trusted());
  }

  void separator(const Text& text) { out_.append(text.view(), trusted_ && text.is_trusted()); }

  Status list(const std::vector<Value>& items, int level) {
    if (items.empty()) return plain("[]");
    FL_TRY(plain("["));
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) separator(style_.item_separator);
      line(level + 1);
      FL_TRY(write(items[i], level + 1));
    }
    line(level);
    return plain("]");
  }

  Status key(const Value& value) {
    if (value.is_string()) return string(value.as_text());
    if (!value.is_number() && !value.is_none()) {
      return invalid_data("keys must be str, int, float, bool or None, not " + type_name(value));
    }
    FL_TRY(plain("\""));
    FL_TRY(write(value, 0));
    return plain("\"");
  }

  Status dict(const Dict& dict, int level) {
    if (dict.entries.empty()) return plain("{}");
    FL_TRY(plain("{"));
    std::vector<size_t> order(dict.entries.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    if (style_.sort_keys) {
      FL_TRY(sort_stable(order,
                         [&](size_t a, size_t b) { return less_than(dict.entries[a].first, dict.entries[b].first); }));
    }
    for (size_t i = 0; i < order.size(); ++i) {
      if (i > 0) separator(style_.item_separator);
      line(level + 1);
      FL_TRY(key(dict.entries[order[i]].first));
      separator(style_.key_separator);
      FL_TRY(write(dict.entries[order[i]].second, level + 1));
    }
    line(level);
    return plain("}");
  }

  Runtime& runtime_;
  const JsonStyle& style_;
  bool trusted_;
  Text out_;
};

}  // namespace

Result<Value> to_json(Runtime& runtime, const Value& value, const JsonStyle& style) {
  FL_TRY(runtime.charge(1 + value_weight(value) / 4));
  Writer writer(runtime, style, is_trusted(value));
  FL_TRY(writer.write(value, 0));
  return runtime.text(std::move(writer).take());
}

Result<JsonStyle> json_style(const Bound& args) {
  JsonStyle style;
  style.ensure_ascii = args.flag(0, false);
  style.sort_keys = args.flag(3, false);
  if (args.is_set(1) && args[1].is_string()) {
    style.indent = args[1].as_text();
  } else if (args.is_set(1)) {
    const int64_t width = FL_TRY(args.integer(1, 0));
    if (width > 1000) return unsupported("tojson indent over 1000");
    style.indent = Text(std::string(static_cast<size_t>(std::max<int64_t>(0, width)), ' '), true);
  }
  style.item_separator = Text(style.indent.has_value() ? "," : ", ", true);
  style.key_separator = Text(": ", true);
  if (args.is_set(2)) {
    const std::vector<Value> pair = FL_TRY(items_of(args[2]));
    if (pair.size() != 2 || !pair[0].is_string() || !pair[1].is_string()) {
      return invalid_data("tojson: separators must be two strings");
    }
    style.item_separator = pair[0].as_text();
    style.key_separator = pair[1].as_text();
  }
  return style;
}

}  // namespace firstlight::text::jinja
