#include "tools/train/setup/setup.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/posix/user_folder.h"
#include "core/runtime/engine.h"
#include "core/status/status_macros.h"
#include "core/text/human_units.h"
#include "core/train/checkpoint/checkpoint_folder.h"
#include "core/train/config/text_bounds.h"
#include "core/train/data/mapped_file.h"
#include "core/train/ranks/compare_ranks.h"
#include "core/train/state/save_state.h"
#include "google/protobuf/text_format.h"
#include "tools/backends/backends.h"
#include "tools/train/flags/run_config.h"
#include "tools/train/folder/run_folder.h"
#include "tools/train/setup/compile_setup.h"
#include "tools/train/setup/data_source.h"
#include "tools/train/setup/note_waste.h"
#include "tools/train/setup/resume.h"
#include "tools/train/setup/run_cluster.h"
#include "tools/train/setup/run_plan.h"
#include "tools/train/setup/schedule_of_run.h"

namespace tessera {
namespace {

// The remedy for ranks that differ.
constexpr char kSameSetups[] = "all ranks need the same flags, files, processor and threads";

// The length of a sample that neither the run nor the user sets.
constexpr int64_t kDefaultSampleTokens = 200;

bool MayChangeState(const std::string& path) {
  return absl::StartsWith(path, "model.") || path == "optimizer.kind" ||
         path == "optimizer.momentum";
}

std::string OrNone(const std::string& value) { return value.empty() ? "(none)" : value; }

// Adds a note of the changes that a resumed run makes to its configuration. With --mode=sample, the
// settings of the sample are no changes.
void NoteChanges(const std::vector<ConfigChange>& changes, Mode mode, Setup* setup) {
  std::vector<std::string> texts;
  for (const ConfigChange& change : changes) {
    if (mode == Mode::kSample && absl::StartsWith(change.path, "sample.")) continue;
    texts.push_back(
        absl::StrCat(change.path, " ", OrNone(change.before), " -> ", OrNone(change.after)));
    if (MayChangeState(change.path)) setup->shape_changes.push_back(texts.back());
  }
  if (!texts.empty()) {
    setup->notes.push_back(absl::StrCat("overridden: ", absl::StrJoin(texts, ", ")));
  }
}

// Returns the configuration that files and flags override: a preset, or the resumed run's.
absl::StatusOr<ConfigEditor> BaseConfig(const CommandLine& line, const Setup& setup) {
  if (setup.checkpoint == nullptr) return PresetConfig(*setup.definition, line.preset);
  return SavedConfig(*setup.definition, setup.checkpoint->config(),
                     absl::StrCat(setup.checkpoint->folder(), "/", kConfigFile));
}

// If the user sets a learning rate below the preset's minimum, scales the minimum in the same
// proportion. A minimum that the user set is kept, and causes an error later.
absl::Status AdaptMinimum(const ConfigEditor& before, ConfigEditor* config, Setup* setup) {
  const OptimizerConfig old_values = before.config().optimizer();
  const OptimizerConfig values = config->config().optimizer();
  const bool fits = values.schedule() == "constant" || values.min_lr() <= values.lr();
  if (fits || !(values.lr() >= 0) || values.min_lr() != old_values.min_lr()) {
    return absl::OkStatus();
  }
  const double min_lr = values.lr() * (old_values.min_lr() / old_values.lr());
  setup->notes.push_back(absl::StrCat("optimizer.min_lr is lowered from ", old_values.min_lr(),
                                      " to ", min_lr, ": it may not be above lr"));
  return config->Set("optimizer.min_lr", absl::StrCat(min_lr));
}

// Takes settings that the Plan states into the configuration.
absl::Status SetFromPlan(const CommandLine& line, const Plan& plan, ConfigEditor* config) {
  RunConfig values = config->config();
  RETURN_IF_ERROR(TakeSettings(plan, line, &values));
  RETURN_IF_ERROR(config->Set("micro_batches", absl::StrCat(values.micro_batches())));
  RETURN_IF_ERROR(config->Set("dtype", values.dtype()));
  return config->Set("recompute", values.recompute());
}

// Returns the facts that must be the same on all ranks before Graphs are recorded.
std::vector<RankFact> FactsOf(const ConfigEditor& config, const CommandLine& line,
                              const ModelDefinition& definition) {
  std::vector<RankFact> facts = {{"the model", definition.name},
                                 {"--mode", ModeName(line.mode)},
                                 {"--resume", line.resume.empty() ? "" : "set"},
                                 {"--plan", line.plan.empty() ? "" : "set"},
                                 {"--cluster", line.cluster.empty() ? "" : "set"},
                                 {"--strategy", line.strategy},
                                 {"--strategy_options", absl::StrJoin(line.strategy_options, ",")},
                                 {"--trace", line.trace.empty() ? "" : "set"},
                                 {"--check_memory", line.check_memory ? "true" : "false"}};
  for (const std::string& path : config.FieldPaths()) {
    // The data may have another path on another host; its contents are compared.
    if (path != "data.file") facts.push_back({path, config.Get(path)});
  }
  return facts;
}

// Sets the length of the learning rate's decay, and adds notes about the rates.
absl::Status SetSchedule(const ConfigEditor& before, Mode mode, ConfigEditor* config,
                         Setup* setup) {
  const RunConfig earlier = before.config();
  const RunConfig* const saved = setup->checkpoint == nullptr ? nullptr : &earlier;
  const int64_t decay_steps = DecaySteps(config->config(), saved);
  RETURN_IF_ERROR(config->Set("optimizer.decay_steps", absl::StrCat(decay_steps)));
  if (mode != Mode::kTrain) return absl::OkStatus();
  const int64_t step = saved == nullptr ? 0 : setup->checkpoint->step();
  for (std::string& note : ScheduleNotes(config->config(), saved, step)) {
    setup->notes.push_back(std::move(note));
  }
  return absl::OkStatus();
}

absl::Status BuildConfig(const CommandLine& line, Setup* setup) {
  ASSIGN_OR_RETURN(ConfigEditor config, BaseConfig(line, *setup));
  const ConfigEditor before(config.config(), config.model());
  if (!line.config.empty()) RETURN_IF_ERROR(MergeFile(UserPath(line.config), &config));
  RETURN_IF_ERROR(ApplySettings(line.settings, &config));
  const std::string file = config.Get("data.file");
  if (!file.empty() && file != kSyntheticData) {
    RETURN_IF_ERROR(config.Set("data.file", UserPath(file)));
  }
  RETURN_IF_ERROR(AdaptMinimum(before, &config, setup));
  if (setup->plan.has_value()) RETURN_IF_ERROR(SetFromPlan(line, *setup->plan, &config));
  // The length of the decay that SetSchedule sets is no change of the user's.
  if (setup->checkpoint != nullptr) NoteChanges(ChangesBetween(before, config), line.mode, setup);
  RETURN_IF_ERROR(SetSchedule(before, line.mode, &config, setup));
  setup->config = config.config();
  setup->facts = FactsOf(config, line, *setup->definition);
  setup->config_text = absl::StrCat(kConfigTitle, config.ToText());
  // A checkpoint could not be read again with a longer one.
  RETURN_IF_ERROR(CheckConfigBounds(setup->config_text, "the effective configuration"));
  RETURN_IF_ERROR(CheckRunConfig(setup->config));
  ASSIGN_OR_RETURN(setup->model, setup->definition->create(config.model()));
  return absl::OkStatus();
}

// Returns whether the user requested a sample. One that only the preset requests is omitted without
// a note.
bool AsksForSample(const CommandLine& line) {
  return std::any_of(line.settings.begin(), line.settings.end(), [](const FieldSetting& setting) {
    return absl::StartsWith(setting.path, "sample.");
  });
}

absl::Status CheckSample(const CommandLine& line, RunParts parts, Setup* setup) {
  SampleConfig& sample = *setup->config.mutable_sample();
  if (parts == RunParts::kGenerate && sample.tokens() == 0) {
    sample.set_tokens(kDefaultSampleTokens);
  }
  if (setup->config.data().file() != kSyntheticData) return absl::OkStatus();
  if (parts == RunParts::kGenerate) {
    return absl::InvalidArgumentError("a model of synthetic data generates no text to sample");
  }
  if (parts == RunParts::kAll && sample.tokens() > 0 && AsksForSample(line)) {
    setup->notes.push_back("no sample: a model of synthetic data generates no text");
  }
  sample.set_tokens(0);
  return absl::OkStatus();
}

// Returns the threads of a rank: those of the configuration, or else the number of its cores.
// Returns 0, so that the backend chooses, if the rank is alone on its host or OMP_NUM_THREADS is
// set.
int ThreadsOf(const Setup& setup) {
  const int threads = setup.config.threads();
  const char* const variable = std::getenv("OMP_NUM_THREADS");
  if (threads > 0 || setup.ranks.of_host == 1 || (variable != nullptr && variable[0] != '\0')) {
    return threads;
  }
  return setup.ranks.cores;
}

// Does the part of the preparation that a rank does alone, before it records Graphs. Sets *text to
// the data, unless they are not used or synthetic.
absl::Status PrepareAlone(const CommandLine& line, Setup* setup,
                          std::unique_ptr<MappedFile>* text) {
  RETURN_IF_ERROR(BuildConfig(line, setup));
  const RunParts parts = PartsOf(line.mode);
  RETURN_IF_ERROR(CheckSample(line, parts, setup));
  ASSIGN_OR_RETURN(setup->backend, MakeBackend(setup->config.device(), ThreadsOf(*setup)));
  if (parts == RunParts::kGenerate) return absl::OkStatus();
  ASSIGN_OR_RETURN(*text, FindText(setup->config, setup->model->vocabulary()));
  return absl::OkStatus();
}

// Sets the cluster of the run and the site of its ranks, if anything is priced.
absl::Status FindCluster(const CommandLine& line, Setup* setup) {
  const RunRanks& ranks = setup->ranks;
  const bool is_priced = ranks.size > 1 || !line.strategy.empty() || !line.cluster.empty() ||
                         (line.plan_only && line.mode == Mode::kTrain);
  if (!is_priced) return absl::OkStatus();
  const bool runs = ranks.site.size() > 0;
  const bool tcp = runs ? ranks.site.backend == CollectiveBackend::kTcp : line.job.backend == "tcp";
  const std::string& named = setup->config.dtype();
  ASSIGN_OR_RETURN(const DType dtype, ParseDType(named.empty() ? "f32" : named));
  ASSIGN_OR_RETURN(setup->cluster, ClusterOfRun(line, *setup->backend, dtype, tcp, *ranks.ranks));
  setup->site = ranks.site;
  if (runs) return absl::OkStatus();
  ASSIGN_OR_RETURN(setup->site, PlannedSite(line, setup->cluster, ranks.size));
  return absl::OkStatus();
}

// Compares the setups of the ranks before they record Graphs.
absl::Status CompareSetups(const Setup& setup) {
  std::vector<RankFact> facts = setup.facts;
  const Processor processor = setup.backend->processor();
  facts.push_back({"the processor", processor.name});
  facts.push_back({"threads", absl::StrCat(processor.threads)});
  return CompareRanks(*setup.ranks.ranks, facts, kSameSetups);
}

// Opens the data, if the run reads them, and compares them among ranks and with the checkpoint.
absl::Status OpenData(const CommandLine& line, std::unique_ptr<MappedFile> text, Setup* setup) {
  const bool compares = setup->checkpoint != nullptr;
  if (PartsOf(line.mode) == RunParts::kGenerate || (line.plan_only && !compares)) {
    return absl::OkStatus();
  }
  Ranks& ranks = *setup->ranks.ranks;
  absl::StatusOr<std::unique_ptr<Dataset>> dataset =
      OpenDataset(setup->config, setup->model->vocabulary(), std::move(text), ranks);
  RETURN_IF_ERROR(ranks.Agree(dataset.status()));
  setup->dataset = *std::move(dataset);
  if (compares) RETURN_IF_ERROR(ranks.Agree(ResumeInData(line, setup)));
  return CompareRanks(ranks, {{"the data", setup->dataset->Fingerprint()}}, kSameSetups);
}

// Checks that the compiled run can be saved, and that it fits the checkpoint that it resumes.
absl::Status CheckStates(const CommandLine& line, const Setup& setup) {
  if (line.mode == Mode::kTrain && !line.plan_only) {
    std::string plan;
    google::protobuf::TextFormat::PrintToString(setup.compiled.plan, &plan);
    RETURN_IF_ERROR(CheckSavable(StatesOf(setup.compiled), setup.compiled.programs.front().mesh,
                                 std::move(plan)));
  }
  // With --plan_only, a run may be planned with another shape than it has.
  if (setup.checkpoint == nullptr || line.plan_only) return absl::OkStatus();
  return CheckResumedState(line, setup);
}

}  // namespace

absl::StatusOr<std::string> EffectiveConfig(const CommandLine& line,
                                            const ModelDefinition& definition) {
  Ranks alone;
  Setup setup;
  setup.definition = &definition;
  setup.ranks.ranks = &alone;
  RETURN_IF_ERROR(ChooseCheckpoint(line, &setup));
  ASSIGN_OR_RETURN(setup.plan, ReadPlanFlag(line, alone));
  RETURN_IF_ERROR(BuildConfig(line, &setup));
  return setup.config_text;
}

absl::StatusOr<Setup> ConfigureRun(const CommandLine& line, const ModelDefinition& definition,
                                   const RunRanks& ranks) {
  Setup setup;
  setup.definition = &definition;
  setup.ranks = ranks;
  RETURN_IF_ERROR(ChooseCheckpoint(line, &setup));
  ASSIGN_OR_RETURN(setup.plan, ReadPlanFlag(line, *ranks.ranks));
  std::unique_ptr<MappedFile> text;
  RETURN_IF_ERROR(ranks.ranks->Agree(PrepareAlone(line, &setup, &text)));
  RETURN_IF_ERROR(CompareSetups(setup));
  RETURN_IF_ERROR(OpenData(line, std::move(text), &setup));
  RETURN_IF_ERROR(FindCluster(line, &setup));
  return setup;
}

absl::Status PlanConfiguredRun(const CommandLine& line, Setup* setup) {
  RETURN_IF_ERROR(CompileSetup(line, setup));
  RETURN_IF_ERROR(setup->ranks.ranks->Agree(CheckStates(line, *setup)));
  NoteWaste(line, setup);
  const std::vector<std::string>& notes = setup->compiled.notes;
  setup->notes.insert(setup->notes.end(), notes.begin(), notes.end());
  return absl::OkStatus();
}

absl::StatusOr<Setup> PrepareRun(const CommandLine& line, const ModelDefinition& definition,
                                 const RunRanks& ranks) {
  ASSIGN_OR_RETURN(Setup setup, ConfigureRun(line, definition, ranks));
  RETURN_IF_ERROR(PlanConfiguredRun(line, &setup));
  return setup;
}

}  // namespace tessera
