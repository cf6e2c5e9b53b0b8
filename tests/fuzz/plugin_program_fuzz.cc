// Feeds the result of a strategy plugin's pass to the host: the bytes of a Program, changed.
//
// An input is a list of changes to the bytes of the Program that the pass received: three bytes
// of position, and the new byte. The last change may truncate the message.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/compile/compile.h"
#include "core/graph/graph.h"
#include "core/kernels/cpu/backend.h"
#include "core/ops/ops.h"
#include "core/program/proto/program_proto.h"
#include "core/status/check.h"
#include "tests/fuzz/input.h"

namespace tessera {
namespace {

class ChangedPrograms : public PluginPasses {
 public:
  ChangedPrograms(comm::Input input, const KernelCatalogue& catalogue)
      : input_(input), catalogue_(catalogue) {}

  absl::StatusOr<Program> Run(const PassChoice::PluginPass&, const Program& program) override {
    std::string bytes = ToProto(program).SerializeAsString();
    comm::Input input = input_;
    while (!input.empty()) {
      const uint32_t at = input.Take<uint16_t>() | (uint32_t{input.Take<uint8_t>()} << 16);
      const uint8_t value = input.Take<uint8_t>();
      if (at >= 1 << 23) {
        bytes.resize(at % (bytes.size() + 1));
        break;
      }
      if (!bytes.empty()) bytes[at % bytes.size()] = static_cast<char>(value);
    }
    ProgramProto message;
    if (!message.ParseFromString(bytes)) return absl::InvalidArgumentError("is no Program");
    return FromProto(message, catalogue_);
  }

 private:
  const comm::Input input_;
  const KernelCatalogue& catalogue_;
};

// Records a layer with its gradients and updates, whose batch is split over two ranks.
std::vector<Graph> Graphs() {
  Graph graph("train");
  const Tensor x = graph.Input("x", {DType::kF32, {4, 3}}, /*batch_dim=*/0);
  const Tensor w = graph.Parameter("w", {3, 5}, Initializer::Constant(1));
  const Tensor y = Gelu(MatMul(x, w), GeluKind::kTanh);
  graph.SetOutput("y", ReduceSum(y, {0, 1}, false));
  graph.SetState("w", Add(w, w));
  TESSERA_CHECK(graph.status().ok()) << graph.status();
  std::vector<Graph> graphs;
  graphs.push_back(std::move(graph));
  return graphs;
}

Plan PlanOfPass() {
  Plan plan;
  Stage& stage = *plan.add_stages();
  stage.add_mesh()->set_name("data");
  StoreChoice& rows = *stage.add_store();
  rows.set_path("x");
  rows.set_layout("data: S(0)");
  PassChoice::PluginPass& pass = *stage.add_pass()->mutable_plugin();
  pass.set_name("fuzz");
  pass.set_pass("changed");
  return plan;
}

}  // namespace
}  // namespace tessera

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera;  // NOLINT(google-build-using-namespace)
  static const auto* const graphs = new std::vector<Graph>(Graphs());
  static const auto* const backend = new std::unique_ptr<Backend>(MakeCpuBackend(1));
  static const auto* const plan = new Plan(PlanOfPass());
  ChangedPrograms passes(comm::Input(data, size), **backend);
  const absl::StatusOr<CompiledRun> run = CompileRun(*graphs, *plan, **backend, 2, &passes);
  if (size == 0) TESSERA_CHECK(run.ok()) << run.status();
  TESSERA_CHECK(run.ok() || !run.status().message().empty());
  return 0;
}
