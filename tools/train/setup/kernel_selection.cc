#include "tools/train/setup/kernel_selection.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/posix/available_memory.h"
#include "core/posix/load_of_others.h"
#include "core/status/status_macros.h"
#include "core/text/counted.h"
#include "core/text/human_units.h"
#include "tools/train/rank/standard_output.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

// A step with fewer FLOPs takes a few milliseconds, and measuring takes longer than it saves.
constexpr double kLeastFlops = 1e9;
constexpr auto kBetweenLines = std::chrono::seconds(2);

// Returns the FLOPs of the longest Program of a run.
double MostFlops(const CompiledRun& run) {
  double most = 0;
  for (const Program& program : run.programs) {
    double flops = 0;
    for (const Instruction& instruction : program.instructions) flops += instruction.cost.flops;
    most = std::max(most, flops);
  }
  return most;
}

bool FitsInMemory(const CompiledRun& run, int64_t limit) {
  const int64_t available = AvailableMemory();
  return (limit == 0 || run.arena_bytes() <= limit) &&
         (available <= 0 || run.arena_bytes() <= available);
}

}  // namespace

KernelSelection::KernelSelection(const std::string& flag, Backend* backend)
    : backend_(backend), enabled_(flag != kDefaultKernels), path_(KernelCachePath()) {
  if (!enabled_) return;
  CachedKernelTimes cached = ReadKernelCache(path_, *backend_);
  times_ = std::move(cached.times);
  note_ = std::move(cached.note);
}

std::vector<OpenChoice> KernelSelection::MissingIn(const CompiledRun& run, const Plan& plan) const {
  std::vector<OpenChoice> missing = OpenChoicesOf(run.programs, *backend_, times_);
  if (!AreForTheSame(Choices(), plan.kernels())) return missing;
  absl::flat_hash_set<std::string> decided;
  for (const KernelChoice& choice : plan.kernels().choices()) decided.insert(choice.request());
  const auto is_decided = [&decided](const OpenChoice& choice) {
    return decided.contains(choice.program->kernels[choice.kernel].key);
  };
  missing.erase(std::remove_if(missing.begin(), missing.end(), is_decided), missing.end());
  return missing;
}

bool KernelSelection::Measure(const std::vector<OpenChoice>& missing, const CompiledRun& run,
                              std::vector<std::string>* notes) {
  if (!note_.empty()) notes->push_back(absl::StrCat(note_, ": kernels are measured again"));
  note_.clear();
  MeasuringOptions options;
  options.progress = [last = Clock::now()](const MeasuringProgress& progress) mutable {
    if (Clock::now() - last < kBetweenLines) return;
    last = Clock::now();
    PrintLine(absl::StrFormat("measuring kernels, once for this machine: %d of %d | %s left",
                              progress.done, progress.total, FormatSeconds(progress.seconds_left)));
  };
  const absl::StatusOr<MeasuredKernels> measured =
      MeasureKernels(missing, run.arenas, *backend_, options);
  if (!measured.ok()) {
    notes->push_back(absl::StrCat("kernels could not be measured, and are chosen by rule: ",
                                  measured.status().message()));
    return false;
  }
  if (measured->load_of_others > kBusyShare) {
    notes->push_back(absl::StrFormat(
        "other processes have used %.0f%% of the cores while kernels were measured (%s): the "
        "times are not kept, and %s chosen by rule; the next start measures again",
        100 * measured->load_of_others, FormatSeconds(measured->seconds),
        missing.size() == 1 ? "the kernel is" : "kernels are"));
    return false;
  }
  times_.SetAll(measured->times);
  const absl::Status kept = path_.empty() ? absl::FailedPreconditionError("HOME is not set")
                                          : AddToKernelCache(path_, *backend_, measured->times);
  notes->push_back(absl::StrCat(
      "measured the kernels for ", Counted(static_cast<int64_t>(missing.size()), "request"), " in ",
      FormatSeconds(measured->seconds),
      kept.ok()
          ? absl::StrCat(", and kept the times in ", path_)
          : absl::StrCat("; the next start measures again, because the times cannot be kept: ",
                         kept.message())));
  return true;
}

absl::StatusOr<CompiledRun> KernelSelection::Compile(
    Plan plan, const std::function<absl::StatusOr<CompiledRun>(const Plan& plan)>& compile,
    const Options& options, std::vector<std::string>* notes) {
  const KernelChoices& recorded = plan.kernels();
  if (enabled_ && recorded.choices_size() > 0 && !AreForTheSame(Choices(), recorded)) {
    notes->push_back(absl::StrCat(
        "the Plan's kernels were chosen for ", recorded.backend(), " on ", recorded.processor(),
        " with ", Counted(recorded.threads(), "thread"), ": here they are chosen anew"));
    plan.clear_kernels();
  }
  const auto compile_by_times = [&] {
    Plan filled_in = plan;
    FillInKernels(Choices(), filled_in);
    return compile(filled_in);
  };
  ASSIGN_OR_RETURN(CompiledRun run, compile_by_times());
  if (!enabled_) return run;
  if (options.measure && MostFlops(run) >= kLeastFlops && FitsInMemory(run, options.memory_limit)) {
    const std::vector<OpenChoice> missing = MissingIn(run, plan);
    if (!missing.empty() && Measure(missing, run, notes)) {
      ASSIGN_OR_RETURN(run, compile_by_times());
    }
  }
  const bool fits = options.memory_limit == 0 || run.arena_bytes() <= options.memory_limit;
  if (fits || times_.empty()) return run;
  ASSIGN_OR_RETURN(CompiledRun by_rule, compile(plan));
  if (by_rule.arena_bytes() > options.memory_limit) return run;
  notes->push_back(absl::StrCat("kernels are chosen by rule: the measured ones need ",
                                FormatBytes(run.arena_bytes() - by_rule.arena_bytes()),
                                " more, and would exceed the memory limit"));
  return by_rule;
}

std::string KernelSelection::Line(const CompiledRun& run) const {
  const size_t all = OpenChoicesOf(run.programs, *backend_, KernelTimes()).size();
  const size_t by_rule = OpenChoicesOf(run.programs, *backend_, times_).size();
  if (all == 0) return "";
  return absl::StrCat("kernels: measured for ", all - by_rule, " of ",
                      Counted(static_cast<int64_t>(all), "request"),
                      " that several can run; default kernels for the others\n");
}

}  // namespace tessera
