// Small models to train under Plans, on ranks that are threads and as one process.
#ifndef TESSERA_TESTS_PLANS_SMALL_RUNS_H_
#define TESSERA_TESTS_PLANS_SMALL_RUNS_H_

#include <string>
#include <vector>

#include "core/proto/plan.pb.h"
#include "strategies/conformance/rank_training.h"
#include "strategies/conformance/small_models.h"

namespace tessera {

inline constexpr char kDataParallel[] = "docs/plans/data_parallel.textproto";
inline constexpr char kDataParallelTied[] = "docs/plans/data_parallel_tied.textproto";
inline constexpr char kFullySharded[] = "docs/plans/fully_sharded.textproto";
inline constexpr char kHybridSharded[] = "docs/plans/hybrid_sharded.textproto";
inline constexpr char kZero1[] = "docs/plans/zero1.textproto";
inline constexpr char kOffloaded[] = "docs/plans/offloaded.textproto";
inline constexpr char kTensorParallel[] = "docs/plans/tensor_parallel.textproto";
inline constexpr char kDataTensorParallel[] = "docs/plans/data_tensor_parallel.textproto";
// For a VGG.
inline constexpr char kChannelParallel[] = "docs/plans/channel_parallel.textproto";
inline constexpr char kFlatLayersParallel[] = "docs/plans/flat_layers_parallel.textproto";
// The Plans with which every GPT can be trained.
inline constexpr const char* kAllPlans[] = {kDataParallel,   kFullySharded,       kHybridSharded,
                                            kTensorParallel, kDataTensorParallel, kZero1};

// Returns the Plan of one stage, which is given as text.
Plan StagePlan(const std::string& stage);

// Returns the run on the cpu backend, with one thread for each rank.
TrainingRun OnCpu(TrainingRun run);

// Trains with the Plan on these numbers of ranks, and as one process: losses, gradients and states
// are equal, to `tolerance` of each tensor's norm.
void ExpectSame(const TrainingRun& run, const Plan& plan, const std::vector<int>& ranks,
                double tolerance = 1e-10);
void ExpectSame(const TrainingRun& run, const std::string& plan_file, const std::vector<int>& ranks,
                double tolerance = 1e-10);

}  // namespace tessera

#endif  // TESSERA_TESTS_PLANS_SMALL_RUNS_H_
