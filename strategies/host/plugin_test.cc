// Checks invalid plugins, plugins of other versions, and the values of options.
#include "strategies/host/plugin.h"

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "strategies/host/find_plugin.h"
#include "strategies/host/option_values.h"
#include "strategies/host/testing/no_new_files.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kFaulty[] = "strategies/conformance/testing/faulty.so";

std::string LoadError(const std::string& path) {
  const auto plugin = Plugin::Load(path);
  EXPECT_FALSE(plugin.ok()) << path;
  std::string message(plugin.status().message());
  EXPECT_THAT(message, HasSubstr(path));
  EXPECT_THAT(message, Not(HasSubstr("\n")));
  return message;
}

std::string WriteFile(const std::string& name, const std::string& text) {
  std::string path = testing::TempDir() + "/" + name;
  std::ofstream(path) << text;
  return path;
}

TEST(PluginTest, FilesThatAreNoPlugins) {
  EXPECT_THAT(LoadError("/no/such/plugin.so"), HasSubstr("cannot load the strategy plugin"));
  EXPECT_THAT(LoadError(WriteFile("text.so", "not a library")), HasSubstr("cannot load"));
  EXPECT_THAT(LoadError(WriteFile("empty.so", "")), HasSubstr("cannot load"));
  EXPECT_THAT(LoadError("strategies/host/testing/no_symbol.so"),
              HasSubstr("does not export `tessera_strategy`"));
}

TEST(PluginTest, APluginThatEndsTheProcessThatLoadsIt) {
  EXPECT_THAT(LoadError("strategies/host/testing/crashes.so"),
              HasSubstr("loading it ends the process: signal 6 (Aborted)"));
}

// Regression: the error did not name the plugin.
TEST(PluginTest, AProcessThatCannotBeStarted) {
  absl::Status status;
  {
    const NoNewFiles one_more(1);  // the library, while it is examined
    status = Plugin::Load(kFaulty).status();
  }
  EXPECT_EQ(status,
            absl::UnavailableError("strategy plugin strategies/conformance/testing/faulty.so: "
                                   "cannot start a process: pipe: Too many open files"));
  {
    const NoNewFiles no_new_files;
    status = Plugin::Load(kFaulty).status();
  }
  EXPECT_EQ(status, absl::UnavailableError("cannot load the strategy plugin strategies/conformance/"
                                           "testing/faulty.so: Too many open files"));
}

TEST(PluginTest, TheOriginIsTheFileItself) {
  const std::string link = testing::TempDir() + "/link_to_faulty.so";
  std::filesystem::remove(link);
  std::filesystem::create_symlink(std::filesystem::absolute(kFaulty), link);
  const auto plugin = Plugin::Load(link);
  ASSERT_TRUE(plugin.ok()) << plugin.status();
  EXPECT_EQ(plugin->path(), link);
  EXPECT_EQ(OriginOf(*plugin),
            "strategy faulty 1.0 is loaded from " + std::filesystem::canonical(kFaulty).string());
}

int32_t NoPlan(const TesseraStrategy*, const TesseraHost*, const char*, size_t,
               const TesseraSink*) {
  return TESSERA_INTERNAL;
}

TesseraStrategy Table() {
  TesseraStrategy table = {};
  table.struct_size = sizeof(TesseraStrategy);
  table.name = "good_1";
  table.version = "1.0";
  table.summary = "";
  table.make_plan = NoPlan;
  return table;
}

std::string TableError(const TesseraStrategy& table) {
  const auto plugin = Plugin::FromTable(&table, "x.so");
  EXPECT_FALSE(plugin.ok());
  return std::string(plugin.status().message());
}

TEST(PluginTest, TablesThatAreMalformed) {
  EXPECT_THAT(Plugin::FromTable(nullptr, "x.so").status().message(), HasSubstr("returned null"));
  TesseraStrategy table = Table();
  EXPECT_TRUE(Plugin::FromTable(&table, "x.so").ok());
  table.needs_major = 1;
  table.needs_minor = 2;
  EXPECT_THAT(TableError(table), HasSubstr("built for version 1.2 of the strategy interface, and "
                                           "this is version 2.1"));
  table = Table();
  table.needs_minor = 7;
  EXPECT_THAT(TableError(table),
              HasSubstr("it needs version 2.7 of the strategy interface, and this "
                        "is version 2.1: a newer Tessera can run it"));
  table = Table();
  table.struct_size = 40;
  EXPECT_THAT(TableError(table), HasSubstr("its table has 40 bytes"));
  table = Table();
  table.name = "Bad Name";
  EXPECT_THAT(TableError(table), HasSubstr("its name is 'Bad Name'"));
  table = Table();
  table.summary = "two\nlines";
  EXPECT_THAT(TableError(table), HasSubstr("its summary is not one line"));
  table = Table();
  table.version = nullptr;
  EXPECT_THAT(TableError(table), HasSubstr("its version is null"));
  table = Table();
  table.make_plan = nullptr;
  EXPECT_THAT(TableError(table), HasSubstr("no function `make_plan`"));
  table = Table();
  table.pass_count = 1;
  EXPECT_THAT(TableError(table), HasSubstr("no function `run_pass`"));
  table = Table();
  table.option_count = size_t{1} << 60;
  EXPECT_THAT(TableError(table), HasSubstr("null, or more than"));
}

// A plugin that was built with a later minor version, and needs this one: its table has more
// members, which this version does not read.
TEST(PluginTest, ATableOfALaterMinorVersion) {
  TesseraStrategy table = Table();
  table.struct_size += 64;
  table.needs_major = TESSERA_STRATEGY_MAJOR;
  EXPECT_TRUE(Plugin::FromTable(&table, "x.so").ok());
}

TEST(PluginTest, AMemberBeyondTheSizeOfATableIsAbsent) {
  TesseraHost host = {};
  host.struct_size = sizeof(TesseraHost);
  EXPECT_FALSE(TESSERA_HAS(&host, log)) << "it is null";
  host.log = [](const TesseraHost*, const char*, size_t) {};
  EXPECT_TRUE(TESSERA_HAS(&host, log));
  host.struct_size = offsetof(TesseraHost, log);
  EXPECT_FALSE(TESSERA_HAS(&host, log));
}

TEST(PluginTest, ZeroIsTheDefaultOfEveryOptionalMember) {
  TesseraOption texts = {}, choices = {}, sizes = {};
  texts.name = "a";
  choices.name = "b";
  choices.type = "x|y";
  sizes.name = "c";
  sizes.type = "bytes ..1GiB";
  const TesseraOption* const options[] = {&texts, &choices, &sizes};
  TesseraStrategy table = {};
  table.name = "least";
  table.version = "1.0";
  table.make_plan = NoPlan;
  table.options = options;
  table.option_count = 3;
  const auto plugin = Plugin::FromTable(&table, "x.so");
  ASSERT_TRUE(plugin.ok()) << plugin.status();
  EXPECT_EQ(plugin->summary(), "");
  const auto values = ReadOptions(*plugin, {});
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ(*values, (OptionValues{{"a", ""}, {"b", "x"}, {"c", "0"}}));
}

std::string OptionError(TesseraOption option) {
  const TesseraOption* const options[] = {&option};
  TesseraStrategy table = Table();
  table.options = options;
  table.option_count = 1;
  return TableError(table);
}

TEST(PluginTest, OptionsThatAreMalformed) {
  const auto error = [](const char* name, const char* type, const char* default_value) {
    return OptionError({sizeof(TesseraOption), name, type, default_value, ""});
  };
  EXPECT_THAT(OptionError({8, "a", "int", "1", ""}), HasSubstr("an option is null or smaller"));
  EXPECT_THAT(error(nullptr, "int", "1"), HasSubstr("option's name is null"));
  EXPECT_THAT(error("a-b", "int", "1"), HasSubstr("option's name is 'a-b'"));
  EXPECT_THAT(error("a", "float", "1"), HasSubstr("unknown type 'float'"));
  EXPECT_THAT(error("a", "float 1..", "1"), HasSubstr("unknown type 'float 1..'"));
  EXPECT_THAT(error("a", "int", "x"), HasSubstr("option a is 'x', and has to be a whole number"));
  EXPECT_THAT(error("a", "int 2..", "1"),
              HasSubstr("option a is '1', and has to be a whole number of 2 or more"));
  EXPECT_THAT(error("a", "int 2..", nullptr), HasSubstr("option a is '0', and has to be"));
  EXPECT_THAT(error("a", "int ..zero", "1"), HasSubstr("option a is 'zero'"));
  EXPECT_THAT(error("a", "text 0..9", "1"),
              HasSubstr("option a is of type 'text', which has no range"));
  for (const char* const type : {"int ", "int 1", "int ..", "int 1-8", "bytes 1KiB,2KiB"}) {
    EXPECT_THAT(error("a", type, "1"), HasSubstr("whose range is not written as 1.., ..8 or 1..8"));
  }
}

OptionValues Values(const std::vector<std::string>& settings) {
  const auto plugin = Plugin::Load(kFaulty);
  EXPECT_TRUE(plugin.ok()) << plugin.status();
  const auto values = ReadOptions(*plugin, settings);
  EXPECT_TRUE(values.ok()) << values.status();
  return values.ok() ? *values : OptionValues();
}

TEST(PluginTest, OptionsHaveDefaultsAndAreNormalised) {
  EXPECT_EQ(Values({}), (OptionValues{{"choice", "a"},
                                      {"count", "3"},
                                      {"fault", "none"},
                                      {"on", "false"},
                                      {"share", "0.5"},
                                      {"size", "1024"}}));
  EXPECT_EQ(Values({"on=yes", "size=2MiB", "choice=b", "fault=x=y"}),
            (OptionValues{{"choice", "b"},
                          {"count", "3"},
                          {"fault", "x=y"},
                          {"on", "true"},
                          {"share", "0.5"},
                          {"size", "2097152"}}));
}

TEST(PluginTest, OptionsThatDoNotFit) {
  const auto plugin = Plugin::Load(kFaulty);
  ASSERT_TRUE(plugin.ok());
  const auto error = [&](const std::string& setting) {
    return std::string(ReadOptions(*plugin, {setting}).status().message());
  };
  EXPECT_EQ(error("conut=1"),
            "strategy faulty has no option 'conut'; it has fault, size, choice, count, share, on; "
            "did you mean 'count'?");
  EXPECT_EQ(error("count"),
            "strategy option 'count' has no value: write count=..., a whole number");
  EXPECT_EQ(error("count=1.5"), "option count is '1.5', and has to be a whole number");
  EXPECT_EQ(error("on=maybe"), "option on is 'maybe', and has to be yes or no");
  EXPECT_EQ(error("share=inf"), "option share is 'inf', and has to be a number");
  EXPECT_EQ(error("size=-1"), "option size is '-1', and has to be a size such as 25MiB");
  EXPECT_EQ(error("choice=c"), "option choice is 'c', and has to be one of a, b");
  EXPECT_EQ(ReadOptions(*plugin, {"on=yes", "on=no"}).status().message(),
            "strategy option on is set twice");
}

TEST(PluginTest, SizesHaveRangesToo) {
  TesseraOption option = {sizeof(TesseraOption), "a", "bytes 512B..1GiB", "1KiB", ""};
  const TesseraOption* const options[] = {&option};
  TesseraStrategy table = Table();
  table.options = options;
  table.option_count = 1;
  const auto plugin = Plugin::FromTable(&table, "x.so");
  ASSERT_TRUE(plugin.ok()) << plugin.status();
  EXPECT_TRUE(ReadOptions(*plugin, {"a=1GiB"}).ok());
  EXPECT_EQ(ReadOptions(*plugin, {"a=2GiB"}).status().message(),
            "option a is '2GiB', and has to be a size such as 25MiB from 512B to 1GiB");
  EXPECT_THAT(PluginHelp(*plugin), HasSubstr("(default 1KiB, from 512B to 1GiB)"));
}

TEST(FindPluginTest, NamesAndPaths) {
  const auto found = FindPlugin(kFaulty);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->path, kFaulty);
  EXPECT_FALSE(found->comes_with_program);
  EXPECT_THAT(FindPlugin("./no.so").status().message(),
              HasSubstr("there is no strategy plugin ./no.so"));
  EXPECT_THAT(FindPlugin("dpp").status().message(), HasSubstr("did you mean 'ddp'?"));
  setenv("TESSERA_STRATEGY_PATH", "/nowhere:strategies/conformance/testing", 1);
  for (const auto& by_name : {FindPlugin("faulty"), FindPluginOfPlan("faulty")}) {
    ASSERT_TRUE(by_name.ok()) << by_name.status();
    EXPECT_EQ(by_name->path, "strategies/conformance/testing/faulty.so");
    EXPECT_FALSE(by_name->comes_with_program);
  }
  unsetenv("TESSERA_STRATEGY_PATH");
}

// Regression: a Plan could name any file.
TEST(FindPluginTest, APlanNamesNoPaths) {
  setenv("TESSERA_STRATEGY_PATH", "strategies/conformance/testing", 1);
  for (const std::string& name :
       {std::string(kFaulty), "./" + std::string(kFaulty), std::string("faulty.so"),
        std::string("../testing/faulty"), std::filesystem::absolute(kFaulty).string(),
        std::string("Faulty"), std::string(".."), std::string()}) {
    const absl::Status status = FindPluginOfPlan(name).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << name << ": " << status;
    EXPECT_THAT(status.message(), HasSubstr("never by a path"));
  }
  unsetenv("TESSERA_STRATEGY_PATH");
  const absl::Status status = FindPluginOfPlan("faulty").status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("name its folder in TESSERA_STRATEGY_PATH"));
}

// Regression: the working directory supplied the plugins of a program that was found in $PATH.
TEST(FindPluginTest, TheWorkingDirectoryHasNoPlugins) {
  const std::filesystem::path before = std::filesystem::current_path();
  const std::filesystem::path folder = testing::TempDir() + "/working_directory";
  for (const char* program : {"train.runfiles", "plugin_test.runfiles"}) {
    const std::filesystem::path plugins = folder / program / "tessera/strategies/no_plugin";
    std::filesystem::create_directories(plugins);
    std::ofstream(plugins / "no_plugin.so") << "text";
  }
  std::filesystem::current_path(folder);
  EXPECT_TRUE(absl::IsNotFound(FindPlugin("no_plugin").status()));
  EXPECT_TRUE(absl::IsNotFound(FindPluginOfPlan("no_plugin").status()));
  std::filesystem::current_path(before);
}

}  // namespace
}  // namespace tessera
