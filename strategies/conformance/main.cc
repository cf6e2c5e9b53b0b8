// Checks a strategy plugin.
//
//   ./bazelw run //strategies/conformance -- fsdp shard=full,prefetch=2 shard=none
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "core/posix/signals.h"
#include "core/posix/stdout_status.h"
#include "core/posix/user_folder.h"
#include "core/status/status_macros.h"
#include "core/text/human_units.h"
#include "core/text/version.h"
#include "strategies/conformance/check_strategy.h"
#include "strategies/conformance/known_models.h"
#include "strategies/conformance/option_sets.h"
#include "strategies/conformance/small_models.h"
#include "strategies/conformance/strategy_planner.h"
#include "strategies/host/find_plugin.h"
#include "strategies/host/option_values.h"
#include "strategies/host/plugin.h"

namespace tessera {
namespace {

constexpr char kHelp[] =
    "Checks a strategy plugin: it trains small models on ranks that are threads and\n"
    "processes, and compares the training, what is communicated, the memory and\n"
    "checkpoints with those of one process and with the strategy's estimate.\n"
    "\n"
    "Usage\n"
    "  conformance [FLAGS] STRATEGY [NAME=VALUE,...]...\n"
    "\n"
    "STRATEGY is a name (ddp, fsdp, osdp, tensor) or the path of a plugin. Each further argument "
    "is\n"
    "one set of options, checked on all models; without any, the defaults are checked.\n"
    "\n"
    "  --pairwise          also sets in which every value of each option is combined with\n"
    "                      every value of each other one, on two models each: on\n"
    "                      the last, which has micro-batches, and on another one, with\n"
    "                      three numbers of ranks\n"
    "  --product[=N]       also all combinations, or N of them that are drawn at random,\n"
    "                      on one model and number of ranks each\n"
    "  --try=NAME=VALUE    a further value for these; again for another one. Choices and\n"
    "                      bools need none\n"
    "  --models=NAME,...   of $models\n"
    "  --ranks=N,...       by default 1 to 8\n"
    "  --help              print this text\n"
    "  --version           print the version of Tessera\n"
    "\n"
    "A set that the strategy refuses for all models and ranks is reported as refused; one\n"
    "at least has to pass.\n";

// A set of options, and the models and numbers of ranks on which it is checked.
struct CheckedSet {
  std::string options;  // "name=value,..."
  std::vector<std::string> models;
  std::vector<int> ranks;
};

struct CommandLine {
  std::string strategy;
  std::vector<std::string> option_sets;
  bool pairwise = false;
  size_t product = 0;              // the most combinations of --product
  std::vector<std::string> tried;  // "name=value"
  StrategyChecks checks;
};

absl::StatusOr<CommandLine> ParseCommandLine(const std::vector<std::string>& arguments) {
  CommandLine line;
  for (const std::string& argument : arguments) {
    const std::pair<std::string, std::string> halves =
        absl::StrSplit(argument, absl::MaxSplits('=', 1));
    const bool takes_value =
        halves.first == "--try" || halves.first == "--models" || halves.first == "--ranks";
    if (takes_value && halves.second.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(halves.first, " needs a value: ", halves.first, "=..."));
    }
    if (argument == "--pairwise") {
      line.pairwise = true;
    } else if (argument == "--product") {
      line.product = std::numeric_limits<size_t>::max();
    } else if (halves.first == "--product") {
      if (!absl::SimpleAtoi(halves.second, &line.product) || line.product == 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("--product: '", halves.second, "' is not a number of combinations"));
      }
    } else if (halves.first == "--try") {
      line.tried.push_back(halves.second);
    } else if (halves.first == "--models") {
      line.checks.models = absl::StrSplit(halves.second, ',', absl::SkipEmpty());
    } else if (halves.first == "--ranks") {
      line.checks.ranks.clear();
      for (const absl::string_view text : absl::StrSplit(halves.second, ',')) {
        int ranks = 0;
        if (!absl::SimpleAtoi(text, &ranks) || ranks < 1 || ranks > 64) {
          return absl::InvalidArgumentError(
              absl::StrCat("--ranks: '", text, "' is not a number from 1 to 64"));
        }
        line.checks.ranks.push_back(ranks);
      }
    } else if (absl::StartsWith(argument, "-")) {
      return absl::InvalidArgumentError(
          absl::StrCat("there is no flag ", argument, "; --help lists those that there are"));
    } else if (line.strategy.empty()) {
      line.strategy = argument;
    } else {
      line.option_sets.push_back(argument);
    }
  }
  if (line.strategy.empty()) {
    return absl::InvalidArgumentError("name a strategy, such as ddp, or the path of a plugin");
  }
  const std::vector<std::string> known = ConformanceModels();
  for (const std::string& model : line.checks.models) {
    if (absl::c_linear_search(known, model)) continue;
    return absl::InvalidArgumentError(absl::StrCat("--models: there is no '", model,
                                                   "'; there are ", absl::StrJoin(known, ", ")));
  }
  if (line.option_sets.empty() && !line.pairwise && line.product == 0)
    line.option_sets.push_back("");
  return line;
}

// Tests whether a strategy refuses options.
class OptionsOfStrategy {
 public:
  OptionsOfStrategy(const Plugin* plugin, const KnownModel* model)
      : plugin_(*plugin), model_(*model) {}

  bool Refuses(const OptionSet& set, int ranks) const {
    const absl::StatusOr<OptionValues> values = ReadOptions(plugin_, set);
    const StrategyPlanner planner(&plugin_, values.ok() ? *values : OptionValues(), &model_.run(),
                                  model_.contexts());
    return planner.Refuses(ranks);
  }

 private:
  const Plugin& plugin_;
  const KnownModel& model_;
};

// Returns three of the numbers of ranks that a strategy accepts, others for other sets; 2 is always
// among them if it is accepted, because more is checked with it.
std::vector<int> SomeRanks(const std::vector<int>& accepted, size_t set) {
  const size_t count = accepted.size();
  if (count <= 3) return accepted;
  std::set<int> some = {accepted[set % count], accepted[(set + count / 2) % count]};
  if (absl::c_linear_search(accepted, 2)) some.insert(2);
  return std::vector<int>(some.begin(), some.end());
}

// Returns the sets of --pairwise. The defaults are checked on all models and ranks, each other set
// on the last model, which has micro-batches, on one more model, and on some numbers of ranks.
absl::StatusOr<std::vector<CheckedSet>> PairwiseSetsOf(const Plugin& plugin,
                                                       const CommandLine& line,
                                                       KnownModels& known) {
  const std::vector<std::string>& models = line.checks.models;
  const std::vector<int>& ranks = line.checks.ranks;
  ASSIGN_OR_RETURN(const std::vector<TriedOption> options, OptionsToTry(plugin, line.tried));
  const OptionsOfStrategy strategy(&plugin, &known.Of(models.front()));
  const OptionSets found = PairwiseSets(options, [&](const OptionSet& set) {
    return !absl::c_all_of(ranks, [&](int number) { return strategy.Refuses(set, number); });
  });
  std::vector<CheckedSet> sets;
  for (const OptionSet& set : found.sets) {
    const size_t i = sets.size();
    sets.push_back({absl::StrJoin(set, ","), models, ranks});
    if (i > 0 && models.size() > 2) {
      sets.back().models = {models[i % (models.size() - 1)], models.back()};
      std::vector<int> accepted;
      for (const int number : ranks) {
        if (!strategy.Refuses(set, number)) accepted.push_back(number);
      }
      sets.back().ranks = SomeRanks(accepted, i);
    }
  }
  for (const std::string& pair : found.refused) {
    absl::PrintF("%-8s %-60s refused\n", plugin.name(), pair);
  }
  return sets;
}

// Returns the sets of --product: all accepted sets, or as many of them as requested.
absl::StatusOr<std::vector<CheckedSet>> ProductSetsOf(const Plugin& plugin, const CommandLine& line,
                                                      KnownModels& known) {
  const std::vector<std::string>& models = line.checks.models;
  const std::vector<int>& ranks = line.checks.ranks;
  ASSIGN_OR_RETURN(const std::vector<TriedOption> options, OptionsToTry(plugin, line.tried));
  const OptionsOfStrategy strategy(&plugin, &known.Of(models.front()));
  std::vector<OptionSet> combinations = AllSets(options);
  if (line.product < combinations.size()) absl::c_shuffle(combinations, std::mt19937(1));
  std::vector<CheckedSet> sets;
  size_t looked_at = 0;
  for (const OptionSet& set : combinations) {
    if (sets.size() == line.product) break;
    ++looked_at;
    // Consecutive sets use different models and numbers of ranks.
    const size_t i = sets.size();
    for (size_t j = 0; j < ranks.size(); ++j) {
      const int number = ranks[(i / models.size() + j) % ranks.size()];
      if (strategy.Refuses(set, number)) continue;
      sets.push_back({absl::StrJoin(set, ","), {models[i % models.size()]}, {number}});
      break;
    }
  }
  absl::PrintF("%-8s refuses %d of %d combinations, of %d in all\n", plugin.name(),
               looked_at - sets.size(), looked_at, combinations.size());
  return sets;
}

// Returns the sets of options that the command line requests: those that it lists, pairwise and
// product.
absl::StatusOr<std::vector<CheckedSet>> SetsToCheck(const Plugin& plugin, const CommandLine& line,
                                                    KnownModels& known) {
  std::vector<CheckedSet> sets;
  for (const std::string& options : line.option_sets) {
    const std::vector<std::string> settings = absl::StrSplit(options, ',', absl::SkipEmpty());
    RETURN_IF_ERROR(ReadOptions(plugin, settings).status());
    sets.push_back({options, line.checks.models, line.checks.ranks});
  }
  if (line.pairwise) {
    ASSIGN_OR_RETURN(const std::vector<CheckedSet> pairwise, PairwiseSetsOf(plugin, line, known));
    sets.insert(sets.end(), pairwise.begin(), pairwise.end());
  }
  if (line.product > 0) {
    ASSIGN_OR_RETURN(const std::vector<CheckedSet> product, ProductSetsOf(plugin, line, known));
    sets.insert(sets.end(), product.begin(), product.end());
  }
  return sets;
}

// Leaves every n-th model of the sets if this is one of n shards of a test of Bazel. All shards
// make the same list of sets, so each model of each set is in one of them.
absl::Status TakeShard(std::vector<CheckedSet>& sets) {
  const char* const total_text = std::getenv("TEST_TOTAL_SHARDS");
  const char* const index_text = std::getenv("TEST_SHARD_INDEX");
  if (total_text == nullptr || index_text == nullptr) return absl::OkStatus();
  size_t total = 0, index = 0;
  if (!absl::SimpleAtoi(total_text, &total) || !absl::SimpleAtoi(index_text, &index) ||
      index >= total) {
    return absl::InvalidArgumentError(absl::StrCat("TEST_SHARD_INDEX is '", index_text,
                                                   "' and TEST_TOTAL_SHARDS '", total_text,
                                                   "': there is no such shard"));
  }
  // Bazel reads from this file's existence that the test can be sharded.
  if (const char* const path = std::getenv("TEST_SHARD_STATUS_FILE")) std::ofstream file(path);
  size_t next = 0;
  for (CheckedSet& set : sets) {
    std::vector<std::string> models;
    for (const std::string& model : set.models) {
      if (next++ % total == index) models.push_back(model);
    }
    set.models = std::move(models);
  }
  std::erase_if(sets, [](const CheckedSet& set) { return set.models.empty(); });
  return absl::OkStatus();
}

// Checks one set of options and prints the result. Returns whether they suit one of the models.
absl::StatusOr<bool> CheckAndPrint(const Plugin& plugin, const CheckedSet& set,
                                   StrategyChecks checks, KnownModels& models) {
  const auto begin = std::chrono::steady_clock::now();
  checks.options = absl::StrSplit(set.options, ',', absl::SkipEmpty());
  checks.models = set.models;
  checks.ranks = set.ranks;
  const absl::Status status = CheckStrategy(plugin, checks, models);
  if (!status.ok() && !absl::IsInvalidArgument(status)) return status;
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  absl::PrintF("%-8s %-60s %s\n", plugin.name(), set.options.empty() ? "(defaults)" : set.options,
               status.ok() ? absl::StrCat("passed on ", absl::StrJoin(set.models, ", "), ", ranks ",
                                          absl::StrJoin(set.ranks, ", "), " in ",
                                          FormatSeconds(took.count()))
                           : absl::StrCat("refused: ", status.message()));
  RETURN_IF_ERROR(StdoutStatus());
  return status.ok();
}

absl::Status Run(const std::vector<std::string>& arguments) {
  ASSIGN_OR_RETURN(const CommandLine line, ParseCommandLine(arguments));
  ASSIGN_OR_RETURN(const PluginFile file, FindPlugin(line.strategy));
  ASSIGN_OR_RETURN(const Plugin plugin, Plugin::Load(file.path));
  KnownModels models;
  ASSIGN_OR_RETURN(std::vector<CheckedSet> sets, SetsToCheck(plugin, line, models));
  const bool has_sets = !sets.empty();
  RETURN_IF_ERROR(TakeShard(sets));
  // There are more shards than models of sets.
  if (has_sets && sets.empty()) return absl::OkStatus();
  size_t passed = 0;
  for (const CheckedSet& set : sets) {
    ASSIGN_OR_RETURN(const bool suits, CheckAndPrint(plugin, set, line.checks, models));
    if (suits) ++passed;
  }
  absl::PrintF("%-8s %d of %d sets of options passed, and the others were refused\n", plugin.name(),
               passed, sets.size());
  if (passed > 0) return StdoutStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("strategy ", plugin.name(), " refuses all sets of options"));
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  tessera::LetWritesFail();
  const absl::Status entered = tessera::EnterUserFolder(argv[0]).status();
  if (!entered.ok()) {
    absl::FPrintF(stderr, "error: %s\n", std::string(entered.message()));
    return 1;
  }
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (absl::c_linear_search(arguments, "--help")) {
    std::cout << absl::StrReplaceAll(
        tessera::kHelp, {{"$models", absl::StrJoin(tessera::ConformanceModels(), ", ")}});
    return 0;
  }
  if (absl::c_linear_search(arguments, "--version")) {
    std::cout << tessera::VersionLine();
    return 0;
  }
  const absl::Status status = tessera::Run(arguments);
  if (status.ok()) return 0;
  absl::FPrintF(stderr, "error: %s\n", std::string(status.message()));
  return 1;
}
