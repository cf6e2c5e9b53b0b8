#include "tools/compare/same_training.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/text/counted.h"

namespace tessera {
namespace {

// A difference in words; nothing if there is none. Functions whose names end in "Differ" or
// "DifferIn" return the first difference that they find.
using Fault = std::optional<std::string>;

// Shares up to which two strategies are the same.
struct Tolerance {
  double loss;
  double tensor;  // of the tensor's norm; also for the norm of all gradients
  double of_all;  // of the norm of all tensors together, for each of them
};
constexpr Tolerance kFull = {1e-5, 1e-4, 1e-6};
constexpr Tolerance kLowered = {1e-2, 1e-1, 1e-3};
// The elements whose inputs lie within a rounding error of a jump are a share of all that is
// proportional to this error, and so change a norm by its square root.
constexpr Tolerance kJumps = {1e-4, 1e-2, 1e-6};
constexpr Tolerance kLoweredJumps = {1e-2, 0.3, 1e-3};
// Updated parameters are rounded to f32, of which this is the error as a share of their norm.
constexpr double kRounding = 5e-7;

const Tolerance& ToleranceOf(const Rounding& a, const Rounding& b) {
  if (a.lowered || b.lowered) return a.jumps ? kLoweredJumps : kLowered;
  return a.jumps ? kJumps : kFull;
}

bool IsSame(double a, double b, double share) {
  if (!std::isfinite(a) || !std::isfinite(b)) return a == b || (std::isnan(a) && std::isnan(b));
  return std::abs(a - b) <= share * std::max(std::abs(a), std::abs(b));
}

// Returns whether a distance of two tensors (see Distance) is at most `allowed`, which is not
// finite if elements are not. The distance is 0 if both tensors have such elements, and so count as
// equal, and not finite if one has.
bool IsWithin(double distance, double allowed) {
  return distance == 0 || (std::isfinite(distance) && distance <= allowed);
}

// Returns the norm of all finite tensors together.
double NormOf(const std::vector<SketchedTensor>& tensors) {
  double squares = 0;
  for (const SketchedTensor& tensor : tensors) {
    if (std::isfinite(tensor.sketch.squares)) squares += tensor.sketch.squares;
  }
  return std::sqrt(squares);
}

// "by 35 % of its norm".
std::string ByShare(double distance, double norm) {
  if (!std::isfinite(distance)) return "by elements that are not finite";
  if (norm == 0) return absl::StrFormat("by a norm of %.3g, and should be 0", distance);
  return absl::StrFormat("by %.3g %% of its norm", 100 * distance / norm);
}

// Counts the tensors of one kind that differ in a step, and keeps the first one.
class Differences {
 public:
  explicit Differences(std::string kind) : kind_(std::move(kind)) {}  // "gradient"

  void AddSame() { ++compared_; }
  void AddDifferent(const std::string& text) {
    ++compared_;
    if (found_++ == 0) first_ = text;
  }
  Fault Result() const {
    if (found_ == 0) return std::nullopt;
    return absl::StrCat(first_, " (", found_, " of ", Counted(compared_, kind_), " ",
                        found_ == 1 ? "differs)" : "differ)");
  }

 private:
  const std::string kind_;
  int compared_ = 0, found_ = 0;
  std::string first_;
};

// --- The ranks of one strategy -------------------------------------------------------------------

Fault RanksDifferIn(const RankNumber& number, const std::string& what, double share) {
  if (number.rank < 0 || IsSame(number.value, number.of_rank, share)) return std::nullopt;
  return absl::StrFormat("%s is %.7g on rank 0 and %.7g on rank %d", what, number.value,
                         number.of_rank, number.rank);
}

// The ranks may differ by a share of a tensor's norm and of that of all tensors.
Fault RanksDifferIn(const std::vector<SketchedTensor>& tensors, const std::string& what,
                    const std::string& kind, const Tolerance& tolerance) {
  Differences differences(kind);
  const double all = NormOf(tensors);
  for (const SketchedTensor& tensor : tensors) {
    const double norm = tensor.sketch.norm();
    const double allowed = tolerance.tensor * norm + tolerance.of_all * all;
    if (tensor.rank < 0 || IsWithin(tensor.rank_distance, allowed)) {
      differences.AddSame();
      continue;
    }
    differences.AddDifferent(absl::StrCat(
        what, tensor.path, " differs between ranks ", tensor.first_rank, " and ", tensor.rank,
        ", which hold the same elements, ", ByShare(tensor.rank_distance, norm)));
  }
  return differences.Result();
}

// Whatever the precision, ranks that hold the same elements have computed or received the same.
Fault RanksDiffer(const CheckedTraining& training) {
  constexpr Tolerance kParameter = {0, 1e-5, 0};
  const auto parameters = [&](const std::vector<SketchedTensor>& tensors, const std::string& what) {
    return RanksDifferIn(tensors, what, "parameter", kParameter);
  };
  if (Fault fault = parameters(training.initial, "the initial value of ")) return fault;
  for (size_t i = 0; i < training.steps.size(); ++i) {
    const CheckedStep& step = training.steps[i];
    for (const Fault& fault :
         {RanksDifferIn(step.loss, "the loss", kFull.loss),
          RanksDifferIn(step.gradients, "the gradient of ", "gradient", kFull),
          RanksDifferIn(step.grad_norm, "the norm of all gradients", kFull.tensor),
          parameters(step.parameters, "the updated value of "),
          RanksDifferIn(step.statistics, "the running statistic ", "statistic", kParameter)}) {
      if (fault.has_value()) return absl::StrCat("in step ", i + 1, " ", *fault);
    }
  }
  return std::nullopt;
}

// --- Two strategies ------------------------------------------------------------------------------

Fault NumbersDiffer(double a, double b, const std::string& label_a, const std::string& what,
                    double share) {
  if (IsSame(a, b, share)) return std::nullopt;
  return absl::StrFormat("%s is %.7g, and with %s it is %.7g", what, b, label_a, a);
}

// A tensor of two strategies, and the distance that rounding explains.
struct TensorPair {
  std::string path;
  TensorSketch a, b;
  double allowed = 0;
};

// Returns the first pair whose tensors differ by more than what is allowed, and how many do. A
// tensor is called `prefix`, such as "the gradient of ", and its path; the number of `kind`, such
// as "gradient", is counted.
Fault PairsDiffer(const std::vector<TensorPair>& pairs, const std::string& label_a,
                  const std::string& prefix, const std::string& kind) {
  Differences differences(kind);
  for (const TensorPair& pair : pairs) {
    const double distance = Distance(pair.a, pair.b);
    if (IsWithin(distance, pair.allowed)) {
      differences.AddSame();
      continue;
    }
    const std::string subject = absl::StrCat(prefix, pair.path);
    const double factor = FactorOf(pair.a, pair.b);  // 0: b is no multiple of a
    differences.AddDifferent(
        factor == 0 ? absl::StrCat(subject, " differs from that with ", label_a, " ",
                                   ByShare(distance, pair.a.norm()))
                    : absl::StrFormat("%s is %.6g times that with %s", subject, factor, label_a));
  }
  return differences.Result();
}

// Pairs the tensors of two strategies by their paths.
std::vector<TensorPair> Pairs(const std::vector<SketchedTensor>& a,
                              const std::vector<SketchedTensor>& b, const Tolerance& tolerance) {
  std::map<std::string, const TensorSketch*> others;
  for (const SketchedTensor& tensor : b) others[tensor.path] = &tensor.sketch;
  const double all = NormOf(a);
  std::vector<TensorPair> pairs;
  for (const SketchedTensor& tensor : a) {
    const auto other = others.find(tensor.path);
    const TensorSketch sketch = other == others.end() ? TensorSketch() : *other->second;
    const double allowed = tolerance.tensor * tensor.sketch.norm() + tolerance.of_all * all;
    pairs.push_back({tensor.path, tensor.sketch, sketch, allowed});
  }
  return pairs;
}

// Returns how step `i` changes each parameter.
std::vector<SketchedTensor> ParameterChanges(const CheckedTraining& training, size_t i) {
  const std::vector<SketchedTensor>& before =
      i == 0 ? training.initial : training.steps[i - 1].parameters;
  std::vector<SketchedTensor> changes;
  for (const TensorPair& pair : Pairs(training.steps[i].parameters, before, kFull)) {
    changes.push_back({pair.path, Difference(pair.a, pair.b)});
  }
  return changes;
}

// Compares how step `i` changes each parameter. Both lists of changes are in the order of the
// step's parameters.
Fault ChangesDiffer(const CheckedTraining& a, const CheckedTraining& b, size_t i,
                    const Tolerance& tolerance) {
  std::vector<TensorPair> pairs = Pairs(ParameterChanges(a, i), ParameterChanges(b, i), tolerance);
  for (size_t k = 0; k < pairs.size(); ++k) {
    pairs[k].allowed += kRounding * a.steps[i].parameters[k].sketch.norm();
  }
  return PairsDiffer(pairs, a.label, "the update of ", "parameter");
}

Fault StepsDiffer(const CheckedTraining& a, const CheckedTraining& b, size_t i) {
  const Tolerance& tolerance = ToleranceOf(a.rounding, b.rounding);
  const CheckedStep &of_a = a.steps[i], &of_b = b.steps[i];
  const auto number = [&](const RankNumber& x, const RankNumber& y, const std::string& what,
                          double share) {
    return NumbersDiffer(x.value, y.value, a.label, what, share);
  };
  // A loss does not jump, and the first one is of equal parameters.
  const bool lowered = a.rounding.lowered || b.rounding.lowered;
  const double share = i == 0 && !lowered ? kFull.loss : tolerance.loss;
  if (Fault fault = number(of_a.loss, of_b.loss, "the loss", share)) return fault;
  // Gradients that overflow in both change nothing.
  if (!std::isfinite(of_a.grad_norm.value) && !std::isfinite(of_b.grad_norm.value)) return {};
  if (Fault fault = PairsDiffer(Pairs(of_a.gradients, of_b.gradients, tolerance), a.label,
                                "the gradient of ", "gradient")) {
    return fault;
  }
  if (Fault fault =
          number(of_a.grad_norm, of_b.grad_norm, "the norm of all gradients", tolerance.tensor)) {
    return fault;
  }
  if (Fault fault = PairsDiffer(Pairs(of_a.statistics, of_b.statistics, tolerance), a.label,
                                "the running statistic ", "statistic")) {
    return fault;
  }
  return ChangesDiffer(a, b, i, tolerance);
}

Fault TrainingDiffers(const CheckedTraining& a, const CheckedTraining& b) {
  if (Fault fault = PairsDiffer(Pairs(a.initial, b.initial, kFull), a.label,
                                "the initial value of ", "parameter")) {
    return fault;
  }
  for (size_t i = 0; i < std::min(a.steps.size(), b.steps.size()); ++i) {
    if (const Fault fault = StepsDiffer(a, b, i)) {
      return absl::StrCat("in step ", i + 1, " ", *fault);
    }
  }
  return std::nullopt;
}

// Compares one number of the steps of two strategies. Rounding errors grow in training, and by more
// than half in each step if the learning rate is too high. So a difference is a fault only if it is
// much larger than those of all steps before it.
class GrowingDifference {
 public:
  explicit GrowingDifference(double share) : allowed_(share) {}

  Fault Compare(double a, double b, const std::string& label_a, const std::string& what) {
    constexpr double kGrowth = 30;  // in one step
    const Fault fault = NumbersDiffer(a, b, label_a, what, allowed_);
    const double difference = std::abs(a - b) / std::max(std::abs(a), std::abs(b));
    if (difference * kGrowth > allowed_) allowed_ = difference * kGrowth;
    return fault;
  }

 private:
  double allowed_;  // relative, in the next step
};

Fault SeriesDiffers(const LossSeries& a, const LossSeries& b) {
  const Tolerance& tolerance = ToleranceOf(a.rounding, b.rounding);
  GrowingDifference loss(tolerance.loss), norm(tolerance.tensor);
  for (size_t i = 0; i < std::min(a.losses.size(), b.losses.size()); ++i) {
    Fault fault = loss.Compare(a.losses[i], b.losses[i], a.label, "the loss");
    const Fault of_norm =
        norm.Compare(a.grad_norms[i], b.grad_norms[i], a.label, "the norm of all gradients");
    if (!fault.has_value()) fault = of_norm;
    if (fault.has_value()) return absl::StrCat("in step ", i + 1, " ", *fault);
  }
  return std::nullopt;
}

// Finds the strategy with which most agree, and the faults of those that do not. `own` are faults
// that strategies have whatever the others do. A strategy without one agrees with itself.
Verdict Judge(const std::vector<std::string>& labels, const std::vector<Fault>& own,
              const std::function<Fault(size_t a, size_t b)>& differs) {
  Verdict verdict;
  const size_t n = labels.size();
  int most = 0;
  for (size_t a = 0; a < n; ++a) {
    int agree = 0;
    for (size_t b = 0; b < n; ++b) {
      if (own[a].has_value() || own[b].has_value()) continue;
      agree += a == b || !differs(a, b).has_value() ? 1 : 0;
    }
    if (agree <= most) continue;
    most = agree;
    verdict.reference = static_cast<int>(a);
  }
  for (size_t b = 0; b < n; ++b) {
    Fault fault = own[b];
    // There is a reference if any strategy has no fault of its own.
    if (!fault.has_value() && static_cast<int>(b) != verdict.reference) {
      fault = differs(static_cast<size_t>(verdict.reference), b);
    }
    const std::string from =
        own[b].has_value() ? "" : absl::StrCat(" from ", labels[verdict.reference]);
    verdict.faults.push_back(
        fault.has_value() ? absl::StrCat(labels[b], " trains differently", from, ": ", *fault)
                          : "");
  }
  return verdict;
}

}  // namespace

RankNumber NumberOfRanks(absl::Span<const double> values) {
  RankNumber number = {values.front()};
  for (size_t rank = 1; rank < values.size(); ++rank) {
    const double distance = std::abs(values[rank] - number.value);
    const double largest = number.rank < 0 ? 0 : std::abs(number.of_rank - number.value);
    if (distance <= largest || (std::isnan(values[rank]) && std::isnan(number.value))) continue;
    number.rank = static_cast<int>(rank);
    number.of_rank = values[rank];
  }
  return number;
}

Verdict JudgeTraining(absl::Span<const CheckedTraining> strategies) {
  std::vector<std::string> labels;
  std::vector<Fault> own;
  for (const CheckedTraining& each : strategies) {
    labels.push_back(each.label);
    own.push_back(RanksDiffer(each));
  }
  return Judge(labels, own,
               [&](size_t a, size_t b) { return TrainingDiffers(strategies[a], strategies[b]); });
}

Verdict JudgeSeries(absl::Span<const LossSeries> strategies) {
  std::vector<std::string> labels;
  for (const LossSeries& each : strategies) labels.push_back(each.label);
  return Judge(labels, std::vector<Fault>(labels.size()),
               [&](size_t a, size_t b) { return SeriesDiffers(strategies[a], strategies[b]); });
}

}  // namespace tessera
