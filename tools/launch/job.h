// One run of all ranks of a job on this machine, from their start to their end.
#ifndef TESSERA_TOOLS_LAUNCH_JOB_H_
#define TESSERA_TOOLS_LAUNCH_JOB_H_

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "collectives/net/deadline.h"
#include "core/posix/file_descriptor.h"
#include "tools/launch/launch_signals.h"
#include "tools/launch/output_sink.h"
#include "tools/launch/rank_output.h"
#include "tools/launch/rank_process.h"
#include "tools/launch/reaper.h"

namespace tessera::comm {

// The launcher's signals and output streams, which all runs of a job share.
struct LaunchStreams {
  LaunchSignals signals;
  OutputSink output;
  OutputSink error;
  int interrupt = 0;  // the first signal that asked the job to end; 0: none
  int interrupts = 0;
};

// Thread safety: the process has one thread.
class Job {
 public:
  // `streams` must outlive the job. `foreign` are children of this process that it did not start.
  Job(std::chrono::milliseconds grace, std::vector<pid_t> foreign, LaunchStreams* streams)
      : grace_(grace), foreign_(std::move(foreign)), streams_(*streams) {}

  // Starts all ranks, or none.
  absl::Status Start(const RankCommand& command);
  // Runs until all ranks and everything they started have ended. If one fails, the others are sent
  // SIGTERM, and SIGKILL after the grace period.
  void Run();

  // After Run. The exit code: 0, or that of the rank that failed first.
  int exit_code() const;
  // An error for the user: which rank failed first, and the end of what it wrote; "" if none did.
  std::string ReportOfFailure() const;

 private:
  // The pipe that a rank writes to.
  struct Stream {
    Stream(FileDescriptor pipe, int rank, OutputSink* sink)
        : pipe(std::move(pipe)), lines(rank), sink(*sink) {}
    // Reads some of the output, and writes its complete lines to the sink.
    void Read();
    void Close();

    FileDescriptor pipe;
    RankOutput lines;
    OutputSink& sink;
  };
  struct Rank {
    Rank(int rank, RankProcess process, LaunchStreams* streams)
        : control(std::move(process.control)),
          output(std::move(process.output), rank, &streams->output),
          error(std::move(process.error), rank, &streams->error) {}
    FileDescriptor control;  // closed when the reaper has ended
    Stream output;
    Stream error;
    std::optional<RankEnd> end;
  };

  bool AnyRuns() const;
  // Waits for events and handles them.
  void Poll();
  Deadline NextDeadline() const;
  void ShowStalledProgress();
  void HandleSignals();
  void HandleClosedOutput();
  void Interrupt(int signal);
  void HandleControl(Rank& rank);
  bool IsFailure(const Rank& rank) const;
  int FirstFailed() const;  // -1: none
  void StopOthers();
  void SendToAll(int signal);
  // Reads what the ranks wrote before they ended.
  void Drain();

  const std::chrono::milliseconds grace_;
  const std::vector<pid_t> foreign_;
  LaunchStreams& streams_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  bool stopping_ = false;  // a rank has failed
  bool output_closed_ = false;
  Deadline kill_at_ = Deadline::max();
};

// Writes what is queued in the sinks, as long as their readers take it and no interrupt arrives.
void FlushStreams(LaunchStreams* streams);

// "exit code 3", "killed by SIGSEGV"; for a status of waitpid(2).
std::string DescribeWaitStatus(int wait_status);

}  // namespace tessera::comm

#endif  // TESSERA_TOOLS_LAUNCH_JOB_H_
