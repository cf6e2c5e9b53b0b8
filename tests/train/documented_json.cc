#include "tests/train/documented_json.h"

#include <sstream>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "gtest/gtest.h"
#include "tests/train/program.h"

namespace tessera {
namespace {

using Json = nlohmann::json;

std::string TypeOf(const Json& json) {
  if (json.is_array()) return "list";
  if (json.is_object()) return "object";
  if (json.is_boolean()) return "bool";
  if (json.is_string()) return "string";
  return json.is_number_integer() ? "integer" : json.is_number() ? "number" : "null";
}

// Checks a value and all in it, and adds the paths that occur. `path` is "" for the file.
void Walk(const Json& json, const std::string& path, const DocumentedFields& fields,
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

}  // namespace

DocumentedFields ReadDocumentedFields(const std::string& document) {
  DocumentedFields fields;
  std::istringstream lines(ReadFile(document));
  for (std::string line; std::getline(lines, line);) {
    if (!absl::StartsWith(line, "| `")) continue;
    const std::vector<std::string> cells = absl::StrSplit(line, '|');
    EXPECT_EQ(cells.size(), 7u) << line;
    if (cells.size() != 7) continue;
    const auto cell = [&](int i) { return absl::StripAsciiWhitespace(cells[i]); };
    absl::string_view path = cell(1);
    EXPECT_TRUE(absl::ConsumePrefix(&path, "`") && absl::ConsumeSuffix(&path, "`")) << line;
    const DocumentedField field = {std::string(cell(2)), cell(5) == "always"};
    EXPECT_TRUE(fields.emplace(path, field).second) << path << " is documented twice";
  }
  return fields;
}

void CopyFields(const std::string& from, const std::string& to, DocumentedFields* fields) {
  DocumentedFields copies;
  for (const auto& [path, field] : *fields) {
    absl::string_view rest = path;
    if (absl::ConsumePrefix(&rest, absl::StrCat(from, "."))) {
      copies.emplace(absl::StrCat(to, ".", rest), field);
    }
  }
  fields->merge(std::move(copies));
}

void ExpectDocumented(const Json& json, const DocumentedFields& fields,
                      std::set<std::string>* found) {
  Walk(json, "", fields, found);
}

}  // namespace tessera
