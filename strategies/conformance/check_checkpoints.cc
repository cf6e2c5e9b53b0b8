#include "strategies/conformance/check_checkpoints.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "collectives/fake/fake.h"
#include "core/status/status_macros.h"
#include "core/train/checkpoint/open_checkpoint.h"
#include "core/train/data/synthetic_dataset.h"
#include "core/train/ranks/compile_ranks.h"
#include "core/train/ranks/rank_engine.h"
#include "core/train/trainer.h"

namespace tessera {
namespace {

constexpr int kSteps = 3;  // as many before the checkpoint as after it

// A folder that exists as long as the object.
class TemporaryFolder {
 public:
  static absl::StatusOr<std::unique_ptr<TemporaryFolder>> Create() {
    std::error_code error;
    std::string path = (std::filesystem::temp_directory_path(error) / "tessera_XXXXXX").string();
    if (error || mkdtemp(path.data()) == nullptr) {
      return absl::UnavailableError("cannot make a temporary folder");
    }
    return std::unique_ptr<TemporaryFolder>(new TemporaryFolder(std::move(path)));
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}
  const std::string path_;
};

// One run of the trainer, from a checkpoint or from the beginning.
struct Leg {
  std::string from;     // a checkpoint's folder; "": from the beginning
  std::string save_in;  // saves after kSteps in this run folder; "": does not
  int steps = kSteps;
};

// Trains one leg on this rank, under the Plan of `by`. Returns the losses, by step, and that of an
// evaluation after them, which also depends on states that training only writes.
absl::StatusOr<std::vector<double>> TrainLegOnRank(const TrainingRun& run, const ContinuedRun& by,
                                                   const Leg& leg, Ranks& ranks) {
  const std::unique_ptr<Backend> backend = run.backend();
  const auto passes = run.plugin_passes ? run.plugin_passes(*backend) : nullptr;
  ASSIGN_OR_RETURN(CompiledRun compiled,
                   CompileTogether(run.graphs, by.plan, *backend, ranks, passes.get()));
  ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine,
                   MakeRankEngine(std::move(compiled), backend.get(), ranks));
  ASSIGN_OR_RETURN(const std::unique_ptr<SyntheticDataset> dataset,
                   SyntheticDataset::Create(run.model->BatchFields(run.config.sequence()), 8, 1));
  Trainer trainer(run.config, run.model.get(), engine.get(), dataset.get(), &ranks);
  std::vector<double> losses;
  const auto train = [&]() -> absl::Status {
    if (leg.from.empty()) {
      RETURN_IF_ERROR(trainer.Initialise());
    } else {
      ASSIGN_OR_RETURN(const OpenedCheckpoint opened, OpenCheckpoint(leg.from));
      RETURN_IF_ERROR(
          trainer.Load(*opened.checkpoint, Extra::kRefuse, opened.checkpoint->rows()).status());
    }
    for (int step = 0; step < leg.steps; ++step) {
      if (step == kSteps && !leg.save_in.empty()) {
        RETURN_IF_ERROR(trainer.Save(leg.save_in, "").status());
      }
      ASSIGN_OR_RETURN(const StepResult result, trainer.Step());
      losses.push_back(result.loss);
    }
    ASSIGN_OR_RETURN(const EvaluationResult evaluated,
                     trainer.Evaluate([](const absl::Status& read) -> absl::StatusOr<bool> {
                       RETURN_IF_ERROR(read);
                       return false;
                     }));
    losses.push_back(evaluated.loss);
    return absl::OkStatus();
  };
  const absl::Status status = train();
  // Reports the error to the other ranks before this rank's memory is freed, because freeing is
  // collective.
  if (!status.ok()) ranks.Abort(status);
  RETURN_IF_ERROR(status);
  return losses;
}

// Trains one leg on all ranks of `by`, which are threads. Returns the losses of rank 0.
absl::StatusOr<std::vector<double>> RunLeg(const TrainingRun& run, const ContinuedRun& by,
                                           const Leg& leg) {
  std::vector<double> losses;
  const std::vector<absl::Status> statuses =
      comm::RunFake({.ranks = by.ranks}, [&](comm::World& world) -> absl::Status {
        ASSIGN_OR_RETURN(const std::unique_ptr<Ranks> ranks, Ranks::Create(&world));
        const absl::StatusOr<std::vector<double>> own = TrainLegOnRank(run, by, leg, *ranks);
        if (own.ok() && world.rank() == 0) losses = *own;
        if (own.ok()) return world.Leave();
        absl::Status status = own.status();
        world.Leave(status).IgnoreError();
        return status;
      });
  RETURN_IF_ERROR(CauseOf(statuses));
  return losses;
}

// Continues from the checkpoint of a folder, and compares with the losses of the unbroken run.
absl::Status CheckLosses(const TrainingRun& run, const ContinuedRun& by, const std::string& folder,
                         const std::vector<double>& unbroken, double tolerance) {
  ASSIGN_OR_RETURN(const std::vector<double> continued, RunLeg(run, by, {folder, "", kSteps}));
  for (int i = 0; i <= kSteps; ++i) {
    const double expected = unbroken[kSteps + i];
    if (std::abs(continued[i] - expected) <= tolerance * std::abs(expected)) continue;
    const std::string of = i == kSteps ? "an evaluation" : absl::StrCat("step ", kSteps + i + 1);
    return absl::InternalError(absl::StrCat("the loss of ", of, " is ", continued[i],
                                            ", and in the unbroken run ", expected));
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<absl::Status> CheckContinued(const TrainingRun& run, const ContinuedRun& first,
                                         absl::Span<const ContinuedRun> others, double tolerance) {
  const auto folder = TemporaryFolder::Create();
  if (!folder.ok()) return std::vector<absl::Status>(others.size(), folder.status());
  const std::string& path = (*folder)->path();
  const auto unbroken = RunLeg(run, first, {"", path, 2 * kSteps});
  std::vector<absl::Status> results;
  for (const ContinuedRun& by : others) {
    results.push_back(unbroken.ok() ? CheckLosses(run, by, path, *unbroken, tolerance)
                                    : unbroken.status());
  }
  return results;
}

}  // namespace tessera
