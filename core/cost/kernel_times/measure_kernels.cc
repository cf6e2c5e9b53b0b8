#include "core/cost/kernel_times/measure_kernels.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "core/cost/kernel_times/kernel_errors.h"
#include "core/cost/kernel_times/random_elements.h"
#include "core/cost/median.h"
#include "core/posix/load_of_others.h"
#include "core/program/ranks/local_operands.h"
#include "core/status/status_macros.h"
#include "core/tensor/convert.h"

namespace tessera {
namespace {

// Each candidate runs at least so often, and then until it has run for so long, but not more often.
constexpr int kLeastRounds = 3;
constexpr int kMostRounds = 15;
constexpr double kSecondsPerCandidate = 0.06;
// Instructions that take turns.
constexpr size_t kMostInstructions = 4;
// A candidate of which even the fastest run takes so many times as long as another one is out after
// some rounds.
constexpr double kHopeless = 1.5;
constexpr int kRoundsForAll = 2;
// The elements of an output that are compared with the default kernel's.
constexpr int64_t kComparedElements = int64_t{1} << 16;

constexpr double kInfinite = std::numeric_limits<double>::infinity();

double SecondsNow() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// One candidate, bound to the request, and the times of its runs.
struct Candidate {
  const Kernel* kernel = nullptr;
  std::unique_ptr<BoundKernel> bound;
  int64_t workspace_bytes = 0;
  double error = 0;             // kernel_errors.h
  bool refused = false;         // its results are wrong, or not accurate enough
  bool hopeless = false;        // it is much slower than another one
  std::vector<double> seconds;  // of each run
  double total = 0;             // of all runs

  bool runs() const { return !refused && !hopeless; }
  double Median() const { return refused ? kInfinite : MedianOf(seconds); }
  double Fastest() const { return *std::min_element(seconds.begin(), seconds.end()); }
};

// The memory and the instructions on which the candidates of one request run.
class Site {
 public:
  Site(const OpenChoice& choice, const BySpace<std::unique_ptr<DeviceMemory>>& arenas,
       Backend& backend)
      : program_(*choice.program),
        backend_(backend),
        binding_(&program_, program_.mesh.CoordinatesOf(/*rank=*/0)) {
    std::vector<InstructionId> planned;
    for (const InstructionId id : choice.instructions) {
      if (LocalWorkOf(program_, program_.instructions[id], binding_) == LocalWork::kPlanned) {
        planned.push_back(id);
      }
    }
    const size_t count = std::min(planned.size(), kMostInstructions);
    const auto view = [&](ProgramValueId id) {
      const ProgramValue& value = program_.value(id);
      const ArenaAddress address = binding_.AddressOf(id);
      char* const arena = static_cast<char*>(arenas[address.space]->data());
      return TensorView{arena + address.offset, value.type.dtype, binding_.ShapeOf(id),
                        binding_.StridesOf(id)};
    };
    for (size_t i = 0; i < count; ++i) {
      const InstructionId id = planned[i * planned.size() / count];
      operands_.push_back(OperandsOf(program_.instructions[id], binding_, view));
    }
  }

  // The number of instructions that take turns; 0 if rank 0 runs none by the planned request.
  size_t size() const { return operands_.size(); }

  absl::Status Prepare(int64_t workspace_bytes) {
    ASSIGN_OR_RETURN(stream_, backend_.CreateStream("measure"));
    ASSIGN_OR_RETURN(workspace_, backend_.Allocate(workspace_bytes, /*guarded=*/false));
    for (size_t i = 0; i < size(); ++i) RETURN_IF_ERROR(FillInputs(i));
    return absl::OkStatus();
  }

  // Runs a candidate on the operands of instruction i. Returns the seconds that it takes.
  absl::StatusOr<double> Run(const KernelRequest& request, Candidate& candidate, size_t i) {
    const LocalOperands& operands = operands_[i];
    const double begin = SecondsNow();
    RETURN_IF_ERROR(candidate.bound->Run({.request = request,
                                          .inputs = operands.inputs,
                                          .outputs = operands.outputs,
                                          .workspace = workspace_->data(),
                                          .workspace_bytes = candidate.workspace_bytes,
                                          .draw = operands.draw.get(),
                                          .stream = stream_.get(),
                                          .input_regions = operands.input_regions,
                                          .output_regions = operands.output_regions}));
    RETURN_IF_ERROR(backend_.Synchronize());
    return SecondsNow() - begin;
  }

  // Sets the inputs of instruction i to numbers that look random. Integers become 0, which is a
  // valid index.
  absl::Status FillInputs(size_t i) {
    for (const TensorView& view : operands_[i].inputs) {
      const int64_t elements = ExtentInElements(view.shape, view.strides);
      const std::vector<char>& pattern = PatternOf(view.dtype);
      const auto bytes = elements * static_cast<int64_t>(SizeOf(view.dtype));
      const auto step = static_cast<int64_t>(pattern.size());
      for (int64_t offset = 0; offset < bytes; offset += step) {
        RETURN_IF_ERROR(backend_.CopyToDevice(view.As<char>() + offset, pattern.data(),
                                              std::min(step, bytes - offset)));
      }
    }
    return absl::OkStatus();
  }

  // Returns elements from the middle of each output of instruction 0, in double.
  absl::StatusOr<std::vector<std::vector<double>>> Results() {
    std::vector<std::vector<double>> results;
    for (const TensorView& view : operands_[0].outputs) {
      const int64_t elements = ExtentInElements(view.shape, view.strides);
      const int64_t count = std::min(elements, kComparedElements);
      const auto size = static_cast<int64_t>(SizeOf(view.dtype));
      std::vector<char> bytes(static_cast<size_t>(count * size));
      RETURN_IF_ERROR(backend_.CopyToHost(
          bytes.data(), view.As<char>() + (elements - count) / 2 * size, count * size));
      ToDoubles(view.dtype, bytes.data(),
                absl::MakeSpan(results.emplace_back(static_cast<size_t>(count))));
    }
    return results;
  }

 private:
  // Returns elements with which memory is filled over and over. Their number is odd, so that rows
  // differ.
  const std::vector<char>& PatternOf(DType dtype) {
    constexpr int64_t kElements = (int64_t{1} << 18) + 1;
    std::vector<char>& pattern = patterns_[dtype];
    if (pattern.empty()) pattern = RandomElements(dtype, kElements);
    return pattern;
  }

  const Program& program_;
  Backend& backend_;
  const RankBinding binding_;
  std::vector<LocalOperands> operands_;
  std::map<DType, std::vector<char>> patterns_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<DeviceMemory> workspace_;
};

// Binds the candidates to their request, and refuses those that are not accurate enough.
absl::StatusOr<std::vector<Candidate>> BindCandidates(const OpenChoice& choice, Backend& backend) {
  const KernelRequest& request = choice.program->kernels[choice.kernel].request;
  ASSIGN_OR_RETURN(const std::vector<double> errors, ErrorsOf(choice.candidates, request, backend));
  std::vector<Candidate> candidates;
  for (size_t i = 0; i < choice.candidates.size(); ++i) {
    Candidate& candidate = candidates.emplace_back();
    candidate.kernel = choice.candidates[i];
    candidate.error = errors[i];
    candidate.refused = i > 0 && !IsAccurateEnough(errors[i], errors[0], request.outputs[0].dtype);
    candidate.workspace_bytes = candidate.kernel->WorkspaceBytes(request, backend.processor());
    ASSIGN_OR_RETURN(candidate.bound, candidate.kernel->Bind(request));
  }
  return candidates;
}

// Runs each candidate once on each instruction, which touches its memory, and refuses those whose
// results differ from the default kernel's by more than both may be off.
absl::Status WarmUp(const KernelRequest& request, Site& site, std::vector<Candidate>& candidates) {
  // More elements are compared here than were to find the errors, and sums may be longer.
  constexpr double kTolerance = 16;
  constexpr double kLeastError = 1e-7;
  std::vector<std::vector<double>> by_rule;
  for (Candidate& candidate : candidates) {
    if (candidate.refused) continue;
    RETURN_IF_ERROR(site.FillInputs(0));  // an output may lie in the memory of an input
    RETURN_IF_ERROR(site.Run(request, candidate, 0).status());
    ASSIGN_OR_RETURN(const auto results, site.Results());
    if (by_rule.empty()) by_rule = results;
    const double errors = std::max(kLeastError, candidates[0].error + candidate.error);
    candidate.refused = LargestError(results, by_rule) > kTolerance * errors;
    for (size_t i = 1; i < site.size() && !candidate.refused; ++i) {
      RETURN_IF_ERROR(site.Run(request, candidate, i).status());
    }
  }
  candidates[0].refused = false;  // it is used even if its results are not finite
  return absl::OkStatus();
}

// Runs the candidates in rotation until each has run long enough.
absl::Status TimeInRotation(const KernelRequest& request, Site& site,
                            std::vector<Candidate>& candidates) {
  for (int round = 0; round < kMostRounds; ++round) {
    double best = kInfinite, shortest_total = kInfinite;
    for (size_t k = 0; k < candidates.size(); ++k) {
      Candidate& candidate = candidates[(k + static_cast<size_t>(round)) % candidates.size()];
      if (!candidate.runs()) continue;
      for (size_t i = 0; i < site.size(); ++i) {
        ASSIGN_OR_RETURN(candidate.seconds.emplace_back(), site.Run(request, candidate, i));
        candidate.total += candidate.seconds.back();
      }
      best = std::min(best, candidate.Median());
      shortest_total = std::min(shortest_total, candidate.total);
    }
    for (size_t k = 1; round + 1 == kRoundsForAll && k < candidates.size(); ++k) {
      candidates[k].hopeless = candidates[k].runs() && candidates[k].Fastest() > kHopeless * best;
    }
    if (round + 1 >= kLeastRounds && shortest_total >= kSecondsPerCandidate) break;
  }
  return absl::OkStatus();
}

// Measures the candidates of one request. Returns nothing if rank 0 runs none of its
// instructions by the planned request.
absl::StatusOr<CandidateSeconds> Measure(const OpenChoice& choice,
                                         const BySpace<std::unique_ptr<DeviceMemory>>& arenas,
                                         Backend& backend) {
  CandidateSeconds measured;
  Site site(choice, arenas, backend);
  if (site.size() == 0) return measured;
  const KernelRequest& request = choice.program->kernels[choice.kernel].request;
  ASSIGN_OR_RETURN(std::vector<Candidate> candidates, BindCandidates(choice, backend));
  int64_t workspace_bytes = 0;
  for (const Candidate& candidate : candidates) {
    workspace_bytes = std::max(workspace_bytes, candidate.workspace_bytes);
  }
  RETURN_IF_ERROR(site.Prepare(workspace_bytes));
  RETURN_IF_ERROR(WarmUp(request, site, candidates));
  RETURN_IF_ERROR(TimeInRotation(request, site, candidates));
  for (const Candidate& candidate : candidates) {
    measured.push_back({std::string(candidate.kernel->name()), candidate.Median()});
  }
  return measured;
}

}  // namespace

std::vector<OpenChoice> OpenChoicesOf(absl::Span<const Program> programs,
                                      const KernelCatalogue& catalogue, const KernelTimes& known) {
  std::vector<OpenChoice> choices;
  absl::flat_hash_set<std::string> seen;
  for (const Program& program : programs) {
    const KernelUses uses(program);
    for (const KernelId id : program.kernels.ids()) {
      std::vector<const Kernel*> candidates = uses.CandidatesFor(id, catalogue);
      if (candidates.size() < 2) continue;
      const std::string& key = program.kernels[id].key;
      const CandidateSeconds* const times = known.Find(key);
      if (times != nullptr && AreOf(*times, candidates)) continue;
      if (!seen.insert(key).second) continue;
      choices.push_back({&program, id, uses.InstructionsOf(id), std::move(candidates)});
    }
  }
  return choices;
}

absl::StatusOr<MeasuredKernels> MeasureKernels(absl::Span<const OpenChoice> choices,
                                               const SpaceBytes& arenas, Backend& backend,
                                               const MeasuringOptions& options) {
  MeasuredKernels measured;
  const double begin = SecondsNow();
  const LoadOfOthers load;
  BySpace<std::unique_ptr<DeviceMemory>> memory;
  for (const MemorySpace space : kAllMemorySpaces) {
    ASSIGN_OR_RETURN(memory[space], backend.Allocate(arenas[space], /*guarded=*/false));
  }
  // The time left is estimated from the work of the requests that are done.
  double flops = 0, flops_done = 0;
  const auto flops_of = [](const OpenChoice& choice) {
    const PlannedKernel& planned = choice.program->kernels[choice.kernel];
    const KernelRequest& request = planned.request;
    const double flops =
        planned.op->Cost({request.inputs, request.outputs, request.attributes}).flops;
    return flops * static_cast<double>(choice.candidates.size());
  };
  for (const OpenChoice& choice : choices) flops += flops_of(choice);
  for (size_t i = 0; i < choices.size(); ++i) {
    ASSIGN_OR_RETURN(CandidateSeconds seconds, Measure(choices[i], memory, backend));
    if (!seconds.empty()) {
      measured.times.Set(choices[i].program->kernels[choices[i].kernel].key, std::move(seconds));
    }
    flops_done += flops_of(choices[i]);
    measured.seconds = SecondsNow() - begin;
    if (options.progress == nullptr) continue;
    options.progress({static_cast<int>(i) + 1, static_cast<int>(choices.size()),
                      flops_done > 0 ? measured.seconds * (flops / flops_done - 1) : 0});
  }
  measured.seconds = SecondsNow() - begin;
  measured.load_of_others = load.Share();
  return measured;
}

}  // namespace tessera
