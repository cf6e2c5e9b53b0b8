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

  // Returns whether a signal requests that the job ends.
  bool EndRequested() const { return interrupt != 0 || !notices.empty(); }
};

// Thread safety: the process has one thread.
class RankGroup {
 public:
  // `streams` must outlive the group. `foreign` are children of this process that it did not start.
  RankGroup(GraceTimes times, std::vector<pid_t> foreign, LaunchStreams* streams)
      : times_(times), foreign_(std::move(foreign)), streams_(*streams) {}

  // Starts all ranks, or none.
  absl::Status Start(const RankCommand& command);
  // Runs until all ranks and everything they started have ended. If one fails, the others are sent
  // SIGTERM, and SIGKILL after the grace period, or at once if their process is stopped.
  //
  // A rank that was sent one of StoppingSignals, and exits with 128 plus its number, has not
  // failed: it ended as asked. The others are ended too. The same holds for a rank that such a
  // signal kills, because it has no handler yet, if the launcher has passed it on; but then all
  // ranks were asked to end, and may take their time.
  void Run();

  // After Run. Whether a rank has failed.
  bool has_failed() const { return FirstFailed() >= 0; }
  // The exit code: 0, that of the rank that failed first, or that of a rank that was
  // asked to end.
  int exit_code() const;
  // An error for the user: which rank failed first, and the end of what it wrote. "" if none did,
  // or if the last line that was shown is already that rank's error and the rank exited by itself.
  std::string FailureReport() const;
  // A note that names the rank that ended first, if that rank (and not the launcher) was asked to
  // end; else "".
  std::string RequestReport() const;

 private:
  // The pipe that a rank writes to.
  struct Stream {
    Stream(FileDescriptor pipe, int rank, OutputSink* sink, int64_t* shown)
        : pipe(std::move(pipe)), lines(rank), sink(*sink), shown(*shown) {}
    // Reads some of the output, and writes its complete lines to the sink.
    void Read();
    void Close();
    void Show(absl::string_view text);

    FileDescriptor pipe;
    RankOutput lines;
    OutputSink& sink;
    int64_t& shown;           // LaunchStreams::shown
    int64_t last_shown = -1;  // the value of it for the last text of this stream
  };
  struct Rank {
    Rank(int rank, RankProcess process, LaunchStreams* streams)
        : control(std::move(process.control)),
          output(std::move(process.output), rank, &streams->output, &streams->shown),
          error(std::move(process.error), rank, &streams->error, &streams->shown) {}
    FileDescriptor control;  // closed when the reaper has ended
    Stream output;
    Stream error;
    std::optional<RankEvent> end;
    bool is_stopped = false;  // by SIGSTOP
    // The deadline at which it has been stopped for too long; then the deadline at which it is
    // killed.
    Deadline stopped_limit = Deadline::max();
    bool stopped_too_long = false;
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
  void TakeEvent(Rank& rank, const RankEvent& event);
  void KillStopped();
  bool IsFailure(const Rank& rank) const;
  int FirstEndedByRequest() const;  // -1: none
  int FirstFailed() const;          // -1: none; also if a rank ended as asked before
  // Returns the rank that ended first among the ended ranks for which `is_one` returns true; -1 if
  // there is none.
  int FirstOf(const std::function<bool(const Rank&)>& is_one) const;
  // Whether a rank has failed, or has ended as it was asked to.
  bool MustStop() const;
  // Whether a signal that asks to end was passed on to all ranks.
  bool AllSignaled() const { return streams_.EndRequested(); }
  void StopOthers();
  static void Send(const Rank& rank, int signal);
  void SendToAll(int signal);
  // Reads what the ranks wrote before they ended.
  void Drain();
  // Gives a signal that ended ranks the time to reach this process too.
  void AwaitRequest();

  const GraceTimes times_;
  const std::vector<pid_t> foreign_;
  LaunchStreams& streams_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  bool stopping_ = false;  // a rank has failed, or has ended as it was asked to
  bool output_closed_ = false;
  Deadline kill_at_ = Deadline::max();
};

// Writes the queued output of the sinks, as long as their readers accept it and no interrupt
// arrives.
void FlushStreams(LaunchStreams* streams);

// "exit code 3", "killed by SIGSEGV"; for a status of waitpid(2).
std::string DescribeWaitStatus(int wait_status);

}  // namespace tessera::comm

#endif  // TESSERA_TOOLS_LAUNCH_RANK_GROUP_H_
