// Runs the training program on several ranks, as a user starts them, and finds their processes.
#ifndef TESSERA_TESTS_TRAIN_RANK_PROGRAM_H_
#define TESSERA_TESTS_TRAIN_RANK_PROGRAM_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/train/program.h"

namespace tessera {

// Writes a Plan with this stage and returns its file. By default every rank has the global batch.
std::string PlanFile(const std::string& stage = "mesh { name: \"data\" }");
// Returns the file of a Plan of docs/plans, such as "data_parallel".
std::string DocumentedPlan(const std::string& name);

// Returns tiny flags for a job of `ranks` ranks under a Plan.
std::vector<std::string> OnRanks(int ranks, const std::string& plan,
                                 const std::vector<std::string>& more);
// The same with a strategy, such as "fsdp".
std::vector<std::string> OnRanksBy(const std::string& strategy, int ranks,
                                   const std::vector<std::string>& more);

// Starts the ranks of a job by tools/launch, each with a shell command.
Result LaunchShell(int ranks, const std::string& command);
// Returns a program with its flags, as a shell reads it.
std::string CommandOf(const std::string& program, const std::vector<std::string>& flags);

// Returns the process of a rank of the job whose command line contains `mark`; 0 if there is none.
pid_t ProcessOf(int rank, const std::string& mark);

// Returns the values of a field in all lines of a run's metrics that have it.
std::vector<double> Field(const std::string& folder, const std::string& name);
// Expects that two runs have recorded the same bits.
void ExpectSameMetrics(const std::string& folder, const std::string& expected);

int CountOf(const std::string& part, const std::string& text);

// Returns how many errors the ranks of a job have written to standard error. The launcher's report
// at the end, which may repeat one, does not count.
int ErrorsOfRanks(const std::string& err);
// Expects that the job has failed with one line, which contains `part`.
void ExpectOneError(const Result& result, const std::string& part);

// Returns the step of the newest checkpoint of a run; 0 if it has none.
int64_t NewestStep(const std::string& folder);
// Returns whether the run has an incomplete checkpoint.
bool HoldsSomethingUnfinished(const std::string& folder);
// Returns the step in the line "going on from step 12, /path"; -1 if there is no such line.
int64_t StepGoneOnFrom(const std::string& out);

}  // namespace tessera

#endif  // TESSERA_TESTS_TRAIN_RANK_PROGRAM_H_
