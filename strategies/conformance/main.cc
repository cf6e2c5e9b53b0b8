// Checks a strategy plugin.
//
//   ./bazelw run //strategies/conformance -- fsdp shard=full,prefetch=2 shard=none
#include <chrono>
#include <cstdio>
#include <iostream>
#include <string>
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
#include "core/status/status_macros.h"
#include "core/text/human_units.h"
#include "strategies/conformance/check_strategy.h"
#include "strategies/host/find_plugin.h"
#include "strategies/host/plugin.h"

namespace tessera {
namespace {

constexpr char kHelp[] =
    "Checks a strategy plugin: it trains small models on ranks that are threads, and\n"
    "compares the training, what is communicated, the memory and checkpoints with those\n"
    "of one process and with the strategy's estimate.\n"
    "\n"
    "Usage\n"
    "  conformance [--models=NAME,...] [--ranks=N,...] STRATEGY [NAME=VALUE,...]...\n"
    "\n"
    "STRATEGY is a name (ddp, fsdp) or the path of a plugin. Each further argument is one\n"
    "set of options; without any, the defaults are checked.\n"
    "\n"
    "Models: $models\n";

struct CommandLine {
  std::string strategy;
  std::vector<std::string> option_sets;
  StrategyChecks checks;
};

absl::StatusOr<CommandLine> Parse(const std::vector<std::string>& arguments) {
  CommandLine line;
  for (const std::string& argument : arguments) {
    const std::pair<std::string, std::string> halves =
        absl::StrSplit(argument, absl::MaxSplits('=', 1));
    if (halves.first == "--models") {
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
          absl::StrCat("there is no flag ", argument, "; there are --models, --ranks and --help"));
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
  if (line.option_sets.empty()) line.option_sets.push_back("");
  return line;
}

absl::Status Run(const std::vector<std::string>& arguments, const std::string& argv0) {
  ASSIGN_OR_RETURN(CommandLine line, Parse(arguments));
  ASSIGN_OR_RETURN(const std::string path, FindPlugin(line.strategy, argv0));
  ASSIGN_OR_RETURN(const Plugin plugin, Plugin::Load(path));
  for (const std::string& options : line.option_sets) {
    const auto begin = std::chrono::steady_clock::now();
    line.checks.options = absl::StrSplit(options, ',', absl::SkipEmpty());
    RETURN_IF_ERROR(CheckStrategy(plugin, line.checks));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    absl::PrintF("%-8s %-60s passed in %s\n", plugin.name(),
                 options.empty() ? "(defaults)" : options, FormatSeconds(took.count()));
    std::fflush(stdout);
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (absl::c_linear_search(arguments, "--help")) {
    std::cout << absl::StrReplaceAll(
        tessera::kHelp, {{"$models", absl::StrJoin(tessera::ConformanceModels(), ", ")}});
    return 0;
  }
  const absl::Status status = tessera::Run(arguments, argv[0]);
  if (status.ok()) return 0;
  absl::FPrintF(stderr, "error: %s\n", std::string(status.message()));
  return 1;
}
