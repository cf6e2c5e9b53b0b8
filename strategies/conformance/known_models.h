// The models of the checks, with what checks of all strategies and options have in common.
#ifndef TESSERA_STRATEGIES_CONFORMANCE_KNOWN_MODELS_H_
#define TESSERA_STRATEGIES_CONFORMANCE_KNOWN_MODELS_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "strategies/conformance/rank_training.h"
#include "strategies/conformance/strategy_planner.h"

namespace tessera {

// The result of training on one process, which training on ranks must reproduce.
struct OnOneProcess {
  std::string description;
  TrainingResult result;
};

// A model, the lowered Plans of its run, and its training on one process. Not thread-safe.
class KnownModel {
 public:
  // With the same micro-batches, and with the undivided batch.
  struct TrainedAlone {
    std::vector<OnOneProcess> reference, cpu;  // by the backend
  };

  // `name` is one of ConformanceModels().
  explicit KnownModel(const std::string& name);
  KnownModel(const KnownModel&) = delete;
  KnownModel& operator=(const KnownModel&) = delete;

  const TrainingRun& run() const { return run_; }
  const std::shared_ptr<const PlanningContexts>& contexts() const { return contexts_; }

  // Trains with each backend, once for each number of steps. The pointer is valid as long as the
  // object.
  absl::StatusOr<const TrainedAlone*> TrainAlone(int steps);

 private:
  const TrainingRun run_;
  const std::shared_ptr<const PlanningContexts> contexts_;
  std::map<int, TrainedAlone> trained_alone_;  // by steps
};

// Not thread-safe.
class KnownModels {
 public:
  // Makes the model if it is not known. The reference is valid as long as the object.
  KnownModel& Of(const std::string& name);

 private:
  std::map<std::string, KnownModel> models_;
};

}  // namespace tessera

#endif  // TESSERA_STRATEGIES_CONFORMANCE_KNOWN_MODELS_H_
