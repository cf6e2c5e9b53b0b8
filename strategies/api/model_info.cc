#include "strategies/api/model_info.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_split.h"
#include "core/text/path_pattern.h"
#include "strategies/api/signature.h"

namespace tessera::strategy {
namespace {

int64_t Elements(const TypeProto& type) {
  int64_t elements = 1;
  for (const int64_t size : type.shape()) elements *= size;
  return elements;
}

int64_t BytesOf(const TypeProto& type) {
  switch (type.dtype()) {
    case TypeProto::F64:
    case TypeProto::I64:
      return 8 * Elements(type);
    case TypeProto::BF16:
    case TypeProto::F16:
      return 2 * Elements(type);
    case TypeProto::U8:
      return Elements(type);
    default:
      return 4 * Elements(type);
  }
}

// Returns the block of each value that operators of the forward pass read; -1 if several blocks
// read it.
absl::flat_hash_map<int, int> BlocksOfReaders(const GraphProto& graph) {
  absl::flat_hash_map<int, int> blocks;
  for (const GraphProto::Op& op : graph.ops()) {
    if (op.phase() != GraphProto::FORWARD) continue;
    for (const int32_t input : op.inputs()) {
      const auto [found, added] = blocks.emplace(input, op.block());
      if (!added && found->second != op.block()) found->second = -1;
    }
  }
  return blocks;
}

// Adds the parameters of a Graph, each with the block that reads it.
void AddParameters(const GraphProto& graph, ModelInfo& model) {
  const absl::flat_hash_map<int, int> blocks = BlocksOfReaders(graph);
  for (const GraphProto::State& state : graph.states()) {
    if (state.role() != GraphProto::PARAMETER) continue;
    const auto block = blocks.find(state.input());
    ParameterInfo parameter;
    parameter.path = state.path();
    parameter.elements = Elements(state.type());
    parameter.bytes = BytesOf(state.type());
    parameter.trainable = state.trainable();
    parameter.type = state.type();
    parameter.block = block == blocks.end() ? -1 : block->second;
    model.parameters.push_back(std::move(parameter));
  }
}

// Returns the operator that updates a state; -1 if the Graph only reads it.
int32_t UpdaterOf(const GraphProto::State& state, const GraphProto& graph) {
  if (state.updated() == state.input() || state.updated() < 0) return -1;
  return graph.values(state.updated()).producer();
}

// Adds optimizer state to the parameters: each state of the Graph that the same operator updates as
// a parameter of the same shape, unless the parameter has it already.
void AddOptimizerStates(const GraphProto& graph, ModelInfo& model) {
  absl::flat_hash_map<absl::string_view, ParameterInfo*> by_path;
  for (ParameterInfo& parameter : model.parameters) by_path[parameter.path] = &parameter;
  absl::flat_hash_map<int32_t, std::vector<ParameterInfo*>> updated_by;
  for (const GraphProto::State& state : graph.states()) {
    const auto found = by_path.find(state.path());
    if (found != by_path.end()) updated_by[UpdaterOf(state, graph)].push_back(found->second);
  }
  for (const GraphProto::State& state : graph.states()) {
    const int32_t updater = UpdaterOf(state, graph);
    if (state.role() != GraphProto::OPTIMIZER_STATE || updater < 0) continue;
    for (ParameterInfo* const parameter : updated_by[updater]) {
      const bool known = absl::c_any_of(
          parameter->optimizer_states,
          [&](const OptimizerStateInfo& listed) { return listed.path == state.path(); });
      if (known || !absl::c_equal(state.type().shape(), parameter->type.shape())) continue;
      parameter->optimizer_states.push_back({state.path(), BytesOf(state.type())});
      break;
    }
  }
}

// Removes the dimensions that no signature of an operator splits in its input.
void RemoveUnsplit(const OperatorDescriptions::Operator& description, int input,
                   std::vector<int>& dimensions) {
  absl::flat_hash_set<int> splits;
  for (const std::string& text : description.signatures()) {
    const Signature signature = ParseSignature(text);
    if (input < static_cast<int>(signature.inputs.size())) {
      splits.insert(SplitDimension(signature.inputs[input]));
    }
  }
  dimensions.erase(std::remove_if(dimensions.begin(), dimensions.end(),
                                  [&](int dimension) { return splits.count(dimension) == 0; }),
                   dimensions.end());
}

}  // namespace

std::string ModelInfo::BlockOf(const ParameterInfo& parameter) const {
  return parameter.block < 0 ? "" : blocks[parameter.block];
}

std::vector<std::string> ModelInfo::TrainablePathsIn(int block) const {
  std::vector<std::string> paths;
  for (const ParameterInfo& parameter : parameters) {
    if (parameter.block == block && parameter.trainable) paths.push_back(parameter.path);
  }
  return paths;
}

ModelInfo DescribeModel(const RunGraphs& graphs) {
  ModelInfo model;
  absl::flat_hash_set<std::string> inputs;
  for (int i = 0; i < graphs.graphs_size(); ++i) {
    const GraphProto& graph = graphs.graphs(i);
    // The first Graph with blocks has all parameters; other Graphs may lack some.
    if (graph.blocks_size() > 0 && model.blocks.empty()) {
      model.blocks.assign(graph.blocks().begin(), graph.blocks().end());
      model.parameters.clear();
      if (i < graphs.blocks_size()) {
        const auto& fingerprints = graphs.blocks(i).fingerprints();
        model.block_fingerprints.assign(fingerprints.begin(), fingerprints.end());
      }
    }
    if (model.parameters.empty()) {
      model.graph = graph.name();
      AddParameters(graph, model);
    }
    for (const GraphProto::Input& input : graph.inputs()) {
      const std::string& path = graph.values(input.value()).path();
      if (inputs.insert(path).second) model.inputs.push_back({path, input.batch_dim()});
    }
  }
  for (const GraphProto& graph : graphs.graphs()) {
    AddOptimizerStates(graph, model);
    const bool has_batch = absl::c_any_of(
        graph.inputs(), [](const GraphProto::Input& input) { return input.batch_dim() >= 0; });
    if (has_batch) model.batch_graphs.push_back(graph.name());
  }
  return model;
}

absl::Status SetSplitDimensions(const GraphProto& graph, const OperatorDescriptions& operators,
                                ModelInfo& model) {
  absl::flat_hash_map<absl::string_view, ParameterInfo*> by_path;
  for (ParameterInfo& parameter : model.parameters) {
    by_path[parameter.path] = &parameter;
    parameter.split_dimensions.resize(parameter.type.shape_size());
    std::iota(parameter.split_dimensions.begin(), parameter.split_dimensions.end(), 0);
  }
  absl::flat_hash_map<int32_t, ParameterInfo*> by_value;
  for (const GraphProto::State& state : graph.states()) {
    const auto found = by_path.find(state.path());
    if (found != by_path.end()) by_value[state.input()] = found->second;
  }
  for (int i = 0; i < graph.ops_size(); ++i) {
    const GraphProto::Op& op = graph.ops(i);
    if (i >= operators.operators_size() || operators.operators(i).path() != op.path()) {
      return absl::InternalError("the descriptions are not those of the Graph's operators");
    }
    for (int input = 0; input < op.inputs_size(); ++input) {
      const auto found = by_value.find(op.inputs(input));
      if (found == by_value.end()) continue;
      RemoveUnsplit(operators.operators(i), input, found->second->split_dimensions);
    }
  }
  return absl::OkStatus();
}

std::string ScopeThatMatches(absl::string_view pattern, absl::string_view path) {
  for (const absl::string_view alternative : absl::StrSplit(pattern, '|', absl::SkipEmpty())) {
    const auto parsed = PathPattern::Parse(alternative);
    const size_t size = parsed.ok() ? parsed->MatchingScope(path) : 0;
    if (size > 0) return std::string(path.substr(0, size));
  }
  return "";
}

}  // namespace tessera::strategy
