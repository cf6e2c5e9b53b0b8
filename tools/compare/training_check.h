// A short training of one strategy's Programs, to be compared with that of other strategies.
#ifndef TESSERA_TOOLS_COMPARE_TRAINING_CHECK_H_
#define TESSERA_TOOLS_COMPARE_TRAINING_CHECK_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/compile/compile.h"
#include "core/proto/plan.pb.h"
#include "core/runtime/engine.h"
#include "core/train/config/run_config.pb.h"
#include "tools/compare/rank_sketches.pb.h"
#include "tools/compare/same_training.h"
#include "tools/train/flags/flags.h"
#include "tools/train/rank/stop_request.h"
#include "tools/train/setup/configure.h"
#include "tools/train/setup/prepare.h"

namespace tessera {

// A prepared run with its completed Plan, as plain gradient descent, and with every gradient as
// an output. The Graphs are those of the run but for these outputs and for constants of the update.
//
// It is gradient descent because AdamW divides gradients by their size: a gradient that is exactly
// 0, such as that of a key's bias, has rounding errors of its own in each layout, and AdamW would
// turn them into steps of full size.
//
// Every rank of a job has one, and calls the same methods in the same order. Not thread-safe.
class TrainingCheck {
 public:
  // Collective. `configured` must outlive the result. Errors are agreed ones.
  static absl::StatusOr<std::unique_ptr<TrainingCheck>> Compile(const CommandLine& line,
                                                                const ConfiguredRun* configured,
                                                                const PreparedRun& prepared);

  int64_t arena_bytes() const { return compiled_.arena_bytes(); }
  const Rounding& rounding() const { return rounding_; }

  // Collective. Allocates the memory, runs the steps, and frees the memory. All ranks return the
  // same. Returns fewer steps if `stop` has a signal. Call once.
  absl::StatusOr<CheckedTraining> Run(const std::string& label, StopRequest& stop);

 private:
  struct Gradient {
    std::string output, parameter;
  };

  explicit TrainingCheck(const ConfiguredRun* configured) : configured_(*configured) {}

  // Returns sketches of the parameters and running statistics, and of the gradients of the last
  // step.
  absl::StatusOr<RankSketches> Sketch(Engine& engine, bool with_gradients) const;
  // Returns the sketches of all ranks as those of one step. Collective.
  absl::StatusOr<CheckedStep> Merge(const RankSketches& mine) const;
  absl::StatusOr<CheckedTraining> Train(Engine& engine, StopRequest& stop) const;

  const ConfiguredRun& configured_;
  RunConfig config_;                 // with the optimizer of the check
  std::vector<Gradient> gradients_;  // in the order in which they are computed
  Rounding rounding_;
  CompiledRun compiled_;
};

}  // namespace tessera

#endif  // TESSERA_TOOLS_COMPARE_TRAINING_CHECK_H_
