// Checks that few sets of options contain every value of each option with every value of each other
// option.
#include "strategies/conformance/option_sets.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "strategies/host/plugin.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

bool AcceptsAll(const OptionSet&) { return true; }

// Returns options a, b, ... with counts[i] values each: a=0, a=1, ...
std::vector<TriedOption> Options(const std::vector<int>& counts) {
  std::vector<TriedOption> options;
  for (const int count : counts) {
    TriedOption& option = options.emplace_back();
    option.name = std::string(1, static_cast<char>('a' + options.size() - 1));
    for (int value = 0; value < count; ++value) option.values.push_back(absl::StrCat(value));
  }
  return options;
}

// Returns the settings of all options; `set` names those that are not the default.
OptionSet Completed(const std::vector<TriedOption>& options, const OptionSet& set) {
  OptionSet all;
  for (const TriedOption& option : options) {
    std::string setting = absl::StrCat(option.name, "=", option.values[0]);
    for (const std::string& each : set) {
      if (each.rfind(option.name + "=", 0) == 0) setting = each;
    }
    all.push_back(setting);
  }
  return all;
}

std::set<std::pair<std::string, std::string>> PairsIn(const std::vector<TriedOption>& options,
                                                      const std::vector<OptionSet>& sets) {
  std::set<std::pair<std::string, std::string>> pairs;
  for (const OptionSet& set : sets) {
    const OptionSet all = Completed(options, set);
    for (size_t i = 0; i < all.size(); ++i) {
      for (size_t j = i + 1; j < all.size(); ++j) pairs.emplace(all[i], all[j]);
    }
  }
  return pairs;
}

TEST(OptionSetsTest, EveryPairOfValuesIsInASet) {
  const std::vector<TriedOption> options = Options({3, 2, 2, 4, 3, 2});
  const OptionSets found = PairwiseSets(options, AcceptsAll);
  EXPECT_THAT(found.refused, IsEmpty());
  EXPECT_EQ(PairsIn(options, found.sets), PairsIn(options, AllSets(options)));
  EXPECT_EQ(AllSets(options).size(), 288u);
  EXPECT_GE(found.sets.size(), 12u);
  EXPECT_LE(found.sets.size(), 20u);
  EXPECT_THAT(found.sets.front(), IsEmpty()) << "the defaults";
  EXPECT_EQ(PairwiseSets(options, AcceptsAll).sets, found.sets);
}

// "b=1" and "c=1" belong together, and never with "a=1": a set that is refused covers nothing.
TEST(OptionSetsTest, PairsAreCoveredBySetsThatAreAccepted) {
  const std::vector<TriedOption> options = Options({2, 2, 2, 3, 3});
  const auto accepts = [](const OptionSet& set) {
    const auto has = [&](const std::string& setting) {
      return absl::c_linear_search(set, setting);
    };
    return has("b=1") == has("c=1") && !(has("a=1") && has("b=1"));
  };
  const OptionSets found = PairwiseSets(options, accepts);
  EXPECT_THAT(found.refused, ElementsAre("a=1,b=1", "a=1,c=1", "b=0,c=1", "b=1,c=0"));
  std::vector<OptionSet> accepted;
  for (const OptionSet& set : AllSets(options)) {
    if (accepts(set)) accepted.push_back(set);
  }
  for (const OptionSet& set : found.sets) EXPECT_TRUE(accepts(set));
  EXPECT_EQ(PairsIn(options, found.sets), PairsIn(options, accepted));
}

TEST(OptionSetsTest, OneOptionAndNone) {
  EXPECT_THAT(PairwiseSets(Options({3}), AcceptsAll).sets,
              ElementsAre(IsEmpty(), ElementsAre("a=1"), ElementsAre("a=2")));
  EXPECT_THAT(PairwiseSets({}, AcceptsAll).sets, ElementsAre(IsEmpty()));
  EXPECT_THAT(AllSets({}), ElementsAre(IsEmpty()));
}

TEST(OptionSetsTest, ChoicesAndBoolsAreTriedAsThePluginDeclaresThem) {
  const auto plugin = Plugin::Load("strategies/conformance/testing/faulty.so");
  ASSERT_TRUE(plugin.ok()) << plugin.status();
  const auto options = OptionsToTry(*plugin, {"count=3", "count=7"});
  ASSERT_TRUE(options.ok()) << options.status();
  std::vector<std::string> texts;
  for (const TriedOption& option : *options) {
    texts.push_back(absl::StrCat(option.name, ":", absl::StrJoin(option.values, " ")));
  }
  EXPECT_THAT(texts, ElementsAre("choice:a b", "count:3 7", "on:no yes"));
  EXPECT_THAT(OptionsToTry(*plugin, {"cuont=7"}).status().message(),
              HasSubstr("no option 'cuont'"));
  EXPECT_THAT(OptionsToTry(*plugin, {"count=x"}).status().message(), HasSubstr("a whole number"));
}

}  // namespace
}  // namespace tessera
