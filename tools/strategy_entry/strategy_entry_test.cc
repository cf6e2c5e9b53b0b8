#include "tools/strategy_entry/strategy_entry.h"

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

StrategyEntry Parse(const std::string& text) {
  const auto entries = ParseStrategies({text});
  EXPECT_TRUE(entries.ok()) << entries.status();
  return entries.ok() ? entries->front() : StrategyEntry();
}

TEST(StrategyEntryTest, ANameIsItsLabel) {
  const StrategyEntry entry = Parse("ddp");
  EXPECT_EQ(entry.label, "ddp");
  EXPECT_EQ(entry.name, "ddp");
  EXPECT_THAT(entry.options, IsEmpty());
}

TEST(StrategyEntryTest, OptionsBelongToTheLabel) {
  const StrategyEntry entry = Parse("fsdp:reshard=no:prefetch=2");
  EXPECT_EQ(entry.label, "fsdp:reshard=no:prefetch=2");
  EXPECT_EQ(entry.name, "fsdp");
  EXPECT_THAT(entry.options, ElementsAre("reshard=no", "prefetch=2"));
}

TEST(StrategyEntryTest, FoldersAndTheEndingOfAPlanDoNot) {
  EXPECT_EQ(Parse("docs/plans/fully_sharded.textproto").label, "fully_sharded");
  EXPECT_EQ(Parse("docs/plans/fully_sharded.textproto").name, "docs/plans/fully_sharded.textproto");
  EXPECT_EQ(Parse("/tmp/mine.so:depth=3").label, "mine.so:depth=3");
}

TEST(StrategyEntryTest, ALabelStandsBeforeTheName) {
  const StrategyEntry entry = Parse("small=ddp:bucket=1MiB");
  EXPECT_EQ(entry.label, "small");
  EXPECT_EQ(entry.name, "ddp");
  EXPECT_THAT(entry.options, ElementsAre("bucket=1MiB"));
}

TEST(StrategyEntryTest, FaultsAreNamed) {
  const auto message = [](const std::vector<std::string>& texts) {
    return std::string(ParseStrategies(texts).status().message());
  };
  EXPECT_THAT(message({}), HasSubstr("--strategies is empty"));
  EXPECT_THAT(message({"ddp", ""}), HasSubstr("'' names no strategy"));
  EXPECT_THAT(message({"=ddp"}), HasSubstr("'=ddp' has an empty label"));
  EXPECT_THAT(message({"fsdp:reshard"}), HasSubstr("has the option 'reshard': an entry is"));
  EXPECT_THAT(message({"ddp", "fsdp", "ddp"}), HasSubstr("the second entry with the label ddp"));
}

TEST(StrategyEntryTest, APlanHasNoOptions) {
  CommandLine line;
  EXPECT_TRUE(SetStrategy(Parse("a/b.textproto"), {}, &line).ok());
  EXPECT_EQ(line.plan, "a/b.textproto");
  EXPECT_EQ(line.strategy, "");
  EXPECT_THAT(SetStrategy(Parse("a/b.textproto:x=1"), {}, &line).message(),
              HasSubstr("is a Plan, which has no option 'x', only the settings batch, "
                        "micro_batches, recompute, memory_limit: an entry is "));
}

TEST(StrategyEntryTest, AStrategyTakesItsOptions) {
  CommandLine line;
  EXPECT_FALSE(StatesSettings(Parse("fsdp:reshard=no")));
  EXPECT_TRUE(SetStrategy(Parse("fsdp:reshard=no"), {}, &line).ok());
  EXPECT_EQ(line.strategy, "fsdp");
  EXPECT_THAT(line.strategy_options, ElementsAre("reshard=no"));
  EXPECT_EQ(line.plan, "");
  EXPECT_THAT(line.settings, IsEmpty());
}

// Returns the settings of a run as "field=value".
std::vector<std::string> Settings(const CommandLine& line) {
  std::vector<std::string> texts;
  for (const FieldSetting& each : line.settings) texts.push_back(each.path + "=" + each.value);
  return texts;
}

TEST(StrategyEntryTest, SettingsAreThoseOfTheRun) {
  const StrategyEntry entry =
      Parse("lean=fsdp:recompute=block:reshard=no:micro_batches=2:batch=32");
  EXPECT_TRUE(StatesSettings(entry));
  CommandLine line;
  line.settings = {{"--batch", "batch", "16"}};
  EXPECT_TRUE(SetStrategy(entry, {"reshard", "prefetch"}, &line).ok());
  EXPECT_THAT(line.strategy_options, ElementsAre("reshard=no"));
  EXPECT_THAT(Settings(line),
              ElementsAre("batch=16", "recompute=block", "micro_batches=2", "batch=32"));
  EXPECT_EQ(line.settings.back().source, "--strategies");
}

TEST(StrategyEntryTest, AnOptionOfTheStrategyIsNoSetting) {
  CommandLine line;
  EXPECT_TRUE(SetStrategy(Parse("mine.so:batch=32:recompute=block"), {"batch"}, &line).ok());
  EXPECT_THAT(line.strategy_options, ElementsAre("batch=32"));
  EXPECT_THAT(Settings(line), ElementsAre("recompute=block"));
}

TEST(StrategyEntryTest, APlanTakesSettings) {
  const StrategyEntry entry = Parse("a/b.textproto:batch=32");
  EXPECT_THAT(*OptionNames(entry), IsEmpty());
  CommandLine line;
  EXPECT_TRUE(SetStrategy(entry, {}, &line).ok());
  EXPECT_EQ(line.plan, "a/b.textproto");
  EXPECT_THAT(Settings(line), ElementsAre("batch=32"));
}

TEST(StrategyEntryTest, AnEntryMayHaveAMemoryLimitOfItsOwn) {
  CommandLine line;
  line.settings = {{"--memory_limit", "memory_limit", "2GiB"}};
  EXPECT_TRUE(SetStrategy(Parse("small=osdp:memory_limit=40MiB"), {}, &line).ok());
  EXPECT_THAT(line.strategy_options, IsEmpty());
  EXPECT_THAT(Settings(line), ElementsAre("memory_limit=2GiB", "memory_limit=40MiB"));
}

TEST(StrategyEntryTest, ASettingIsStatedOnce) {
  CommandLine line;
  EXPECT_THAT(SetStrategy(Parse("ddp:batch=8:batch=16"), {}, &line).message(),
              HasSubstr("--strategies: 'ddp:batch=8:batch=16' sets batch twice: an entry is "));
}

TEST(StrategyEntryTest, OptionNamesAreThoseOfThePlugin) {
  EXPECT_THAT(OptionNames(Parse("no_such_strategy")).status().message(),
              HasSubstr("there is no strategy 'no_such_strategy'"));
}

TEST(NamedStatusTest, KeepsCodeAndPayload) {
  absl::Status status = absl::InvalidArgumentError("no");
  status.SetPayload("a", absl::Cord("b"));
  const absl::Status named = NamedStatus("ddp", status);
  EXPECT_EQ(named.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(named.message(), "ddp: no");
  EXPECT_EQ(named.GetPayload("a"), absl::Cord("b"));
  EXPECT_TRUE(NamedStatus("ddp", absl::OkStatus()).ok());
}

}  // namespace
}  // namespace tessera
