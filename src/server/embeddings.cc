// SPDX-License-Identifier: Apache-2.0
#include "server/embeddings.h"

#include <bit>
#include <cstring>
#include <utility>

#include "base/trace.h"
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
  request.dimensions = fields.integer("dimensions", 0, 1, 1 << 20);
  const std::string dimensions = std::to_string(request.dimensions) + " of " + std::to_string(how.width);
  if (request.dimensions > how.width) fields.fail("dimensions", dimensions + ": so many the model does not have");
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

Embeddings::Embeddings(std::shared_ptr<const CompletionContext> context, std::shared_ptr<Exchange> exchange,
                       RequestRecord record)
    : context_(std::move(context)), exchange_(std::move(exchange)), record_(std::move(record)) {
  context_->metrics->in_flight.add(1);
}

Embeddings::~Embeddings() { context_->metrics->in_flight.add(-1); }

// The exchange keeps this object alive; the generator's sinks do not.
void Embeddings::watch() {
  exchange_->on_end([self = shared_from_this()](ExchangeEnd end) { self->on_end(end); });
}

void Embeddings::start(EmbeddingRequest request, std::vector<std::vector<int32_t>> ids) {
  if (over_) return;  // gone, or out of time, while the texts were read: nothing starts
  record_.client = request.client;
  record_.submitted_ns = now_ns();
  id_ = make_answer_id(false);
  request_ = std::move(request);
  ids_ = std::move(ids);
  parts_.resize(ids_.size());
  submit_more();
}

void Embeddings::submit_more() {
  while (!over_ && num_begun_ < parts_.size() && num_begun_ - num_ended_ < kAtATime) {
    const size_t index = num_begun_++;
    request::Request one;
    one.id = id_ + "-" + std::to_string(index);
    one.prompt = ids_[index];
    one.embed = request_.pooling;
    one.priority = request_.priority;
    one.client = request_.client;
    auto ticket = context_->model.generator->submit(
        std::move(one), [weak = weak_from_this(), index](const request::TokenEvent& event) {
          const auto self = weak.lock();
          if (self == nullptr) return;
          self->exchange_->post([self, index, event] { self->on_event(index, event); });
        });
    if (!ticket.ok()) {
      refuse(ticket.status());
      return;
    }
    parts_[index].begun = true;
    parts_[index].ticket = *ticket;
  }
}

void Embeddings::on_event(size_t index, const request::TokenEvent& event) {
  if (event.finish == request::FinishReason::kNone) return;
  parts_[index].ended = true;
  context_->pace->ended(Pace::Clock::now());
  if (record_.admitted_ns == 0) record_.admitted_ns = event.admitted_ns;
  if (over_) return;
  if (event.finish == request::FinishReason::kError) {
    fail(to_api_error(event.error.ok() ? internal_error("the embedding failed") : event.error));
    return;
  }
  if (event.finish == request::FinishReason::kCancelled) {
    fail(shutting_down());
    return;
  }
  parts_[index].vector = event.embedding;
  const Status finished = request::finish_embedding(parts_[index].vector, request_.dimensions, request_.normalise);
  if (!finished.ok()) {
    fail(to_api_error(finished));
    return;
  }
  ++num_ended_;
  num_ended_ == parts_.size() ? finish() : submit_more();
}

void Embeddings::finish() {
  over_ = true;
  close(200, "");
  Json data = Json::array();
  int64_t tokens = 0;
  for (size_t i = 0; i < parts_.size(); ++i) {
    tokens += static_cast<int64_t>(ids_[i].size());
    Json vector = request_.base64 ? Json(base64_of(parts_[i].vector)) : Json(parts_[i].vector);
    data.push_back({{"object", "embedding"}, {"index", i}, {"embedding", std::move(vector)}});
  }
  exchange_->respond({.body = dump_json({{"object", "list"},
                                         {"data", std::move(data)},
                                         {"model", context_->model.name},
                                         {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}})});
}

void Embeddings::fail(const ApiError& error) {
  if (over_) return;
  over_ = true;
  cancel_all();
  close(error.http_status, error.http_status >= 500 ? error.message : error.code.empty() ? error.param : error.code);
  exchange_->respond(error_response(error));
}

void Embeddings::on_end(ExchangeEnd end) {
  switch (end) {
    case ExchangeEnd::kGone:
      if (over_) return;
      over_ = true;
      context_->metrics->disconnects.add();
      cancel_all();
      close(kClientGone, "");
      return;
    case ExchangeEnd::kTimedOut:
      fail({504, "the request took longer than " + number_text(context_->request_timeout_s) + " seconds", "",
            "timeout"});
      return;
    case ExchangeEnd::kShutdown:
      fail(shutting_down());
      return;
  }
}

// The place is taken back from those of its texts that had one.
void Embeddings::refuse(const Status& status) {
  if (status.code() != StatusCode::kUnavailable) {
    fail(to_api_error(status));
    return;
  }
  const int64_t waiting = context_->model.generator->num_waiting();
  fail({429, "the queue is full: " + std::to_string(waiting) + " requests wait", "", "queue_full",
        context_->pace->retry_after_s(waiting, Pace::Clock::now())});
}

void Embeddings::cancel_all() {
  for (const Part& part : parts_) {
    if (part.begun && !part.ended) context_->model.generator->cancel(part.ticket);
  }
}

void Embeddings::close(int status, const std::string& error) {
  record_.status = status;
  record_.error = error;
  record_.ended_ns = now_ns();
  record_.choices = static_cast<int64_t>(parts_.size());
  for (const auto& ids : ids_) record_.prompt_tokens += static_cast<int64_t>(ids.size());
  context_->metrics->count_request(record_.route, status);
  context_->metrics->whole_request.observe(static_cast<double>(record_.ended_ns - record_.arrived_ns) / 1e9);
  context_->journal->add(record_);
}

}  // namespace firstlight::server
