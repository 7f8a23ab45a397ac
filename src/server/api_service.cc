// SPDX-License-Identifier: Apache-2.0
#include "server/api_service.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

#include "base/json.h"
#include "base/trace.h"
#include "server/completion.h"
#include "server/constraint_fields.h"
#include "server/embeddings.h"
#include "server/static_files.h"
#include "server/tokenize.h"
#include "server/work_queue.h"

namespace firstlight::server {
namespace {

enum class Route : uint8_t {
  kHealth,
  kReady,
  kMetrics,
  kModels,
  kModel,
  kChat,
  kCompletions,
  kEmbeddings,
  kTokenize,
  kDetokenize,
  kStatic,
  kTrace
};

struct RouteRow {
  std::string_view path;
  std::string_view method;
  Route route;
};

constexpr std::array kRoutes = {
    RouteRow{"/", "GET", Route::kStatic},
    RouteRow{"/page/*", "GET", Route::kStatic},
    RouteRow{"/openapi.json", "GET", Route::kStatic},
    RouteRow{"/health", "GET", Route::kHealth},
    RouteRow{"/ready", "GET", Route::kReady},
    RouteRow{"/metrics", "GET", Route::kMetrics},
    RouteRow{"/v1/models", "GET", Route::kModels},
    RouteRow{"/v1/models/*", "GET", Route::kModel},
    RouteRow{"/v1/traces/*", "GET", Route::kTrace},
    RouteRow{"/v1/chat/completions", "POST", Route::kChat},
    RouteRow{"/v1/completions", "POST", Route::kCompletions},
    RouteRow{"/v1/embeddings", "POST", Route::kEmbeddings},
    RouteRow{"/tokenize", "POST", Route::kTokenize},
    RouteRow{"/detokenize", "POST", Route::kDetokenize},
};

constexpr bool is_tokenizing(Route route) { return route == Route::kTokenize || route == Route::kDetokenize; }

// What the model is asked for or says about itself; all else is for whoever watches the server.
bool needs_key(const RouteRow& row) { return row.path.starts_with("/v1/") || is_tokenizing(row.route); }

const RouteRow* find_route(std::string_view path) {
  for (const RouteRow& row : kRoutes) {
    const bool is_prefix = row.path.ends_with('*');
    const std::string_view fixed = row.path.substr(0, row.path.size() - (is_prefix ? 1 : 0));
    if (is_prefix ? path.starts_with(fixed) && path.size() > fixed.size() : path == fixed) return &row;
  }
  return nullptr;
}

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

// JSON said or nothing said. A page in a browser can send other types to a server on loopback without asking first.
bool is_json_type(const std::string& content_type) {
  if (content_type.empty()) return true;
  std::string type = lower_case(content_type.substr(0, content_type.find(';')));
  while (!type.empty() && type.back() == ' ') type.pop_back();
  return type == "application/json";
}

}  // namespace

std::vector<std::pair<std::string_view, std::string_view>> ApiService::routes() {
  std::vector<std::pair<std::string_view, std::string_view>> list;
  for (const RouteRow& row : kRoutes) list.emplace_back(row.method, row.path);
  return list;
}

bool equal_secrets(std::string_view a, std::string_view b) {
  size_t difference = a.size() ^ b.size();
  for (size_t i = 0; i < a.size(); ++i) {
    const char other = b.empty() ? '\0' : b[i % b.size()];
    difference |= static_cast<unsigned char>(a[i] ^ other);
  }
  return difference == 0;
}

struct ApiService::Impl {
  ApiServiceOptions options;
  const Readiness& readiness;
  Metrics* metrics;
  const Log* log;
  std::shared_ptr<AnswerContext> context;
  text::grammar::ConstraintCompiler constraints;
  WorkQueue work;

  Impl(const ServedModel& model, const ApiServiceOptions& wanted, const Readiness& ready, Metrics* registry,
       const Log* where)
      : options(wanted),
        readiness(ready),
        metrics(registry),
        log(where),
        context(std::make_shared<AnswerContext>(
            AnswerContext{model, std::make_shared<ServerMetrics>(registry),
                          std::make_shared<RequestJournal>(where, wanted.trace_requests), std::make_shared<Pace>(),
                          wanted.request_timeout_s})),
        constraints(model.tokenizer),
        work(wanted.num_prepare_threads, wanted.max_preparing) {}

  void answer(Exchange& exchange, const std::string& route, HttpResponse response) const {
    context->metrics->count_request(route, response.status);
    exchange.respond(std::move(response));
  }

  // Answers what is no completion, and writes its line of the log.
  void conclude(Exchange& exchange, RequestRecord record, const ApiError& error, HttpResponse response) const {
    record.status = response.status;
    record.error = error.code;
    record.ended_ns = now_ns();
    context->journal->add(record);
    answer(exchange, record.route, std::move(response));
  }
  ApiError too_many() const {
    const auto waiting = static_cast<int64_t>(options.max_preparing);
    return {429, "the queue is full: " + std::to_string(waiting) + " requests wait to be read", "", "queue_full",
            context->pace->retry_after_s(waiting, Pace::Clock::now())};
  }
  std::optional<ApiError> refuse(const RouteRow& row, const HttpRequest& request) const;
  HttpResponse get(Route route, const HttpRequest& request) const;
  void tokenize(Route which, const RequestRecord& record, std::string text, std::shared_ptr<Exchange> exchange);
  void prepare(const std::shared_ptr<Answer>& answer, const std::shared_ptr<Exchange>& exchange, int64_t arrival,
               std::function<ApiError()> read, std::function<void()> start);
  void complete(Endpoint endpoint, RequestRecord record, std::string text, std::shared_ptr<Exchange> exchange);
  void embed(RequestRecord record, std::string text, std::shared_ptr<Exchange> exchange);
  Json model_json() const {
    Json model = {{"id", context->model.name},
                  {"object", "model"},
                  {"created", context->model.created_unix_s},
                  {"owned_by", "firstlight"},
                  {"max_model_len", context->model.context}};
    if (context->model.max_context > 0) model["firstlight"] = {{"max_context", context->model.max_context}};
    return model;
  }
};

ApiService::ApiService(const ServedModel& model, const ApiServiceOptions& options, const Readiness& readiness,
                       Metrics* metrics, const Log* log)
    : impl_(std::make_unique<Impl>(model, options, readiness, metrics, log)) {}

ApiService::~ApiService() = default;

Gauge ApiService::connections_gauge() const { return impl_->context->metrics->connections; }

std::optional<ApiError> ApiService::Impl::refuse(const RouteRow& row, const HttpRequest& request) const {
  if (needs_key(row) && !options.api_key.empty()) {
    static constexpr std::string_view kScheme = "bearer ";
    const std::string& header = request.authorization;
    const bool has_key = lower_case(header.substr(0, kScheme.size())) == kScheme;
    if (!has_key || !equal_secrets(std::string_view(header).substr(kScheme.size()), options.api_key)) {
      return ApiError{401, has_key ? "the API key is wrong" : "no API key: send 'Authorization: Bearer KEY'", "",
                      "invalid_api_key"};
    }
  }
  const bool is_head = request.method == "HEAD" && row.method == "GET";
  if (request.method != row.method && !is_head) {
    return ApiError{405,
                    "method " + request.method.substr(0, 20) + " on " + std::string(row.path) + ", " +
                        std::string(row.method) + " wanted",
                    "", ""};
  }
  if (row.method == "POST" && !is_json_type(request.content_type)) {
    return ApiError{415, "Content-Type '" + request.content_type.substr(0, 80) + "', application/json wanted", "", ""};
  }
  if (row.method == "POST" && !is_tokenizing(row.route) && !readiness.is_ready()) {
    return not_ready(readiness.reason());
  }
  return std::nullopt;
}

HttpResponse ApiService::Impl::get(Route route, const HttpRequest& request) const {
  HttpResponse response;
  switch (route) {
    case Route::kHealth:
      response.body = R"({"status":"ok"})";
      return response;
    case Route::kReady: {
      const std::string reason = readiness.reason();
      response.status = reason.empty() ? 200 : 503;
      response.body = reason.empty() ? R"({"ready":true})" : dump_json({{"ready", false}, {"reason", reason}});
      return response;
    }
    case Route::kMetrics:
      context->metrics->refresh(readiness.is_ready());
      response.content_type = "text/plain; version=0.0.4; charset=utf-8";
      response.body = metrics == nullptr ? "" : metrics->exposition();
      return response;
    case Route::kModels:
      response.body = dump_json({{"object", "list"}, {"data", Json::array({model_json()})}});
      return response;
    case Route::kModel: {
      const std::string name = request.path.substr(std::string_view("/v1/models/").size());
      if (name != context->model.name) {
        return error_response({404, "model '" + name.substr(0, 100) + "' is not served", "model", "model_not_found"});
      }
      response.body = dump_json(model_json());
      return response;
    }
    case Route::kStatic: {
      const StaticFile* file = find_static_file(request.path);
      if (file == nullptr) return error_response({404, "nothing at " + request.path.substr(0, 100), "", "not_found"});
      return static_response(*file, request.if_none_match);
    }
    case Route::kTrace: {
      const std::string id = request.path.substr(std::string_view("/v1/traces/").size());
      const auto trace = context->journal->trace(id);
      if (!trace) return error_response({404, "no trace of request '" + id.substr(0, 128) + "'", "", "not_found"});
      response.body = *trace;
      return response;
    }
    case Route::kChat:
    case Route::kCompletions:
    case Route::kEmbeddings:
    case Route::kTokenize:
    case Route::kDetokenize:
      break;
  }
  return error_response({500, "no such route", "", ""});
}

void ApiService::Impl::tokenize(Route which, const RequestRecord& record, std::string text,
                                std::shared_ptr<Exchange> exchange) {
  const auto body = std::make_shared<std::string>(std::move(text));
  const auto work_on = [this, which, record, body, exchange] {
    const auto response = std::make_shared<HttpResponse>();
    ApiError error;
    try {
      const ServedModel& model = context->model;
      error = which == Route::kTokenize ? tokenize_json(model, *body, response->body)
                                        : detokenize_json(model, *body, response->body);
    } catch (const std::exception& fault) {
      log_error(log, std::string("while a text was read: ") + fault.what());
      error = {500, "the request could not be read", "", ""};
    }
    if (!error.ok()) *response = error_response(error);
    exchange->post(
        [this, record, exchange, error, response] { conclude(*exchange, record, error, std::move(*response)); });
  };
  if (!work.post(work_on)) conclude(*exchange, record, too_many(), error_response(too_many()));
}

// Reads the request on the work queue, then goes on in the exchange's own sequence.
void ApiService::Impl::prepare(const std::shared_ptr<Answer>& answer, const std::shared_ptr<Exchange>& exchange,
                               int64_t arrival, std::function<ApiError()> read, std::function<void()> start) {
  answer->watch();
  const auto on_queue = [this, answer, exchange, arrival, read = std::move(read), start = std::move(start)] {
    const int64_t begin = now_ns();
    const auto seconds = [](int64_t from_ns, int64_t to_ns) { return static_cast<double>(to_ns - from_ns) / 1e9; };
    context->metrics->prepare_wait.observe(seconds(arrival, begin));
    ApiError error;
    try {
      error = read();
    } catch (const std::exception& fault) {  // of the JSON library, or memory running out
      log_error(log, std::string("while a request was read: ") + fault.what());
      error = {500, "the request could not be read", "", ""};
    }
    context->metrics->prepare.observe(seconds(begin, now_ns()));
    exchange->post([answer, error, begin, start] {
      answer->prepared(begin);
      error.ok() ? start() : answer->fail(error);
    });
  };
  if (!work.post(on_queue)) answer->fail(too_many());
}

void ApiService::Impl::complete(Endpoint endpoint, RequestRecord record, std::string text,
                                std::shared_ptr<Exchange> exchange) {
  const int64_t arrival = record.arrived_ns;
  const auto completion = std::make_shared<Completion>(context, exchange, std::move(record));
  const auto body = std::make_shared<std::string>(std::move(text));
  const auto api = std::make_shared<ApiRequest>();
  const auto prompts = std::make_shared<std::vector<PreparedPrompt>>();
  const auto read = [this, endpoint, body, api, prompts] {
    const ServedModel& model = context->model;
    ApiError error = parse_request(endpoint, *body, model.default_sampling,
                                   {.max_choices = options.max_choices,
                                    .max_waiting = options.max_waiting,
                                    .max_timeout_s = options.request_timeout_s},
                                   *api);
    if (error.ok()) error = check_model(model, api->model);
    if (error.ok()) error = prepare_prompts(model, *api, *prompts);
    if (error.ok()) error = compile_constraints(constraints, *api, *prompts);
    return error;
  };
  prepare(completion, exchange, arrival, read,
          [completion, api, prompts] { completion->start(*api, std::move(*prompts)); });
}

void ApiService::Impl::embed(RequestRecord record, std::string text, std::shared_ptr<Exchange> exchange) {
  const int64_t arrival = record.arrived_ns;
  const auto embeddings = std::make_shared<Embeddings>(context, exchange, std::move(record));
  const auto body = std::make_shared<std::string>(std::move(text));
  const auto api = std::make_shared<EmbeddingRequest>();
  const auto ids = std::make_shared<std::vector<std::vector<int32_t>>>();
  const auto read = [this, body, api, ids] { return parse_embedding_request(context->model, *body, *api, *ids); };
  prepare(embeddings, exchange, arrival, read,
          [embeddings, api, ids] { embeddings->start(std::move(*api), std::move(*ids)); });
}

void ApiService::count_failure(int status) { impl_->context->metrics->count_request("none", status); }

void ApiService::handle(HttpRequest request, std::shared_ptr<Exchange> exchange) {
  const RouteRow* row = find_route(request.path);
  const std::string route(row == nullptr ? "other" : row->path);
  RequestRecord record{.id = request_id_of(request.request_id),
                       .route = route,
                       .peer = request.peer,
                       .wants_trace = request.wants_trace,
                       .arrived_ns = now_ns()};
  exchange->add_header("X-Request-Id", record.id);
  if (row == nullptr) {
    const ApiError error{404, "nothing at " + request.path.substr(0, 100), "", "not_found"};
    impl_->conclude(*exchange, std::move(record), error, error_response(error));
    return;
  }
  if (const auto error = impl_->refuse(*row, request)) {
    HttpResponse response = error_response(*error);
    if (error->http_status == 405) response.headers.emplace_back("Allow", std::string(row->method));
    impl_->conclude(*exchange, std::move(record), *error, std::move(response));
    return;
  }
  switch (row->route) {
    case Route::kChat:
      impl_->complete(Endpoint::kChat, std::move(record), std::move(request.body), std::move(exchange));
      return;
    case Route::kCompletions:
      impl_->complete(Endpoint::kCompletions, std::move(record), std::move(request.body), std::move(exchange));
      return;
    case Route::kEmbeddings:
      impl_->embed(std::move(record), std::move(request.body), std::move(exchange));
      return;
    case Route::kTokenize:
    case Route::kDetokenize:
      impl_->tokenize(row->route, record, std::move(request.body), std::move(exchange));
      return;
    default:
      impl_->answer(*exchange, route, impl_->get(row->route, request));
      return;
  }
}

}  // namespace firstlight::server
