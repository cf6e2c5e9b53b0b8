#include "strategies/conformance/option_sets.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <random>
#include <set>
#include <tuple>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/status/status_macros.h"
#include "strategies/host/option_values.h"

namespace tessera {
namespace {

// The number of sets with a pair that are tried before the pair counts as refused.
constexpr int kCandidates = 60;

// The index of the value of each option.
using Row = std::vector<size_t>;

// A value of one option and one of a later option. If there is a single option, its value twice.
struct Pair {
  size_t first, first_value, second, second_value;
  friend bool operator<(const Pair& a, const Pair& b) {
    return std::tie(a.first, a.first_value, a.second, a.second_value) <
           std::tie(b.first, b.first_value, b.second, b.second_value);
  }
};

std::string Setting(const std::vector<TriedOption>& options, size_t option, size_t value) {
  return absl::StrCat(options[option].name, "=", options[option].values[value]);
}

// Returns the settings of a row, without those that are the defaults.
OptionSet SetOf(const std::vector<TriedOption>& options, const Row& row) {
  OptionSet set;
  for (size_t i = 0; i < row.size(); ++i) {
    if (row[i] != 0) set.push_back(Setting(options, i, row[i]));
  }
  return set;
}

std::set<Pair> PairsOf(const Row& row) {
  std::set<Pair> pairs;
  if (row.size() == 1) pairs.insert({0, row[0], 0, row[0]});
  for (size_t i = 0; i < row.size(); ++i) {
    for (size_t j = i + 1; j < row.size(); ++j) pairs.insert({i, row[i], j, row[j]});
  }
  return pairs;
}

std::set<Pair> AllPairs(const std::vector<TriedOption>& options) {
  std::set<Pair> pairs;
  if (options.size() == 1) {
    for (size_t v = 0; v < options[0].values.size(); ++v) pairs.insert({0, v, 0, v});
  }
  for (size_t i = 0; i < options.size(); ++i) {
    for (size_t j = i + 1; j < options.size(); ++j) {
      for (size_t v = 0; v < options[i].values.size(); ++v) {
        for (size_t w = 0; w < options[j].values.size(); ++w) pairs.insert({i, v, j, w});
      }
    }
  }
  return pairs;
}

// Returns how many of `pairs` are `among` others.
size_t CountAmong(const std::set<Pair>& pairs, const std::set<Pair>& among) {
  return absl::c_count_if(pairs, [&](const Pair& pair) { return among.count(pair) > 0; });
}

// Finds sets in which every pair of values occurs that the strategy accepts. It is greedy: for a
// pair that no set has yet, it adds the candidate that covers the most such pairs.
class PairwiseSearch {
 public:
  PairwiseSearch(const std::vector<TriedOption>& options, const AcceptsOptions& accepts)
      : options_(options), accepts_(accepts), uncovered_(AllPairs(options)) {}

  OptionSets Run() {
    AddSet(Row(options_.size(), 0));
    while (!uncovered_.empty()) {
      const Pair pair = *uncovered_.begin();
      if (!AddBestSetWith(pair)) AddRefused(pair);
    }
    return std::move(result_);
  }

 private:
  // Adds a set, which covers its pairs.
  void AddSet(const Row& row) {
    result_.sets.push_back(SetOf(options_, row));
    for (const Pair& pair : PairsOf(row)) uncovered_.erase(pair);
  }

  // Records a pair as refused.
  void AddRefused(const Pair& pair) {
    std::string text = Setting(options_, pair.first, pair.first_value);
    if (pair.second != pair.first) {
      absl::StrAppend(&text, ",", Setting(options_, pair.second, pair.second_value));
    }
    result_.refused.push_back(std::move(text));
    uncovered_.erase(pair);
  }

  // Adds the accepted candidate with this pair that covers the most pairs. Returns whether there is
  // one.
  bool AddBestSetWith(const Pair& pair) {
    std::vector<std::pair<size_t, Row>> candidates;  // with the number of pairs that they cover
    for (int i = 0; i < kCandidates; ++i) {
      Row row(options_.size(), 0);
      // The first candidate has the defaults beside the pair.
      for (size_t j = 0; i > 0 && j < row.size(); ++j) {
        row[j] = random_() % options_[j].values.size();
      }
      row[pair.first] = pair.first_value;
      row[pair.second] = pair.second_value;
      candidates.emplace_back(CountAmong(PairsOf(row), uncovered_), std::move(row));
    }
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    for (const auto& [covers, row] : candidates) {
      if (!Accepts(row)) continue;
      AddSet(row);
      return true;
    }
    return false;
  }

  bool Accepts(const Row& row) {
    const auto [found, is_new] = accepted_.try_emplace(row, false);
    if (is_new) found->second = accepts_(SetOf(options_, row));
    return found->second;
  }

  const std::vector<TriedOption>& options_;
  const AcceptsOptions& accepts_;
  std::set<Pair> uncovered_;
  std::map<Row, bool> accepted_;
  std::mt19937 random_{1};
  OptionSets result_;
};

}  // namespace

absl::StatusOr<std::vector<TriedOption>> OptionsToTry(const Plugin& plugin,
                                                      absl::Span<const std::string> more) {
  std::vector<TriedOption> options;
  for (const PluginOption& option : plugin.options()) {
    TriedOption tried = {option.name, {option.default_value}};
    const auto add = [&tried](const std::string& value) {
      if (!absl::c_linear_search(tried.values, value)) tried.values.push_back(value);
    };
    if (option.type == "bool") {
      ASSIGN_OR_RETURN(OptionValues defaults, ReadOptions(plugin, {}));
      tried.values = defaults[option.name] == "true" ? std::vector<std::string>{"yes", "no"}
                                                     : std::vector<std::string>{"no", "yes"};
    } else if (absl::StrContains(option.type, '|')) {
      for (const absl::string_view value : absl::StrSplit(option.type, '|'))
        add(std::string(value));
    }
    for (const std::string& setting : more) {
      RETURN_IF_ERROR(ReadOptions(plugin, {setting}).status());
      const std::pair<std::string, std::string> parts =
          absl::StrSplit(setting, absl::MaxSplits('=', 1));
      if (parts.first == option.name) add(parts.second);
    }
    if (tried.values.size() > 1) options.push_back(std::move(tried));
  }
  return options;
}

OptionSets PairwiseSets(const std::vector<TriedOption>& options, const AcceptsOptions& accepts) {
  return PairwiseSearch(options, accepts).Run();
}

std::vector<OptionSet> AllSets(const std::vector<TriedOption>& options) {
  std::vector<OptionSet> sets = {{}};
  for (const TriedOption& option : options) {
    std::vector<OptionSet> longer;
    for (const OptionSet& set : sets) {
      for (size_t value = 0; value < option.values.size(); ++value) {
        longer.push_back(set);
        if (value != 0)
          longer.back().push_back(absl::StrCat(option.name, "=", option.values[value]));
      }
    }
    sets = std::move(longer);
  }
  return sets;
}

}  // namespace tessera
