// Runs the real training program, as a user would, and looks at what it says and leaves.
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

// Paths of the programs, whole.
std::string GptProgram();
std::string MlpProgram();

// Flags of a GPT of some 3000 parameters on sequences of 16 bytes: a step takes a fraction of a
// millisecond. It writes no sample and keeps a constant learning rate, so that runs of different
// lengths are the same as far as they go.
std::vector<std::string> TinyFlags();
// TinyFlags() and more, on a small text.
std::vector<std::string> Tiny(const std::vector<std::string>& more);

// A new empty folder of this test's own.
std::string NewFolder();

void WriteFile(const std::string& path, const std::string& contents);
std::string ReadFile(const std::string& path);
// A text of some kilobytes, in a file that all tests share.
std::string TextFile();

struct Result {
  int code = 0;    // of exit, or -1
  int signal = 0;  // that ended it, or 0
  std::string out, err;
  int64_t peak_bytes = 0;  // the most memory that it had
};

struct RunOptions {
  std::map<std::string, std::string> environment;  // set beside the test's own
  std::string folder;                              // that it is run in; "" for the test's
  // The largest file that it can write, in bytes; 0 for no limit.
  int64_t file_limit = 0;
};

// Runs a program to its end.
Result RunProgram(const std::string& program, const std::vector<std::string>& arguments,
                  const RunOptions& options = {});
// A shell command.
Result Shell(const std::string& command);

// A program that runs while the test goes on.
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
  // What its file descriptors lead to.
  std::vector<std::string> OpenFiles() const;
  pid_t pid() const { return pid_; }
  void Signal(int signal);
  // Waits until `done` holds; false after a minute, or when the program ends before.
  bool WaitFor(const std::function<bool()>& done);
  Result Wait();

 private:
  std::string out_path_, err_path_;
  pid_t pid_ = -1;
  bool ended_ = false;
  int status_ = 0;
  rusage usage_ = {};
};

// The lines of a run's metrics.jsonl.
std::vector<nlohmann::json> Metrics(const std::string& run_folder);

// "step_00000010", ... in a run folder, the newest first.
std::vector<std::string> Checkpoints(const std::string& run_folder);

// Name -> contents of the files in a folder.
std::map<std::string, std::string> FilesIn(const std::string& folder);

}  // namespace tessera

#endif  // TESSERA_TESTS_TRAIN_PROGRAM_H_
