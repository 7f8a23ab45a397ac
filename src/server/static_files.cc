// SPDX-License-Identifier: Apache-2.0
#include "server/static_files.h"

#include <charconv>
#include <string>

namespace firstlight::server {
namespace {

// FNV-1a of the text: a tag, not a secret.
std::string tag_of(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  char digits[16];
  const auto end = std::to_chars(digits, digits + sizeof digits, hash, 16).ptr;
  return "\"" + std::string(digits, end) + "\"";
}

std::string_view type_of(std::string_view name) {
  static constexpr std::pair<std::string_view, std::string_view> kTypes[] = {
      {".html", "text/html; charset=utf-8"},
      {".css", "text/css; charset=utf-8"},
      {".js", "text/javascript; charset=utf-8"},
  };
  for (const auto& [ending, type] : kTypes) {
    if (name.ends_with(ending)) return type;
  }
  return "application/json";
}

}  // namespace

const StaticFile* find_static_file(std::string_view path) {
  if (path == "/") path = "/page/index.html";
  for (const StaticFile& file : built_in_files()) {
    if (path.size() == file.name.size() + 1 && path.ends_with(file.name)) return &file;
  }
  return nullptr;
}

HttpResponse static_response(const StaticFile& file, std::string_view if_none_match) {
  HttpResponse response;
  const std::string tag = tag_of(file.text);
  response.content_type = type_of(file.name);
  response.headers = {
      {"ETag", tag},
      {"Cache-Control", "no-cache"},  // asked for again each time, and answered by 304
      {"Content-Security-Policy",
       "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
       "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"},
      {"X-Content-Type-Options", "nosniff"},
      {"Referrer-Policy", "no-referrer"},
  };
  if (if_none_match == "*" || if_none_match.find(tag) != std::string_view::npos) {
    response.status = 304;
  } else {
    response.body = file.text;
  }
  return response;
}

}  // namespace firstlight::server
