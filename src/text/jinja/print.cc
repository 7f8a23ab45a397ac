// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/print.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "text/jinja/callable.h"
#include "text/jinja/numbers.h"
#include "text/jinja/text_ops.h"
#include "text/unicode.h"

namespace firstlight::text::jinja {
namespace {

constexpr int kMaxPrintDepth = 2 * kMaxValueDepth;  // namespaces may nest what is inside them, in circles too

bool is_printable(char32_t c) {
  if (c == ' ') return true;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

std::string escaped(char32_t c, char quote_mark) {
  if (c == '\\' || c == static_cast<char32_t>(quote_mark)) return {'\\', static_cast<char>(c)};
  if (c == '\n') return "\\n";
  if (c == '\r') return "\\r";
  if (c == '\t') return "\\t";
  std::string out;
  if (is_printable(c)) {
    append_utf8(out, c);
    return out;
  }
  std::array<char, 12> buffer{};
  const char* format = c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x";
  std::snprintf(buffer.data(), buffer.size(), format, static_cast<unsigned>(c));
  return buffer.data();
}

Text quote_text(const Text& text) {
  const bool has_single = text.bytes().find('\'') != std::string::npos;
  const bool has_double = text.bytes().find('"') != std::string::npos;
  const char mark = has_single && !has_double ? '"' : '\'';
  const bool trusted = text.is_trusted();
  Text out;
  out.append({&mark, 1}, trusted);
  for_each_code_point(text.view(), [&](char32_t c, size_t pos, size_t) {
    out.append(escaped(c, mark), text.trusted_at(pos));
    return true;
  });
  out.append({&mark, 1}, trusted);
  return out;
}

class Printer {
 public:
  explicit Printer(bool trusted) : trusted_(trusted) {}

  void repr(const Value& value) {
    if (out_.size() > kMaxValueWeight) return;  // no caller accepts a text as long as this
    switch (value.kind()) {
      case Kind::kUndefined:
        return punctuation("Undefined");
      case Kind::kNone:
        return plain("None");
      case Kind::kBool:
        return plain(value.as_bool() ? "True" : "False");
      case Kind::kInt:
        return plain(format_int(value.as_int()));
      case Kind::kFloat:
        return plain(format_float(value.as_double()));
      case Kind::kString:
        if (!value.as_text().is_markup()) return out_.append(quote_text(value.as_text()));
        punctuation("Markup(");
        out_.append(quote_text(value.as_text()));
        return punctuation(")");
      case Kind::kSequence:
        return sequence(*value.as_sequence());
      case Kind::kDict:
        return dict(*value.as_dict());
      case Kind::kNamespace:
        punctuation("<Namespace ");
        dict(value.as_namespace()->attributes);
        return punctuation(">");
      case Kind::kCallable:
        return callable(*value.as_callable());
      case Kind::kLoop:
        return punctuation("<LoopContext>");
    }
  }

  Text take() && { return std::move(out_); }

 private:
  void plain(std::string_view text) { out_.append(text, false); }
  void punctuation(std::string_view text) { out_.append(text, trusted_); }

  void list(const std::vector<Value>& items, std::string_view open, std::string_view close) {
    punctuation(open);
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) punctuation(", ");
      repr(items[i]);
    }
    punctuation(close);
  }

  void sequence(const Sequence& value) {
    switch (value.kind) {
      case SequenceKind::kList:
        return list(value.items, "[", "]");
      case SequenceKind::kTuple:
        return list(value.items, "(", value.items.size() == 1 ? ",)" : ")");
      case SequenceKind::kItems:
        return list(value.items, "dict_items([", "])");
      case SequenceKind::kKeys:
        return list(value.items, "dict_keys([", "])");
      case SequenceKind::kValues:
        return list(value.items, "dict_values([", "])");
      case SequenceKind::kRange:
      case SequenceKind::kIterator:
        return punctuation(value.repr);
    }
  }

  void dict(const Dict& value) {
    if (++depth_ > kMaxPrintDepth) return;
    punctuation("{");
    bool first = true;
    for (const auto& [key, item] : value.entries) {
      if (!first) punctuation(", ");
      first = false;
      repr(key);
      punctuation(": ");
      repr(item);
    }
    punctuation("}");
    --depth_;
  }

  void callable(const Callable& value) {
    switch (value.kind) {
      case CallableKind::kMacro:
        return punctuation("<Macro '" + value.name + "'>");
      case CallableKind::kGlobal:
        return punctuation("<function " + value.name + ">");
      case CallableKind::kMethod:
        return punctuation("<built-in method " + value.name + " of " + type_name(value.self) + " object>");
      case CallableKind::kCycler:
        return punctuation("<Cycler>");
      case CallableKind::kJoiner:
        return punctuation("<Joiner>");
    }
  }

  bool trusted_;
  int depth_ = 0;
  Text out_;
};

bool trusted_within(const Value& value, int depth) {
  if (depth > kMaxPrintDepth) return false;
  switch (value.kind()) {
    case Kind::kString:
      return value.as_text().is_trusted();
    case Kind::kSequence:
      return std::all_of(value.as_sequence()->items.begin(), value.as_sequence()->items.end(),
                         [&](const Value& item) { return trusted_within(item, depth + 1); });
    case Kind::kDict:
      return std::all_of(value.as_dict()->entries.begin(), value.as_dict()->entries.end(), [&](const auto& entry) {
        return trusted_within(entry.first, depth + 1) && trusted_within(entry.second, depth + 1);
      });
    case Kind::kNone:
    case Kind::kUndefined:
      return true;
    default:
      return false;
  }
}

}  // namespace

bool is_trusted(const Value& value) { return trusted_within(value, 0); }

Text to_repr(const Value& value) {
  Printer printer(is_trusted(value));
  printer.repr(value);
  return std::move(printer).take();
}

Text to_text(const Value& value) {
  if (value.is_undefined()) return {};
  if (!value.is_string()) return to_repr(value);
  Text out = value.as_text();
  out.set_markup(false);
  return out;
}

std::string quote(std::string_view text) { return quote_text(Text(std::string(text), false)).bytes(); }

}  // namespace firstlight::text::jinja
