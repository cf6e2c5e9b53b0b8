#include "tools/plan/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/flags/reflection.h"

namespace tessera {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

absl::StatusOr<PlanCommandLine> Parse(const std::vector<std::string>& arguments) {
  const absl::FlagSaver saver;
  return ParsePlanCommandLine(arguments);
}

std::string Error(const std::vector<std::string>& arguments) {
  return std::string(Parse(arguments).status().message());
}

TEST(PlanFlagsTest, NoFlags) {
  const auto line = Parse({});
  ASSERT_TRUE(line.ok()) << line.status();
  ASSERT_EQ(line->requests.size(), 4u);
  EXPECT_EQ(line->requests[1].label, "fsdp");
  EXPECT_EQ(line->requests[1].ranks, 2);
  EXPECT_TRUE(line->requests[1].line.plan_only);
  EXPECT_FALSE(line->requests[1].limit_between);
  EXPECT_EQ(line->requests[2].label, "osdp");
  EXPECT_TRUE(line->requests[2].limit_between);
  EXPECT_EQ(line->requests[3].label, "tensor");
  // A Plan is compared with one other.
  const auto diff = Parse({"diff"});
  ASSERT_TRUE(diff.ok()) << diff.status();
  EXPECT_EQ(diff->requests.size(), 2u);
  const auto named = Parse({"--strategies=osdp"});
  ASSERT_TRUE(named.ok()) << named.status();
  EXPECT_FALSE(named->requests[0].limit_between);
}

TEST(PlanFlagsTest, HoldsAsksOneStrategyAboutOnePlan) {
  const auto line = Parse({"holds", "--plan=a.textproto", "--strategies=osdp"});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_EQ(line->command, PlanCommand::kHolds);
  EXPECT_EQ(line->plan, "a.textproto");
  EXPECT_EQ(line->requests[0].line.plan, "");
  EXPECT_THAT(Error({"holds", "--strategies=osdp"}), HasSubstr("name its file with --plan=FILE"));
  EXPECT_THAT(Error({"holds", "--plan=a.textproto"}), HasSubstr("holds asks one strategy about"));
  EXPECT_THAT(Error({"holds", "--plan=a.textproto", "--strategies=osdp", "--ranks=fewest"}),
              HasSubstr("holds asks one strategy about"));
  EXPECT_THAT(Error({"holds", "--plan=a.textproto", "--strategies=b.textproto"}),
              HasSubstr("b is a Plan: name the strategy that made it"));
  EXPECT_THAT(Error({"holds", "--plan=a.textproto", "--strategies=osdp", "--json=x"}),
              HasSubstr("leave out --json"));
  EXPECT_THAT(Error({"explain", "--plan=a.textproto", "--strategies=osdp"}),
              HasSubstr("--plan is for the command holds"));
}

TEST(PlanFlagsTest, RanksAreThoseOfAHostOfTheCluster) {
  const auto line = Parse({"--cluster=h100", "--strategies=ddp"});
  ASSERT_TRUE(line.ok()) << line.status();
  ASSERT_EQ(line->requests.size(), 1u);
  EXPECT_EQ(line->requests[0].ranks, 8);
}

TEST(PlanFlagsTest, StrategiesByRanks) {
  const auto line = Parse({"explain", "--strategies=a=fsdp:reshard=no,tensor_parallel",
                           "--ranks=8,64", "--tokens=1.5T"});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_EQ(line->command, PlanCommand::kExplain);
  ASSERT_EQ(line->requests.size(), 4u);
  EXPECT_EQ(line->requests[0].label, "a");
  EXPECT_EQ(line->requests[1].ranks, 64);
  EXPECT_THAT(line->requests[2].line.plan, HasSubstr("tensor_parallel.textproto"));
  EXPECT_EQ(line->tokens, 1.5e12);
}

TEST(PlanFlagsTest, Errors) {
  EXPECT_THAT(Error({"explan"}), AllOf(HasSubstr("no command 'explan'"), HasSubstr("'explain'?")));
  EXPECT_THAT(Error({"--model=gtp"}), HasSubstr("did you mean 'gpt'?"));
  EXPECT_THAT(Error({"--ranks=8,x"}), HasSubstr("--ranks=x: it must be from 1 to"));
  EXPECT_THAT(Error({"--cluster=h1000"}), HasSubstr("there is no cluster 'h1000'"));
  EXPECT_THAT(Error({"--tokens=5Q"}), HasSubstr("--tokens is '5Q'"));
  EXPECT_THAT(Error({"--tokens=-1"}), HasSubstr("--tokens is '-1'"));
  EXPECT_THAT(Error({"--strategies="}), HasSubstr("--strategies is empty"));
  EXPECT_THAT(Error({"diff", "--strategies=ddp"}), HasSubstr("diff compares two Plans"));
  EXPECT_THAT(Error({"--save=x"}), HasSubstr("--save is for one Plan"));
  EXPECT_THAT(Error({"--trace=x"}), HasSubstr("--trace is for one Plan"));
  EXPECT_THAT(Error({"--layers=3"}), HasSubstr("--set=model.layers"));
}

TEST(PlanFlagsTest, HelpNamesTheCommands) {
  EXPECT_THAT(PlanHelp("plan"),
              AllOf(HasSubstr("plan explain"), HasSubstr("--fit"), HasSubstr("--tokens=N")));
}

}  // namespace
}  // namespace tessera
