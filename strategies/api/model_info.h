// The model as most strategies see it: the parameters, inputs and blocks of a run's Graphs.
//
// Thread safety: pure functions.
#ifndef TESSERA_STRATEGIES_API_MODEL_INFO_H_
#define TESSERA_STRATEGIES_API_MODEL_INFO_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "strategies/api/messages/strategy.pb.h"

namespace tessera::strategy {

struct OptimizerStateInfo {
  std::string path;
  int64_t bytes = 0;
};

struct ParameterInfo {
  std::string path;
  int64_t elements = 0;
  int64_t bytes = 0;
  bool trainable = true;
  TypeProto type;
  // Index in ModelInfo::blocks of the one block whose operators use it; -1 if several blocks or
  // none use it.
  int block = -1;
  // The state of the parameter's shape that one operator updates together with it.
  std::vector<OptimizerStateInfo> optimizer_states;
  // The dimensions along which a rank that has a shard of it can compute all operators that read
  // it, by their signatures. Only Host::ModelWithSplits() sets them.
  std::vector<int> split_dimensions;
};

struct InputInfo {
  std::string path;
  int batch_dim = -1;  // the dimension that counts the rows of the batch; -1: the same for all rows
};

struct ModelInfo {
  std::string graph;                      // the name of the Graph that has all parameters
  std::vector<ParameterInfo> parameters;  // in the order of that Graph
  std::vector<InputInfo> inputs;          // of all Graphs, each once
  std::vector<std::string> blocks;        // paths of scopes: "blocks.0"
  // For each block; equal ones differ only by their paths. Empty if the host is older than 2.1.
  std::vector<std::string> block_fingerprints;
  // The Graphs that process the rows of a batch: "train", "evaluate".
  std::vector<std::string> batch_graphs;

  // Returns the path of the parameter's block; "" if it has none.
  std::string BlockOf(const ParameterInfo& parameter) const;
  // Returns the paths of the trainable parameters that only this block uses.
  std::vector<std::string> TrainablePathsIn(int block) const;
};

// Collects the parameters, inputs and blocks of the Graphs.
ModelInfo DescribeModel(const RunGraphs& graphs);

// Sets the `split_dimensions` of the parameters of `graph`. Internal if the descriptions are not
// those of its operators, in their order.
absl::Status SetSplitDimensions(const GraphProto& graph, const OperatorDescriptions& operators,
                                ModelInfo& model);

// Returns the part of `path` that a pattern names, as those of a Plan: the path, or the path of a
// scope that contains it. "blocks.*.mlp|wte" names "blocks.0.mlp" of "blocks.0.mlp.fc.weight". If
// several alternatives name a part, the first one decides; "" if none does.
std::string ScopeThatMatches(absl::string_view pattern, absl::string_view path);

}  // namespace tessera::strategy

#endif  // TESSERA_STRATEGIES_API_MODEL_INFO_H_
