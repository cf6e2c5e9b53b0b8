// A group of ranks whose operations advance by messages over connections.
//
// Every rank sends its request of an operation to each peer, together with the data for that peer
// if there are at most kEagerBytes. More data is sent in pieces, after the peer has sent the same
// request. So there is always memory for arriving data, and no rank has to stop reading.
#ifndef TESSERA_COLLECTIVES_TCP_GROUP_H_
#define TESSERA_COLLECTIVES_TCP_GROUP_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "collectives/communicator.h"
#include "collectives/queue/queued_group.h"
#include "collectives/tcp/message.h"
#include "collectives/tcp/network.h"

namespace tessera::comm::tcp {

// The number of messages that may be sent before the peer requests the first of them.
inline constexpr uint64_t kSendsAhead = 4;

class Group : public QueuedGroup, private Receiver {
 public:
  // `ranks` are the members' ranks in the network; `id` is unique in the job.
  Group(Network* network, ProgressEngine* engine, std::string name, int rank,
        std::vector<int> ranks, uint64_t id, double timeout_seconds, Contents contents);
  ~Group() override;

 protected:
  absl::StatusOr<std::unique_ptr<Communicator>> MakeGroup(absl::string_view name,
                                                          absl::Span<const int> colors,
                                                          Contents contents) override;
  bool AdvanceFirst(int channel) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsSmall(const Request& request) const override;
  bool IsPosted(int channel) const override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int WaitsFor(int channel, int rank) const override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::optional<Departure> DepartureOf(int rank) const override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string RankName(int rank) const override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string Progress(int channel) const override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnFailure(const absl::Status& why, bool is_first) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

 private:
  // A request that a peer sent.
  struct PeerRequest {
    Header header;
    std::vector<char> data;
    bool is_complete = false;  // all of the data is there
  };
  // A peer's requests on a lane for operations that have not ended on this rank.
  struct PeerRequests {
    uint64_t received = 0;  // in total
    std::deque<PeerRequest> open;
    const PeerRequest* Find(uint64_t number) const;  // null unless it is complete
    void Forget(uint64_t before);
  };

  // A buffer that is sent to a peer in pieces, and one that is received from it.
  struct Outflow {
    const char* data = nullptr;
    int64_t bytes = 0;
    int64_t allowed =
        0;             // bytes that the peer, or the progress of the operation, allows to be sent
    int64_t sent = 0;  // bytes passed to the connection
    int pending = 0;   // pieces that the connection has not written
    bool done() const { return sent == bytes && pending == 0; }
  };
  struct Inflow {
    char* data = nullptr;
    int64_t bytes = 0;
    int64_t arrived = 0;
    std::unique_ptr<char[]> scratch = nullptr;  // a ring, used if `data` is null
    bool done() const { return arrived == bytes; }
    char* AddressOf(int64_t offset) const;
  };

  // The first operation of a channel.
  struct FirstOperation {
    bool is_posted = false;  // the request was sent to the peers
    bool is_agreed = false;  // all requests are the same
  };
  // The messages to a peer, or from one.
  struct Messages {
    PeerRequests requests;
    Outflow out;
    Inflow in;
  };
  // The data between this rank and a peer in the first collective. Stage 0 is data to be reduced,
  // stage 1 is data to be copied.
  struct PeerFlows {
    PeerRequests requests;
    bool is_agreed = false;  // the peer's request is the same
    Outflow out[2];
    Inflow in[2];
  };

  // The network calls these two with the engine's mutex held.
  bool HeaderArrived(int from, const Header& header, char** address) override;
  void MessageArrived(int from, const Header& header) override;
  bool RequestHeaderArrived(int from, const Header& header, char** address)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool DataHeaderArrived(int from, const Header& header, char** address)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns the channel of a lane of a peer; -1 if there is no such lane.
  int ChannelOf(int from, Lane lane) const;
  PeerRequests& RequestsFrom(int from, Lane lane) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Inflow* InflowFrom(int from, const Header& header) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns the rank in this group of a rank of the network; size() if it is no member.
  int MemberOf(int rank) const;

  // Advance the first operation of a channel. Return whether anything advanced.
  bool AdvanceCollective() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool AdvanceSend(int peer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool AdvanceReceive(int peer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Sends a peer the request of a channel's first operation, with `bytes` of data.
  void Post(int channel, Lane lane, int to, const char* data, int64_t bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Plans the flows of the first collective, and sends all peers its request.
  void PostCollective() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Set the buffers of flows_ for an operation whose data do not come with the requests.
  void PlanFlows(const Request& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PlanReduction(const Request& request, int64_t part) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PlanExchange(const Request& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PlanBroadcast(const Request& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Agree() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns whether the peer's request is the counterpart of this send or receive; if not, fails
  // the group.
  bool MatchesOrFails(const Request& request, int peer, const Header& theirs)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FinishEager() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool ReducePiece() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SendCredit(bool is_all_reduce, int64_t part_bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns whether anything was sent. Sets *done to whether all flows have ended.
  bool SendFlows(bool* done) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Sends as much of a flow as is allowed and the connection should hold. Returns whether it sent
  // anything.
  bool SendPieces(int channel, Lane lane, int stage, int to, Outflow& out)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Reset the state of a channel's first operation, and mark it as ended.
  void EndCollective() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndMessage(int channel) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Resets flows_, so that no message touches the buffers of an operation any more.
  void EndFlows() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Network* const network_;
  const std::vector<int> ranks_;
  const uint64_t id_;
  const Contents contents_;
  std::vector<FirstOperation> first_ ABSL_GUARDED_BY(mutex_);  // by channel
  std::vector<Messages> messages_ ABSL_GUARDED_BY(mutex_);     // by channel
  std::vector<PeerFlows> flows_ ABSL_GUARDED_BY(mutex_);       // by rank
  int64_t reduced_ ABSL_GUARDED_BY(mutex_) = 0;  // bytes of this rank's part that are reduced
  std::vector<std::string> failures_ ABSL_GUARDED_BY(mutex_);  // that members reported
  std::vector<const void*> inputs_ ABSL_GUARDED_BY(mutex_);    // of Reduce
};

}  // namespace tessera::comm::tcp

#endif  // TESSERA_COLLECTIVES_TCP_GROUP_H_
