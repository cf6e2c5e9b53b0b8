// What the checks compare the training on ranks with: the same training on one process.
#ifndef TESSERA_STRATEGIES_CONFORMANCE_TRAINED_ALONE_H_
#define TESSERA_STRATEGIES_CONFORMANCE_TRAINED_ALONE_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "strategies/conformance/rank_training.h"

namespace tessera {

// The result of training on one process, which training on ranks must reproduce.
struct OnOneProcess {
  std::string description;
  TrainingResult result;
};

// Trains models on one process, each once: strategies and their options do not change the result.
// Not thread-safe.
class TrainedAlone {
 public:
  // With the same micro-batches, and with the undivided batch.
  struct Results {
    std::vector<OnOneProcess> reference, cpu;  // by the backend
  };

  // Returns the results of a conformance model, in as many steps as `run` has. The pointer is valid
  // as long as the object.
  absl::StatusOr<const Results*> Of(const std::string& model, const TrainingRun& run);

 private:
  std::map<std::pair<std::string, int>, Results> known_;  // by the model and its steps
};

}  // namespace tessera

#endif  // TESSERA_STRATEGIES_CONFORMANCE_TRAINED_ALONE_H_
