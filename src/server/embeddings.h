// SPDX-License-Identifier: Apache-2.0
// POST /v1/embeddings: one or more texts (or their ids) to vectors, in the form of OpenAI's. Each text is a request of
// the engine's, few of them at a time, so that a long list does not stand before everybody else. Everything behind the
// parser runs on the exchange's own sequence. Heavy header: for .cc files only.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/answer.h"
#include "server/field_reader.h"
#include "server/openai_api.h"

namespace firstlight::server {

struct EmbeddingRequest {
  std::string model;
  std::vector<RawPrompt> inputs;
  bool base64 = false;     // little-endian float32
  int64_t dimensions = 0;  // 0: all
  request::Pooling pooling = request::Pooling::kLast;
  bool normalise = true;
  int64_t priority = 0;
  std::string client;
};

struct EmbeddingLimits {
  int64_t max_inputs = 2048;
};

// `how`: what holds where the request does not say it.
void read_embedding_request(FieldReader& fields, const ServedEmbeddings& how, const EmbeddingLimits& limits,
                            EmbeddingRequest& request);

// The body and the texts' ids. On a fault the error names the field, and for a text that is too long both numbers.
ApiError parse_embedding_request(const ServedModel& model, std::string_view body, EmbeddingRequest& request,
                                 std::vector<std::vector<int32_t>>& ids);

// The four bytes of each value in base64, as encoding_format "base64" has them.
std::string base64_of(const std::vector<float>& vector);

class Embeddings final : public Answer {
 public:
  using Answer::Answer;
  void start(EmbeddingRequest request, std::vector<std::vector<int32_t>> ids);

 private:
  void send_more();
  void on_event(size_t index, const request::TokenEvent& event) override;
  void count(RequestRecord& record) const override;
  void finish();

  EmbeddingRequest request_;
  std::string id_;
  std::vector<std::vector<int32_t>> ids_;
  std::vector<std::vector<float>> vectors_;
  size_t num_ended_ = 0;
};

}  // namespace firstlight::server
