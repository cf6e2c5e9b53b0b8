// Tests a rank whose peers send arbitrary data: messages that fit the rank's operations, with bytes
// of their headers changed, in any order, complete or in parts, or arbitrary bytes.
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "collectives/communicator.h"
#include "collectives/tcp/message.h"
#include "collectives/tcp/network.h"
#include "core/status/check.h"
#include "tests/fuzz/buffer_pool.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/peers.h"

namespace tessera::comm::tcp {
namespace {

constexpr int kMostSteps = 80;
constexpr int kMostOperations = 12;
constexpr int64_t kMostBytes = 8 << 20;  // of buffers, and of messages
// Sizes that fit into a request, that fit into a piece, and (in f64) that exceed the pieces that
// are kept.
constexpr int64_t kCounts[] = {0, 1, 7, 64, 4096, 4097, 65536, 100'000, 300'000};
constexpr DType kDTypes[] = {DType::kF32, DType::kU8, DType::kF64, DType::kBF16};
// The number of a message's bytes that are sent later: only of its data, or also of its header.
constexpr size_t kLittle = 7, kMore = 70;

// The progress in a lane of a peer that follows the protocol.
struct PeerLane {
  uint64_t number = 0;  // of the operation
  bool has_requested = false;
  int64_t sent[2] = {};  // by stage
};

class Job {
 public:
  explicit Job(int size) : peers_(size) {
    pool_.TakeAllBack();
    const Exchange exchange = ExchangeOfRank0(
        size,
        [size](const Listening& listening) {
          return std::vector<std::string>(size, NoListening());
        },
        [&](const Listening& listening) {
          for (int rank = 1; rank < size; ++rank) {
            peers_[rank].socket = CallPort(listening.port);
            ProveRank(peers_[rank].socket, listening, rank, size);
          }
        });
    auto network = Network::Create(0, size, exchange, NetworkOptions());
    TESSERA_CHECK(network.ok()) << network.status();
    network_ = *std::move(network);
    world_ = *network_->World();
  }
  ~Job() {
    for (int i = 0; i < 4; ++i) Advance();
    HangUp();
    // All peers have disconnected, so these waits end.
    for (const auto& [group, ticket] : tickets_) (void)group->Wait(ticket);
    column_.reset();
    world_.reset();
    network_.reset();
  }

  int size() const { return static_cast<int>(peers_.size()); }

  void HangUp() {
    for (Peer& peer : peers_) peer.socket.Close();
  }

  // Makes a group of ranks 0 and 1. `changes` are applied to the peers' bytes; without any, the
  // split succeeds. `ahead` is the header of a message to the new group that arrives, except for
  // its end, before the group exists.
  void Split(absl::string_view changes, const Header* ahead) {
    std::vector<int> colors(size(), 1);
    colors[0] = colors[1] = 0;
    const std::string split =
        absl::StrCat("split 'column' into colors ", absl::StrJoin(colors, ","));
    const std::vector<std::string> ids = {"1", "4294967297", "8589934593"};
    for (int rank = 1; rank < size(); ++rank) {
      std::string padded = ids[rank];
      padded.resize(ids[1].size());
      std::string bytes =
          absl::StrCat(LengthMessage(0, split.size()),
                       RequestMessage(1, Operation::kAllGather, DType::kU8, split.size() * size(),
                                      split.size(), split),
                       LengthMessage(2, ids[rank].size()),
                       RequestMessage(3, Operation::kAllGather, DType::kU8, padded.size() * size(),
                                      padded.size(), padded),
                       RequestMessage(4, Operation::kBarrier, DType::kF32, 0, 0, ""));
      for (size_t i = 0; i < changes.size() / 2; ++i) {
        bytes[static_cast<unsigned char>(changes[2 * i]) % bytes.size()] = changes[2 * i + 1];
      }
      if (ahead != nullptr && rank == 1) {
        absl::StrAppend(&bytes, Message(*ahead));
        peers_[rank].hold_back = kLittle;
      }
      Deliver(rank, bytes);
    }
    if (!changes.empty()) HangUp();
    auto column = world_->Split("column", colors);
    TESSERA_CHECK(column.ok() || !changes.empty()) << column.status();
    if (!column.ok()) return;
    column_ = *std::move(column);
    for (Peer& peer : peers_) peer.collectives.number = 5;
    requested_.resize(5);
  }

  // Issues an operation of the world.
  void Issue(Input& input) {
    Request request;
    request.operation = static_cast<Operation>(input.Take<uint8_t>() % kOperations);
    request.dtype = kDTypes[input.Take<uint8_t>() % std::size(kDTypes)];
    request.count = kCounts[input.Take<uint8_t>() % std::size(kCounts)];
    request.reduction = request.count % 2 == 0 ? Reduction::kSum : Reduction::kMax;
    const bool is_pair =
        request.operation == Operation::kSend || request.operation == Operation::kReceive;
    request.peer = input.Take<uint8_t>() % size();
    if (is_pair) request.peer = std::max(1, request.peer);
    if (request.operation == Operation::kBarrier) request.count = 0;
    if (request.operation == Operation::kReduceScatter ||
        request.operation == Operation::kAllGather || request.operation == Operation::kAllToAll) {
      request.part = (request.count + size() - 1) / size();
      if (request.operation == Operation::kAllToAll) request.count = request.part * size();
    } else if (request.operation != Operation::kBroadcast && !is_pair) {
      request.peer = 0;
    }
    request.partial = request.operation == Operation::kReduceScatter && request.count % 2 == 1;
    const auto memory = [&](int64_t count, DType dtype) {
      const int64_t bytes = count * SizeOf(dtype);
      bytes_ += bytes;
      return pool_.Take(bytes);
    };
    const int64_t own = PartOf(request.count, request.part, 0).size;
    if (bytes_ + 16 * request.count > kMostBytes || tickets_.size() == kMostOperations) return;
    request.input =
        memory(request.operation == Operation::kAllGather ? own : request.count, request.dtype);
    request.output = memory(request.operation == Operation::kReduceScatter ? own : request.count,
                            request.partial ? PartialDType(request.dtype) : request.dtype);
    if (request.operation == Operation::kSend) {
      peers_[request.peer].requested_to.push_back(request);
    } else if (request.operation == Operation::kReceive) {
      peers_[request.peer].requested_from.push_back(request);
    } else {
      requested_.push_back(request);
    }
    tickets_.emplace_back(world_.get(), world_->Issue(request));
  }

  // Sends the next message of a peer.
  void SendFromPeer(Input& input) {
    const auto choice = input.Take<uint8_t>();
    const int rank = 1 + choice % 4 % (size() - 1);
    Header header;
    switch (choice / 4 % 8) {
      case 0:
        header = Next(rank, Lane::kSend);
        break;
      case 1:
        header = Next(rank, Lane::kReceive);
        break;
      case 2:
        header.kind = Kind::kCredit;
        header.number = peers_[rank].collectives.number;
        header.offset = int64_t{kPieceBytes} * input.Take<uint8_t>();
        break;
      case 3:
        header.kind = input.Take<uint8_t>() % 2 == 0 ? Kind::kFailed : Kind::kBye;
        header.bytes = 9;
        break;
      case 4:
        header = input.TakeFirst<Header>(offsetof(Header, digest));
        break;
      default:
        header = Next(rank, Lane::kCollective);
    }
    if (choice / 128 == 1) {
      for (int changes = input.Take<uint8_t>() % 4; changes > 0; --changes) {
        const size_t at = input.Take<uint8_t>() % sizeof(header);
        const auto byte = input.Take<uint8_t>();
        std::memcpy(reinterpret_cast<char*>(&header) + at, &byte, 1);
      }
    }
    sent_bytes_ += std::max(0, header.bytes);
    if (sent_bytes_ <= kMostBytes) Deliver(rank, Message(header));
  }

  // Holds back a part of a peer's next message.
  void HoldBack(uint8_t choice) {
    peers_[1 + choice % (size() - 1)].hold_back = choice / 4 % 2 == 0 ? kLittle : kMore;
  }

  void Advance() {
    if (!tickets_.empty()) tickets_.back().first->Test(tickets_.back().second);
  }

 private:
  struct Peer {
    FileDescriptor socket;
    std::string rest;  // held back
    size_t hold_back = 0;
    PeerLane collectives, to, from;
    std::vector<Request> requested_to, requested_from;
  };

  static absl::string_view Message(const Header& header) {
    static std::string& message = *new std::string(sizeof(header) + kPieceBytes, 'x');
    std::memcpy(message.data(), &header, sizeof(header));
    return absl::string_view(message).substr(
        0, sizeof(header) + std::clamp(header.bytes, 0, kPieceBytes));
  }
  static std::string RequestMessage(uint64_t number, Operation operation, DType dtype,
                                    int64_t count, int64_t part, absl::string_view data) {
    Header header;
    header.kind = Kind::kRequest;
    header.request.operation = operation;
    header.request.dtype = dtype;
    header.request.count = count;
    header.request.part = part;
    header.number = number;
    header.bytes = static_cast<int32_t>(data.size());
    return absl::StrCat(absl::string_view(reinterpret_cast<const char*>(&header), sizeof(header)),
                        data);
  }

  // Returns the first message of an exchange of texts.
  std::string LengthMessage(uint64_t number, size_t length) const {
    const auto value = static_cast<int64_t>(length);
    return RequestMessage(number, Operation::kAllGather, DType::kI64, size(), 1,
                          {reinterpret_cast<const char*>(&value), sizeof(value)});
  }

  // Returns the bytes that a peer sends for an operation, with its request or in a stage.
  int64_t BytesFromPeer(int rank, const Request& request, int stage) const {
    const int64_t full = request.count;
    const int64_t part = ((full + size() - 1) / size() + 63) / 64 * 64;  // of an all-reduce
    int64_t count = 0;
    switch (request.operation) {
      case Operation::kAllReduce:
        count = IsEager(request) ? full : PartOf(full, part, stage == 0 ? 0 : rank).size;
        break;
      case Operation::kReduceScatter:
        count = stage == 0 ? PartOf(full, request.part, 0).size : 0;
        break;
      case Operation::kAllGather:
        count = stage == 1 || IsEager(request) ? PartOf(full, request.part, rank).size : 0;
        break;
      case Operation::kAllToAll:
        count = stage == 1 || IsEager(request) ? request.part : 0;
        break;
      case Operation::kBroadcast:
        count = request.peer == rank && (stage == 1 || IsEager(request)) ? full : 0;
        break;
      case Operation::kReceive:
        count = stage == 1 || IsEager(request) ? full : 0;
        break;
      default:
        break;
    }
    return count * SizeOf(request.dtype);
  }
  static bool IsEager(const Request& request) {
    return (request.part > 0 ? request.part : request.count) * SizeOf(request.dtype) <= kEagerBytes;
  }

  // Returns the header of the peer's next message in a lane, if it follows the protocol; a request
  // of a barrier if this rank has requested nothing.
  Header Next(int rank, Lane lane) {
    Peer& peer = peers_[rank];
    PeerLane& state = lane == Lane::kCollective ? peer.collectives
                      : lane == Lane::kSend     ? peer.from
                                                : peer.to;
    const std::vector<Request>& requested = lane == Lane::kCollective ? requested_
                                            : lane == Lane::kSend     ? peer.requested_from
                                                                      : peer.requested_to;
    Header header;
    header.lane = lane;
    header.number = state.number;
    header.kind = Kind::kRequest;
    if (state.number >= requested.size()) {
      ++state.number;
      return header;
    }
    const Request& request = requested[state.number];
    const bool is_answer = request.operation == Operation::kSend;
    if (!state.has_requested) {
      header.request = DescriptorOf(request);
      if (lane == Lane::kSend) header.request.operation = Operation::kSend;
      if (is_answer) header.request.operation = Operation::kReceive;
      if (IsEager(request)) header.bytes = static_cast<int32_t>(BytesFromPeer(rank, request, 0));
      state.has_requested = !IsEager(request) && !is_answer;
      if (!state.has_requested) ++state.number;
      return header;
    }
    header.kind = Kind::kData;
    for (int stage : {0, 1}) {
      const int64_t left = BytesFromPeer(rank, request, stage) - state.sent[stage];
      if (left == 0) continue;
      header.stage = static_cast<uint8_t>(stage);
      header.offset = state.sent[stage];
      header.bytes = static_cast<int32_t>(std::min<int64_t>(left, kPieceBytes));
      state.sent[stage] += header.bytes;
      return header;
    }
    state = {state.number + 1};
    return Next(rank, lane);
  }

  void Deliver(int rank, absl::string_view bytes) {
    Peer& peer = peers_[rank];
    if (!peer.rest.empty()) {
      peer.rest.append(bytes.data(), bytes.size());
      bytes = peer.rest;
    }
    const size_t end = bytes.size() - std::min(bytes.size(), std::exchange(peer.hold_back, 0));
    size_t begin = 0;
    while (begin < end && peer.socket.is_open()) {
      const ssize_t sent =
          send(peer.socket.get(), bytes.data() + begin, end - begin, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0) break;  // the rest is sent later
      begin += sent;
      Advance();
    }
    peer.rest = std::string(bytes.substr(begin));
  }

  static inline BufferPool& pool_ = *new BufferPool(kMostBytes, kMostOperations);
  std::vector<Peer> peers_;  // by rank; rank 0 is this one
  std::unique_ptr<Network> network_;
  std::unique_ptr<Communicator> world_, column_;
  std::vector<Request> requested_;  // collectives of the world
  std::vector<std::pair<Communicator*, Ticket>> tickets_;
  int64_t bytes_ = 0, sent_bytes_ = 0;
};

}  // namespace
}  // namespace tessera::comm::tcp

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera::comm;  // NOLINT(google-build-using-namespace)
  Input input(data, size);
  const auto shape = input.Take<uint8_t>();
  tcp::Job job(/*size=*/2 + shape % 2);
  switch (shape / 2 % 4) {
    case 1:
      job.Split("", nullptr);
      break;
    case 2:
      job.Split(input.TakeText(16), nullptr);
      return 0;
    case 3: {
      const auto ahead = input.Take<tcp::Header>();
      job.Split("", &ahead);
      break;
    }
    default:
      break;
  }
  for (int step = 0; step < tcp::kMostSteps && !input.empty(); ++step) {
    const auto choice = input.Take<uint8_t>();
    switch (choice % 8) {
      case 0:
      case 1:
        job.Issue(input);
        break;
      case 2:
        job.HoldBack(choice / 8);
        break;
      case 3:
        job.Advance();
        break;
      default:
        job.SendFromPeer(input);
    }
  }
  return 0;
}
