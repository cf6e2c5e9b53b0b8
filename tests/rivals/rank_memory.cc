// Measures the memory of a training job: what its ranks use beyond what each process uses before
// the model exists, as proportional set size, in which a page that n processes share counts 1/n in
// each of them. Takes the flags of the training tool, and prints one JSON object.
//
//   rank_memory --nproc=2 --strategy=fsdp --data=synthetic --steps=3
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/status/status_macros.h"
#include "core/train/measure/step_timer.h"
#include "models/gpt/gpt.h"
#include "tools/train/flags/flags.h"
#include "tools/train/rank/job.h"
#include "tools/train/rank/rank_program.h"
#include "tools/train/setup/configure.h"
#include "tools/train/setup/prepare.h"
#include "tools/train/setup/priced_cluster.h"

namespace tessera {
namespace {

constexpr std::chrono::milliseconds kInterval{10};

// Returns the proportional set size of this process.
absl::StatusOr<int64_t> ProportionalBytes() {
  std::ifstream file("/proc/self/smaps_rollup");
  for (std::string line; std::getline(file, line);) {
    int64_t kib = 0;
    if (std::sscanf(line.c_str(), "Pss: %ld kB", &kib) == 1) return kib * 1024;
  }
  return absl::UnavailableError("/proc/self/smaps_rollup has no Pss");
}

// Samples the memory of this process on a thread of its own.
class PeakSampler {
 public:
  PeakSampler() : thread_([this] { Sample(); }) {}
  ~PeakSampler() {
    if (thread_.joinable()) Stop();
  }

  // Returns the largest sample.
  int64_t Stop() {
    done_ = true;
    thread_.join();
    return peak_;
  }

 private:
  void Sample() {
    while (!done_) {
      peak_ = std::max(peak_, ProportionalBytes().value_or(0));
      std::this_thread::sleep_for(kInterval);
    }
  }

  std::atomic<bool> done_{false};
  int64_t peak_ = 0;  // read after the thread has ended
  std::thread thread_;
};

// Trains, and returns the peak of this rank.
absl::StatusOr<int64_t> TrainAndSample(const CommandLine& line, Job& job) {
  RunRanks ranks = {&job.ranks(), job.ranks().size(), job.ranks_of_host(), job.cores(), {}};
  ASSIGN_OR_RETURN(ranks.site, SiteOfRanks(job.backend(), job.hosts()));
  PeakSampler sampler;
  std::vector<std::string> unused_notes;
  ASSIGN_OR_RETURN(ConfiguredRun configured,
                   ConfigureRun(line, GptDefinition(), ranks, &unused_notes));
  ASSIGN_OR_RETURN(PreparedRun prepared, PrepareRun(line, configured, &unused_notes));
  const TimedRun run = {configured.config, configured.model.get(), configured.dataset.get()};
  ASSIGN_OR_RETURN(
      const std::unique_ptr<StepTimer> timer,
      StepTimer::Create(run, std::move(prepared.compiled), configured.backend.get(), ranks.ranks));
  for (int64_t step = 0; step < configured.config.steps(); ++step) {
    RETURN_IF_ERROR(timer->TimeStep().status());
  }
  return sampler.Stop();
}

absl::StatusOr<int> RunRank(const CommandLine& line, Job& job) {
  RETURN_IF_ERROR(job.ranks().Barrier());
  ASSIGN_OR_RETURN(const int64_t before, ProportionalBytes());
  RETURN_IF_ERROR(job.ranks().Barrier());
  ASSIGN_OR_RETURN(const int64_t peak, TrainAndSample(line, job));
  ASSIGN_OR_RETURN(const std::vector<std::string> all,
                   job.ranks().AllGather(absl::StrCat(peak - before)));
  int64_t sum = 0;
  for (const std::string& text : all) {
    int64_t bytes = 0;
    if (!absl::SimpleAtoi(text, &bytes)) return absl::InternalError("a rank sent no number");
    sum += bytes;
  }
  if (job.ranks().is_first()) absl::PrintF("{\"bytes\": %d}\n", sum);
  return 0;
}

std::optional<comm::LaunchCommandLine> LauncherFor(const std::vector<std::string>& arguments) {
  absl::StatusOr<CommandLine> line = ParseCommandLine(arguments, GptDefinition());
  if (!line.ok() || line->launch.nproc == 0) return std::nullopt;
  return std::move(line->launch);
}

absl::StatusOr<int> Run(const std::string& /*name*/, const std::vector<std::string>& arguments) {
  ASSIGN_OR_RETURN(const CommandLine line, ParseCommandLine(arguments, GptDefinition()));
  return RunAsRank(line.world, /*threads=*/0, [&](Job& job) { return RunRank(line, job); });
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  return tessera::RankMain(argc, argv, {.launch = tessera::LauncherFor, .run = tessera::Run});
}
