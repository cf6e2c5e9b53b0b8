// Runs one Graph once: for tests and for trying a Graph out. A training run uses Engine.
#ifndef TESSERA_CORE_RUNTIME_RUN_GRAPH_H_
#define TESSERA_CORE_RUNTIME_RUN_GRAPH_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/graph/graph.h"
#include "core/kernels/interface/backend.h"
#include "core/proto/plan.pb.h"

namespace tessera {

// A row-major tensor in host memory, in double whatever its dtype.
struct HostTensor {
  Shape shape;
  std::vector<double> values;
};

// Compiles `graph` with `plan` (empty: the default one), sets `values` (inputs by name, states by
// path; all of them), runs it, and returns its outputs by name and its updated states by path.
absl::StatusOr<std::map<std::string, HostTensor>> RunGraph(
    const Graph& graph, Backend& backend, const std::map<std::string, HostTensor>& values,
    const Plan& plan = {});

}  // namespace tessera

#endif  // TESSERA_CORE_RUNTIME_RUN_GRAPH_H_
