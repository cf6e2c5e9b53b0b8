// Checks which plugins a Plan can name. tests/train/foreign_plugins_test.cc does so with the
// program.
#include "strategies/host/plugin_passes.h"

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/graph/graph.h"
#include "core/kernels/reference/backend.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

namespace fs = std::filesystem;

// A folder of TESSERA_STRATEGY_PATH with the plugin `faulty`, and with the same library under
// another name.
class PluginPassesTest : public ::testing::Test {
 protected:
  PluginPassesTest() {
    const fs::path folder = fs::path(testing::TempDir()) / "plugin_passes_test";
    fs::remove_all(folder);  // a library that is loaded must not be overwritten
    fs::create_directories(folder);
    for (const char* name : {"faulty.so", "renamed.so"}) {
      fs::copy_file("strategies/conformance/testing/faulty.so", folder / name);
    }
    folder_ = fs::canonical(folder).string();
    setenv("TESSERA_STRATEGY_PATH", folder_.c_str(), 1);
  }
  ~PluginPassesTest() override { unsetenv("TESSERA_STRATEGY_PATH"); }

  // Runs a pass of the plugin that changes nothing in an empty Program.
  absl::Status Run(const std::string& plugin, const std::string& version) {
    PassChoice::PluginPass pass;
    pass.set_name(plugin);
    pass.set_version(version);
    pass.set_pass("reorder_on_odd_ranks");
    return passes_.Run(pass, Program()).status();
  }

  std::string folder_;
  std::vector<std::string> notes_;
  const std::unique_ptr<Backend> backend_ = MakeReferenceBackend();
  LoadedPasses passes_{backend_.get(),
                       std::make_shared<const PlanningContext>(
                           std::vector<Graph>(), PlanningFor{.catalogue = backend_.get()}),
                       {},
                       [this](const std::string& line) { notes_.push_back(line); }};
};

TEST_F(PluginPassesTest, APluginThatIsInstalledIsLoadedOnceAndNoted) {
  for (int i = 0; i < 2; ++i) EXPECT_EQ(Run("faulty", "1.0"), absl::OkStatus());
  EXPECT_THAT(notes_, ElementsAre("strategy faulty 1.0 is loaded from " + folder_ + "/faulty.so"));
}

TEST_F(PluginPassesTest, TheNameAndTheVersionAreThoseOfThePlan) {
  EXPECT_EQ(Run("renamed", "1.0").message(),
            "the Plan needs a pass of the strategy plugin 'renamed', and " + folder_ +
                "/renamed.so is the plugin 'faulty'");
  EXPECT_THAT(notes_, IsEmpty());
  EXPECT_THAT(std::string(Run("faulty", "1\n1").message()),
              HasSubstr("the Plan was made with version '1\\n1' of strategy faulty, whose pass "
                        "'reorder_on_odd_ranks' it needs; "));
}

TEST_F(PluginPassesTest, APluginThatIsNamedByItsPathIsRefused) {
  for (const std::string& plugin : {folder_ + "/faulty.so", std::string("faulty.so")}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Run(plugin, "1.0"))) << plugin;
  }
  EXPECT_TRUE(absl::IsNotFound(Run("elsewhere", "1.0")));
  EXPECT_THAT(notes_, IsEmpty());
}

}  // namespace
}  // namespace tessera
