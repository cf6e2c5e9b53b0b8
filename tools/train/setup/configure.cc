#include "tools/train/setup/configure.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/cost/prices/price_file.h"
#include "core/posix/available_memory.h"
#include "core/posix/user_folder.h"
#include "core/status/status_macros.h"
#include "core/text/counted.h"
#include "core/text/human_units.h"
#include "core/train/data/readers/reader.h"
#include "core/train/ranks/compare_ranks.h"
#include "tools/backends/backends.h"
#include "tools/train/flags/config_sources.h"
#include "tools/train/folder/run_folder.h"
#include "tools/train/setup/data_source.h"
#include "tools/train/setup/effective_config.h"
#include "tools/train/setup/open_data.h"
#include "tools/train/setup/plan_source.h"

namespace tessera {
namespace {

// The length of a sample that neither the run nor the user sets.
constexpr int64_t kDefaultSampleTokens = 200;

// Opens the checkpoint of --resume, if the flag is set. Rank 0 chooses it, and the others open the
// same.
absl::StatusOr<OpenedCheckpoint> ChooseCheckpoint(const CommandLine& line, Ranks& ranks,
                                                  std::vector<std::string>* notes) {
  OpenedCheckpoint chosen;
  if (line.resume.empty()) return chosen;
  const std::string path = UserPath(line.resume);
  ASSIGN_OR_RETURN(const std::string folder, ranks.BroadcastFromFirst([&]() -> absl::StatusOr<
                                                                                std::string> {
    absl::StatusOr<OpenedCheckpoint> opened = OpenCheckpoint(path);
    if (!opened.ok() && HoldsRunWithoutCheckpoint(RunOf(path).run)) {
      const std::string run = RunOf(path).run;
      return absl::NotFoundError(absl::StrCat(
          run,
          " holds a run that was stopped before its first checkpoint: start it again with --out=",
          run));
    }
    ASSIGN_OR_RETURN(chosen, std::move(opened));
    for (const std::string& skipped : chosen.skipped) {
      notes->push_back(absl::StrCat("passed over: ", skipped));
    }
    return chosen.checkpoint->folder();
  }));
  if (ranks.is_first()) {
    RETURN_IF_ERROR(ranks.Agree(absl::OkStatus()));
    return chosen;
  }
  OpenOptions options;
  options.verify_checksums = false;  // rank 0 has compared them
  absl::StatusOr<std::unique_ptr<Checkpoint>> opened = Checkpoint::Open(folder, options);
  RETURN_IF_ERROR(ranks.Agree(opened.status()));
  chosen.checkpoint = *std::move(opened);
  return chosen;
}

// Returns whether the user requested a sample. One that only the preset requests is omitted without
// a note.
bool RequestsSample(const CommandLine& line) {
  return std::any_of(line.settings.begin(), line.settings.end(), [](const FieldSetting& setting) {
    return absl::StartsWith(setting.path, "sample.");
  });
}

// Returns the length of the run's sample.
absl::StatusOr<int64_t> SampleTokens(const CommandLine& line, const RunConfig& config,
                                     const Model& model, std::vector<std::string>* notes) {
  const int64_t tokens = config.sample().tokens();
  const bool samples = line.mode == Mode::kSample;
  const bool generates = model.AsLanguageModel() != nullptr;
  if (generates && TokensAreBytes(config)) {
    return samples && tokens == 0 ? kDefaultSampleTokens : tokens;
  }
  const std::string which = generates ? "a model of tokens that are no bytes" : "this model";
  if (samples) {
    return absl::InvalidArgumentError(absl::StrCat(which, " generates no text to sample"));
  }
  if (line.mode == Mode::kTrain && tokens > 0 && RequestsSample(line)) {
    notes->push_back(absl::StrCat("no sample: ", which, " generates no text"));
  }
  return 0;
}

// Adds a note if the user set the length of a sequence for a model whose rows have none.
void NoteUnusedSequence(const CommandLine& line, const RunConfig& config, const Model& model,
                        std::vector<std::string>* notes) {
  if (RowsAreSequences(model) || !SetsField(line, "sequence")) return;
  notes->push_back(absl::StrCat("sequence: ", config.sequence(),
                                " changes nothing: a row of this model is a ", model.Unit(1).row));
}

// Returns the threads of a rank: those of the configuration, or else the number of its cores.
// Returns 0, so that the backend chooses, if the rank is alone on its host or OMP_NUM_THREADS is
// set.
int ThreadsOf(const RunConfig& config, const RunRanks& ranks) {
  const int threads = config.threads();
  const char* const variable = std::getenv("OMP_NUM_THREADS");
  if (threads > 0 || ranks.of_host == 1 || (variable != nullptr && variable[0] != '\0')) {
    return threads;
  }
  return ranks.cores;
}

// Returns InvalidArgument if a model predicts nothing of rows without targets.
absl::Status CheckPredicts(const RunConfig& config, const Model& model) {
  if (!model.PredictionFields(config.sequence()).empty()) return absl::OkStatus();
  const bool generates = model.AsLanguageModel() != nullptr;
  return absl::InvalidArgumentError(
      absl::StrCat("--mode=predict: this model predicts nothing of a row alone; --mode=",
                   generates ? "sample generates text, and --mode=" : "",
                   "evaluate --predictions=FILE writes the loss of each held-out row"));
}

// The results that each rank makes of a command line without the others.
struct LocalSetup {
  EffectiveConfig effective;
  std::unique_ptr<Backend> backend;
  UnreadData data;  // empty if the run reads none
};

absl::StatusOr<LocalSetup> MakeLocalSetup(const CommandLine& line,
                                          const ModelDefinition& definition, const RunRanks& ranks,
                                          const Checkpoint* checkpoint,
                                          const std::optional<Plan>& plan,
                                          std::vector<std::string>* notes) {
  LocalSetup local;
  std::vector<std::string> unused_notes;  // those of SetEpochs are right
  ASSIGN_OR_RETURN(local.effective, MakeEffectiveConfig(line, definition, checkpoint, plan,
                                                        line.epochs > 0 ? &unused_notes : notes));
  RunConfig& config = local.effective.config;
  ASSIGN_OR_RETURN(const int64_t tokens, SampleTokens(line, config, *local.effective.model, notes));
  config.mutable_sample()->set_tokens(tokens);
  NoteUnusedSequence(line, config, *local.effective.model, notes);
  ASSIGN_OR_RETURN(local.backend, MakeBackend(config.device(), ThreadsOf(config, ranks)));
  if (line.mode == Mode::kPredict) {
    RETURN_IF_ERROR(CheckPredicts(config, *local.effective.model));
  } else if (line.mode != Mode::kSample) {
    ASSIGN_OR_RETURN(local.data, OpenUnread(config, *local.effective.model));
  }
  return local;
}

// Compares the configurations of the ranks before they record Graphs.
absl::Status CompareConfigurations(std::vector<RankFact> facts, const Backend& backend,
                                   Ranks& ranks) {
  const Processor processor = backend.processor();
  facts.push_back({"the processor", processor.name});
  facts.push_back({"threads", absl::StrCat(processor.threads)});
  return CompareRanks(ranks, facts, kSameSetups);
}

// Makes the effective configuration again, with the number of steps of --epochs, which depends on
// the data.
absl::Status SetEpochs(const CommandLine& line, const ModelDefinition& definition,
                       const Checkpoint* checkpoint, const std::optional<Plan>& plan,
                       const OpenedData& data, EffectiveConfig* effective,
                       std::vector<std::string>* notes) {
  const RunConfig before = effective->config;
  ASSIGN_OR_RETURN(const int64_t steps, StepsOfEpochs(line.epochs, before, data, checkpoint));
  CommandLine with_steps = line;
  with_steps.settings.push_back({"--epochs", "steps", absl::StrCat(steps)});
  ASSIGN_OR_RETURN(*effective,
                   MakeEffectiveConfig(with_steps, definition, checkpoint, plan, notes));
  effective->config.mutable_sample()->set_tokens(before.sample().tokens());
  const SampleUnit unit = effective->model->Unit(before.sequence());
  notes->push_back(absl::StrCat("--epochs=", line.epochs, ": the run has ", Counted(steps, "step"),
                                "; an epoch has ",
                                Counted(data.dataset->RowsPerEpoch(before.sequence()), unit.row)));
  return absl::OkStatus();
}

// Returns the cluster of the run and the site of its ranks, if anything is priced.
absl::StatusOr<PricedCluster> PricedClusterOf(const CommandLine& line, const RunRanks& ranks,
                                              const RunConfig& config, Backend& backend) {
  PricedCluster priced;
  const bool is_priced = ranks.size > 1 || !line.strategy.empty() || !line.plan.empty() ||
                         !line.cluster.empty() || (line.plan_only && line.mode == Mode::kTrain);
  if (!is_priced) return priced;
  const bool runs = ranks.site.size() > 0;
  const bool tcp =
      runs ? ranks.site.backend == CollectiveBackend::kTcp : line.world.backend == "tcp";
  const std::string& named = config.dtype();
  ASSIGN_OR_RETURN(const DType dtype, ParseDType(named.empty() ? "f32" : named));
  ASSIGN_OR_RETURN(priced.cluster, ClusterOfRun(line, backend, dtype, tcp, *ranks.ranks));
  priced.site = ranks.site;
  if (runs) return priced;
  ASSIGN_OR_RETURN(priced.site, PlannedSite(line, priced.cluster, ranks.size));
  return priced;
}

// Returns the bound of config.memory_limit, or else that of a rank's device if --cluster describes
// it.
MemoryBound BoundOf(const CommandLine& line, const RunConfig& config, const Cluster& cluster) {
  if (!config.memory_limit().empty()) return {MemoryLimit(config), config.memory_limit()};
  if (line.cluster.empty() || cluster.memory_bytes() == 0) return {};
  const std::string name = cluster.name().empty() ? line.cluster : cluster.name();
  return {cluster.memory_bytes(),
          absl::StrCat(FormatBytes(cluster.memory_bytes()), " (a device of ", name, ")"),
          /*of_device=*/true};
}

// Returns the effective configuration on this rank alone.
absl::StatusOr<EffectiveConfig> EffectiveConfigAlone(const CommandLine& line,
                                                     const ModelDefinition& definition) {
  Ranks alone;
  std::vector<std::string> unused_notes;
  ASSIGN_OR_RETURN(const OpenedCheckpoint resumed, ChooseCheckpoint(line, alone, &unused_notes));
  const Checkpoint* const checkpoint = resumed.checkpoint.get();
  ASSIGN_OR_RETURN(const std::optional<Plan> plan, ReadPlanFlag(line, alone));
  LocalSetup local;
  ASSIGN_OR_RETURN(local.effective,
                   MakeEffectiveConfig(line, definition, checkpoint, plan, &unused_notes));
  if (line.epochs == 0) return std::move(local.effective);
  ASSIGN_OR_RETURN(local.data, OpenUnread(local.effective.config, *local.effective.model));
  ASSIGN_OR_RETURN(const OpenedData data, OpenData(line, definition, checkpoint, local.effective,
                                                   std::move(local.data), alone, &unused_notes));
  RETURN_IF_ERROR(
      SetEpochs(line, definition, checkpoint, plan, data, &local.effective, &unused_notes));
  return std::move(local.effective);
}

}  // namespace

MemoryBound MemoryOfRank(const CommandLine& line, const ConfiguredRun& configured) {
  if (configured.memory_bound.bytes > 0 || !line.cluster.empty()) return configured.memory_bound;
  const int64_t available = AvailableMemory() / configured.ranks.of_host;
  return {available, absl::StrCat(FormatBytes(available), " (",
                                  configured.ranks.of_host > 1 ? "a rank's share of " : "",
                                  "what this machine has available)")};
}

absl::StatusOr<RunConfig> EffectiveRunConfig(const CommandLine& line,
                                             const ModelDefinition& definition) {
  ASSIGN_OR_RETURN(EffectiveConfig effective, EffectiveConfigAlone(line, definition));
  return std::move(effective.config);
}

absl::StatusOr<std::string> EffectiveConfigText(const CommandLine& line,
                                                const ModelDefinition& definition) {
  ASSIGN_OR_RETURN(EffectiveConfig effective, EffectiveConfigAlone(line, definition));
  return std::move(effective.text);
}

absl::StatusOr<ConfiguredRun> ConfigureRun(const CommandLine& line,
                                           const ModelDefinition& definition,
                                           const RunRanks& run_ranks,
                                           std::vector<std::string>* notes) {
  Ranks& ranks = *run_ranks.ranks;
  ASSIGN_OR_RETURN(OpenedCheckpoint resumed, ChooseCheckpoint(line, ranks, notes));
  const Checkpoint* const checkpoint = resumed.checkpoint.get();
  ASSIGN_OR_RETURN(std::optional<Plan> plan, ReadPlanFlag(line, ranks));
  absl::StatusOr<LocalSetup> local =
      MakeLocalSetup(line, definition, run_ranks, checkpoint, plan, notes);
  RETURN_IF_ERROR(ranks.Agree(local.status()));
  EffectiveConfig& effective = local->effective;
  RETURN_IF_ERROR(CompareConfigurations(effective.facts, *local->backend, ranks));
  ASSIGN_OR_RETURN(OpenedData data, OpenData(line, definition, checkpoint, effective,
                                             std::move(local->data), ranks, notes));
  if (line.epochs > 0) {
    RETURN_IF_ERROR(
        ranks.Agree(SetEpochs(line, definition, checkpoint, plan, data, &effective, notes)));
  }
  ASSIGN_OR_RETURN(PricedCluster priced,
                   PricedClusterOf(line, run_ranks, effective.config, *local->backend));
  MemoryBound memory_bound = BoundOf(line, effective.config, priced.cluster);
  auto kernels = std::make_unique<KernelSelection>(
      ranks.is_first() ? line.kernels : kDefaultKernels, local->backend.get());
  std::shared_ptr<const MeasuredPrices> prices;
  if (ranks.is_first() && line.cluster.empty() && priced.site.size() > 0) {
    prices = std::make_shared<const MeasuredPrices>(
        ReadPriceFile(PriceFilePath(), *local->backend).prices);
  }
  return ConfiguredRun{.definition = &definition,
                       .ranks = run_ranks,
                       .config = std::move(effective.config),
                       .config_text = std::move(effective.text),
                       .shape_changes = std::move(effective.shape_changes),
                       .model = std::move(effective.model),
                       .checkpoint = std::move(resumed.checkpoint),
                       .damaged = std::move(resumed.damaged),
                       .plan = std::move(plan),
                       .backend = std::move(local->backend),
                       .kernels = std::move(kernels),
                       .dataset = std::move(data.dataset),
                       .first_row = data.first_row,
                       .priced = std::move(priced),
                       .prices = std::move(prices),
                       .memory_bound = std::move(memory_bound)};
}

}  // namespace tessera
