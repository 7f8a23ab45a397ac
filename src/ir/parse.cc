// SPDX-License-Identifier: Apache-2.0
// The parser of the text form: one line at a time, values by name. It rebuilds through ir/builder.h, so that every node
// is held against its operator's row, and compares the inferred types with the written ones.
#include <map>
#include <string>

#include "ir/builder.h"
#include "ir/quoting.h"
#include "ir/text.h"
#include "ir/verify.h"

namespace firstlight::ir {
namespace {

constexpr int kMaxRegionDepth = 64;

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text), builder_(graph_) {}

  Result<Graph> run() {
    FL_TRY(parse_graph());
    FL_TRY(verify(graph_));
    return std::move(graph_);
  }

 private:
  Status error(const std::string& what) const {
    size_t line = 1, column = 1;
    for (size_t i = 0; i < position_ && i < text_.size(); ++i) {
      ++column;
      if (text_[i] == '\n') {
        ++line;
        column = 1;
      }
    }
    return invalid_data("graph text line " + std::to_string(line) + ", column " + std::to_string(column) + ": " + what);
  }

  void skip_space() {
    while (position_ < text_.size()) {
      const char c = text_[position_];
      if (c == '#') {
        while (position_ < text_.size() && text_[position_] != '\n') ++position_;
      } else if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
        ++position_;
      } else {
        return;
      }
    }
  }

  bool accept(std::string_view token) {
    const size_t start = position_;
    skip_space();
    if (text_.substr(position_).starts_with(token)) {
      position_ += token.size();
      return true;
    }
    position_ = start;  // a comment that was skipped may be a node's scope
    return false;
  }

  bool peek(std::string_view token) {
    const size_t start = position_;
    const bool found = accept(token);
    position_ = start;
    return found;
  }

  Status expect(std::string_view token) {
    if (!accept(token)) return error("'" + std::string(token) + "' wanted");
    return ok_status();
  }

  Result<std::string> name() {
    skip_space();
    if (position_ < text_.size() && text_[position_] == '"') return string();
    const size_t start = position_;
    while (position_ < text_.size() && is_name_char(text_[position_])) ++position_;
    if (position_ == start) return error("a name wanted");
    return std::string(text_.substr(start, position_ - start));
  }

  Result<std::string> string() {
    FL_TRY(expect("\""));
    std::string out;
    while (position_ < text_.size() && text_[position_] != '"') {
      char c = text_[position_++];
      if (c == '\\') {
        if (position_ >= text_.size()) break;
        c = text_[position_++];
        if (c == 'x') {
          if (position_ + 2 > text_.size()) return error("two hexadecimal digits wanted");
          int byte = 0;
          for (int i = 0; i < 2; ++i) {
            const size_t digit = std::string_view("0123456789abcdef").find(text_[position_++]);
            if (digit == std::string_view::npos) return error("two hexadecimal digits wanted");
            byte = byte * 16 + static_cast<int>(digit);
          }
          c = static_cast<char>(byte);
        }
      }
      out += c;
    }
    FL_TRY(expect("\""));
    return out;
  }

  // The text from "{" to the matching "}", strings skipped.
  Result<ops::Attributes> attributes() {
    if (!peek("{")) return ops::Attributes{};
    skip_space();
    const size_t start = position_;
    int depth = 0;
    for (; position_ < text_.size(); ++position_) {
      const char c = text_[position_];
      if (c == '"') {
        for (++position_; position_ < text_.size() && text_[position_] != '"'; ++position_) {
          if (text_[position_] == '\\') ++position_;
        }
      } else if (c == '{') {
        ++depth;
      } else if (c == '}' && --depth == 0) {
        ++position_;
        auto parsed = ops::parse_attributes(text_.substr(start, position_ - start));
        if (!parsed.ok()) {
          position_ = start;
          return error(parsed.status().message());
        }
        return parsed;
      }
    }
    return error("'}' wanted");
  }

  Result<int64_t> integer() {
    const auto text = FL_TRY(name());
    const auto dim = tensor::Dim::parse(text);
    if (!dim || !dim->is_static()) return error("a number wanted, found '" + text + "'");
    return dim->factor;
  }

  Result<tensor::DType> dtype() {
    const auto text = FL_TRY(name());
    const auto found = tensor::dtype_from_name(text);
    if (!found) return error("no element type is called '" + text + "'");
    return *found;
  }

  Result<tensor::Type> type() {
    if (accept("state")) return tensor::Type::state();
    const auto element = FL_TRY(dtype());
    tensor::Shape shape;
    FL_TRY(expect("["));
    while (!accept("]")) {
      if (!shape.empty()) FL_TRY(expect(","));
      const auto text = FL_TRY(name());
      const auto dim = tensor::Dim::parse(text);
      if (!dim) return error("no dimension is written '" + text + "'");
      shape.push_back(*dim);
    }
    tensor::Type result = tensor::Type::tensor(element, std::move(shape));
    if (accept("packed")) result.layout = tensor::Layout::kPackedRows;
    return result;
  }

  Result<std::string> reference() {  // "%3", "@name", "$name", as written
    skip_space();
    if (position_ >= text_.size() || std::string_view("%@$").find(text_[position_]) == std::string_view::npos) {
      return error("a value wanted");
    }
    const char sigil = text_[position_++];
    return sigil + FL_TRY(name());
  }

  Result<ValueId> value() {
    skip_space();
    const size_t start = position_;
    const auto text = FL_TRY(reference());
    const auto found = values_.find(text);
    if (found == values_.end()) {
      position_ = start;
      return error("no value is called " + text);
    }
    return found->second;
  }

  Status define(const std::string& text, ValueId id) {
    if (!values_.emplace(text, id).second) return error(text + " is made twice");
    return ok_status();
  }

  Status parse_graph() {
    FL_TRY(expect("graph"));
    FL_TRY(expect("@"));
    graph_.name = FL_TRY(name());
    // The body's brace and the metadata's look alike: metadata stands in front of another "{".
    const size_t start = position_;
    auto metadata = attributes();
    if (metadata.ok() && peek("{")) {
      graph_.metadata = std::move(*metadata);
    } else {
      position_ = start;
    }
    FL_TRY(expect("{"));
    while (!accept("}")) {
      if (accept("state ")) {
        FL_TRY(parse_state());
      } else if (accept("input ")) {
        const auto text = FL_TRY(reference());
        FL_TRY(expect(":"));
        FL_TRY(define(text, builder_.add_input(text.substr(1), FL_TRY(type()))));
      } else if (accept("weight ")) {
        FL_TRY(parse_weight());
      } else if (accept("output ")) {
        const auto output = FL_TRY(name());
        FL_TRY(expect("="));
        builder_.add_output(output, FL_TRY(value()));
      } else {
        FL_TRY(parse_node(0));
      }
    }
    skip_space();
    if (position_ != text_.size()) return error("nothing wanted after the graph");
    return ok_status();
  }

  Status parse_state() {
    ops::StateDecl decl;
    decl.name = FL_TRY(name());
    FL_TRY(expect("="));
    const auto kind = ops::state_kind_from_name(FL_TRY(name()));
    if (!kind) return error("no such kind of state");
    decl.kind = *kind;
    const auto facts = FL_TRY(attributes());
    for (const auto& [key, fact] : facts.all()) {
      const auto* text = std::get_if<std::string>(&fact);
      const auto* number = std::get_if<int64_t>(&fact);
      const auto owner = ops::state_owner_from_name(text ? *text : "");
      const auto rewind = ops::rewind_from_name(text ? *text : "");
      if (key == "owner" && owner) {
        decl.owner = *owner;
      } else if (key == "rewind" && rewind) {
        decl.rewind = *rewind;
      } else if (key == "window" && number) {
        decl.window = *number;
      } else if (key == "keep" && number) {
        decl.keep = *number;
      } else if (key == "rate" && number) {
        decl.rate = *number;
      } else if (key == "shared_with" && text) {
        decl.shared_with = *text;
      } else {
        return error("a state has no such '" + key + "'");
      }
    }
    FL_TRY(expect("("));
    while (!accept(")")) {
      if (!decl.components.empty()) FL_TRY(expect(","));
      ops::StateComponent part;
      part.name = FL_TRY(name());
      FL_TRY(expect(":"));
      part.dtype = FL_TRY(dtype());
      FL_TRY(expect("["));
      part.heads = FL_TRY(integer());
      FL_TRY(expect("x"));
      part.width = FL_TRY(integer());
      FL_TRY(expect("]"));
      decl.components.push_back(std::move(part));
    }
    const std::string text = "$" + decl.name;
    auto added = builder_.add_state(std::move(decl));
    if (!added.ok()) return error(added.status().message());
    return define(text, *added);
  }

  Status parse_weight() {
    const auto text = FL_TRY(reference());
    FL_TRY(expect(":"));
    const auto weight_type = FL_TRY(type());
    const std::string weight = text.substr(1);
    const std::string source = accept("from ") ? FL_TRY(string()) : weight;
    return define(text, builder_.add_weight(weight, weight_type, source));
  }

  Status parse_node(int depth) {
    if (depth > kMaxRegionDepth) return error("regions nested too deep");
    std::vector<std::string> results;
    do {
      results.push_back(FL_TRY(reference()));
    } while (accept(","));
    FL_TRY(expect("="));
    const size_t start = position_;
    const auto op = ops::op_from_name(FL_TRY(name()));
    if (!op) {
      position_ = start;
      return error("no such operator");
    }
    std::vector<ValueId> operands;
    if (!peek("{") && !peek(":")) {
      do {
        operands.push_back(FL_TRY(value()));
      } while (accept(","));
    }
    auto node_attributes = FL_TRY(attributes());
    FL_TRY(expect(":"));
    std::vector<tensor::Type> types;
    do {
      types.push_back(FL_TRY(type()));
    } while (accept(","));
    std::vector<Region> regions;
    // The scope ends the line, behind the regions if there are any.
    std::string scope = trailing_comment();
    while (scope.empty() && opens_on_this_line()) {
      regions.push_back(FL_TRY(parse_region(depth)));
      scope = trailing_comment();
    }
    builder_.set_scope(scope);
    auto added = builder_.add_with_regions(*op, operands, std::move(node_attributes), std::move(regions));
    if (!added.ok()) return error(added.status().message());
    if (added->size() != results.size() || types.size() != results.size()) return error("wrong number of results");
    for (size_t i = 0; i < results.size(); ++i) {
      if (!(graph_.value((*added)[i]).type == types[i])) {
        return error(results[i] + " is " + graph_.value((*added)[i]).type.to_string() + ", " + types[i].to_string() +
                     " written");
      }
      FL_TRY(define(results[i], (*added)[i]));
    }
    return ok_status();
  }

  Result<Region> parse_region(int depth) {
    FL_TRY(expect("{"));
    FL_TRY(expect("("));
    std::vector<std::string> names;
    std::vector<tensor::Type> types;
    while (!accept(")")) {
      if (!names.empty()) FL_TRY(expect(","));
      names.push_back(FL_TRY(reference()));
      FL_TRY(expect(":"));
      types.push_back(FL_TRY(type()));
    }
    const auto parameters = builder_.begin_region(types);
    for (size_t i = 0; i < names.size(); ++i) FL_TRY(define(names[i], parameters[i]));
    while (!peek("yield")) {
      if (position_ >= text_.size()) return error("'yield' wanted");
      FL_TRY(parse_node(depth + 1));
    }
    FL_TRY(expect("yield"));
    std::vector<ValueId> yields;
    if (!peek("}")) {
      do {
        yields.push_back(FL_TRY(value()));
      } while (accept(","));
    }
    FL_TRY(expect("}"));
    return builder_.end_region(std::move(yields));
  }

  bool opens_on_this_line() const {
    const size_t next = text_.find_first_not_of(' ', position_);
    return next != std::string_view::npos && text_[next] == '{';
  }

  // The scope behind "# " on the rest of this line.
  std::string trailing_comment() {
    size_t i = position_;
    while (i < text_.size() && text_[i] == ' ') ++i;
    if (!text_.substr(i).starts_with("# ")) return "";
    const size_t end = std::min(text_.find('\n', i), text_.size());
    return std::string(text_.substr(i + 2, end - i - 2));
  }

  std::string_view text_;
  size_t position_ = 0;
  Graph graph_;
  Builder builder_;
  std::map<std::string, ValueId> values_;
};

}  // namespace

Result<Graph> parse(std::string_view text) { return Parser(text).run(); }

}  // namespace firstlight::ir
