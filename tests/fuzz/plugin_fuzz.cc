// Feeds arbitrary messages of a strategy plugin to the host: its result, and its requests to
// services.
//
// The first byte of an input chooses the service, the rest is the request; other first bytes
// return the rest as the Plan.
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/cost/cluster.h"
#include "core/graph/graph.h"
#include "core/kernels/cpu/backend.h"
#include "core/ops/ops.h"
#include "core/status/check.h"
#include "strategies/host/plan_with.h"
#include "strategies/host/plugin_call.h"

namespace tessera {
namespace {

absl::string_view input;

class NoListener : public PluginListener {
 public:
  void Report(const strategy::Progress&) override {}
  void Log(const std::string&) override {}
  void Explain(const strategy::Explanation&) override {}
  void Lowered(const strategy::LowerPlans&, const strategy::LoweredPlans&) override {}
  bool cancelled() override { return false; }
};

void Ignore(void*, const char*, size_t) {}

int32_t CallServices(const TesseraStrategy*, const TesseraHost* host, const char*, size_t,
                     const TesseraSink* result) {
  const TesseraSink ignored = {sizeof(TesseraSink), nullptr, Ignore};
  const TesseraService services[] = {host->describe_operators, host->price_operators,
                                     host->price_collectives,  host->price_redistributions,
                                     host->read_plan,          host->complete_plan,
                                     host->lower_plans,        host->make_program,
                                     host->report_progress,    host->graphs,
                                     host->explain_plan};
  const absl::string_view rest = input.substr(input.empty() ? 0 : 1);
  const size_t service = input.empty() ? 99 : static_cast<uint8_t>(input[0]);
  if (service < std::size(services)) {
    services[service](host, nullptr, rest.data(), rest.size(), &ignored);
  } else if (service == std::size(services)) {
    TesseraContext* opened = nullptr;
    host->open_context(host, rest.data(), rest.size(), &opened, &ignored);
    host->close_context(host, opened);
  }
  result->put(result->state, rest.data(), rest.size());
  return TESSERA_OK;
}

std::vector<Graph> Graphs() {
  Graph graph("train");
  const Tensor x = graph.Input("x", {DType::kF32, {4, 3}}, /*batch_dim=*/0);
  const Tensor w = graph.Parameter("w", {3, 5}, Initializer::Constant(1));
  graph.SetOutput("y", MatMul(x, w));
  TESSERA_CHECK(graph.status().ok()) << graph.status();
  std::vector<Graph> graphs;
  graphs.push_back(std::move(graph));
  return graphs;
}

Plugin FuzzedPlugin() {
  auto* const table = new TesseraStrategy();
  table->struct_size = sizeof(TesseraStrategy);
  table->name = "fuzz";
  table->version = table->summary = "";
  table->make_plan = CallServices;
  auto plugin = Plugin::FromTable(table, "fuzz");
  TESSERA_CHECK(plugin.ok()) << plugin.status();
  return *std::move(plugin);
}

}  // namespace
}  // namespace tessera

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera;  // NOLINT(google-build-using-namespace)
  static const auto* const backend = new std::unique_ptr<Backend>(MakeCpuBackend(1));
  static const auto* const plugin = new Plugin(FuzzedPlugin());
  static const auto* const context = [] {
    const Cluster cluster = ClusterOfMachine("fuzz", MachineRates());
    return new std::shared_ptr<const PlanningContext>(std::make_shared<const PlanningContext>(
        Graphs(), PlanningFor{backend->get(), 2, cluster, SiteOnCluster(cluster, 2)}));
  }();
  input = absl::string_view(reinterpret_cast<const char*>(data), size);
  // In this process, where the fuzzer sees what is reached.
  NoListener listener;
  PluginCall call(*context, nullptr, &listener);
  const auto bytes = call.Run(*plugin, plugin->table().make_plan, "");
  TESSERA_CHECK(bytes.ok()) << bytes.status();
  const auto made = ReadPlanOf(*plugin, {}, *bytes);
  TESSERA_CHECK(made.ok() || !made.status().message().empty());
  return 0;
}
