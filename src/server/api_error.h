// SPDX-License-Identifier: Apache-2.0
// Errors in OpenAI's form: an HTTP status and {"error": {"message", "type", "param", "code"}}.
#pragma once

#include <string>

#include "base/status.h"
#include "server/http.h"

namespace firstlight::server {

struct ApiError {
  int http_status = 0;  // 0: no error
  std::string message;
  std::string param;      // the field at fault, "messages[0].content"; empty: null
  std::string code;       // "model_not_found"; empty: null
  int retry_after_s = 0;  // 0: nothing is said

  bool ok() const { return http_status == 0; }
};

ApiError bad_field(std::string field, const std::string& what);  // 400; the message names the field
ApiError unsupported_field(std::string field, const std::string& why);
// A Status of the layers below as the client should see it.
ApiError to_api_error(const Status& status);
ApiError not_ready(const std::string& reason);
ApiError shutting_down();

std::string error_json(const ApiError& error);
HttpResponse error_response(const ApiError& error);

}  // namespace firstlight::server
