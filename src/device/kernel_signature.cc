// SPDX-License-Identifier: Apache-2.0
#include "device/kernel_signature.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <utility>

namespace firstlight::device {
namespace {

constexpr std::array<std::string_view, 6> kKindNames = {"buffer", "fl_i32", "fl_u32", "fl_i64", "fl_u64", "fl_f32"};

constexpr std::array<std::pair<std::string_view, ParameterKind>, 8> kScalarTypes = {{{"int", ParameterKind::kI32},
                                                                                     {"fl_i32", ParameterKind::kI32},
                                                                                     {"uint", ParameterKind::kU32},
                                                                                     {"fl_u32", ParameterKind::kU32},
                                                                                     {"fl_i64", ParameterKind::kI64},
                                                                                     {"fl_u64", ParameterKind::kU64},
                                                                                     {"float", ParameterKind::kF32},
                                                                                     {"fl_f32", ParameterKind::kF32}}};

// The text with comments and preprocessor lines blanked; every offset stays what it was.
std::string without_noise(std::string_view text) {
  std::string out(text);
  const auto blank = [&](size_t from, size_t to) {
    for (size_t i = from; i < std::min(to, out.size()); ++i) {
      if (out[i] != '\n') out[i] = ' ';
    }
  };
  bool line_start = true;
  for (size_t i = 0; i < out.size(); ++i) {
    if (out.compare(i, 2, "//") == 0) {
      const size_t end = std::min(out.find('\n', i), out.size());
      blank(i, end);
    } else if (out.compare(i, 2, "/*") == 0) {
      const size_t end = out.find("*/", i + 2);
      blank(i, end == std::string::npos ? out.size() : end + 2);
    } else if (line_start && out[i] == '#') {
      size_t end = i;
      do {
        end = std::min(out.find('\n', end + 1), out.size());
      } while (end < out.size() && out[end - 1] == '\\');
      blank(i, end);
    }
    if (out[i] == '\n') {
      line_start = true;
    } else if (std::isspace(static_cast<unsigned char>(out[i])) == 0) {
      line_start = false;
    }
  }
  return out;
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

std::string_view trim(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) text.remove_suffix(1);
  return text;
}

// The bracket that closes the one at `open`; npos if there is none.
size_t closing(std::string_view text, size_t open) {
  int depth = 0;
  for (size_t i = open; i < text.size(); ++i) {
    if (text[i] == '(') ++depth;
    if (text[i] == ')' && --depth == 0) return i;
  }
  return std::string_view::npos;
}

size_t skip_space(std::string_view text, size_t at) {
  while (at < text.size() && std::isspace(static_cast<unsigned char>(text[at])) != 0) ++at;
  return at;
}

std::vector<std::string_view> split_parameters(std::string_view list) {
  std::vector<std::string_view> parts;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= list.size(); ++i) {
    if (i < list.size() && list[i] == '(') ++depth;
    if (i < list.size() && list[i] == ')') --depth;
    if (i == list.size() || (list[i] == ',' && depth == 0)) {
      parts.push_back(trim(list.substr(begin, i - begin)));
      begin = i + 1;
    }
  }
  if (parts.size() == 1 && (parts[0].empty() || parts[0] == "void")) parts.clear();
  return parts;
}

std::optional<KernelParameter> parse_parameter(std::string_view text) {
  size_t name = text.size();
  while (name > 0 && is_word(text[name - 1])) --name;
  if (name == text.size() || name == 0) return std::nullopt;
  std::string_view type = trim(text.substr(0, name));
  if (type.starts_with("FL_GLOBAL")) {
    const size_t open = type.find('(');
    const bool whole = open != std::string_view::npos && closing(type, open) == type.size() - 1;
    if (!whole || trim(type.substr(9, open - 9)) != "") return std::nullopt;
    return KernelParameter{ParameterKind::kBuffer, std::string(text.substr(name)), std::string(type)};
  }
  if (type.starts_with("const ")) type = trim(type.substr(6));
  for (const auto& [word, kind] : kScalarTypes) {
    if (type == word) return KernelParameter{kind, std::string(text.substr(name)), std::string(type)};
  }
  return std::nullopt;
}

Status parse_error(std::string_view text, size_t at, std::string message) {
  const auto line =
      std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(std::min(at, text.size())), '\n');
  return invalid_data("line " + std::to_string(line + 1) + ": " + std::move(message));
}

Status parse_parameters(std::string_view text, size_t open, size_t close, KernelSignature& signature) {
  const auto parts = split_parameters(text.substr(open + 1, close - open - 1));
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i] == "FL_DYNAMIC_LOCAL_PARAM") {
      if (i + 1 != parts.size()) return parse_error(text, open, "FL_DYNAMIC_LOCAL_PARAM must be the last parameter");
      signature.has_dynamic_local = true;
      continue;
    }
    auto parameter = parse_parameter(parts[i]);
    if (!parameter) {
      return parse_error(text, open,
                         "kernel '" + signature.name + "': parameter '" + std::string(parts[i]) +
                             "', wanted FL_GLOBAL(type) name or one of int, uint, fl_i64, fl_u64, float and a name");
    }
    signature.parameters.push_back(std::move(*parameter));
  }
  return ok_status();
}

// The length of a body that begins just behind its brace.
size_t body_end(std::string_view text, size_t begin) {
  int depth = 1;
  for (size_t i = begin; i < text.size(); ++i) {
    if (text[i] == '{') ++depth;
    if (text[i] == '}' && --depth == 0) return i - begin;
  }
  return text.size() - begin;
}

// `at` stands on FL_KERNEL.
Result<KernelSignature> parse_kernel(std::string_view text, size_t at) {
  const std::string wanted = "wanted FL_KERNEL(name)(parameters) { ... }";
  KernelSignature signature;
  const size_t name_open = skip_space(text, at + 9);
  if (name_open >= text.size() || text[name_open] != '(') return parse_error(text, at, wanted);
  const size_t name_close = closing(text, name_open);
  if (name_close == std::string_view::npos) return parse_error(text, at, wanted);
  signature.name = trim(text.substr(name_open + 1, name_close - name_open - 1));
  if (signature.name.empty() || !std::all_of(signature.name.begin(), signature.name.end(), is_word)) {
    return parse_error(text, at, "kernel name '" + signature.name + "'; " + wanted);
  }
  const size_t open = skip_space(text, name_close + 1);
  if (open >= text.size() || text[open] != '(') return parse_error(text, at, wanted);
  const size_t close = closing(text, open);
  if (close == std::string_view::npos) return parse_error(text, at, wanted);
  FL_TRY(parse_parameters(text, open, close, signature));
  const size_t brace = skip_space(text, close + 1);
  if (brace >= text.size() || text[brace] != '{') return parse_error(text, at, wanted);
  signature.parameters_end = close;
  signature.body_begin = brace + 1;
  return signature;
}

}  // namespace

std::string_view parameter_kind_name(ParameterKind kind) { return kKindNames[static_cast<size_t>(kind)]; }

Result<std::vector<KernelSignature>> parse_signatures(std::string_view text) {
  const std::string code = without_noise(text);
  std::vector<KernelSignature> kernels;
  for (size_t at = code.find("FL_KERNEL"); at != std::string::npos; at = code.find("FL_KERNEL", at + 1)) {
    const bool whole = (at == 0 || !is_word(code[at - 1])) && (at + 9 < code.size() && !is_word(code[at + 9]));
    if (!whole) continue;
    auto kernel = FL_TRY(parse_kernel(code, at));
    for (const KernelSignature& other : kernels) {
      if (other.name == kernel.name) return parse_error(code, at, "kernel '" + kernel.name + "' is there twice");
    }
    const std::string_view body = std::string_view(code).substr(kernel.body_begin, body_end(code, kernel.body_begin));
    kernel.uses_warps = body.find("FL_WARP_STATE") != body.npos || body.find("FL_MMA") != body.npos;
    kernels.push_back(std::move(kernel));
  }
  return kernels;
}

}  // namespace firstlight::device
