// Compares what compare writes for --json with its documentation, tools/compare/json.md.
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/train/documented_json.h"
#include "tests/train/program.h"

namespace tessera {
namespace {

using Json = nlohmann::json;

// Runs compare on a small model, and returns what it wrote. `code` is its exit code.
Json RunCompare(int code, const std::vector<std::string>& more) {
  const std::string file = NewFolder() + "/comparison.json";
  std::vector<std::string> flags = {
      "--set=model.layers=1,model.heads=2,model.channels=8,model.context=16",
      "--sequence=16",
      "--batch=4",
      "--threads=1",
      "--data=synthetic",
      "--backend=fake",
      "--nproc=2",
      "--steps=4",
      "--rounds=2",
      "--json=" + file};
  flags.insert(flags.end(), more.begin(), more.end());
  const Result result =
      RunProgram(std::filesystem::absolute("tools/compare/compare").string(), flags);
  EXPECT_EQ(result.code, code) << result.err;
  return Json::parse(ReadFile(file));
}

TEST(CompareJson, EveryFieldIsDocumentedAndEveryDocumentedFieldOccurs) {
  DocumentedFields fields = ReadDocumentedFields("tools/compare/json.md");
  CopyFields("strategies[].estimated", "strategies[].calibrated", &fields);
  ASSERT_GT(fields.size(), 70u);
  // The Plan has a mesh of 3 ranks.
  const std::string plan = NewFolder() + "/three.textproto";
  WriteFile(plan, "stages { mesh { name: \"data\" size: 3 } }");
  std::set<std::string> found, outcomes;
  for (const Json& json :
       {RunCompare(2, {"--memory_limit=16MiB",
                       "--strategies=ddp,fsdp:offload=all,large=ddp:batch=4000," + plan}),
        RunCompare(0, {"--steps=0", "--strategies=ddp"}),
        RunCompare(0, {"--plan_only", "--strategies=ddp"})}) {
    ExpectDocumented(json, fields, &found);
    EXPECT_EQ(json["schema_version"], 1);
    for (const Json& each : json["strategies"]) outcomes.insert(each["outcome"]);
  }
  EXPECT_THAT(outcomes, ::testing::ElementsAre("does not fit", "failed", "only planned",
                                               "only priced", "ran"));
  for (const auto& [path, field] : fields) {
    EXPECT_EQ(found.count(path), 1u) << path << " is documented, and does not occur";
  }
}

}  // namespace
}  // namespace tessera
