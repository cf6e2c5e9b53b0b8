#include "core/train/ranks/compile_ranks.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/status/status_macros.h"
#include "core/train/checkpoint/checksum.h"
#include "core/train/ranks/compare_ranks.h"
#include "google/protobuf/text_format.h"

namespace tessera {
namespace {

constexpr char kSameProgram[] = "start the same program with the same flags on all ranks";

std::vector<RankFact> FingerprintsOf(absl::Span<const Graph> graphs) {
  std::vector<RankFact> facts;
  for (const Graph& graph : graphs) {
    facts.push_back({absl::StrCat("the graph '", graph.name(), "'"), graph.Fingerprint()});
  }
  return facts;
}

std::vector<RankFact> FingerprintsOf(const CompiledRun& run) {
  std::string plan;
  google::protobuf::TextFormat::PrintToString(run.plan, &plan);
  std::vector<RankFact> facts = {{"the completed Plan", ChecksumOf(plan)}};
  for (const Program& program : run.programs) {
    facts.push_back({absl::StrCat("the program '", program.name, "'"), program.Fingerprint()});
  }
  return facts;
}

}  // namespace

absl::StatusOr<CompiledRun> CompileTogether(const std::vector<Graph>& graphs, const Plan& plan,
                                            const KernelCatalogue& catalogue, Ranks& ranks,
                                            PluginPasses* plugin_passes) {
  return CompileTogether(graphs, catalogue, ranks, plugin_passes, [&] {
    return CompileRun(graphs, plan, catalogue, ranks.size(), plugin_passes);
  });
}

absl::StatusOr<CompiledRun> CompileTogether(
    const std::vector<Graph>& graphs, const KernelCatalogue& catalogue, Ranks& ranks,
    PluginPasses* plugin_passes,
    const std::function<absl::StatusOr<CompiledRun>()>& compile_first) {
  if (ranks.size() == 1) return compile_first();
  RETURN_IF_ERROR(CompareRanks(ranks, FingerprintsOf(graphs), kSameProgram));
  absl::StatusOr<CompiledRun> run;
  ASSIGN_OR_RETURN(const std::string bytes,
                   ranks.BroadcastFromFirst([&]() -> absl::StatusOr<std::string> {
                     run = compile_first();
                     RETURN_IF_ERROR(run.status());
                     return run->plan.SerializeAsString();
                   }));
  if (!ranks.is_first()) {
    Plan completed;
    run = completed.ParseFromString(bytes)
              ? CompileRun(graphs, completed, catalogue, ranks.size(), plugin_passes)
              : absl::InternalError("rank 0 has sent a malformed Plan");
  }
  RETURN_IF_ERROR(ranks.Agree(run.status()));
  RETURN_IF_ERROR(CompareRanks(ranks, FingerprintsOf(*run), kSameProgram));
  return run;
}

}  // namespace tessera
