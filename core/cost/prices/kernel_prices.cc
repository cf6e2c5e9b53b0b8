#include "core/cost/prices/kernel_prices.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/cost/cluster_prices.h"
#include "core/cost/step_time.h"

namespace tessera {
namespace {

// The distance of two sizes of work: the logarithm of the ratio of their FLOPs and of their bytes.
double DistanceOf(const OpCost& a, const OpCost& b) {
  const auto log_ratio = [](double x, double y) { return std::log((x + 1) / (y + 1)); };
  return std::hypot(log_ratio(a.flops, b.flops), log_ratio(a.bytes, b.bytes));
}

std::string DTypesOf(const std::vector<TensorType>& types) {
  std::string text;
  for (const TensorType& type : types) {
    absl::StrAppend(&text, " ", std::string(DTypeName(type.dtype)));
  }
  return text;
}

// Returns the mean time of each kernel's instructions that did not run in one of these spans, which
// are disjoint and in order.
Table<KernelId, double> MeanSeconds(const Program& program,
                                    const Table<InstructionId, TimeSpan>& times,
                                    const std::vector<TimeSpan>& left_out) {
  Table<KernelId, double> seconds(program.kernels.size(), 0);
  Table<KernelId, int> instructions(program.kernels.size(), 0);
  for (const InstructionId i : times.ids()) {
    const Instruction& instruction = program.instructions[i];
    if (instruction.kind != InstructionKind::kKernel) continue;
    const auto after =
        std::partition_point(left_out.begin(), left_out.end(),
                             [&](const TimeSpan& span) { return span.end <= times[i].begin; });
    if (after != left_out.end() && after->begin < times[i].end) continue;
    seconds[instruction.kernel] += times[i].seconds();
    ++instructions[instruction.kernel];
  }
  for (const KernelId id : seconds.ids()) {
    if (instructions[id] > 0) seconds[id] /= instructions[id];
  }
  return seconds;
}

}  // namespace

double MeasuredWork::Median() const {
  std::vector<double> sorted = seconds;
  const auto middle = sorted.begin() + static_cast<int64_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

std::string FamilyOf(const PlannedKernel& kernel) {
  const KernelRequest& request = kernel.request;
  std::string text = request.op;
  for (const auto& [name, value] : request.attributes.entries()) {
    // Other numbers are sizes, or have no influence on time.
    if (const bool* flag = std::get_if<bool>(&value); flag != nullptr) {
      absl::StrAppend(&text, " ", name, "=", *flag ? "true" : "false");
    } else if (const auto* word = std::get_if<std::string>(&value); word != nullptr) {
      absl::StrAppend(&text, " ", name, "=", *word);
    } else if (const auto* axis = std::get_if<int64_t>(&value); axis != nullptr && name == "axis") {
      absl::StrAppend(&text, " axis=", *axis);
    } else if (const auto* axes = std::get_if<std::vector<int64_t>>(&value);
               axes != nullptr && name == "axes") {
      absl::StrAppend(&text, " axes=", absl::StrJoin(*axes, ","));
    }
  }
  for (const Epilogue& epilogue : request.epilogues) {
    absl::StrAppend(&text, " ", epilogue.ToString());
  }
  return absl::StrCat(text, DTypesOf(request.inputs), " ->", DTypesOf(request.outputs),
                      " threads=", request.threads, " by ", std::string(kernel.kernel->name()));
}

Table<KernelId, double> MeanKernelSeconds(const Program& program,
                                          const Table<InstructionId, TimeSpan>& times) {
  return MeanSeconds(program, times, {});
}

Table<KernelId, double> MeanKernelSecondsAlone(const Program& program,
                                               const Table<InstructionId, TimeSpan>& times) {
  return MeanSeconds(program, times, CommunicatingSpans(program, times));
}

void KernelPrices::Add(const PlannedKernel& kernel, int ranks, const OpCost& cost, DType dtype,
                       double seconds) {
  MeasuredWork& work = works_[{kernel.key, std::string(kernel.kernel->name()), ranks}];
  if (work.seconds.empty()) {
    work.family = FamilyOf(kernel);
    work.dtype = dtype;
    work.cost = cost;
  }
  work.seconds.push_back(seconds);
  if (work.seconds.size() > kKept) work.seconds.erase(work.seconds.begin());
}

void KernelPrices::Add(const Program& program, const Table<KernelId, double>& seconds, int ranks) {
  Table<KernelId, bool> added(program.kernels.size(), false);
  for (const Instruction& instruction : program.instructions) {
    if (instruction.kind != InstructionKind::kKernel || added[instruction.kernel]) continue;
    added[instruction.kernel] = true;
    if (seconds[instruction.kernel] <= 0) continue;
    const PlannedKernel& kernel = program.KernelOf(instruction);
    Add(kernel, ranks, instruction.cost, DTypeOfRate(kernel.request.inputs),
        seconds[instruction.kernel]);
  }
}

void KernelPrices::Set(const PricedWork& work, MeasuredWork measured) {
  works_[work] = std::move(measured);
}

void KernelPrices::AddAll(const KernelPrices& other) {
  for (const auto& [key, measured] : other.works_) {
    const auto [entry, added] = works_.try_emplace(key, measured);
    if (added) continue;
    std::vector<double>& seconds = entry->second.seconds;
    seconds.insert(seconds.end(), measured.seconds.begin(), measured.seconds.end());
    if (seconds.size() > kKept) seconds.erase(seconds.begin(), seconds.end() - kKept);
  }
}

Price KernelPrices::Of(const PlannedKernel& kernel, int ranks, const OpCost& cost, DType dtype,
                       const DescribedSeconds& described) const {
  const auto known = works_.find({kernel.key, std::string(kernel.kernel->name()), ranks});
  if (known != works_.end()) return {known->second.Median(), PriceSource::kMeasured};
  const double seconds = described(cost, dtype);
  const std::optional<double> ratio = RatioOf(FamilyOf(kernel), ranks, cost, described);
  if (!ratio.has_value()) return {seconds, PriceSource::kDescribed};
  return {seconds * *ratio, PriceSource::kInterpolated};
}

std::optional<double> KernelPrices::RatioOf(absl::string_view family, int ranks, const OpCost& cost,
                                            const DescribedSeconds& described) const {
  // By the inverse of the squared distance, so that a request of almost the same size decides.
  constexpr double kLeastDistance = 1e-3;
  double weights = 0, sum = 0;
  for (const auto& [key, measured] : works_) {
    if (key.ranks != ranks || measured.family != family) continue;
    const double distance = std::max(kLeastDistance, DistanceOf(cost, measured.cost));
    const double weight = 1 / (distance * distance);
    weights += weight;
    sum += weight * std::log(measured.Median() / described(measured.cost, measured.dtype));
  }
  return weights == 0 ? std::nullopt : std::make_optional(std::exp(sum / weights));
}

}  // namespace tessera
