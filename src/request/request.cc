// SPDX-License-Identifier: Apache-2.0
#include "request/request.h"

#include <cmath>
#include <sstream>

namespace firstlight::request {
namespace {

Status check_range(std::string_view field, double value, bool in_range, std::string_view wanted) {
  if (in_range) return ok_status();
  std::ostringstream text;
  text << field << " is " << value << ", " << wanted << " wanted";
  return invalid_argument(text.str());
}

}  // namespace

Status check(const SamplingParams& params, int64_t vocab_size) {
  const auto within = [](double value, double low, double high) {
    return value >= low && value <= high;
  };  // false for NaN
  FL_TRY(check_range("repetition_penalty", params.repetition_penalty, within(params.repetition_penalty, 0.001, 1000),
                     "0.001 to 1000"));
  FL_TRY(check_range("presence_penalty", params.presence_penalty, within(params.presence_penalty, -2, 2), "-2 to 2"));
  FL_TRY(
      check_range("frequency_penalty", params.frequency_penalty, within(params.frequency_penalty, -2, 2), "-2 to 2"));
  FL_TRY(check_range("temperature", params.temperature, within(params.temperature, 0, 100), "0 to 100"));
  FL_TRY(check_range("top_k", static_cast<double>(params.top_k), params.top_k >= 0, "0 or more"));
  FL_TRY(check_range("top_p", params.top_p, params.top_p > 0 && params.top_p <= 1, "above 0, up to 1"));
  FL_TRY(check_range("min_p", params.min_p, within(params.min_p, 0, 1), "0 to 1"));
  for (const auto& [token, bias] : params.logit_bias) {
    FL_TRY(check_range("logit_bias token", token, token >= 0 && token < vocab_size,
                       "an id below " + std::to_string(vocab_size)));
    FL_TRY(check_range("logit_bias", bias, within(bias, -100, 100), "-100 to 100"));
  }
  return ok_status();
}

std::string_view finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kNone:
      return "";
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kError:
      return "error";
  }
  return "";
}

}  // namespace firstlight::request
