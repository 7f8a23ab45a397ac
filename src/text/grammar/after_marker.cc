// SPDX-License-Identifier: Apache-2.0
// A mask that begins to hold where a mark ends: what a model thinks before its answer stays free.
#include <algorithm>
#include <utility>

#include "text/grammar/constraint.h"

namespace firstlight::text::grammar {
namespace {

class AfterMarkerMask final : public request::TokenMask {
 public:
  AfterMarkerMask(std::shared_ptr<request::TokenMask> inner, Tokenizer tokenizer, std::string marker)
      : inner_(std::move(inner)), tokenizer_(std::move(tokenizer)), marker_(std::move(marker)) {}

  void set_stop_tokens(std::span<const int32_t> ids) override {
    stops_.assign(ids.begin(), ids.end());
    inner_->set_stop_tokens(ids);
  }

  Status apply(std::span<uint8_t> allowed) override {
    if (holds_) return inner_->apply(allowed);
    // An output that ends in its thoughts would have no constrained part.
    for (const int32_t token : stops_) {
      if (token >= 0 && static_cast<size_t>(token) < allowed.size()) allowed[static_cast<size_t>(token)] = 0;
    }
    return ok_status();
  }

  void accept(int32_t token) override {
    if (holds_) {
      inner_->accept(token);
      return;
    }
    const bool is_mark = tokenizer_.is_special(token) || tokenizer_.is_control(token);
    tail_ += is_mark ? std::string(tokenizer_.token_text(token)) : tokenizer_.token_bytes(token);
    holds_ = tail_.find(marker_) != std::string::npos;
    tail_.erase(0, tail_.size() - std::min(tail_.size(), marker_.size() - 1));
  }

  bool is_over() const override { return holds_ && inner_->is_over(); }

 private:
  std::shared_ptr<request::TokenMask> inner_;
  Tokenizer tokenizer_;
  std::string marker_;
  std::string tail_;  // what the mark may have begun in
  std::vector<int32_t> stops_;
  bool holds_ = false;
};

}  // namespace

std::shared_ptr<request::TokenMask> hold_after(std::shared_ptr<request::TokenMask> mask, const Tokenizer& tokenizer,
                                               const std::string& marker) {
  if (marker.empty()) return mask;
  return std::make_shared<AfterMarkerMask>(std::move(mask), tokenizer, marker);
}

}  // namespace firstlight::text::grammar
