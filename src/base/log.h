// SPDX-License-Identifier: Apache-2.0
// The log: lines for the people who run the program. A Log is made once by the composition root and handed down by
// pointer; a null pointer is a valid "no log" for the free functions below. Never the place for results (stdout) and
// never the only place for an error (that is Status). The library behind it stays in log.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "base/status.h"

namespace firstlight {

enum class LogLevel : uint8_t {
  kDebug,  // for us, while looking for a fault
  kInfo,   // what was chosen and why: a kernel, a spec, a length
  kWarn,   // the work goes on, but the user should know
  kError,  // a piece of work failed
  kOff,
};

// "debug", "info", "warn", "error" or "off"; kInvalidArgument for anything else.
Result<LogLevel> parse_log_level(std::string_view name);

struct LogOptions {
  LogLevel level = LogLevel::kInfo;
  bool json = false;           // one JSON object per line: time, level, message and the line's own fields
  std::string file_path = {};  // empty: stderr
};

// A named value of a line.
struct LogField {
  std::string_view name;  // ours, never from outside
  std::variant<std::string_view, int64_t, double> value;
};

class Log {
 public:
  // kInvalidArgument when the file cannot be opened for appending.
  static Result<Log> open(const LogOptions& options);

  Log(Log&&) noexcept;
  Log& operator=(Log&&) noexcept;
  ~Log();

  bool is_on(LogLevel level) const;
  // One line; line breaks inside the message are escaped, so that a name from outside cannot forge a line. Safe to call
  // from several threads. Lines of level kWarn and above are flushed at once.
  void write(LogLevel level, std::string_view message) const { write(level, message, {}); }
  // With values: members of the object where lines are JSON, else `name=value` behind the message.
  void write(LogLevel level, std::string_view message, std::span<const LogField> fields) const;

 private:
  struct Impl;
  explicit Log(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

inline void log_debug(const Log* log, std::string_view message) {
  if (log != nullptr) log->write(LogLevel::kDebug, message);
}
inline void log_info(const Log* log, std::string_view message) {
  if (log != nullptr) log->write(LogLevel::kInfo, message);
}
inline void log_warn(const Log* log, std::string_view message) {
  if (log != nullptr) log->write(LogLevel::kWarn, message);
}
inline void log_error(const Log* log, std::string_view message) {
  if (log != nullptr) log->write(LogLevel::kError, message);
}

}  // namespace firstlight
