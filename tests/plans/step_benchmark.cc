// Times a training step of GPT under Plans: the full step, its computation alone and its
// communication alone.
//
//   ./bazelw build -c opt //tests/plans:step_benchmark
//   ./bazelw run //tools/launch -- --nproc=2 bazel-bin/tests/plans/step_benchmark
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "core/kernels/cpu/backend.h"
#include "core/posix/user_folder.h"
#include "core/proto/plan.pb.h"
#include "core/status/status_macros.h"
#include "core/text/version.h"
#include "core/train/data/synthetic_dataset.h"
#include "core/train/measure/step_timer.h"
#include "core/train/programs.h"
#include "core/train/ranks/compile_ranks.h"
#include "core/train/record/plan_text.h"
#include "google/protobuf/text_format.h"
#include "models/gpt/gpt.h"
#include "tools/command_line/command_line.h"
#include "tools/train/rank/job.h"
#include "tools/world_flags/world_flags.h"

ABSL_FLAG(std::vector<std::string>, plans,
          std::vector<std::string>({"docs/plans/data_parallel.textproto",
                                    "docs/plans/data_parallel_tied.textproto",
                                    "docs/plans/fully_sharded.textproto"}),
          "Plans, separated by commas");
ABSL_FLAG(std::vector<std::string>, shapes, std::vector<std::string>({"1x64", "2x128", "4x256"}),
          "rows and tokens per rank, separated by commas");
ABSL_FLAG(std::string, model, "layers: 8 channels: 448 heads: 7 vocabulary: 16384 context: 512",
          "the model, a GptConfig");
ABSL_FLAG(int, rounds, 11, "timed rounds, whose medians are printed");

namespace tessera {
namespace {

// The part of the batch that a rank computes on: [rows, tokens].
struct RankBatch {
  int64_t rows = 0, tokens = 0;
};

// Medians over rounds of the slowest rank's time in seconds. Ratios are computed within each round,
// because the machine's speed changes from round to round.
struct Times {
  double step = 0, computation = 0, communication = 0;
  double ratio = 0;   // of the step to its computation
  double hidden = 0;  // of the communication
};

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

RunConfig ConfigOf(const RankBatch& shape, int ranks) {
  RunConfig config;
  config.set_batch(shape.rows * ranks);
  config.set_sequence(shape.tokens);
  config.set_steps(1000);
  config.mutable_optimizer()->set_kind("sgd");
  config.mutable_optimizer()->set_lr(1e-3);
  return config;
}

absl::StatusOr<Times> TimesOfRounds(StepTimer& timer, int rounds) {
  RETURN_IF_ERROR(timer.RecordStep().status());
  std::vector<double> steps, computations, communications, ratios, hidden;
  for (int round = 0; round <= rounds; ++round) {
    ASSIGN_OR_RETURN(const double step, timer.TimeStep());
    RETURN_IF_ERROR(timer.SetStateAside());
    ASSIGN_OR_RETURN(const double computation, timer.TimeComputation());
    ASSIGN_OR_RETURN(const double communication, timer.TimeCommunication());
    RETURN_IF_ERROR(timer.PutStateBack());
    if (round == 0) continue;
    steps.push_back(step);
    computations.push_back(computation);
    communications.push_back(communication);
    ratios.push_back(step / computation);
    hidden.push_back((computation + communication - step) / communication);
  }
  return Times{Median(steps), Median(computations), Median(communications), Median(ratios),
               Median(hidden)};
}

// Times one Plan and one shape, on this rank.
absl::StatusOr<Times> TimePlan(const Model& model, const Plan& plan, const RankBatch& shape,
                               Backend* backend, Ranks& ranks) {
  const RunConfig config = ConfigOf(shape, ranks.size());
  ASSIGN_OR_RETURN(std::vector<Graph> graphs, RecordRun(model, config, RunGraphs::kAll));
  ASSIGN_OR_RETURN(CompiledRun compiled, CompileTogether(graphs, plan, *backend, ranks));
  ASSIGN_OR_RETURN(
      const std::unique_ptr<SyntheticDataset> dataset,
      SyntheticDataset::Create(model.BatchFields(config.sequence()), config.batch(), 1));
  ASSIGN_OR_RETURN(
      const std::unique_ptr<StepTimer> timer,
      StepTimer::Create({config, &model, dataset.get()}, std::move(compiled), backend, &ranks));
  return TimesOfRounds(*timer, absl::GetFlag(FLAGS_rounds));
}

std::vector<FlagGroup> Groups() {
  return {{"What to time",
           {{"plans", "FILE,..."}, {"shapes", "NxN,..."}, {"model", "TEXT"}, {"rounds", "N"}}},
          {"The job", WorldFlags()}};
}

absl::StatusOr<Plan> ReadPlan(const std::string& file) {
  std::ifstream stream(file);
  if (!stream.good()) return absl::NotFoundError(absl::StrCat("--plans: cannot read ", file));
  std::stringstream text;
  text << stream.rdbuf();
  absl::StatusOr<Plan> plan = ParsePlanText(text.str());
  if (plan.ok()) return plan;
  return absl::Status(plan.status().code(),
                      absl::StrCat("--plans: ", file, " ", plan.status().message()));
}

absl::StatusOr<std::vector<RankBatch>> ReadShapes() {
  std::vector<RankBatch> shapes;
  for (const std::string& text : absl::GetFlag(FLAGS_shapes)) {
    const std::vector<std::string> numbers = absl::StrSplit(text, 'x');
    RankBatch shape;
    if (numbers.size() != 2 || !absl::SimpleAtoi(numbers[0], &shape.rows) ||
        !absl::SimpleAtoi(numbers[1], &shape.tokens) || shape.rows < 1 || shape.tokens < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("--shapes: '", text, "' is not rows and tokens, such as 1x64"));
    }
    shapes.push_back(shape);
  }
  return shapes;
}

std::string RowOf(const std::string& plan, const RankBatch& shape, const Times& times) {
  return absl::StrFormat("%-28s %8s %9.1f %12.1f %14.1f %7.3f %6.0f%%\n", plan,
                         absl::StrCat(shape.rows, "x", shape.tokens), 1e3 * times.step,
                         1e3 * times.computation, 1e3 * times.communication, times.ratio,
                         100 * times.hidden);
}

constexpr char kTableHead[] =
    "                                       ------------- ms of a step -----------\n"
    "Plan                         per rank     whole  computation  communication   ratio  hidden\n";

// Returns the threads of a rank: 0 to use OMP_NUM_THREADS if it is set, else the number of the
// rank's cores.
int Threads(const Job& job) { return std::getenv("OMP_NUM_THREADS") != nullptr ? 0 : job.cores(); }

// Prints a row for each Plan and shape, on rank 0.
absl::Status RunRank(Job& job) {
  GptConfig config;
  if (!google::protobuf::TextFormat::ParseFromString(absl::GetFlag(FLAGS_model), &config)) {
    return absl::InvalidArgumentError("--model is not a GptConfig in protobuf's text form");
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<Model> model, CreateGpt(config));
  ASSIGN_OR_RETURN(const std::vector<RankBatch> shapes, ReadShapes());
  const std::unique_ptr<Backend> backend = MakeCpuBackend(Threads(job));
  const bool prints = job.ranks().is_first();
  if (prints) {
    absl::PrintF("%s, threads of each: %d, on %s; GPT with %s\n%s", job.Description(),
                 backend->processor().threads, backend->processor().name,
                 absl::GetFlag(FLAGS_model), kTableHead);
  }
  for (const std::string& file : absl::GetFlag(FLAGS_plans)) {
    ASSIGN_OR_RETURN(const Plan plan, ReadPlan(file));
    for (const RankBatch& shape : shapes) {
      ASSIGN_OR_RETURN(const Times times,
                       TimePlan(*model, plan, shape, backend.get(), job.ranks()));
      if (!prints) continue;
      absl::PrintF("%s", RowOf(file.substr(file.rfind('/') + 1), shape, times));
      std::fflush(stdout);
    }
  }
  return absl::OkStatus();
}

absl::Status Run(const std::vector<std::string>& arguments) {
  ASSIGN_OR_RETURN(const ParsedFlags flags, ParseFlags(arguments, Groups(), Rest::kError));
  if (flags.help) {
    absl::PrintF("Times a training step of GPT under Plans, on the ranks of a job.\n%s",
                 FlagsHelp(Groups()));
    return absl::OkStatus();
  }
  if (flags.version) {
    absl::PrintF("%s", VersionLine());
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const comm::WorldOptions options, ReadWorldFlags());
  ASSIGN_OR_RETURN(const std::unique_ptr<Job> job, Job::Join(options));
  if (job->ranks().size() == 1) {
    return absl::InvalidArgumentError("one rank does not communicate: start it with tools/launch");
  }
  absl::Status status = RunRank(*job);
  RETURN_IF_ERROR(job->Leave(status));
  return status;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  absl::Status status = tessera::EnterUserFolder(argv[0]).status();
  if (status.ok()) status = tessera::Run(std::vector<std::string>(argv + 1, argv + argc));
  if (status.ok()) return 0;
  std::fprintf(stderr, "error: %s\n", std::string(status.message()).c_str());
  return 1;
}
