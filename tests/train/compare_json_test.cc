// Compares what compare writes for --json with its documentation, tools/compare/json.md.
#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/train/program.h"

namespace tessera {
namespace {

using Json = nlohmann::json;

// A row of the table.
struct Field {
  std::string type;
  bool is_always_there = false;  // in the object that it belongs to
};
using Fields = std::map<std::string, Field>;

// Returns the documented fields by path. Those of `estimated` are also those of `calibrated`.
Fields DocumentedFields() {
  constexpr char kEstimated[] = "strategies[].estimated.";
  Fields fields;
  std::istringstream lines(ReadFile("tools/compare/json.md"));
  for (std::string line; std::getline(lines, line);) {
    if (!absl::StartsWith(line, "| `")) continue;
    const std::vector<std::string> cells = absl::StrSplit(line, '|');
    EXPECT_EQ(cells.size(), 7u) << line;
    if (cells.size() != 7) continue;
    const auto cell = [&](int i) { return absl::StripAsciiWhitespace(cells[i]); };
    absl::string_view path = cell(1);
    EXPECT_TRUE(absl::ConsumePrefix(&path, "`") && absl::ConsumeSuffix(&path, "`")) << line;
    const Field field = {std::string(cell(2)), cell(5) == "always"};
    EXPECT_TRUE(fields.emplace(path, field).second) << path << " is documented twice";
    if (absl::ConsumePrefix(&path, kEstimated)) {
      fields.emplace(absl::StrCat("strategies[].calibrated.", path), field);
    }
  }
  return fields;
}

std::string TypeOf(const Json& json) {
  if (json.is_array()) return "list";
  if (json.is_object()) return "object";
  if (json.is_boolean()) return "bool";
  if (json.is_string()) return "string";
  return json.is_number_integer() ? "integer" : json.is_number() ? "number" : "null";
}

// Checks a value and all in it, and adds the paths that occur. `path` is "" for the file.
void Walk(const Json& json, const std::string& path, const Fields& fields,
          std::set<std::string>* found) {
  if (json.is_array()) {
    for (const Json& each : json) {
      const std::string entry = path + "[]";
      // Lists of objects have no row for an entry.
      if (!each.is_object()) {
        ASSERT_EQ(fields.count(entry), 1u) << entry << " is not documented";
        EXPECT_EQ(TypeOf(each), fields.at(entry).type) << entry;
      }
      found->insert(entry);
      Walk(each, entry, fields, found);
    }
  }
  if (!json.is_object()) return;
  const std::string prefix = path.empty() ? "" : path + ".";
  for (const auto& [name, value] : json.items()) {
    const std::string member = prefix + name;
    const std::string known = fields.count(prefix + "*") > 0 ? prefix + "*" : member;
    ASSERT_EQ(fields.count(known), 1u) << member << " is not documented";
    EXPECT_EQ(TypeOf(value), fields.at(known).type) << member;
    found->insert(known);
    Walk(value, known, fields, found);
  }
  for (const auto& [known, field] : fields) {
    const size_t dot = known.rfind('.');
    if ((dot == std::string::npos ? "" : known.substr(0, dot)) != path) continue;
    if (!field.is_always_there || absl::EndsWith(known, "[]")) continue;
    EXPECT_TRUE(json.contains(known.substr(prefix.size()))) << known << " is not in " << json;
  }
}

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
  const Fields fields = DocumentedFields();
  ASSERT_GT(fields.size(), 70u);
  // The Plan has a mesh of 3 ranks.
  const std::string plan = NewFolder() + "/three.textproto";
  WriteFile(plan, "stages { mesh { name: \"data\" size: 3 } }");
  std::set<std::string> found, outcomes;
  for (const Json& json :
       {RunCompare(2, {"--memory_limit=16MiB",
                       "--strategies=ddp,fsdp:offload=all,large=ddp:batch=4000," + plan}),
        RunCompare(0, {"--steps=0", "--strategies=ddp"})}) {
    Walk(json, "", fields, &found);
    EXPECT_EQ(json["schema_version"], 1);
    for (const Json& each : json["strategies"]) outcomes.insert(each["outcome"]);
  }
  EXPECT_THAT(outcomes, ::testing::ElementsAre("does not fit", "failed", "only priced", "ran"));
  for (const auto& [path, field] : fields) {
    EXPECT_EQ(found.count(path), 1u) << path << " is documented, and does not occur";
  }
}

}  // namespace
}  // namespace tessera
