// SPDX-License-Identifier: Apache-2.0
#include "base/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <mutex>

#include "base/check.h"

namespace firstlight {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_metric_name(const std::string& name) {
  return !name.empty() && !is_digit(name[0]) &&
         std::all_of(name.begin(), name.end(), [](char c) { return is_letter(c) || is_digit(c) || c == ':'; });
}

bool are_label_names(const MetricLabels& labels) {
  return std::all_of(labels.begin(), labels.end(), [](const auto& label) {
    const std::string& name = label.first;
    return is_metric_name(name) && name.find(':') == std::string::npos && name.rfind("__", 0) != 0;
  });
}

}  // namespace

struct Metrics::Impl {
  prometheus::Registry registry;
  std::mutex mutex;
  std::map<std::string, prometheus::MetricType> kinds;

  // Claims the name for one kind; the library would otherwise answer a clash with an exception.
  void claim(const std::string& name, const MetricLabels& labels, prometheus::MetricType kind) {
    FL_CHECK(is_metric_name(name) && are_label_names(labels));
    const std::lock_guard lock(mutex);
    FL_CHECK(kinds.emplace(name, kind).first->second == kind);
  }
};

void Counter::add(double amount) {
  FL_DCHECK(amount >= 0);
  if (impl_ != nullptr) static_cast<prometheus::Counter*>(impl_)->Increment(amount);
}
double Counter::value() const { return impl_ == nullptr ? 0 : static_cast<prometheus::Counter*>(impl_)->Value(); }

void Gauge::set(double value) {
  if (impl_ != nullptr) static_cast<prometheus::Gauge*>(impl_)->Set(value);
}
void Gauge::add(double amount) {
  if (impl_ != nullptr) static_cast<prometheus::Gauge*>(impl_)->Increment(amount);
}
double Gauge::value() const { return impl_ == nullptr ? 0 : static_cast<prometheus::Gauge*>(impl_)->Value(); }

void Histogram::observe(double value) {
  if (impl_ != nullptr) static_cast<prometheus::Histogram*>(impl_)->Observe(value);
}

Metrics::Metrics() : impl_(std::make_unique<Impl>()) {}
Metrics::Metrics(Metrics&&) noexcept = default;
Metrics& Metrics::operator=(Metrics&&) noexcept = default;
Metrics::~Metrics() = default;

Counter Metrics::counter(const std::string& name, const std::string& help, const MetricLabels& labels) {
  impl_->claim(name, labels, prometheus::MetricType::Counter);
  Counter handle;
  handle.impl_ = &prometheus::BuildCounter().Name(name).Help(help).Register(impl_->registry).Add(labels);
  return handle;
}

Gauge Metrics::gauge(const std::string& name, const std::string& help, const MetricLabels& labels) {
  impl_->claim(name, labels, prometheus::MetricType::Gauge);
  Gauge handle;
  handle.impl_ = &prometheus::BuildGauge().Name(name).Help(help).Register(impl_->registry).Add(labels);
  return handle;
}

Histogram Metrics::histogram(const std::string& name, const std::string& help, const std::vector<double>& bounds,
                             const MetricLabels& labels) {
  FL_CHECK(std::is_sorted(bounds.begin(), bounds.end()));
  impl_->claim(name, labels, prometheus::MetricType::Histogram);
  Histogram handle;
  handle.impl_ = &prometheus::BuildHistogram().Name(name).Help(help).Register(impl_->registry).Add(labels, bounds);
  return handle;
}

std::string Metrics::exposition() const { return prometheus::TextSerializer().Serialize(impl_->registry.Collect()); }

}  // namespace firstlight
