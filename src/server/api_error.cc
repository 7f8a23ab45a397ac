// SPDX-License-Identifier: Apache-2.0
#include "server/api_error.h"

#include "base/json.h"

namespace firstlight::server {
namespace {

int http_status_of(StatusCode code) {
  switch (code) {
    case StatusCode::kInvalidArgument:
    case StatusCode::kInvalidData:
    case StatusCode::kUnsupported:
    case StatusCode::kOutOfMemory:  // this request asks for more than there is; a smaller one would do
      return 400;
    case StatusCode::kNotFound:
      return 404;
    case StatusCode::kUnavailable:
    case StatusCode::kCancelled:
      return 503;
    case StatusCode::kOk:
    case StatusCode::kInternal:
      return 500;
  }
  return 500;
}

std::string_view type_of(int http_status) {
  if (http_status == 401) return "authentication_error";
  if (http_status == 429) return "rate_limit_error";
  return http_status >= 500 ? "server_error" : "invalid_request_error";
}

}  // namespace

ApiError bad_field(std::string field, const std::string& what) {
  std::string message = field + ": " + what;
  return {400, std::move(message), std::move(field), ""};
}

ApiError unsupported_field(std::string field, const std::string& why) {
  std::string message = field + ": not supported" + (why.empty() ? "" : ": " + why);
  return {400, std::move(message), std::move(field), "unsupported"};
}

ApiError to_api_error(const Status& status) { return {http_status_of(status.code()), status.message(), "", ""}; }

ApiError not_ready(const std::string& reason) {
  constexpr int kRetryAfter = 5;  // seconds; a check that failed is repeated after 1, 2, 4, …
  return {503, "not ready: " + reason, "", reason == "draining" ? "draining" : "not_ready", kRetryAfter};
}

ApiError shutting_down() { return {503, "the server is stopping", "", "shutting_down", 1}; }

std::string error_json(const ApiError& error) {
  const auto or_null = [](const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); };
  return dump_json({{"error",
                     {{"message", error.message},
                      {"type", type_of(error.http_status)},
                      {"param", or_null(error.param)},
                      {"code", or_null(error.code)}}}});
}

HttpResponse error_response(const ApiError& error) {
  HttpResponse response;
  response.status = error.http_status;
  response.body = error_json(error);
  if (error.retry_after_s > 0) response.headers.emplace_back("Retry-After", std::to_string(error.retry_after_s));
  if (error.http_status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

}  // namespace firstlight::server
