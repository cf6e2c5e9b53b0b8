// A group of ranks: its queue of operations, and how each of them goes.
//
// Every rank tells its peers what it wants of an operation. Up to kEagerBytes for a peer go with
// that; more goes to it in pieces, once the peer has told that it wants the same: so there is
// always a place for what comes in, and nobody has to stop reading.
#ifndef TESSERA_COLLECTIVES_TCP_GROUP_H_
#define TESSERA_COLLECTIVES_TCP_GROUP_H_

#include <chrono>
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
#include "collectives/tcp/message.h"
#include "collectives/tcp/network.h"

namespace tessera::comm::tcp {

// Pieces that a peer may have sent before they are reduced.
inline constexpr int kScratchPieces = 4;
inline constexpr int64_t kScratchBytes = int64_t{kScratchPieces} * kPieceBytes;

// Messages that may have been sent before the peer asks for the first of them.
inline constexpr uint64_t kSendsAhead = 4;

class Group : public Communicator {
 public:
  // `ranks` are the members' ranks in the network; `id` is the group's own among all of the job.
  Group(Network* network, std::string name, int rank, std::vector<int> ranks, uint64_t id);
  ~Group() override;

  absl::Status Wait(Ticket ticket) override;
  bool Test(Ticket ticket) override;

 protected:
  Ticket Start(const Request& request, const absl::Status& status) override;
  absl::StatusOr<std::unique_ptr<Communicator>> MakeGroup(absl::string_view name,
                                                          absl::Span<const int> colors) override;

 private:
  friend class Network;
  using Time = std::chrono::steady_clock::time_point;

  struct Queued {
    Request request;
    uint64_t number = 0;
    bool posted = false;  // peers are told what this rank wants
    bool agreed = false;  // all want the same
  };

  // What a peer wants of an operation.
  struct Wish {
    Header header;
    std::vector<char> data;
    bool is_there = false;  // all of the data
  };
  // What a peer has said in a lane: wishes of operations that have not ended here.
  struct Heard {
    uint64_t wishes = 0;  // ever
    std::deque<Wish> open;
    const Wish* Find(uint64_t number) const;
    void Forget(uint64_t before);
  };

  // A buffer that goes to a peer, and one that comes from it, in pieces.
  struct Outflow {
    const char* data = nullptr;
    int64_t bytes = 0;
    int64_t allowed = 0;  // may be sent
    int64_t sent = 0;     // to the connection
    int pending = 0;      // pieces that are not written
    bool done() const { return sent == bytes && pending == 0; }
  };
  struct Inflow {
    char* data = nullptr;
    int64_t bytes = 0;
    int64_t arrived = 0;
    std::unique_ptr<char[]> scratch = nullptr;  // in turns, where `data` is null
    bool done() const { return arrived == bytes; }
    char* Place(int64_t offset) const;
  };

  // Operations that are done in their order.
  struct Channel {
    static constexpr int kQueue = 64;
    Queued queue[kQueue];
    uint64_t issued = 0, done = 0;
    Time moved;  // when the first became the first, or moved on
    // Of a pair.
    Heard heard;
    Outflow out;
    Inflow in;
    Queued& head() { return queue[done % kQueue]; }
    const Queued& head() const { return queue[done % kQueue]; }
    bool empty() const { return done == issued; }
    bool full() const { return issued - done == kQueue; }
  };

  // What goes between this rank and another in a collective. In stage 0 what is to be reduced, in
  // stage 1 what is placed as it is.
  struct Exchanged {
    Heard heard;
    bool met = false;  // it wants the same
    Outflow out[2];
    Inflow in[2];
  };

  // All of what follows has the network's mutex held.
  bool IsDone(Ticket ticket) const;
  bool Advance();  // whether anything moved
  bool NeedsThread() const;
  // Whether what needs it takes longer than to wake it.
  bool HasLarge() const;
  // Fails if a peer that is waited for has gone, or not come in time.
  void Check(Time now);

  // Messages from a member.
  bool Place(int from, const Header& header, char** place);
  void Arrived(int from, const Header& header);
  Channel* ChannelFor(int from, Lane lane);  // null if there is no such lane
  Heard& HeardFrom(int from, Lane lane);
  Inflow* InflowFrom(int from, const Header& header);

  bool AdvanceCollective();
  bool AdvanceSend(Channel& channel, int peer);
  bool AdvanceReceive(Channel& channel, int peer);
  void Post(const Queued& operation, Lane lane, int to, const char* data, int64_t bytes);
  void PostCollective(Queued& operation);
  void PlanFlows(const Request& request);
  void PlanReduction(const Request& request, int64_t part);
  void PlanBroadcast(const Request& request);
  bool Agree(Queued& operation);
  bool PairAgrees(const Queued& operation, int peer, const Header& theirs);
  void FinishEager(const Queued& operation);
  bool ReducePiece(const Queued& operation);
  bool SendPieces(const Queued& operation, Lane lane, int stage, int to, Outflow& out);
  void Complete(Channel& channel);
  void EndFlows();
  void WorkAlone(const Request& request);

  Channel& ChannelOf(int index);
  int MemberOf(int rank) const;  // of the network; size() if it is none
  const Network::Line& LineTo(int rank) const;
  void Break(absl::Status status);
  void Fail(absl::Status status);  // and tells the others
  std::string RankName(int rank) const;
  std::string Progress(int index) const;
  int Needs(int index, int rank) const;

  Network* const network_;
  const std::vector<int> ranks_;
  const uint64_t id_;
  // 0: collectives; then to each rank; then from each rank.
  std::vector<std::unique_ptr<Channel>> channels_;
  std::vector<Exchanged> exchanged_;   // of the first collective, by rank
  int64_t reduced_ = 0;                // bytes of this rank's part of it
  std::vector<std::string> failures_;  // that members tell
  absl::Status status_;                // of the group
  std::vector<const void*> inputs_;    // of Reduce
};

}  // namespace tessera::comm::tcp

#endif  // TESSERA_COLLECTIVES_TCP_GROUP_H_
