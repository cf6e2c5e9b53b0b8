#include "strategies/conformance/compare_training.h"

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "core/status/check.h"

namespace tessera {
namespace {

constexpr char kLoss[] = "loss";  // the output of a training Graph

// Returns x if b = x a, or 0 if b is not a multiple of a.
double FactorOf(absl::Span<const double> a, absl::Span<const double> b) {
  constexpr double kRounding = 1e-4;  // of b's norm
  double aa = 0, ab = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    aa += a[i] * a[i];
    ab += a[i] * b[i];
    bb += b[i] * b[i];
  }
  const bool is_multiple = aa > 0 && bb - ab * ab / aa <= kRounding * kRounding * bb;
  return is_multiple ? ab / aa : 0;
}

// Raises `largest` to the largest relative difference (in the norm) of two tensors with the same
// path; `when` precedes the path in its description.
void CompareTensors(const Tensors& a, const Tensors& b, const std::string& when,
                    Difference& largest) {
  TESSERA_CHECK(a.size() == b.size()) << when;
  for (const auto& [path, values] : a) {
    const auto other = b.find(path);
    TESSERA_CHECK(other != b.end() && other->second.size() == values.size()) << path;
    double distance = 0, norm = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const double difference = values[i] - other->second[i];
      distance += difference * difference;
      norm += values[i] * values[i];
    }
    const double relative = distance == 0 ? 0 : std::sqrt(distance / norm);
    if (relative <= largest.relative || std::isnan(largest.relative)) continue;
    largest = {relative, absl::StrCat(when, path), FactorOf(values, other->second)};
  }
}

}  // namespace

Difference Compare(const TrainingResult& a, const TrainingResult& b, double enough) {
  Difference largest;
  TESSERA_CHECK(a.outputs.size() == b.outputs.size());
  for (size_t step = 0; step < a.outputs.size(); ++step) {
    CompareTensors(a.outputs[step], b.outputs[step], absl::StrCat("step ", step, ", "), largest);
    if (largest.relative > enough) return largest;
  }
  CompareTensors(a.states, b.states, "state ", largest);
  CompareTensors(a.others, b.others, "", largest);
  return largest;
}

Difference CompareLowered(const TrainingResult& a, const TrainingResult& b) {
  Difference largest;
  CompareTensors(a.outputs.front(), b.outputs.front(), "step 0, ", largest);
  const auto loss = [](const Tensors& outputs) -> Tensors { return {{kLoss, outputs.at(kLoss)}}; };
  for (size_t step = 1; step < a.outputs.size(); ++step) {
    CompareTensors(loss(a.outputs[step]), loss(b.outputs[step]), absl::StrCat("step ", step, ", "),
                   largest);
  }
  CompareTensors(a.states, b.states, "state ", largest);
  CompareTensors(a.others, b.others, "", largest);
  return largest;
}

Difference CompareParameters(const TrainingResult& a, const TrainingResult& b, bool lowers) {
  double distance = 0, norm = 0;
  for (const auto& [path, shape] : a.parameters) {
    const std::vector<double>& x = a.states.at(path);
    const std::vector<double>& y = b.states.at(path);
    // [heads, 3, head_dim]: query, key and value of each head.
    const size_t head_dim = absl::EndsWith(path, "attn.qkv.bias") ? shape.back() : 0;
    for (size_t i = 0; i < x.size(); ++i) {
      if (head_dim > 0 && i / head_dim % 3 == 1) continue;
      distance += (x[i] - y[i]) * (x[i] - y[i]);
      norm += x[i] * x[i];
    }
  }
  Difference largest = {distance == 0 ? 0 : std::sqrt(distance / norm), "the parameters"};
  if (!lowers) CompareTensors(a.others, b.others, "", largest);
  return largest;
}

Difference CompareTraining(const TrainingRun& run, bool lowers, const TrainingResult& a,
                           const TrainingResult& b, double enough) {
  if (run.config.optimizer().kind() == "adamw") return CompareParameters(a, b, lowers);
  return lowers ? CompareLowered(a, b) : Compare(a, b, enough);
}

}  // namespace tessera
