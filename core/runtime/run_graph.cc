#include "core/runtime/run_graph.h"

#include "absl/strings/str_cat.h"
#include "core/runtime/engine.h"
#include "core/status/status_macros.h"

namespace tessera {

absl::StatusOr<std::map<std::string, HostTensor>> RunGraph(
    const Graph& graph, Backend& backend, const std::map<std::string, HostTensor>& values,
    const Plan& plan) {
  const std::string& name = graph.name();
  ASSIGN_OR_RETURN(CompiledRun run, CompileRun({graph}, plan, backend));
  ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine, Engine::Create(std::move(run), &backend));
  const Program& program = *engine->run().FindProgram(name);
  const auto find = [&](const std::string& key) -> absl::StatusOr<const HostTensor*> {
    auto it = values.find(key);
    if (it == values.end()) return absl::NotFoundError(absl::StrCat("no value for ", key));
    return &it->second;
  };
  for (const NamedValue& input : program.inputs) {
    ASSIGN_OR_RETURN(const HostTensor* tensor, find(input.name));
    RETURN_IF_ERROR(engine->SetInput(name, input.name, tensor->values));
  }
  for (const ProgramState& state : program.states) {
    if (state.input == kNone) continue;
    ASSIGN_OR_RETURN(const HostTensor* tensor, find(state.path));
    RETURN_IF_ERROR(engine->SetStateValues(name, state.path, tensor->values));
  }
  RETURN_IF_ERROR(engine->Run(name));
  std::map<std::string, HostTensor> result;
  for (const NamedValue& output : program.outputs) {
    HostTensor& tensor = result[output.name];
    tensor.shape = program.value(output.value).type.shape;
    tensor.values.resize(NumElements(tensor.shape));
    RETURN_IF_ERROR(engine->ReadOutput(name, output.name, absl::MakeSpan(tensor.values)));
  }
  for (const ProgramState& state : program.states) {
    HostTensor& tensor = result[state.path];
    tensor.shape = program.value(state.updated).type.shape;
    tensor.values.resize(NumElements(tensor.shape));
    RETURN_IF_ERROR(engine->ReadStateValues(name, state.path, absl::MakeSpan(tensor.values)));
  }
  return result;
}

}  // namespace tessera
