// SPDX-License-Identifier: Apache-2.0
#include "text/chat/chat_parts.h"

#include <algorithm>
#include <random>
#include <utility>

namespace firstlight::text {
namespace {

using Kind = ChatPart::Kind;

std::string random_letters(size_t length) {
  static constexpr std::string_view kLetters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  static thread_local std::mt19937_64 random(std::random_device{}());
  std::uniform_int_distribution<size_t> letter(0, kLetters.size() - 1);
  std::string out;
  while (out.size() < length) out += kLetters[letter(random)];
  return out;
}

// False where the form wants what is not there.
bool fill(std::string& id, std::string_view hole, const std::string& text) {
  for (size_t at = id.find(hole); at != std::string::npos; at = id.find(hole, at + text.size())) {
    if (text.empty()) return false;
    id.replace(at, hole.size(), text);
  }
  return true;
}

}  // namespace

void ChatParts::add(Kind kind, std::string_view text) {
  if (text.empty()) return;
  if (parts_.empty() || parts_.back().kind != kind) parts_.push_back({.kind = kind, .text = "", .id = ""});
  parts_.back().text += text;
}

void ChatParts::begin_call(const std::string& name, const Captures& captures) {
  const auto taken = [&](Hole hole) { return captures[static_cast<size_t>(hole)]; };
  std::string index = taken(Hole::kIndex);
  if (index.empty()) index = std::to_string(ids_.size());
  std::string id = id_form_;
  const bool filled = fill(id, "{random}", random_letters(24)) && fill(id, "{random9}", random_letters(9)) &&
                      fill(id, "{index}", index) && fill(id, "{id}", taken(Hole::kId)) && fill(id, "{name}", name);
  if (!filled || std::find(ids_.begin(), ids_.end(), id) != ids_.end()) id = "call_" + random_letters(24);
  ids_.push_back(id);
  parts_.push_back({.kind = Kind::kCall, .text = name, .id = std::move(id)});
}

void ChatParts::end_call() {
  ++num_ended_;
  parts_.push_back({.kind = Kind::kCallEnd, .text = "", .id = ""});
}

std::vector<ChatPart> ChatParts::take() { return std::exchange(parts_, {}); }

}  // namespace firstlight::text
