// What a group hears of its members, and what it does when they are not heard of.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "collectives/tcp/group.h"
#include "collectives/tcp/requests.h"

namespace tessera::comm::tcp {
namespace {

bool CanBeWish(const Header& header) {
  return IsWish(WishOf(header)) &&
         header.bytes <= (header.lane == Lane::kReceive ? 0 : kEagerBytes);
}

}  // namespace

const Group::Wish* Group::Heard::Find(uint64_t number) const {
  for (const Wish& wish : open) {
    if (wish.header.number == number && wish.is_there) return &wish;
  }
  return nullptr;
}

void Group::Heard::Forget(uint64_t before) {
  while (!open.empty() && open.front().header.number < before) open.pop_front();
}

char* Group::Inflow::Place(int64_t offset) const {
  return data != nullptr ? data + offset : scratch.get() + offset % kScratchBytes;
}

Group::Channel* Group::ChannelFor(int from, Lane lane) {
  switch (lane) {
    case Lane::kCollective:
      return &ChannelOf(0);
    case Lane::kSend:
      return &ChannelOf(1 + size() + from);
    case Lane::kReceive:
      return &ChannelOf(1 + from);
  }
  return nullptr;
}

Group::Heard& Group::HeardFrom(int from, Lane lane) {
  return lane == Lane::kCollective ? exchanged_[from].heard : ChannelFor(from, lane)->heard;
}

Group::Inflow* Group::InflowFrom(int from, const Header& header) {
  if (header.lane == Lane::kReceive || header.stage > 1) return nullptr;
  Channel* const channel = ChannelFor(from, header.lane);
  if (channel == nullptr || channel->empty() || channel->head().number != header.number) {
    return nullptr;
  }
  return header.lane == Lane::kCollective ? &exchanged_[from].in[header.stage] : &channel->in;
}

bool Group::Place(int from, const Header& header, char** place) {
  if (!status_.ok()) return true;
  switch (header.kind) {
    case Kind::kWish: {
      const Channel* const channel = ChannelFor(from, header.lane);
      if (channel == nullptr || !CanBeWish(header)) return false;
      Heard& heard = HeardFrom(from, header.lane);
      // Nobody is further ahead of this rank: what is kept of a peer has a limit.
      if (header.number != heard.wishes || header.number > channel->done + kSendsAhead) {
        return false;
      }
      ++heard.wishes;
      const bool is_over = header.lane == Lane::kReceive && header.number < channel->done;
      if (is_over) return true;
      Wish& wish = heard.open.emplace_back();
      wish.header = header;
      wish.data.resize(header.bytes);
      *place = wish.data.data();
      return true;
    }
    case Kind::kData: {
      Inflow* const in = InflowFrom(from, header);
      if (in == nullptr || header.offset != in->arrived) return false;
      // Whole pieces, but for the last: so one never lies across the end of the scratch.
      if (in->done() || header.bytes != std::min<int64_t>(kPieceBytes, in->bytes - in->arrived)) {
        return false;
      }
      const bool fits =
          in->data != nullptr || in->arrived + header.bytes <= reduced_ + kScratchBytes;
      if (fits) *place = in->Place(in->arrived);
      return fits;
    }
    case Kind::kFailed:
      failures_[from].resize(header.bytes);
      *place = failures_[from].data();
      return true;
    case Kind::kCredit:
      return header.bytes == 0;
    case Kind::kBye:
      break;
  }
  return false;
}

void Group::Arrived(int from, const Header& header) {
  if (!status_.ok()) return;
  switch (header.kind) {
    case Kind::kWish:
      for (Wish& wish : HeardFrom(from, header.lane).open) {
        wish.is_there = wish.is_there || wish.header.number == header.number;
      }
      break;
    case Kind::kData: {
      Inflow* const in = InflowFrom(from, header);
      in->arrived += header.bytes;
      ChannelFor(from, header.lane)->moved = std::chrono::steady_clock::now();
      // So far it has reduced what this rank has sent.
      Outflow& out = exchanged_[from].out[0];
      if (header.lane == Lane::kCollective && header.stage == 1) {
        out.allowed = std::min(out.bytes, in->arrived + kScratchBytes);
      }
      break;
    }
    case Kind::kCredit: {
      Channel& channel = *channels_[0];
      if (channel.empty() || channel.head().number != header.number) break;
      Outflow& out = exchanged_[from].out[0];
      if (header.offset < 0 || header.offset > out.bytes) break;
      out.allowed = std::max(out.allowed, std::min(out.bytes, header.offset + kScratchBytes));
      break;
    }
    case Kind::kFailed:
      Break(absl::AbortedError(absl::StrCat(RankName(from), " gave up: ", failures_[from])));
      break;
    case Kind::kBye:
      break;
  }
}

void Group::Break(absl::Status status) {
  status_ = std::move(status);
  network_->Drop(id_);
  EndFlows();
}

void Group::Fail(absl::Status status) {
  if (!status_.ok()) return;
  const std::string text(status.message().substr(0, kEagerBytes));
  Break(std::move(status));
  Header header;
  header.kind = Kind::kFailed;
  header.bytes = static_cast<int32_t>(text.size());
  header.group = id_;
  for (int r = 0; r < size(); ++r) {
    if (r != rank()) network_->Send(ranks_[r], header, text.data(), nullptr);
  }
  if (network_->AnyNeedsThread()) network_->WakeThread();
}

std::string Group::RankName(int rank) const {
  const Peer& peer = network_->peers_[ranks_[rank]];
  // It has told what it wants of the one that follows these, or of the last of these.
  const uint64_t collectives = std::min(exchanged_[rank].heard.wishes, channels_[0]->done);
  return absl::StrCat("rank ", rank, " (",
                      ranks_[rank] == rank ? "" : absl::StrCat(ranks_[rank], " of the job, "),
                      "process ", peer.process, " on ", peer.host, ", ", peer.address, ", after ",
                      collectives, " collectives)");
}

// "all-reduce of 12 f32 (sum), operation 3 of group 'world', after 4096 of 16384 bytes"
std::string Group::Progress(int index) const {
  const Channel& channel = *channels_[index];
  const Queued& operation = channel.head();
  int64_t bytes = channel.in.bytes + channel.out.bytes;
  int64_t moved = channel.in.arrived + channel.out.sent;
  for (const Exchanged& each : exchanged_) {
    for (int stage : {0, 1}) {
      if (index > 0) continue;
      bytes += each.in[stage].bytes + each.out[stage].bytes;
      moved += each.in[stage].arrived + each.out[stage].sent;
    }
  }
  return absl::StrCat(Describe(operation.request), ", operation ", operation.number + 1,
                      " of group '", name(), "'",
                      bytes == 0 ? "" : absl::StrCat(", after ", moved, " of ", bytes, " bytes"));
}

// Whether the first operation of a channel needs something of a rank: 1 that it comes, 2 what is to
// be reduced, 3 anything else; 0 if not.
int Group::Needs(int index, int rank) const {
  const Channel& channel = *channels_[index];
  const Queued& operation = channel.head();
  if (index > 0) {
    if (rank != static_cast<int>((index - 1) % ranks_.size())) return 0;
    return !operation.posted || channel.heard.Find(operation.number) == nullptr ? 1 : 3;
  }
  const Exchanged& each = exchanged_[rank];
  if (each.heard.Find(operation.number) == nullptr) return 1;
  if (!each.in[0].done() || !each.out[0].done()) return 2;
  return each.in[1].done() && each.out[1].done() ? 0 : 3;
}

void Group::Check(Time now) {
  for (size_t i = 0; i < channels_.size() && status_.ok(); ++i) {
    const int index = static_cast<int>(i);
    if (channels_[index] == nullptr || channels_[index]->empty()) continue;
    // One that has not come keeps others from going on.
    int first = 4;
    std::vector<std::string> missing;
    for (int r = 0; r < size(); ++r) {
      const int need = r == rank() ? 0 : Needs(index, r);
      if (need == 0) continue;
      const Network::Line& line = LineTo(r);
      if (line.link.is_closed()) {
        Fail(absl::UnavailableError(absl::StrCat(
            RankName(r), line.has_left ? " has left" : " died", "; waiting in ", Progress(index),
            line.has_left ? "" : absl::StrCat(" (", line.link.why_closed(), ")"))));
        return;
      }
      if (need < first) missing.clear();
      first = std::min(first, need);
      if (need == first) missing.push_back(RankName(r));
    }
    const double waited = std::chrono::duration<double>(now - channels_[index]->moved).count();
    const double at_most = network_->options_.timeout_seconds + patience();
    if (!missing.empty() && waited > at_most) {
      Fail(absl::DeadlineExceededError(absl::StrCat(absl::StrJoin(missing, ", "),
                                                    " did not come within ", at_most,
                                                    " s; waiting in ", Progress(index))));
    }
  }
}

}  // namespace tessera::comm::tcp
