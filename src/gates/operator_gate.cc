// SPDX-License-Identifier: Apache-2.0
#include "gates/operator_gate.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <map>
#include <mutex>
#include <numeric>

#include "base/json.h"
#include "gates/batch_classes.h"
#include "gates/captured_call.h"
#include "kv/state_cache.h"
#include "tolerance/tolerances.h"

namespace firstlight::gates {
namespace {

using plan::KernelStep;

// What one judged call says.
struct CallVerdict {
  bool judged = false;
  bool passed = false;
  double worst = 0;   // of what an element may be off, in units of it
  double usual = 0;   // the worst row's root mean square of that
  double rel_l2 = 0;  // of the results
  bool has_bound = true;
  std::string what;  // when it failed
};

double relative_distance(const judge::Outcome& found, const judge::Outcome& wanted) {
  double difference = 0, norm = 0;
  for (size_t r = 0; r < wanted.results.size(); ++r) {
    const tensor::Type& type = wanted.results[r].type;
    if (type.is_state() || !tensor::dtype_info(type.dtype).is_float) continue;
    const auto a = found.results[r].values(), b = wanted.results[r].values();
    for (size_t i = 0; i < b.size(); ++i) {
      if (!std::isfinite(a[i]) || !std::isfinite(b[i])) {
        if (std::isfinite(a[i]) != std::isfinite(b[i])) return HUGE_VAL;
        continue;
      }
      difference += (a[i] - b[i]) * (a[i] - b[i]);
      norm += b[i] * b[i];
    }
  }
  return difference == 0 ? 0 : std::sqrt(difference / std::max(norm, 1e-300));
}

// Root mean square over a row of what each element is off, in units of what it may be; the worst row's.
double usual_share(const judge::Outcome& found, const judge::Outcome& wanted, const judge::Limits& limits) {
  double worst = 0;
  for (size_t r = 0; r < wanted.results.size() && r < limits.results.size(); ++r) {
    const auto& ranges = limits.results[r];
    if (ranges.empty()) continue;
    const auto a = found.results[r].values(), b = wanted.results[r].values();
    const auto width = static_cast<size_t>(wanted.results[r].type.shape.back().factor);
    for (size_t first = 0; width >= 16 && first + width <= b.size(); first += width) {
      double sum = 0;
      for (size_t i = first; i < first + width; ++i) {
        const double room = (ranges[i].high - ranges[i].low) / 2;
        const double share = room > 0 ? (a[i] - b[i]) / room : 0;
        sum += std::isfinite(share) ? share * share : 0;
      }
      worst = std::max(worst, std::sqrt(sum / static_cast<double>(width)));
    }
  }
  return worst;
}

// Whether some element has no bound of its own: an intermediate value may pass the end of float32, or a recurrence
// grows.
bool is_bounded(const judge::Outcome& wanted, const judge::Limits& limits) {
  for (size_t r = 0; r < limits.results.size(); ++r) {
    if (r >= wanted.results.size() || limits.results[r].empty()) continue;
    const auto values = wanted.results[r].values();
    for (size_t i = 0; i < values.size(); ++i) {
      const auto& range = limits.results[r][i];
      if (std::isfinite(values[i]) && !(std::isfinite(range.low) && std::isfinite(range.high))) return false;
    }
  }
  return true;
}

int64_t inner_width(const judge::Case& c) {
  return c.operands.empty() || c.operands[0].type.shape.empty() ? 0 : c.operands[0].type.shape.back().factor;
}

// Rows of an indexer's choice that are not the same set of numbers.
double turned_rows(const judge::Outcome& found, const judge::Outcome& wanted) {
  const auto a = found.results[0].values(), b = wanted.results[0].values();
  const auto width = static_cast<size_t>(wanted.results[0].type.shape.back().factor);
  double turned = 0, rows = 0;
  for (size_t first = 0; width > 0 && first + width <= b.size(); first += width) {
    const auto begin = static_cast<std::ptrdiff_t>(first), end = static_cast<std::ptrdiff_t>(first + width);
    std::vector<double> x(a.begin() + begin, a.begin() + end), y(b.begin() + begin, b.begin() + end);
    std::sort(x.begin(), x.end());
    std::sort(y.begin(), y.end());
    turned += x == y ? 0 : 1;
    rows += 1;
  }
  return rows > 0 ? turned / rows : 0;
}

std::string short_number(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.3g", value);
  return text;
}

void hold(const CapturedCall& captured, const judge::Outcome& wanted, bool on_device, CallVerdict& verdict) {
  const judge::Case& c = captured.call;
  verdict.rel_l2 = relative_distance(captured.found, wanted);
  if (c.op == ops::OpKind::kIndexScores) {
    const double turned = turned_rows(captured.found, wanted);
    verdict.passed = turned <= tolerance::kTurnedRows;
    verdict.worst = turned / tolerance::kTurnedRows;
    if (!verdict.passed) verdict.what = short_number(100 * turned) + " % of the choices differ";
    return;
  }
  const judge::Limits limits = judge::derived_limits(c, wanted, captured.mode, on_device);
  const judge::Judgement judgement = judge::judge_outcome(c, captured.found, wanted, limits);
  verdict.worst = judgement.worst;
  verdict.what = judgement.difference;
  verdict.passed = judgement.difference.empty();
  verdict.has_bound = is_bounded(wanted, limits);
  if (!verdict.has_bound && verdict.rel_l2 > tolerance::kTwoForms) {
    verdict.passed = false;
    verdict.what = "no element has a bound here; " + short_number(verdict.rel_l2) + " off in relative L2, " +
                   short_number(tolerance::kTwoForms) + " allowed";
  }
  const bool rounds = judge::is_product(c.op) && captured.mode != catalog::ComputeMode::kF32;
  if (!rounds || inner_width(c) < tolerance::kUsualWidth) return;
  verdict.usual = usual_share(captured.found, wanted, limits);
  if (verdict.usual > tolerance::kUsualShare && verdict.passed) {
    verdict.passed = false;
    verdict.what = "a row is off by " + short_number(verdict.usual) + " of what its elements may be, in the mean; " +
                   short_number(tolerance::kUsualShare) + " allowed, for roundings are independent";
  }
}

CallVerdict judged(const CapturedCall& captured, bool on_device) {
  CallVerdict verdict;
  const judge::Case& c = captured.call;
  const auto operands = judge::operand_types(c);
  const auto* row =
      catalog::select_kernel(catalog::Backend::kReference, {}, {c.op, operands, c.result_types, c.attributes});
  if (row == nullptr) {
    verdict.what = "no reference body takes these operands";
    return verdict;
  }
  ThreadPool pool({1, false, 0});
  auto wanted = judge::run_case(c, *row, catalog::ComputeMode::kF32, pool);
  if (!wanted.ok()) {
    verdict.what = "the reference body: " + std::string(wanted.status().message());
    return verdict;
  }
  if (c.op == ops::OpKind::kRope) wanted->pages.clear();  // of the state that stands for the sequences alone
  verdict.judged = true;
  hold(captured, *wanted, on_device, verdict);
  return verdict;
}

// A kernel on operand types with attributes: what the evidence has a line for.
struct Signature {
  std::string op, operands, attributes, states;
  std::vector<const KernelStep*> steps;
  std::vector<std::string> labels;
  struct Form {
    std::string kernel;
    int64_t calls = 0, rows = 0, rows_judged = 0, columns = 0, columns_judged = 0;
    std::vector<std::string> shapes;
    CallVerdict worst{.judged = false, .passed = true};
    std::string failed_label, failed_shape;
    std::string not_judged;
  };
  std::vector<Form> forms;
};

class SignatureTable {
 public:
  explicit SignatureTable(const plan::Plan& plan) : plan_(plan) { add(plan.body); }

  size_t of(const KernelStep& step) const { return index_.at(&step); }
  Signature& operator[](size_t i) { return signatures_[i]; }
  std::vector<Signature>& all() { return signatures_; }

 private:
  void add(const plan::Block& block) {
    for (const plan::Step& step : block.steps) {
      if (const auto* kernel = std::get_if<KernelStep>(&step.body)) {
        add(*kernel, step.label);
      } else if (const auto* experts = std::get_if<plan::PerExpertStep>(&step.body)) {
        add(*experts->body);
      } else {
        const auto& branch = std::get<plan::IfStep>(step.body);
        add(*branch.then_block);
        add(*branch.else_block);
      }
    }
  }

  void add(const KernelStep& step, const std::string& label) {
    Signature made{.op = std::string(ops::op_name(step.op)),
                   .operands = {},
                   .attributes = ops::attributes_to_string(step.attributes),
                   .states = {},
                   .steps = {},
                   .labels = {},
                   .forms = {}};
    for (const plan::BufferId id : step.inputs)
      made.operands += (made.operands.empty() ? "" : ", ") + (id < 0 ? "state" : plan_.buffer(id).type.to_string());
    for (const int32_t state : step.states) {
      const ops::StateDecl& decl = plan_.states[static_cast<size_t>(state)];
      made.states += (made.states.empty() ? "" : "; ") + std::string(ops::state_kind_name(decl.kind));
      for (const auto& part : decl.components) {
        made.states += " " + part.name + " " + std::string(tensor::dtype_info(part.dtype).name) + "[" +
                       std::to_string(part.heads) + ", " + std::to_string(part.width) + "]";
      }
    }
    const std::string key = made.op + "|" + step.symbol + "|" + step.generated + "|" + made.operands + "|" +
                            made.attributes + "|" + made.states;
    const auto [place, is_new] = by_key_.emplace(key, signatures_.size());
    if (is_new) signatures_.push_back(std::move(made));
    signatures_[place->second].steps.push_back(&step);
    signatures_[place->second].labels.push_back(label);
    index_[&step] = place->second;
  }

  const plan::Plan& plan_;
  std::vector<Signature> signatures_;
  std::map<std::string, size_t> by_key_;
  std::map<const KernelStep*, size_t> index_;
};

// Captures one call of every signature in each run, of another step each time.
class Captor final : public runtime::StepProbe {
 public:
  Captor(const plan::Plan& plan, const formats::Checkpoint& checkpoint, SignatureTable& table)
      : plan_(plan), weights_(plan, checkpoint), table_(table) {}

  void begin_run(size_t number) {
    run_ = number;
    calls.clear();
    of_signature.clear();
    seen_.clear();
  }

  bool wants(const KernelStep& step, const tensor::SymbolValues& values) override {
    const size_t signature = table_.of(step);
    const auto& steps = table_[signature].steps;
    if (steps[run_ % steps.size()] != &step || seen_.contains(signature)) return false;
    for (const plan::BufferId id : step.outputs) {
      if (tensor::num_elements(plan_.buffer(id).type.shape, values) == 0) return false;
    }
    seen_.emplace(signature, true);
    return true;
  }

  void before(const runtime::StepCall& call) override {
    auto captured = capture_before(call, plan_, weights_);
    if (!captured.ok()) {
      if (status.ok()) status = Status(captured.status()).with_context(std::string(call.label));
      return;
    }
    calls.push_back(std::move(*captured));
    of_signature.push_back(table_.of(call.step));
  }

  void after(const runtime::StepCall& call) override {
    if (!calls.empty() && calls.back().label == call.label && calls.back().found.results.empty())
      capture_after(call, plan_, calls.back());
  }

  std::vector<CapturedCall> calls;
  std::vector<size_t> of_signature;
  Status status;

 private:
  const plan::Plan& plan_;
  WeightSource weights_;
  SignatureTable& table_;
  size_t run_ = 0;
  std::map<size_t, bool> seen_;
};

class OperatorGate {
 public:
  explicit OperatorGate(Candidate& candidate)
      : candidate_(candidate),
        executor_(*candidate.loaded.executor),
        plan_(executor_.plan()),
        table_(plan_),
        captor_(plan_, *candidate.loaded.checkpoint, table_),
        on_device_(catalog::is_device(candidate.bring_up.backend)) {}

  Result<Verdict> run() {
    const auto classes = batch_classes(plan_, candidate_.loaded.context(), longest_prefill());
    auto cache = FL_TRY(kv::StateCache::create(plan_.states, {.storage = executor_.page_storage()}));
    for (int i = 0; i < 4; ++i) sequences_.push_back(cache.add_sequence());
    executor_.set_probe(&captor_);
    Status status;
    for (size_t i = 0; i < classes.size() && status.ok(); ++i) status = run_class(classes[i], i, cache);
    executor_.set_probe(nullptr);
    FL_TRY(std::move(status));
    return verdict(classes);
  }

 private:
  // Of a full prefill: what takes some seconds of this machine.
  int64_t longest_prefill() const {
    double parameters = 0;
    for (const auto& [name, record] : candidate_.loaded.checkpoint->tensors()) {
      double elements = 1;
      for (const int64_t dim : record.shape) elements *= static_cast<double>(dim);
      parameters += elements;
    }
    const double products = !on_device_ ? 1e11 : candidate_.bring_up.backend == catalog::Backend::kSimt ? 2e7 : 1e10;
    return std::clamp<int64_t>(static_cast<int64_t>(products / std::max(parameters, 1.0)), 18, 512);
  }

  int32_t draw(int64_t vocab) {
    seed_ = seed_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<int32_t>((seed_ >> 33) % static_cast<uint64_t>(std::max<int64_t>(vocab, 1)));
  }

  int64_t vocab() const {
    for (const auto& output : plan_.outputs) {
      if (output.name == "logits") return plan_.buffer(output.buffer).type.shape.back().factor;
    }
    return 2;
  }

  Status run_class(const BatchClass& entry, size_t number, kv::StateCache& cache) {
    std::vector<int32_t> tokens, positions, rows;
    std::vector<plan::SequenceSpan> spans;
    std::vector<kv::SequenceId> ids;
    for (const auto& part : entry.parts) {
      ids.push_back(sequences_[static_cast<size_t>(part.sequence)]);
      const int64_t start = cache.length(ids.back());
      FL_TRY(cache.extend(ids.back(), start + part.tokens));
      spans.push_back({.first_row = static_cast<int64_t>(tokens.size()),
                       .num_tokens = part.tokens,
                       .start_position = start,
                       .planned_length = candidate_.loaded.context()});
      for (int64_t i = 0; i < part.tokens; ++i) {
        tokens.push_back(draw(vocab()));
        positions.push_back(static_cast<int32_t>(start + i));
      }
    }
    const auto outputs = std::min<int64_t>(static_cast<int64_t>(tokens.size()), executor_.max_batch_outputs());
    rows.resize(static_cast<size_t>(std::min<int64_t>(outputs, 16)));
    std::iota(rows.begin(), rows.end(), static_cast<int32_t>(tokens.size() - rows.size()));
    captor_.begin_run(number);
    FL_TRY(executor_.run({.tokens = tokens, .positions = positions, .output_rows = rows, .sequences = spans},
                         cache.views(ids)));
    FL_TRY(Status(captor_.status));
    judge_calls();
    return ok_status();
  }

  // All of the run's calls, on all threads.
  void judge_calls() {
    std::vector<CallVerdict> verdicts(captor_.calls.size());
    std::atomic<size_t> next{0};
    candidate_.loaded.pool->run([&](Worker&) {
      for (size_t i = next++; i < verdicts.size(); i = next++) verdicts[i] = judged(captor_.calls[i], on_device_);
    });
    for (size_t i = 0; i < verdicts.size(); ++i) note(table_[captor_.of_signature[i]], captor_.calls[i], verdicts[i]);
  }

  static void note(Signature& signature, const CapturedCall& call, const CallVerdict& found) {
    auto form = std::find_if(signature.forms.begin(), signature.forms.end(),
                             [&](const Signature::Form& f) { return f.kernel == call.kernel; });
    if (form == signature.forms.end()) {
      signature.forms.push_back({.kernel = call.kernel});
      form = signature.forms.end() - 1;
    }
    if (!found.judged) {
      form->not_judged = found.what;
      return;
    }
    ++form->calls;
    form->rows += call.rows;
    form->rows_judged += call.rows_judged;
    form->columns = std::max(form->columns, call.columns);
    form->columns_judged = std::max(form->columns_judged, call.columns_judged);
    if (std::find(form->shapes.begin(), form->shapes.end(), call.shape) == form->shapes.end())
      form->shapes.push_back(call.shape);
    CallVerdict& worst = form->worst;
    worst.judged = true;
    worst.worst = std::max(worst.worst, found.worst);
    worst.usual = std::max(worst.usual, found.usual);
    worst.rel_l2 = std::max(worst.rel_l2, found.rel_l2);
    worst.has_bound = worst.has_bound && found.has_bound;
    if (!found.passed && worst.passed) {
      worst.passed = false;
      worst.what = found.what;
      form->failed_label = call.label;
      form->failed_shape = call.shape;
    }
  }

  static Json line(const Signature& signature, const Signature::Form& form) {
    Json out = {{"kernel", form.kernel},
                {"op", signature.op},
                {"operands", signature.operands},
                {"attributes", signature.attributes.substr(0, 400)},
                {"steps", signature.steps.size()},
                {"first_step", signature.labels[0]},
                {"calls", form.calls},
                {"shapes", form.shapes},
                {"rows", form.rows},
                {"rows_judged", form.rows_judged},
                {"worst_of_bound", form.worst.worst},
                {"worst_rel_l2", form.worst.rel_l2},
                {"passed", form.worst.passed}};
    if (!signature.states.empty()) out["states"] = signature.states;
    if (form.columns > 0) out["columns"] = form.columns;
    if (form.columns > 0) out["columns_judged"] = form.columns_judged;
    if (form.worst.usual > 0) out["usual_of_bound"] = form.worst.usual;
    if (!form.worst.has_bound) out["bound"] = "relative L2: elements have none";
    if (!form.worst.passed) {
      out["failure"] = {{"step", form.failed_label}, {"shape", form.failed_shape}, {"what", form.worst.what}};
    }
    return out;
  }

  Result<Verdict> verdict(const std::vector<BatchClass>& classes) {
    Json lines = Json::array(), not_judged = Json::array(), names = Json::array();
    for (const BatchClass& entry : classes) names.push_back(entry.name);
    int64_t kernels = 0, calls = 0;
    double worst = 0;
    std::string failure;
    for (const Signature& signature : table_.all()) {
      if (signature.forms.empty()) {
        not_judged.push_back({{"kernel", signature.steps[0]->symbol},
                              {"step", signature.labels[0]},
                              {"why", "no batch reached it: a branch not taken, or experts without rows"}});
      }
      for (const auto& form : signature.forms) {
        if (!form.not_judged.empty())
          not_judged.push_back({{"kernel", form.kernel}, {"step", signature.labels[0]}, {"why", form.not_judged}});
        if (!form.worst.judged) continue;
        ++kernels;
        calls += form.calls;
        worst = std::max(worst, form.worst.worst);
        lines.push_back(line(signature, form));
        if (form.worst.passed || !failure.empty()) continue;
        failure = form.kernel + " at " + form.failed_label + " (" + form.failed_shape + "): " + form.worst.what;
      }
    }
    Verdict out;
    out.passed = failure.empty();
    out.summary = out.passed ? std::to_string(kernels) + " kernels in " + std::to_string(calls) +
                                   " calls, worst error " + short_number(worst) + " of its bound"
                             : failure;
    if (!not_judged.empty()) out.summary += "; " + std::to_string(not_judged.size()) + " not judged";
    out.evidence = dump_json(
        {{"judge", "the reference bodies on the same operands, bounds per element (docs/numerics.md)"},
         {"batches", std::move(names)},
         {"kernels", std::move(lines)},
         {"not_judged", std::move(not_judged)},
         {"sampled",
          "per batch one step of each signature, another one each time; of many rows the first, the last and some "
          "between; of large products the first, the last and some columns"}});
    return out;
  }

  Candidate& candidate_;
  runtime::Executor& executor_;
  const plan::Plan& plan_;
  SignatureTable table_;
  Captor captor_;
  bool on_device_;
  std::vector<kv::SequenceId> sequences_;
  uint64_t seed_ = 20261130;
};

}  // namespace

Result<Verdict> operator_gate(Candidate& candidate) { return OperatorGate(candidate).run(); }

}  // namespace firstlight::gates
