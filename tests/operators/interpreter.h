// Runs a Graph operator by operator, straight from its definition: a second opinion on everything
// that lowering, passes and the plan of memory do.
#ifndef TESSERA_TESTS_OPERATORS_INTERPRETER_H_
#define TESSERA_TESTS_OPERATORS_INTERPRETER_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/graph/graph.h"
#include "core/kernels/interface/backend.h"
#include "tests/operators/array.h"

namespace tessera::operator_tests {

// Every value of the Graph, by its id. `given` holds the elements of each input and each state that
// is read, in row-major order, by path; NotFound names one that is missing.
absl::StatusOr<std::vector<Array>> Interpret(
    const Graph& graph, Backend& backend, const std::map<std::string, std::vector<double>>& given);

}  // namespace tessera::operator_tests

#endif  // TESSERA_TESTS_OPERATORS_INTERPRETER_H_
