// Chooses the sets of a strategy's options that are checked: every value of each option with every
// value of each other option, or all combinations.
#ifndef TESSERA_STRATEGIES_CONFORMANCE_OPTION_SETS_H_
#define TESSERA_STRATEGIES_CONFORMANCE_OPTION_SETS_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "strategies/host/plugin.h"

namespace tessera {

// An option and the values that are tried; the first one is the default.
struct TriedOption {
  std::string name;
  std::vector<std::string> values;
};

// Returns the options of which several values are tried: all values of choices and bools, and those
// of `more` ("name=value") of other types. InvalidArgument if `more` does not fit the options.
absl::StatusOr<std::vector<TriedOption>> OptionsToTry(const Plugin& plugin,
                                                      absl::Span<const std::string> more);

// The settings "name=value" that differ from the defaults.
using OptionSet = std::vector<std::string>;

// Returns whether the strategy accepts the options.
using AcceptsOptions = std::function<bool(const OptionSet& options)>;

struct OptionSets {
  std::vector<OptionSet> sets;  // the defaults first
  // Pairs "a=1,b=2" for which no accepted set was found.
  std::vector<std::string> refused;
};

// Returns few sets in which every value of each option is combined with every value of each other
// option. A set that is not accepted covers nothing; its pairs are tried with other values of the
// remaining options. The result is a function of the arguments.
OptionSets PairwiseSets(const std::vector<TriedOption>& options, const AcceptsOptions& accepts);

// Returns all combinations, whether they are accepted or not.
std::vector<OptionSet> AllSets(const std::vector<TriedOption>& options);

}  // namespace tessera

#endif  // TESSERA_STRATEGIES_CONFORMANCE_OPTION_SETS_H_
