// SPDX-License-Identifier: Apache-2.0
// Errors as values. Status says whether something worked; Result<T> carries a value or the Status that explains why
// there is none. Only what comes from outside (a file, a spec, a request, a device) travels this way; our own bugs are
// FL_CHECKs (base/check.h), and things that are normal in operation are ordinary return values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/check.h"

namespace firstlight {

// Small on purpose: a code says who has to act, the message says on what.
enum class StatusCode : uint8_t {
  kOk = 0,
  kInvalidArgument,  // the caller's words are wrong: a flag, a request field, a value out of range
  kInvalidData,      // bytes from outside are malformed: a file, a spec, a template, a body
  kNotFound,         // a named file, tensor, key or model is not there
  kUnsupported,      // well-formed, but nothing here can do it: a dtype, an operator, a construct
  kOutOfMemory,      // it does not fit; the message has needed and available bytes
  kUnavailable,      // may work later: a busy queue, a lost device
  kCancelled,        // the caller went away or a budget (time, steps) ran out
  kInternal,         // a fault of ours that was caught before it could do harm
};

std::string_view status_code_name(StatusCode code);

// A code and a message that names the thing, the value found and the value wanted. Contexts are put in front on the way
// up ("model.gguf: tensor blk.0.attn_q.weight: offset 96 is past the end of the file (80 bytes)").
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }

  // "invalid data: <message>", or "ok".
  std::string to_string() const;

  // The same status with `context` and ": " in front of its message; an ok status stays as it is.
  Status with_context(std::string_view context) &&;

  // Uniform access with Result<T>, so that FL_TRY takes both.
  Status status() && { return std::move(*this); }
  void value() && { FL_CHECK(ok()); }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

inline Status ok_status() { return {}; }
Status invalid_argument(std::string message);
Status invalid_data(std::string message);
Status not_found(std::string message);
Status unsupported(std::string message);
Status out_of_memory(std::string message);
Status unavailable(std::string message);
Status cancelled(std::string message);
Status internal_error(std::string message);

// A T, or the Status (never ok) that explains its absence. Reading the wrong one is a bug and ends the process.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}                                                    // NOLINT: implicit
  Result(Status status) : state_(std::move(status)) { FL_CHECK(!std::get<Status>(state_).ok()); }  // NOLINT: implicit

  bool ok() const { return std::holds_alternative<T>(state_); }
  StatusCode code() const { return ok() ? StatusCode::kOk : std::get<Status>(state_).code(); }

  T& value() & {
    FL_CHECK(ok());
    return std::get<T>(state_);
  }
  const T& value() const& {
    FL_CHECK(ok());
    return std::get<T>(state_);
  }
  T&& value() && {
    FL_CHECK(ok());
    return std::get<T>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Status& status() const& {
    FL_CHECK(!ok());
    return std::get<Status>(state_);
  }
  Status status() && {
    FL_CHECK(!ok());
    return std::get<Status>(std::move(state_));
  }

  Result with_context(std::string_view context) && {
    if (ok()) return std::move(*this);
    return std::move(*this).status().with_context(context);
  }

 private:
  std::variant<T, Status> state_;
};

}  // namespace firstlight

// The value of a Result (or nothing, of a Status); on failure returns the Status from the enclosing function.
//   auto file = FL_TRY(FileMap::open(path));
//   FL_TRY(check_header(file).with_context(path));
#define FL_TRY(expression) FL_TRY_NAMED(expression, __COUNTER__)
#define FL_TRY_NAMED(expression, number) FL_TRY_PASTED(expression, number)
#define FL_TRY_PASTED(expression, number) FL_TRY_UNIQUE(expression, fl_try_result_##number)
#define FL_TRY_UNIQUE(expression, result)                \
  __extension__({                                        \
    auto result = (expression);                          \
    if (!result.ok()) return std::move(result).status(); \
    std::move(result).value();                           \
  })
