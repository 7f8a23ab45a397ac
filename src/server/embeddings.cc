// SPDX-License-Identifier: Apache-2.0
#include "server/embeddings.h"

#include <bit>
#include <cstring>
#include <utility>

#include "base/trace.h"
#include "server/openai_json.h"
#include "server/prompt.h"
#include "server/tokenize.h"

namespace firstlight::server {
namespace {

constexpr size_t kAtATime = 16;

// One text, one list of ids, or a list of either.
void read_inputs(FieldReader& fields, const EmbeddingLimits& limits, std::vector<RawPrompt>& inputs) {
  const Json* input = fields.find("input");
  const auto add_ids = [&](const std::string& name, const Json& list) {
    std::vector<int32_t> ids;
    if (read_ids(fields, name, list, ids)) inputs.emplace_back(std::move(ids));
  };
  const auto add_text = [&](const std::string& name, const Json& text) {
    if (text.get_ref<const std::string&>().empty()) fields.fail(name, "an empty text has no embedding");
    inputs.emplace_back(text.get<std::string>());
  };
  if (input == nullptr) {
    fields.fail("input", "missing");
  } else if (input->is_string()) {
    add_text("input", *input);
  } else if (!input->is_array() || input->empty()) {
    fields.fail("input", "a text, a list of texts, a list of ids or a list of such lists wanted, and not an empty one");
  } else if ((*input)[0].is_number()) {
    add_ids("input", *input);
  } else if (static_cast<int64_t>(input->size()) > limits.max_inputs) {
    fields.fail("input",
                std::to_string(input->size()) + " texts, at most " + std::to_string(limits.max_inputs) + " wanted");
  } else {
    for (size_t i = 0; i < input->size() && fields.ok(); ++i) {
      const Json& one = (*input)[i];
      const std::string name = "input[" + std::to_string(i) + "]";
      if (one.is_string()) {
        add_text(name, one);
      } else if (one.is_array()) {
        add_ids(name, one);
      } else {
        fields.fail(name, "a string or an array of ids wanted, found " + std::string(json_type_name(one)));
      }
    }
  }
}

}  // namespace

void read_embedding_request(FieldReader& fields, const ServedEmbeddings& how, const EmbeddingLimits& limits,
                            EmbeddingRequest& request) {
  request.model = fields.string("model", "");
  read_inputs(fields, limits, request.inputs);
  const std::string format = fields.string("encoding_format", "float");
  if (format != "float" && format != "base64") fields.fail("encoding_format", "float or base64 wanted");
  request.base64 = format == "base64";
  request.dimensions = fields.integer("dimensions", 0, 1, how.width);
  const std::string dimensions = std::to_string(request.dimensions) + " of " + std::to_string(how.width);
  if (request.dimensions > 0 && request.dimensions < how.width && !how.may_shorten) {
    fields.fail("dimensions", dimensions + ": its first ones do not stand alone (--shorten-embeddings says they do)");
  }
  const std::string word = fields.string("pooling", "");
  const auto pooling = word.empty() ? how.pooling : request::parse_pooling(word);
  if (!pooling.ok()) fields.fail("pooling", pooling.status().message());
  request.pooling = pooling.ok() ? *pooling : how.pooling;
  request.normalise = fields.boolean("normalize", how.normalise);
  request.priority = fields.integer("priority", 0, -1000000, 1000000);
  request.client = fields.string("user", "");
}

ApiError parse_embedding_request(const ServedModel& model, std::string_view body, EmbeddingRequest& request,
                                 std::vector<std::vector<int32_t>>& ids) {
  if (!model.embeddings) return {404, "this server gives no embeddings: start it with --embeddings", "", "not_found"};
  Json json;
  if (ApiError error = parse_body(body, json); !error.ok()) return error;
  FieldReader fields(json);
  read_embedding_request(fields, *model.embeddings, {}, request);
  fields.finish();
  if (!fields.ok()) return fields.error();
  if (ApiError error = check_model(model, request.model); !error.ok()) return error;
  const ApiRequest as_text;  // with what the tokenizer adds
  const bool is_list = json["input"].is_array() && !json["input"][0].is_number();
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    const std::string field = is_list ? "input[" + std::to_string(i) + "]" : "input";
    ids.emplace_back();
    if (auto* given = std::get_if<std::vector<int32_t>>(&request.inputs[i])) {
      ids.back() = std::move(*given);
      if (ApiError error = check_ids(field, ids.back(), model.generator->vocab_size()); !error.ok()) return error;
    } else if (ApiError error =
                   encode_text(model, as_text, field, std::get<std::string>(request.inputs[i]), ids.back());
               !error.ok()) {
      return error;
    }
    if (ids.back().empty()) return bad_field(field, "has no tokens, at least one wanted");
    if (static_cast<int64_t>(ids.back().size()) > model.context) {
      return bad_field(field, "has " + std::to_string(ids.back().size()) + " tokens, at most " +
                                  std::to_string(model.context) + " fit the context");
    }
  }
  return {};
}

std::string base64_of(const std::vector<float>& vector) {
  constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  static_assert(std::endian::native == std::endian::little);
  std::string bytes(vector.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), vector.data(), bytes.size());
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t word = 0;
    for (size_t k = 0; k < 3; ++k) word = word << 8 | (i + k < bytes.size() ? static_cast<uint8_t>(bytes[i + k]) : 0u);
    for (size_t k = 0; k < 4; ++k) {
      text += i + k <= bytes.size() ? kLetters[word >> (18 - 6 * k) & 63u] : '=';
    }
  }
  return text;
}

void Embeddings::start(EmbeddingRequest request, std::vector<std::vector<int32_t>> ids) {
  if (over_) return;  // gone, or out of time, while the texts were read: nothing starts
  record_.client = request.client;
  record_.submitted_ns = now_ns();
  id_ = make_answer_id(false);
  request_ = std::move(request);
  ids_ = std::move(ids);
  vectors_.resize(ids_.size());
  send_more();
}

// While some of its own are under way, a full queue is no refusal: it goes on when one of them has ended.
void Embeddings::send_more() {
  while (num_sent() < ids_.size() && num_sent() - num_ended_ < kAtATime) {
    request::Request one;
    one.id = id_ + "-" + std::to_string(num_sent());
    one.prompt = ids_[num_sent()];
    one.embed = request_.pooling;
    one.priority = request_.priority;
    one.client = request_.client;
    const Status sent = send(std::move(one));
    if (sent.ok()) continue;
    if (sent.code() != StatusCode::kUnavailable || num_sent() == num_ended_) refuse(sent);
    return;
  }
}

void Embeddings::on_event(size_t index, const request::TokenEvent& event) {
  if (event.finish == request::FinishReason::kNone || ends_badly(event)) return;
  vectors_[index] = event.embedding;
  const Status finished = request::finish_embedding(vectors_[index], request_.dimensions, request_.normalise);
  if (!finished.ok()) {
    fail(to_api_error(finished));
    return;
  }
  ++num_ended_;
  num_ended_ == ids_.size() ? finish() : send_more();
}

void Embeddings::finish() {
  over_ = true;
  close(200, "");
  Json data = Json::array();
  int64_t tokens = 0;
  for (size_t i = 0; i < ids_.size(); ++i) {
    tokens += static_cast<int64_t>(ids_[i].size());
    Json vector = request_.base64 ? Json(base64_of(vectors_[i])) : Json(vectors_[i]);
    data.push_back({{"object", "embedding"}, {"index", i}, {"embedding", std::move(vector)}});
  }
  exchange_->respond({.body = dump_json({{"object", "list"},
                                         {"data", std::move(data)},
                                         {"model", context_->model.name},
                                         {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}})});
}

void Embeddings::count(RequestRecord& record) const {
  record.choices = static_cast<int64_t>(ids_.size());
  for (const auto& ids : ids_) record.prompt_tokens += static_cast<int64_t>(ids.size());
}

}  // namespace firstlight::server
