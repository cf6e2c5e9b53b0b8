// Candidate Plans for the Graphs of one run: a search compiles hundreds of them to know what each
// would cost.
#ifndef TESSERA_CORE_COMPILE_CANDIDATES_H_
#define TESSERA_CORE_COMPILE_CANDIDATES_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "core/graph/fingerprints.h"
#include "core/graph/graph.h"
#include "core/kernels/interface/backend.h"
#include "core/program/program.h"
#include "core/proto/plan.pb.h"
#include "core/sync/mutex.h"

namespace tessera {

// The result of compiling a candidate.
struct CompiledCandidate {
  Program step;       // of the Graph that is the step, with its memory planned
  SpaceBytes arenas;  // the peak of each memory space: the maximum over the Programs of all Graphs
};

// Compiles candidates as CompileRun does (compile.h), with the same step, arenas and errors. It
// keeps from one candidate to the next what a candidate does not change: chosen kernels,
// redistributions, and the Programs of other Graphs than the step. It lists no decisions, and it
// does not verify Programs, because a Plan that is run is compiled by CompileRun.
//
// Thread safety: any number of threads may call Compile. Results do not depend on earlier calls.
class CandidateCompiler {
 public:
  // `step` is the position of the Graph that a step runs. The catalogue must outlive the object.
  CandidateCompiler(std::shared_ptr<const std::vector<Graph>> graphs, size_t step,
                    const KernelCatalogue* catalogue, int ranks);
  ~CandidateCompiler();

  absl::StatusOr<CompiledCandidate> Compile(const Plan& plan) const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  class Kept;

  absl::StatusOr<CompiledCandidate> CompileWith(Kept& kept, const Plan& plan) const;

  const std::shared_ptr<const std::vector<Graph>> graphs_;
  const size_t step_;
  const KernelCatalogue* const catalogue_;
  const int ranks_;
  const Fingerprints fingerprints_;
  mutable Mutex mutex_;
  // Left by earlier candidates. A call takes the last one, and puts it back at its end.
  mutable std::vector<std::unique_ptr<Kept>> idle_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tessera

#endif  // TESSERA_CORE_COMPILE_CANDIDATES_H_
