// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

namespace firstlight {
namespace {

struct LevelName {
  LogLevel level;
  std::string_view name;
};
constexpr std::array kLevelNames = {LevelName{LogLevel::kDebug, "debug"}, LevelName{LogLevel::kInfo, "info"},
                                    LevelName{LogLevel::kWarn, "warn"}, LevelName{LogLevel::kError, "error"},
                                    LevelName{LogLevel::kOff, "off"}};

spdlog::level::level_enum to_library(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kOff:
      return spdlog::level::off;
  }
  return spdlog::level::off;
}

// Control characters as \n, \t or \u00XX; quote and backslash too when the line is JSON.
std::string escaped(std::string_view text, bool json) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (json && (c == '"' || c == '\\')) {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      std::array<char, 8> buffer{};
      std::snprintf(buffer.data(), buffer.size(), "\\u%04x", static_cast<unsigned>(byte));
      out += buffer.data();
    } else {
      out += c;
    }
  }
  return out;
}

std::string value_text(std::string_view text, bool json) {
  const bool bare = !json && !text.empty() && text.find_first_of(" =\"") == std::string_view::npos;
  return bare ? escaped(text, false) : '"' + escaped(text, true) + '"';
}
std::string value_text(int64_t number, bool) { return std::to_string(number); }
std::string value_text(double number, bool json) {
  if (!std::isfinite(number)) return json ? "null" : "none";
  std::array<char, 32> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.6g", number);
  return buffer.data();
}

}  // namespace

struct Log::Impl {
  std::shared_ptr<spdlog::logger> logger;
  bool json = false;
};

Result<LogLevel> parse_log_level(std::string_view name) {
  for (const auto& row : kLevelNames) {
    if (row.name == name) return row.level;
  }
  return invalid_argument("log level '" + std::string(name) + "', wanted debug, info, warn, error or off");
}

Log::Log(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Log::Log(Log&&) noexcept = default;
Log& Log::operator=(Log&&) noexcept = default;
Log::~Log() = default;

Result<Log> Log::open(const LogOptions& options) {
  auto impl = std::make_unique<Impl>();
  impl->json = options.json;
  try {
    spdlog::sink_ptr sink;
    if (options.file_path.empty()) {
      sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
    } else {
      sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(options.file_path);
    }
    // A logger of our own, outside the library's global registry.
    impl->logger = std::make_shared<spdlog::logger>("firstlight", std::move(sink));
    impl->logger->set_level(to_library(options.level));
    impl->logger->flush_on(spdlog::level::warn);
    impl->logger->set_pattern(options.json ? R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l",%v})"
                                           : "%H:%M:%S.%e %l %v");
  } catch (const spdlog::spdlog_ex& error) {
    return invalid_argument("log file " + options.file_path + ": " + error.what());
  }
  return Log(std::move(impl));
}

bool Log::is_on(LogLevel level) const {
  return level != LogLevel::kOff && impl_->logger->should_log(to_library(level));
}

void Log::write(LogLevel level, std::string_view message, std::span<const LogField> fields) const {
  if (!is_on(level)) return;
  const bool json = impl_->json;
  std::string line = json ? R"("message":")" + escaped(message, true) + '"' : escaped(message, false);
  for (const LogField& field : fields) {
    line += json ? ",\"" + std::string(field.name) + "\":" : " " + std::string(field.name) + "=";
    line += std::visit([json](const auto& value) { return value_text(value, json); }, field.value);
  }
  impl_->logger->log(to_library(level), spdlog::string_view_t(line.data(), line.size()));
}

}  // namespace firstlight
