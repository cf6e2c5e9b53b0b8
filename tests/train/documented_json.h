// JSON that a program writes, held against the table of its fields in a document.
#ifndef TESSERA_TESTS_TRAIN_DOCUMENTED_JSON_H_
#define TESSERA_TESTS_TRAIN_DOCUMENTED_JSON_H_

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

namespace tessera {

// A row of the table.
struct DocumentedField {
  std::string type;
  bool is_always_there = false;  // in the object that it belongs to
};
using DocumentedFields = std::map<std::string, DocumentedField>;  // by path

// Reads the rows "| `path` | type | unit | meaning | present |" of a document.
DocumentedFields ReadDocumentedFields(const std::string& document);

// Adds the fields below `from` again, below `to`.
void CopyFields(const std::string& from, const std::string& to, DocumentedFields* fields);

// Expects that all of the JSON is documented, with its type, and that what is always there is
// there. Adds the paths that occur.
void ExpectDocumented(const nlohmann::json& json, const DocumentedFields& fields,
                      std::set<std::string>* found);

}  // namespace tessera

#endif  // TESSERA_TESTS_TRAIN_DOCUMENTED_JSON_H_
