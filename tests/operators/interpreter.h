// Runs a Graph operator by operator, directly from its definition. Tests use it to check lowering,
// passes and the memory plan.
#ifndef TESSERA_TESTS_OPERATORS_INTERPRETER_H_
#define TESSERA_TESTS_OPERATORS_INTERPRETER_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/graph/graph.h"
#include "core/ids/table.h"
#include "core/kernels/interface/backend.h"
#include "tests/operators/array.h"

namespace tessera::operator_tests {

// Returns every value of the Graph, by its id. `given` holds the elements of each input and each
// state that is read, in row-major order, by path; NotFound names a missing one.
absl::StatusOr<Table<ValueId, Array>> Interpret(
    const Graph& graph, Backend& backend, const std::map<std::string, std::vector<double>>& given);

}  // namespace tessera::operator_tests

#endif  // TESSERA_TESTS_OPERATORS_INTERPRETER_H_
