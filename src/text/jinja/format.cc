// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/format.h"

#include <algorithm>
#include <cmath>

#include "text/jinja/format_spec.h"
#include "text/jinja/numbers.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/text_ops.h"
#include "text/unicode.h"

namespace firstlight::text::jinja {
namespace {

constexpr int kMaxWidth = 1 << 20;

class PercentFormatter {
 public:
  PercentFormatter(Runtime& runtime, const Text& format, const Value& values)
      : runtime_(runtime), format_(format), values_(values) {
    const bool is_tuple = values.kind() == Kind::kSequence && values.as_sequence()->kind == SequenceKind::kTuple;
    if (is_tuple) {
      queue_ = values.as_sequence()->items;
    } else {
      queue_.push_back(values);
    }
    // Python does not mind unused arguments of things that can be subscripted.
    may_be_unused_ =
        !is_tuple && (values.is_dict() || values.is_undefined() ||
                      (values.kind() == Kind::kSequence && values.as_sequence()->kind <= SequenceKind::kRange));
  }

  Result<Value> run() {
    const std::string_view view = format_.view();
    size_t pos = 0;
    while (pos < view.size()) {
      const size_t mark = std::min(view.find('%', pos), view.size());
      out_.append_slice(format_, pos, mark);
      if (mark == view.size()) break;
      pos = FL_TRY(conversion(mark + 1));
      if (out_.size() > runtime_.limits().string_bytes) break;  // refused below
    }
    if (next_ < queue_.size() && !may_be_unused_ && !used_mapping_) {
      return invalid_data("not all arguments converted during string formatting");
    }
    out_.set_markup(format_.is_markup());
    return runtime_.text(std::move(out_));
  }

 private:
  char at(size_t pos) const { return pos < format_.size() ? format_.bytes()[pos] : '\0'; }

  Result<Value> next_value() {
    if (next_ >= queue_.size()) return invalid_data("not enough arguments for format string");
    return queue_[next_++];
  }

  Result<int> number_or_star(size_t& pos) {
    if (at(pos) == '*') {
      ++pos;
      const Value value = FL_TRY(next_value());
      if (!value.is_integral()) return invalid_data("* wants int");
      return static_cast<int>(std::clamp<Int>(value.as_int(), -kMaxWidth, kMaxWidth));
    }
    int out = 0;
    for (; at(pos) >= '0' && at(pos) <= '9'; ++pos) out = std::min(kMaxWidth, out * 10 + (at(pos) - '0'));
    return out;
  }

  // One conversion, from behind its '%'; the position after it.
  Result<size_t> conversion(size_t pos) {
    std::optional<Value> keyed;
    const size_t start = pos;
    if (at(pos) == '(') {
      const size_t close = format_.view().find(')', pos);
      if (close == std::string_view::npos) return invalid_data("incomplete format key");
      if (!values_.is_dict()) return invalid_data("format requires a mapping");
      const Value* found = values_.as_dict()->find(format_.view().substr(pos + 1, close - pos - 1));
      if (found == nullptr)
        return invalid_data("format key " + quote(format_.view().substr(pos + 1, close - pos - 1)) + " missing");
      keyed = *found;
      used_mapping_ = true;
      pos = close + 1;
    }
    FormatSpec spec;
    spec.align = '>';
    for (;; ++pos) {
      if (at(pos) == '-')
        spec.align = '<';
      else if (at(pos) == '+')
        spec.sign = '+';
      else if (at(pos) == ' ')
        spec.sign = spec.sign == '+' ? '+' : ' ';
      else if (at(pos) == '#')
        spec.alternate = true;
      else if (at(pos) == '0')
        spec.zero = true;
      else
        break;
    }
    spec.width = FL_TRY(number_or_star(pos));
    if (spec.width < 0) {
      spec.align = '<';
      spec.width = -spec.width;
    }
    if (at(pos) == '.') {
      ++pos;
      spec.precision = std::max(0, FL_TRY(number_or_star(pos)));
    }
    while (at(pos) == 'l' || at(pos) == 'h' || at(pos) == 'L') ++pos;
    const char type = at(pos);
    if (pos >= format_.size()) return invalid_data("incomplete format");
    if (type == '%') {
      out_.append_slice(format_, pos, pos + 1);
    } else {
      const Value value = keyed.has_value() ? *keyed : FL_TRY(next_value());
      out_.append(FL_TRY(convert(spec, type, value, format_.trusted_at(start - 1))));
    }
    return pos + 1;
  }

  Result<Text> convert(FormatSpec spec, char type, const Value& value, bool trusted) {
    spec.fill = Text(" ", trusted);
    if (type == 's' || type == 'r' || type == 'a') {
      if (type == 'a') return unsupported("%a in a format string");
      spec.zero = false;
      Text text = type == 's' ? to_text(value) : to_repr(value);
      if (format_.is_markup() && !(value.is_string() && value.as_text().is_markup())) text = escape_markup(text);
      return pad_text(cut(text, spec.precision), spec);
    }
    if (spec.align == '<') spec.zero = false;
    if (type == 'c') {
      if (value.is_string() && count_code_points(value.as_view()) == 1) return pad_text(value.as_text(), spec);
      return unsupported("%c of '" + type_name(value) + "'");
    }
    if (value.is_undefined()) return invalid_data(value.undefined_message());
    if (!value.is_number()) {
      return invalid_data(std::string("%") + type + " format: a real number is required, not " + type_name(value));
    }
    const std::string_view types = "diuoxXeEfFgG";
    if (types.find(type) == std::string_view::npos) {
      return invalid_data(std::string("unsupported format character '") + type + "'");
    }
    if (std::string_view("oxX").find(type) != std::string_view::npos && !value.is_integral()) {
      return invalid_data(std::string("%") + type + " format: an integer is required, not float");
    }
    if (std::string_view("diuoxX").find(type) != std::string_view::npos) {
      const Int whole = value.is_integral() ? value.as_int() : FL_TRY(truncate_float(value.as_double()));
      return format_integer(whole, type == 'i' || type == 'u' ? 'd' : type, spec);
    }
    return format_double(value.as_double(), type, spec);
  }

  Runtime& runtime_;
  const Text& format_;
  const Value& values_;
  std::vector<Value> queue_;
  size_t next_ = 0;
  bool may_be_unused_ = false;
  bool used_mapping_ = false;
  Text out_;
};

class BraceFormatter {
 public:
  BraceFormatter(Runtime& runtime, const CallArgs& args, bool markup)
      : runtime_(runtime), args_(args), markup_(markup) {}

  Result<Text> run(const Text& format, int depth) {
    if (depth > 2) return invalid_data("Max string recursion exceeded");
    Text out;
    const std::string_view view = format.view();
    for (size_t pos = 0; pos < view.size();) {
      const size_t brace = std::min(view.find_first_of("{}", pos), view.size());
      out.append_slice(format, pos, brace);
      if (brace == view.size()) break;
      if (brace + 1 < view.size() && view[brace + 1] == view[brace]) {
        out.append_slice(format, brace, brace + 1);
        pos = brace + 2;
        continue;
      }
      if (view[brace] == '}') return invalid_data("Single '}' encountered in format string");
      const size_t close = find_close(view, brace + 1);
      if (close == std::string_view::npos) return invalid_data("Single '{' encountered in format string");
      out.append(FL_TRY(field(format.slice(brace + 1, close), depth, format.trusted_at(brace))));
      pos = close + 1;
      if (out.size() > runtime_.limits().string_bytes) break;  // the caller refuses it
    }
    return out;
  }

 private:
  static size_t find_close(std::string_view view, size_t pos) {
    for (int open = 1; pos < view.size(); ++pos) {
      if (view[pos] == '{') ++open;
      if (view[pos] == '}' && --open == 0) return pos;
    }
    return std::string_view::npos;
  }

  // "name.attr[item]!r:spec"
  Result<Text> field(const Text& whole, int depth, bool trusted) {
    FL_TRY(runtime_.charge(1));
    size_t end = 0;
    for (int open = 0; end < whole.size(); ++end) {
      const char c = whole.bytes()[end];
      open += c == '[' ? 1 : c == ']' ? -1 : 0;
      if (open == 0 && (c == '!' || c == ':')) break;
    }
    Value value = FL_TRY(lookup(whole.view().substr(0, end)));
    char conversion = '\0';
    if (end < whole.size() && whole.bytes()[end] == '!') {
      if (end + 1 >= whole.size()) return invalid_data("end of string while looking for conversion specifier");
      conversion = whole.bytes()[end + 1];
      end += 2;
      if (end < whole.size() && whole.bytes()[end] != ':')
        return invalid_data("expected ':' after conversion specifier");
    }
    if (conversion == 's')
      value = Value(to_text(value));
    else if (conversion == 'r')
      value = Value(to_repr(value));
    else if (conversion != '\0')
      return unsupported(std::string("conversion !") + conversion + " in a format string");
    Text spec_text = end < whole.size() ? whole.slice(end + 1, whole.size()) : Text();
    if (spec_text.view().find('{') != std::string_view::npos) spec_text = FL_TRY(run(spec_text, depth + 1));
    FormatSpec spec = FL_TRY(parse_format_spec(spec_text));
    if (spec.fill.empty()) spec.fill = Text(" ", trusted);
    Text out = FL_TRY(format_value(value, spec, !spec_text.empty()));
    return markup_ && !(value.is_string() && value.as_text().is_markup()) ? escape_markup(out) : out;
  }

  Result<Value> first(std::string_view name) {
    const bool numeric =
        !name.empty() && std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (name.empty() || numeric) {
      if (name.empty() == (mode_ == 'm') && mode_ != '\0') {
        return invalid_data("cannot switch between manual field specification and automatic field numbering");
      }
      mode_ = name.empty() ? 'a' : 'm';
      const Int index = name.empty() ? Int{automatic_++} : parse_int(name, 10).value_or(INT64_MAX);
      if (index >= static_cast<Int>(args_.positional.size())) {
        return invalid_data("Replacement index " + format_int(index) + " out of range for positional args tuple");
      }
      return args_.positional[static_cast<size_t>(index)];
    }
    for (const auto& [key, value] : args_.named) {
      if (key == name) return value;
    }
    return invalid_data("KeyError: " + quote(name));
  }

  Result<Value> lookup(std::string_view path) {
    const size_t end = std::min(path.find_first_of(".["), path.size());
    Value value = FL_TRY(first(path.substr(0, end)));
    for (size_t pos = end; pos < path.size();) {
      if (path[pos] == '.') {
        const size_t stop = std::min(path.find_first_of(".[", pos + 1), path.size());
        value = FL_TRY(get_attr(runtime_, value, std::string(path.substr(pos + 1, stop - pos - 1))));
        pos = stop;
        continue;
      }
      const size_t stop = path.find(']', pos);
      if (path[pos] != '[' || stop == std::string_view::npos) return invalid_data("Missing ']' in format string");
      const std::string key(path.substr(pos + 1, stop - pos - 1));
      const bool numeric =
          !key.empty() && std::all_of(key.begin(), key.end(), [](char c) { return c >= '0' && c <= '9'; });
      const Value index = numeric ? Value::integer(parse_int(key, 10).value_or(0)) : Value::string(key, true);
      value = FL_TRY(get_item(runtime_, value, index));
      pos = stop + 1;
    }
    return value;
  }

  Runtime& runtime_;
  const CallArgs& args_;
  bool markup_;
  char mode_ = '\0';
  int automatic_ = 0;
};

}  // namespace

Result<Value> format_percent(Runtime& runtime, const Text& format, const Value& values) {
  FL_TRY(runtime.charge(1 + format.size() / 8 + value_weight(values) / 8));
  return PercentFormatter(runtime, format, values).run();
}

Result<Value> format_braces(Runtime& runtime, const Text& format, const CallArgs& args) {
  FL_TRY(runtime.charge(1 + format.size() / 8));
  Text out = FL_TRY(BraceFormatter(runtime, args, format.is_markup()).run(format, 0));
  out.set_markup(format.is_markup());
  return runtime.text(std::move(out));
}

}  // namespace firstlight::text::jinja
