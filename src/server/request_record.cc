// SPDX-License-Identifier: Apache-2.0
#include "server/request_record.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <random>
#include <vector>

#include "base/trace.h"

namespace firstlight::server {
namespace {

constexpr size_t kMostTraces = 1000;
constexpr size_t kMostIdBytes = 128;

bool is_id_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
         c == '.' || c == ':';
}

double seconds_between(int64_t begin_ns, int64_t end_ns) { return static_cast<double>(end_ns - begin_ns) / 1e9; }

// What a request was last seen doing lasted to its end.
int64_t or_end(int64_t time_ns, const RequestRecord& record) { return time_ns != 0 ? time_ns : record.ended_ns; }

}  // namespace

std::string request_id_of(std::string_view wanted) {
  if (!wanted.empty() && wanted.size() <= kMostIdBytes && std::all_of(wanted.begin(), wanted.end(), is_id_character)) {
    return std::string(wanted);
  }
  thread_local std::mt19937_64 random{std::random_device{}()};
  std::array<char, 24> text{};
  std::snprintf(text.data(), text.size(), "req-%016llx", static_cast<unsigned long long>(random()));
  return text.data();
}

std::string request_trace(const RequestRecord& record) {
  Trace trace({.keep_events = true}, record.arrived_ns);
  const auto span = [&](const char* name, int64_t begin_ns, int64_t end_ns) {
    if (begin_ns == 0) return;
    const int64_t duration_ns = std::max<int64_t>(0, or_end(end_ns, record) - begin_ns);
    trace.record(name, StepClass::kCompute, begin_ns, duration_ns, duration_ns);
  };
  span("wait", record.arrived_ns, record.prepare_ns);
  span("prepare", record.prepare_ns, record.submitted_ns);
  span("queue", record.submitted_ns, record.admitted_ns);
  span("prefill", record.admitted_ns, record.first_token_ns);
  span("decode", record.first_token_ns, record.ended_ns);
  return trace.chrome_trace();
}

void RequestJournal::add(const RequestRecord& record) {
  if (record.wants_trace || trace_all_) {
    const std::scoped_lock lock(mutex_);
    traced_.push_back(record);
    if (traced_.size() > kMostTraces) traced_.pop_front();
  }
  if (log_ == nullptr) return;
  std::vector<LogField> fields = {{"id", record.id},
                                  {"route", record.route},
                                  {"status", int64_t{record.status}},
                                  {"peer", record.peer},
                                  {"total_s", seconds_between(record.arrived_ns, record.ended_ns)}};
  if (!record.client.empty()) fields.push_back({"client", record.client});
  if (record.submitted_ns != 0) {
    fields.insert(fields.end(),
                  {{"prompt_tokens", record.prompt_tokens},
                   {"cached_tokens", record.cached_tokens},
                   {"output_tokens", record.output_tokens},
                   {"choices", record.choices},
                   {"stream", int64_t{record.streamed}},
                   {"prepare_s", seconds_between(record.arrived_ns, record.submitted_ns)},
                   {"queue_s", seconds_between(record.submitted_ns, or_end(record.admitted_ns, record))}});
  }
  if (record.first_token_ns != 0) {
    fields.push_back({"first_token_s", seconds_between(record.arrived_ns, record.first_token_ns)});
  }
  if (!record.finish.empty()) fields.push_back({"finish", record.finish});
  if (!record.error.empty()) fields.push_back({"error", record.error});
  log_->write(LogLevel::kInfo, "request", fields);
}

std::optional<std::string> RequestJournal::trace(std::string_view id) const {
  const std::scoped_lock lock(mutex_);
  const auto found =
      std::find_if(traced_.rbegin(), traced_.rend(), [&](const RequestRecord& record) { return record.id == id; });
  if (found == traced_.rend()) return std::nullopt;
  return request_trace(*found);
}

}  // namespace firstlight::server
