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
#include "core/train/data/data_position.h"
#include "core/train/data/mapped_file.h"
#include "core/train/ranks/compare_ranks.h"
#include "tools/backends/backends.h"
#include "tools/train/flags/config_sources.h"
#include "tools/train/folder/run_folder.h"
#include "tools/train/setup/data_source.h"
#include "tools/train/setup/effective_config.h"
#include "tools/train/setup/plan_source.h"

namespace tessera {
namespace {

// The remedy for ranks that differ.
constexpr char kSameSetups[] = "all ranks need the same flags, files, processor and threads";

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
  if (generates && config.data().file() != kSyntheticData) {
    return samples && tokens == 0 ? kDefaultSampleTokens : tokens;
  }
  const std::string which = generates ? "a model of synthetic data" : "this model";
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
  const SampleUnit unit = model.Unit(1);
  if (unit.per_row != model.Unit(2).per_row) return;
  const bool is_set =
      std::any_of(line.settings.begin(), line.settings.end(),
                  [](const FieldSetting& setting) { return setting.path == "sequence"; });
  if (!is_set) return;
  notes->push_back(absl::StrCat("sequence: ", config.sequence(),
                                " changes nothing: a row of this model is a ", unit.row));
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

// The results that each rank makes of a command line without the others.
struct LocalSetup {
  EffectiveConfig effective;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<MappedFile> text;  // the data; null if they are not used or synthetic
};

absl::StatusOr<LocalSetup> MakeLocalSetup(const CommandLine& line,
                                          const ModelDefinition& definition, const RunRanks& ranks,
                                          const Checkpoint* checkpoint,
                                          const std::optional<Plan>& plan,
                                          std::vector<std::string>* notes) {
  LocalSetup local;
  ASSIGN_OR_RETURN(local.effective, MakeEffectiveConfig(line, definition, checkpoint, plan, notes));
  RunConfig& config = local.effective.config;
  ASSIGN_OR_RETURN(const int64_t tokens, SampleTokens(line, config, *local.effective.model, notes));
  config.mutable_sample()->set_tokens(tokens);
  NoteUnusedSequence(line, config, *local.effective.model, notes);
  ASSIGN_OR_RETURN(local.backend, MakeBackend(config.device(), ThreadsOf(config, ranks)));
  if (line.mode == Mode::kSample) return local;
  ASSIGN_OR_RETURN(local.text, MapText(config, *local.effective.model));
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

// Returns where the run of the checkpoint stood in its data when it was saved. `saved` is its
// configuration.
absl::StatusOr<DataPosition> PositionOf(const Checkpoint& checkpoint, const RunConfig& saved) {
  if (checkpoint.sequence() > 0) return DataPosition{checkpoint.rows(), checkpoint.sequence()};
  const int64_t batch = saved.batch();
  if (batch >= 1 && checkpoint.batches() <= kMaxRows / batch && saved.sequence() >= 1) {
    return DataPosition{checkpoint.batches() * batch, saved.sequence()};
  }
  return absl::DataLossError(absl::StrCat(checkpoint.folder(), ": a position after ",
                                          checkpoint.batches(), " batches of ", batch, " rows of ",
                                          saved.sequence(), " tokens is not possible"));
}

// Compares the data with those of the checkpoint. Changed data are an error for a run that trains
// on, and a note with --allow_changed_data or for an evaluation.
absl::Status CheckData(const CommandLine& line, const RunConfig& config,
                       const Checkpoint& checkpoint, const Dataset& dataset,
                       std::vector<std::string>* notes) {
  const std::string& before = checkpoint.data();
  const std::string now = dataset.Fingerprint();
  if (before == now) return absl::OkStatus();
  if (before.empty()) {
    const std::string& file = config.data().file();
    notes->push_back(absl::StrCat(
        "the checkpoint is of an older version and holds no fingerprint of its data: whether it "
        "was trained on ",
        file.empty() ? "the text that comes with the program" : file,
        ", which is read now, is not known"));
    return absl::OkStatus();
  }
  const std::string message = absl::StrCat(
      "the data is not what the checkpoint was trained on: that was ", before, ", this is ", now);
  if (line.mode == Mode::kTrain && !line.plan_only && !line.allow_changed_data) {
    return absl::FailedPreconditionError(
        absl::StrCat(message, "; go on with the old data, or with --allow_changed_data"));
  }
  notes->push_back(message);
  return absl::OkStatus();
}

// Returns the row of the data at which a resumed run goes on. A note says so if that is not where
// it stopped.
absl::StatusOr<int64_t> RowToResumeAt(const CommandLine& line, const ModelDefinition& definition,
                                      const RunConfig& config, const Checkpoint& checkpoint,
                                      const Dataset& dataset, std::vector<std::string>* notes) {
  RETURN_IF_ERROR(CheckData(line, config, checkpoint, dataset, notes));
  if (line.mode != Mode::kTrain) return 0;
  ASSIGN_OR_RETURN(const ConfigEditor saved, ConfigOf(checkpoint, definition));
  ASSIGN_OR_RETURN(const DataPosition before, PositionOf(checkpoint, saved.config()));
  const int64_t sequence = config.sequence();
  const int64_t row = PositionFor(before, sequence, dataset).rows;
  const int64_t epoch = dataset.RowsPerEpoch(sequence);
  if (before.sequence != sequence && epoch > 0 && before.rows > 0) {
    notes->push_back(absl::StrCat(
        "rows of the data have ", Counted(sequence, "token"), " now, not ", before.sequence,
        ", so training goes on at the next epoch: number ", row / epoch + 1));
  }
  return row;
}

// The data of a run.
struct OpenedData {
  std::unique_ptr<Dataset> dataset;
  int64_t first_row = 0;
};

// Opens the data, if the run reads them, and compares them among ranks and with the checkpoint,
// which is null for a new run.
absl::StatusOr<OpenedData> OpenData(const CommandLine& line, const ModelDefinition& definition,
                                    const Checkpoint* checkpoint, LocalSetup& local, Ranks& ranks,
                                    std::vector<std::string>* notes) {
  OpenedData data;
  if (line.mode == Mode::kSample || (line.plan_only && checkpoint == nullptr)) return data;
  const RunConfig& config = local.effective.config;
  absl::StatusOr<std::unique_ptr<Dataset>> dataset =
      OpenDataset(config, *local.effective.model, std::move(local.text), ranks);
  RETURN_IF_ERROR(ranks.Agree(dataset.status()));
  data.dataset = *std::move(dataset);
  if (checkpoint != nullptr) {
    const absl::StatusOr<int64_t> row =
        RowToResumeAt(line, definition, config, *checkpoint, *data.dataset, notes);
    RETURN_IF_ERROR(ranks.Agree(row.status()));
    data.first_row = *row;
  }
  RETURN_IF_ERROR(CompareRanks(ranks, {{"the data", data.dataset->Fingerprint()}}, kSameSetups));
  return data;
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
  ASSIGN_OR_RETURN(const std::optional<Plan> plan, ReadPlanFlag(line, alone));
  return MakeEffectiveConfig(line, definition, resumed.checkpoint.get(), plan, &unused_notes);
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
  ASSIGN_OR_RETURN(OpenedData data, OpenData(line, definition, checkpoint, *local, ranks, notes));
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
