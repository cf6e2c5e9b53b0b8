// Prints and writes the results of a comparison.
#ifndef TESSERA_TOOLS_COMPARE_RESULTS_H_
#define TESSERA_TOOLS_COMPARE_RESULTS_H_

#include <string>

#include "absl/status/status.h"
#include "tools/compare/comparison.h"
#include "tools/compare/flags.h"

namespace tessera {

// Returns the first line of the output: the model, the ranks and the machine.
std::string Title(const Comparison& comparison);

// Checks, before anything runs, that the files of the command line can be written. An error names
// the flag.
absl::Status CheckResultFiles(const CompareCommandLine& line);

// Prints the table, if there are figures, and the recommendation.
void PrintResults(const Comparison& comparison);

// Writes the files of the command line. An error names the flag.
absl::Status WriteResults(const CompareCommandLine& line, const Comparison& comparison);

// Reports the faults on stderr, and returns the exit code: 0, 2 if a strategy did not run, or 3 if
// one trained differently.
int ReportFaults(const Comparison& comparison);

}  // namespace tessera

#endif  // TESSERA_TOOLS_COMPARE_RESULTS_H_
