// SPDX-License-Identifier: Apache-2.0
#include "gates/batch_classes.h"

#include <algorithm>

namespace firstlight::gates {
namespace {

// Adds what fits into a bucket and into the sequences' context, and counts it.
class Classes {
 public:
  Classes(const plan::Plan& plan, int64_t context) : context_(context), lengths_(4, 0) {
    for (const plan::Bucket& bucket : plan.buckets) {
      tokens_ = std::max(tokens_, bucket.max_tokens);
      sequences_ = std::max(sequences_, bucket.max_sequences);
    }
  }
  int64_t tokens() const { return tokens_; }

  void add(std::string name, std::vector<BatchClass::Part> parts) {
    parts.resize(std::min(parts.size(), static_cast<size_t>(std::max<int64_t>(sequences_, 1))));
    int64_t total = 0;
    for (const auto& part : parts) {
      total += part.tokens;
      if (lengths_[static_cast<size_t>(part.sequence)] + part.tokens > context_) return;
    }
    if (total > tokens_) return;
    for (const auto& part : parts) lengths_[static_cast<size_t>(part.sequence)] += part.tokens;
    classes.push_back({std::move(name), std::move(parts)});
  }

  std::vector<BatchClass> classes;

 private:
  int64_t context_, tokens_ = 0, sequences_ = 0;
  std::vector<int64_t> lengths_;
};

}  // namespace

std::vector<BatchClass> batch_classes(const plan::Plan& plan, int64_t context, int64_t longest) {
  Classes made(plan, context);
  // Kernels take rows by 4, 6, 8 or 16 at a time: sizes below, at and behind these, and what they leave over.
  for (const int64_t tokens : {1, 2, 3, 5, 7, 8, 13, 16, 17})
    made.add("tail " + std::to_string(tokens), {{.sequence = 0, .tokens = tokens}});
  made.add("decode", {{.sequence = 0, .tokens = 1}});
  for (const plan::Bucket& bucket : plan.buckets) {
    const int64_t tokens = std::min({bucket.max_tokens, longest, context});
    if (tokens <= 17 || bucket.max_tokens < made.tokens()) continue;
    made.add((tokens == bucket.max_tokens ? "full prefill " : "prefill ") + std::to_string(tokens),
             {{.sequence = 1, .tokens = tokens}});
  }
  made.add("small batch", {{0, 1}, {1, 1}, {2, 1}, {3, 1}});
  made.add("ragged", {{0, 1}, {2, 3}, {3, 19}, {1, 1}});
  return std::move(made.classes);
}

}  // namespace firstlight::gates
