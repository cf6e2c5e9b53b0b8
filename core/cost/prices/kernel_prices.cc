#include "core/cost/prices/kernel_prices.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "core/cost/cluster_prices.h"
#include "core/cost/median.h"
#include "core/cost/prices/local_regression.h"
#include "core/cost/step_time.h"

namespace tessera {
namespace {

// How unlike the families of two requests of one operator are, as a distance beside those of the
// logarithms of dimensions: if only their kernels differ, or attributes, dtypes or epilogues too.
constexpr double kOtherKernel = 0.5, kOtherFamily = 1;

// Returns the position of work among other work of the operator. Logarithms, since the time of most
// work is about a product of powers of its dimensions.
std::vector<double> PositionOf(absl::Span<const int64_t> dimensions, double unlike) {
  std::vector<double> position;
  position.reserve(dimensions.size() + 1);
  for (const int64_t size : dimensions) {
    position.push_back(std::log(static_cast<double>(size) + 1));
  }
  position.push_back(unlike);
  return position;
}

std::string DTypesOf(const std::vector<TensorType>& types) {
  std::string text;
  for (const TensorType& type : types) {
    absl::StrAppend(&text, " ", std::string(DTypeName(type.dtype)));
  }
  return text;
}

// Returns the part of the families of a request that precedes the name of a kernel.
std::string FamiliesOf(const KernelRequest& request) {
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
                      " threads=", request.threads, " by ");
}

// Returns the price by a ratio of measured to described seconds, if there is one.
Price Interpolated(std::optional<double> ratio, double described) {
  if (!ratio.has_value()) return {described, PriceSource::kDescribed};
  return {described * *ratio, PriceSource::kInterpolated};
}

// The mean time of instructions that ran alone; of all of them, if none did.
struct Mean {
  InstructionId first;
  int alone = 0, all = 0;
  double sum_alone = 0, sum = 0;

  void Add(InstructionId i, double seconds, bool ran_alone) {
    if (all++ == 0) first = i;
    sum += seconds;
    if (!ran_alone) return;
    ++alone;
    sum_alone += seconds;
  }
  double seconds() const { return alone > 0 ? sum_alone / alone : all > 0 ? sum / all : 0; }
};

// Returns whether a span has some time in common with one of these, which are disjoint and in
// order.
bool Intersects(const TimeSpan& span, const std::vector<TimeSpan>& spans) {
  const auto after = std::partition_point(
      spans.begin(), spans.end(), [&](const TimeSpan& each) { return each.end <= span.begin; });
  return after != spans.end() && after->begin < span.end;
}

PricedWork Gap(int ranks) { return {"gap between instructions", "executor", ranks}; }
PricedWork Copy(const std::string& name, int ranks) { return {name, "copy", ranks}; }

}  // namespace

double MeasuredWork::Median() const { return MedianOf(seconds); }

std::string FamilyOf(const PlannedKernel& kernel) {
  return absl::StrCat(FamiliesOf(kernel.request), std::string(kernel.kernel->name()));
}

std::vector<int64_t> DimensionsOf(const KernelRequest& request) {
  std::vector<int64_t> dimensions;
  for (const TensorType& input : request.inputs) {
    if (input.shape.empty()) continue;
    const int64_t last = input.shape.back();
    dimensions.push_back(last == 0 ? 0 : NumElements(input.shape) / last);
    dimensions.push_back(last);
  }
  return dimensions;
}

std::string CopyName(const Program& program, const Instruction& copy) {
  const ProgramValue& from = program.value(copy.inputs[0]);
  const ProgramValue& to = program.value(copy.outputs[0]);
  return absl::StrCat("copy of ", NumBytes(from.type), " bytes from ",
                      std::string(MemorySpaceName(program.buffers[from.buffer].space)), " to ",
                      std::string(MemorySpaceName(program.buffers[to.buffer].space)));
}

MeasuredWork& KernelPrices::WorkOf(const PricedWork& work) {
  MeasuredWork& measured = works_[work];
  if (measured.seconds.size() >= kKept) measured.seconds.erase(measured.seconds.begin());
  return measured;
}

void KernelPrices::Add(const PlannedKernel& kernel, int ranks, const OpCost& cost, DType dtype,
                       double seconds) {
  MeasuredWork& work = WorkOf({kernel.key, std::string(kernel.kernel->name()), ranks});
  if (work.seconds.empty()) {
    work.family = FamilyOf(kernel);
    work.dtype = dtype;
    work.cost = cost;
    work.dimensions = DimensionsOf(kernel.request);
  }
  work.seconds.push_back(seconds);
}

void KernelPrices::AddInstructions(const Program& program,
                                   const Table<InstructionId, TimeSpan>& times,
                                   const std::vector<TimeSpan>& beside, int ranks) {
  Table<KernelId, Mean> kernels(program.kernels.size());
  std::map<std::string, Mean> copies;
  for (const InstructionId i : times.ids()) {
    const Instruction& instruction = program.instructions[i];
    if (program.Communicates(instruction)) continue;
    Mean& mean = instruction.kind == InstructionKind::kKernel
                     ? kernels[instruction.kernel]
                     : copies[CopyName(program, instruction)];
    mean.Add(i, times[i].seconds(), !Intersects(times[i], beside));
  }
  for (const KernelId id : kernels.ids()) {
    const Mean& mean = kernels[id];
    if (mean.seconds() <= 0) continue;
    const PlannedKernel& kernel = program.kernels[id];
    Add(kernel, ranks, program.instructions[mean.first].cost, DTypeOfRate(kernel.request.inputs),
        mean.seconds());
  }
  for (const auto& [name, mean] : copies) {
    if (mean.seconds() <= 0) continue;
    MeasuredWork& work = WorkOf(Copy(name, ranks));
    work.family = "copy";
    work.seconds.push_back(mean.seconds());
  }
}

void KernelPrices::AddStep(const Program& program, const Table<InstructionId, TimeSpan>& times,
                           int ranks) {
  AddInstructions(program, times, CommunicatingSpans(program, times), ranks);
}

void KernelPrices::AddComputation(const Program& program,
                                  const Table<InstructionId, TimeSpan>& times, double seconds,
                                  int ranks) {
  AddInstructions(program, times, {}, ranks);
  int64_t instructions = 0;
  double sum = 0;
  for (const InstructionId i : times.ids()) {
    if (program.Communicates(program.instructions[i])) continue;
    ++instructions;
    sum += times[i].seconds();
  }
  if (instructions == 0 || seconds <= sum) return;
  MeasuredWork& gap = WorkOf(Gap(ranks));
  gap.family = "gap";
  gap.seconds.push_back((seconds - sum) / static_cast<double>(instructions));
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
  return Interpolated(RatioOf(kernel.request, kernel.kernel->name(), ranks, described),
                      described(cost, dtype));
}

Price KernelPrices::OfGap(int ranks) const {
  const auto known = works_.find(Gap(ranks));
  if (known == works_.end()) return {};
  return {known->second.Median(), PriceSource::kMeasured};
}

Price KernelPrices::OfCopy(const std::string& copy, int ranks, double described) const {
  const auto known = works_.find(Copy(copy, ranks));
  if (known == works_.end()) return {described, PriceSource::kDescribed};
  return {known->second.Median(), PriceSource::kMeasured};
}

Price KernelPrices::OfRequest(const KernelRequest& request, int ranks, const OpCost& cost,
                              DType dtype, const DescribedSeconds& described) const {
  const std::string key = request.Key();
  std::optional<double> fastest;
  for (auto it = works_.lower_bound({key, "", 0}); it != works_.end() && it->first.request == key;
       ++it) {
    if (it->first.ranks != ranks) continue;
    const double seconds = it->second.Median();
    fastest = std::min(fastest.value_or(seconds), seconds);
  }
  if (fastest.has_value()) return {*fastest, PriceSource::kMeasured};
  return Interpolated(RatioOf(request, "", ranks, described), described(cost, dtype));
}

std::optional<double> KernelPrices::RatioOf(const KernelRequest& request, absl::string_view kernel,
                                            int ranks, const DescribedSeconds& described) const {
  const std::string families = FamiliesOf(request);
  const std::string op = absl::StrCat(request.op, " ");
  const std::string threads = absl::StrCat(" threads=", request.threads, " by ");
  const std::vector<int64_t> dimensions = DimensionsOf(request);
  std::vector<KnownValue> known;
  // A request's key begins with its operator.
  for (auto it = works_.lower_bound({request.op, "", 0});
       it != works_.end() && absl::StartsWith(it->first.request, request.op); ++it) {
    const MeasuredWork& measured = it->second;
    const absl::string_view family = measured.family;
    if (it->first.ranks != ranks || measured.dimensions.size() < dimensions.size() ||
        !absl::StartsWith(family, op) || !absl::StrContains(family, threads)) {
      continue;
    }
    double unlike = kOtherFamily;
    if (absl::StartsWith(family, families)) {
      unlike = kernel.empty() || family.substr(families.size()) == kernel ? 0 : kOtherKernel;
    }
    // Further operands, as those of epilogues, come last.
    const auto first = absl::MakeConstSpan(measured.dimensions).first(dimensions.size());
    known.push_back({PositionOf(first, unlike),
                     std::log(measured.Median() / described(measured.cost, measured.dtype))});
  }
  const std::optional<double> ratio = InterpolateLocally(known, PositionOf(dimensions, 0));
  return ratio.has_value() ? std::make_optional(std::exp(*ratio)) : std::nullopt;
}

}  // namespace tessera
