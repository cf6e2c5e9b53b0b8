// Runs the real training program as a user would, and reads its output and its files.
#ifndef TESSERA_TESTS_TRAIN_PROGRAM_H_
#define TESSERA_TESTS_TRAIN_PROGRAM_H_

#include <sys/resource.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tessera {

// Absolute paths of the programs.
std::string GptProgram();
std::string MlpProgram();
std::string RatingsProgram();
std::string VggProgram();

// Returns flags of a GPT of some 3000 parameters on sequences of 16 bytes: a step takes a fraction
// of a millisecond. It writes no sample and has a constant learning rate, so that a longer run
// begins with the same steps as a shorter one.
std::vector<std::string> TinyFlags();
// Returns TinyFlags(), a small text as data, and more flags.
std::vector<std::string> Tiny(const std::vector<std::string>& more);

// Makes a new empty folder.
std::string NewFolder();

void WriteFile(const std::string& path, const std::string& contents);
std::string ReadFile(const std::string& path);
// The path of a text of some kilobytes, shared by all tests of the process.
std::string TextFile();

struct Result {
  int code = 0;    // the exit code, or -1
  int signal = 0;  // the signal that ended it, or 0
  std::string out, err;
  int64_t peak_bytes = 0;  // peak resident memory
};

struct RunOptions {
  std::map<std::string, std::string> environment;  // in addition to the test's
  std::string folder;                              // the working directory; "" for the test's
  // The largest file that it can write, in bytes; 0 for no limit.
  int64_t file_limit = 0;
};

// Runs a program to its end.
Result RunProgram(const std::string& program, const std::vector<std::string>& arguments,
                  const RunOptions& options = {});
// Runs a shell command to its end.
Result Shell(const std::string& command);

// A program that runs concurrently with the test.
class RunningProgram {
 public:
  RunningProgram(const std::string& program, const std::vector<std::string>& arguments,
                 const RunOptions& options = {});
  ~RunningProgram();  // kills it
  RunningProgram(const RunningProgram&) = delete;
  RunningProgram& operator=(const RunningProgram&) = delete;

  // Its output so far.
  std::string Out() const;
  std::string Err() const;
  // The targets of its open file descriptors.
  std::vector<std::string> OpenFiles() const;
  pid_t pid() const { return pid_; }
  void Signal(int signal);
  // Waits until `done` returns true. Returns false after a minute, or if the program ends first.
  bool WaitFor(const std::function<bool()>& done);
  Result Wait();

 private:
  std::string out_path_, err_path_;
  pid_t pid_ = -1;
  bool ended_ = false;
  int status_ = 0;
  rusage usage_ = {};
};

// The lines of a run's metrics.jsonl, without one that the run is still writing.
std::vector<nlohmann::json> Metrics(const std::string& run_folder);

// The names of a run's checkpoints, "step_00000010", ..., newest first.
std::vector<std::string> Checkpoints(const std::string& run_folder);

// Returns "step_00000010".
std::string CheckpointName(int64_t step);

// The contents of the files in a folder, by name.
std::map<std::string, std::string> FilesIn(const std::string& folder);
// The same of a run's checkpoint.
std::map<std::string, std::string> CheckpointFiles(const std::string& run_folder, int64_t step);
// The files of the last checkpoint of an uninterrupted run of `steps` steps with Tiny(flags).
std::map<std::string, std::string> FilesOfUnbrokenRun(int64_t steps,
                                                      const std::vector<std::string>& flags);

// Expects that the metrics have every step up to `last` once, and so have TensorBoard's files.
void ExpectStepsTo(int64_t last, const std::string& run_folder);

}  // namespace tessera

#endif  // TESSERA_TESTS_TRAIN_PROGRAM_H_
