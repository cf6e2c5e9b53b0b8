// Times every kernel of the cpu backend that can run a matrix product of a training step, as a run
// with --kernels=measured does, and prints one JSON object. Takes the flags of the training tool.
// The products are those of the step's Program: its matmuls, with what was fused into them, and
// linear_log_sum_exp with its gradient.
//
//   product_rates --preset=124m --batch=4 --sequence=256 --data=synthetic --kernels=default
#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "core/cost/kernel_times/measure_kernels.h"
#include "core/program/program.h"
#include "core/status/status_macros.h"
#include "core/train/programs.h"
#include "models/gpt/gpt.h"
#include "tools/train/flags/flags.h"
#include "tools/train/rank/job.h"
#include "tools/train/rank/rank_program.h"
#include "tools/train/rank/standard_output.h"
#include "tools/train/setup/configure.h"
#include "tools/train/setup/prepare.h"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

bool IsProduct(const KernelRequest& request) {
  return request.op == "matmul" || absl::StartsWith(request.op, "linear_log_sum_exp");
}

// Returns the paths of the instructions that use each kernel.
std::map<KernelId, std::vector<std::string>> PathsOf(const Program& program) {
  std::map<KernelId, std::vector<std::string>> paths;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.kind == InstructionKind::kKernel) {
      paths[instruction.kernel].push_back(instruction.path);
    }
  }
  return paths;
}

absl::StatusOr<int> TimeProducts(const CommandLine& line, Job& job) {
  RunRanks ranks = {&job.ranks(), job.ranks().size(), job.ranks_of_host(), job.cores(), {}};
  std::vector<std::string> unused_notes;
  ASSIGN_OR_RETURN(ConfiguredRun configured,
                   ConfigureRun(line, GptDefinition(), ranks, &unused_notes));
  Backend& backend = *configured.backend;
  if (backend.name() != "cpu") {
    return absl::InvalidArgumentError("the products are timed on --device=cpu only");
  }
  ASSIGN_OR_RETURN(const PreparedRun prepared, PrepareRun(line, configured, &unused_notes));
  const Program* const program = prepared.compiled.FindProgram(kTrain);
  if (program == nullptr) return absl::InvalidArgumentError("this run does not train");
  std::vector<OpenChoice> products =
      OpenChoicesOf(absl::MakeConstSpan(program, 1), backend, KernelTimes());
  products.erase(std::remove_if(products.begin(), products.end(),
                                [program](const OpenChoice& choice) {
                                  return !IsProduct(program->kernels[choice.kernel].request);
                                }),
                 products.end());
  ASSIGN_OR_RETURN(const MeasuredKernels measured,
                   MeasureKernels(products, prepared.compiled.arenas, backend));
  const std::map<KernelId, std::vector<std::string>> paths = PathsOf(*program);
  Json result = {{"processor", backend.processor().name},
                 {"threads", backend.processor().threads},
                 {"products", Json::array()}};
  for (const OpenChoice& product : products) {
    const std::string& key = program->kernels[product.kernel].key;
    Json kernels = Json::object();
    for (const KernelSeconds& each : *measured.times.Find(key)) {
      if (std::isfinite(each.seconds)) kernels[each.kernel] = each.seconds;
    }
    result["products"].push_back(
        {{"request", key}, {"paths", paths.at(product.kernel)}, {"seconds", std::move(kernels)}});
  }
  PrintLine(result.dump(1));
  return 0;
}

absl::StatusOr<int> Run(const std::string& /*name*/, const std::vector<std::string>& arguments) {
  ASSIGN_OR_RETURN(const CommandLine line, ParseCommandLine(arguments, GptDefinition()));
  if (line.launch.nproc > 1) {
    return absl::InvalidArgumentError("--nproc: the products are those of one process");
  }
  return RunAsRank(line.world, /*threads=*/0, [&](Job& job) { return TimeProducts(line, job); });
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  return tessera::RankMain(argc, argv,
                           {.launch = [](const std::vector<std::string>&) { return std::nullopt; },
                            .run = tessera::Run});
}
