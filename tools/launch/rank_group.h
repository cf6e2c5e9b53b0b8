// One run of all ranks of a job on this machine, from their start to their end.
#ifndef TESSERA_TOOLS_LAUNCH_RANK_GROUP_H_
#define TESSERA_TOOLS_LAUNCH_RANK_GROUP_H_

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "collectives/net/socket.h"
#include "core/posix/file_descriptor.h"
#include "core/posix/stop_requests.h"
#include "tools/launch/grace_times.h"
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
  int interrupt = 0;        // the first signal but notices that asked the job to end; 0: none
  std::set<int> notices{};  // that have arrived
  StopRequests requests{};
  int64_t shown = 0;  // counts the texts of ranks that were written to either stream
  // Shows what rank 0 writes, without its number, and nothing of the others but what the report of
  // a failure quotes.
  bool only_first_rank = false;
  // False for programs in which rank 0 prints for all ranks: its lines are shown without its
  // number.
  bool numbers_first_rank = true;

  // Returns whether a signal has requested that the job ends.
  bool IsEndRequested() const { return interrupt != 0 || !notices.empty(); }
};

// The ranks of one run, with their output. In names and comments, a rank is "ended" if its process
// is made to exit, and "suspended" while SIGSTOP keeps its process from running.
//
// The run ends when all ranks and everything they started have ended. A rank may end in these ways:
//  - With exit code 0: the others run on.
//  - It fails (any other exit code, or a signal, except as below): the others are sent SIGTERM, and
//    SIGKILL after the grace period, or SIGKILL at once if they are suspended.
//  - As requested: it was sent one of StoppingSignals, and exits with 128 plus its number. It has
//    not failed. The others are ended as after a failure, unless the launcher has passed the signal
//    on: then all ranks were asked to end, and may take their time.
//  - It is killed by a signal that the launcher has passed on, because it has no handler yet: as
//    requested, too.
//  - It is suspended for too long while another rank runs: it is killed, and has failed.
//
// Thread safety: the process has one thread.
class RankGroup {
 public:
  // `streams` must outlive the group. `foreign` are children of this process that it did not start.
  RankGroup(GraceTimes times, std::vector<pid_t> foreign, LaunchStreams* streams)
      : times_(times), foreign_(std::move(foreign)), streams_(*streams) {}

  // Starts all ranks, or none.
  absl::Status Start(const RankCommand& command);
  // Runs until all ranks and everything they started have ended.
  void Run();

  // The functions below may be called after Run.

  // Returns whether a rank has failed.
  bool has_failed() const { return FirstFailureBeforeRequestedEnd() >= 0; }
  // Returns the exit code: 0, that of the rank that failed first, or that of a rank that ended as
  // requested.
  int exit_code() const;
  // Returns an error for the user: which rank failed first, and the end of what it wrote. "" if
  // none did, or if the last line that was shown is already that rank's error and the rank exited
  // by itself.
  std::string FailureReport() const;
  // Returns a note that names the rank that ended first as requested, if the request was sent to
  // that rank and not to the launcher; else "".
  std::string RequestedEndReport() const;

 private:
  // The pipe that a rank writes to.
  struct Stream {
    Stream(FileDescriptor pipe, int rank, OutputSink* sink, LaunchStreams* streams)
        : pipe(std::move(pipe)),
          lines(rank, rank > 0 || streams->numbers_first_rank),
          is_hidden(streams->only_first_rank && rank > 0),
          is_unchanged(streams->only_first_rank),
          sink(*sink),
          shown(streams->shown) {}
    // Reads some of the output, and shows its complete lines, or all of it if it stays unchanged.
    void Read();
    void Close();
    // Writes lines to the sink, or, if the output stays unchanged, the bytes that were read.
    void Show(absl::string_view lines_read, absl::string_view bytes_read = "");

    FileDescriptor pipe;
    RankOutput lines;
    const bool is_hidden;
    const bool is_unchanged;
    OutputSink& sink;
    int64_t& shown;           // LaunchStreams::shown
    int64_t last_shown = -1;  // the value of it for the last text of this stream
  };
  struct Rank {
    Rank(int rank, RankProcess process, LaunchStreams* streams)
        : control(std::move(process.control)),
          output(std::move(process.output), rank, &streams->output, streams),
          error(std::move(process.error), rank, &streams->error, streams) {}
    FileDescriptor control;  // closed when the reaper has ended
    Stream output;
    Stream error;
    std::optional<RankEvent> end;
    bool is_suspended = false;
    // When it has been suspended for too long, unless all ranks are. Then it is killed at
    // `kill_suspended_at`, shortly after.
    Deadline suspended_too_long_at = Deadline::max();
    Deadline kill_suspended_at = Deadline::max();
    bool was_suspended_too_long = false;  // for the report
  };

  bool AnyRuns() const;
  // Waits for output, events and signals of ranks and of this process, at most until NextDeadline,
  // and handles them.
  void WaitForEvents();
  Deadline NextDeadline() const;
  void ShowStalledProgress();
  void HandleSignals();
  void HandleClosedOutput();
  // Handles a request to the launcher that the job ends: passes it on, or kills the ranks.
  void Interrupt(int signal);
  // Reads an event of the rank's reaper.
  void HandleControl(Rank& rank);
  void RecordEvent(Rank& rank, const RankEvent& event);
  // Kills the ranks that are suspended while the others end, or that have been suspended for too
  // long.
  void KillSuspendedRanks();
  void KillSuspended(Rank& rank);
  bool IsFailure(const Rank& rank) const;
  // Return a rank, or -1 if there is none.
  int FirstEndedByRequest() const;
  // A rank that fails after another one ended as requested has lost its peer: it does not count. If
  // all ranks were asked to end, every failure counts.
  int FirstFailureBeforeRequestedEnd() const;
  // Returns the rank that ended first among those that have ended and for which `matches` returns
  // true.
  int FirstToEnd(const std::function<bool(const Rank&)>& matches) const;
  // Returns whether a rank has failed or has ended as requested, so that the others must end.
  bool MustEndOthers() const;
  // Returns whether a signal that asks to end was passed on to all ranks.
  bool WereAllAskedToEnd() const { return streams_.IsEndRequested(); }
  // Sends SIGTERM to the ranks that run, and lets SIGKILL follow after the grace period.
  void EndOthers();
  static void SendSignal(const Rank& rank, int signal);
  void SendSignalToAll(int signal);
  // Reads what the ranks wrote before they ended.
  void Drain();
  // If a signal ended a rank, waits a moment for this process's own copy of it.
  void AwaitLateSignal();

  const GraceTimes times_;
  const std::vector<pid_t> foreign_;
  LaunchStreams& streams_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  bool ending_ = false;  // EndOthers was called
  bool output_closed_ = false;
  Deadline kill_all_at_ = Deadline::max();
};

// Writes the queued output of the sinks, as long as their readers accept it and no interrupt
// arrives.
void FlushStreams(LaunchStreams* streams);

// "exit code 3", "killed by SIGSEGV"; for a status of waitpid(2).
std::string DescribeWaitStatus(int wait_status);

}  // namespace tessera::comm

#endif  // TESSERA_TOOLS_LAUNCH_RANK_GROUP_H_
