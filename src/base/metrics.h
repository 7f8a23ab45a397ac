// SPDX-License-Identifier: Apache-2.0
// Counters, gauges and histograms under a name and labels, and the Prometheus text form of them all. A Metrics object
// is made by the composition root and handed down; modules keep the small handles. A default-made handle counts
// nothing, so a module needs no "if metrics" of its own. The library behind it stays in metrics.cc.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace firstlight {

using MetricLabels = std::map<std::string, std::string>;

// Handles are cheap to copy, safe to use from several threads, and die with their Metrics.
class Counter {
 public:
  Counter() = default;
  void add(double amount = 1);  // amount >= 0
  double value() const;

 private:
  friend class Metrics;
  void* impl_ = nullptr;
};

class Gauge {
 public:
  Gauge() = default;
  void set(double value);
  void add(double amount);
  double value() const;

 private:
  friend class Metrics;
  void* impl_ = nullptr;
};

class Histogram {
 public:
  Histogram() = default;
  void observe(double value);

 private:
  friend class Metrics;
  void* impl_ = nullptr;
};

class Metrics {
 public:
  Metrics();
  Metrics(Metrics&&) noexcept;
  Metrics& operator=(Metrics&&) noexcept;
  ~Metrics();

  // The metric of that name and those labels; asking again gives the same one. Names are [a-zA-Z_:][a-zA-Z0-9_:]*,
  // label names [a-zA-Z_][a-zA-Z0-9_]* without a leading "__"; names and labels are chosen by us, never by a request,
  // so a wrong one, or one name used for two kinds, is a bug (FL_CHECK). By habit names end in their unit: _seconds,
  // _bytes, _total.
  Counter counter(const std::string& name, const std::string& help, const MetricLabels& labels = {});
  Gauge gauge(const std::string& name, const std::string& help, const MetricLabels& labels = {});
  // `bounds`: upper bounds of the buckets, ascending; the bucket without a bound is added. The first call for a name
  // and labels decides.
  Histogram histogram(const std::string& name, const std::string& help, const std::vector<double>& bounds,
                      const MetricLabels& labels = {});

  // All metrics in the text exposition format, version 0.0.4 (content type "text/plain; version=0.0.4").
  std::string exposition() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace firstlight
