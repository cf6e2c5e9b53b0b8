// A rank of a job of two, which receives a text from rank 0 as the ranks of a training run do, and
// prints it.
//
//   relay_ranks [--integrity=NAME] store|plan|tensors TEXT
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "collectives/connected_world.h"
#include "collectives/rendezvous/environment.h"
#include "collectives/rendezvous/rendezvous.h"
#include "core/status/status_macros.h"
#include "core/train/ranks/ranks.h"
#include "tools/command_line/command_line.h"
#include "tools/world_flags/world_flags.h"

namespace tessera {
namespace {

constexpr int64_t kTensorBytes = 64 << 10;  // too large to go along with a request

// Through rank 0's store, as ranks exchange their addresses.
absl::StatusOr<std::string> ReceiveFromStore(const comm::WorldOptions& options,
                                             const std::string& text) {
  ASSIGN_OR_RETURN(const comm::RankEnvironment environment,
                   comm::ReadRankEnvironment(options.rendezvous));
  ASSIGN_OR_RETURN(const std::unique_ptr<comm::Rendezvous> rendezvous,
                   comm::Rendezvous::Join(environment));
  const auto exchange = [&](absl::string_view key, absl::string_view mine) {
    return rendezvous->Exchange(key, mine, {0, 1}, comm::kRendezvousTimeout, " did not come");
  };
  absl::StatusOr<std::vector<std::string>> texts =
      exchange("text", environment.rank == 0 ? text : "");
  if (texts.ok()) {
    // Rank 0 learns here whether rank 1 has failed.
    if (const absl::Status ended = exchange("end", "").status(); !ended.ok()) texts = ended;
  }
  const absl::Status left = rendezvous->Leave(texts.status());
  RETURN_IF_ERROR(texts.status());
  RETURN_IF_ERROR(left);
  return (*texts)[0];
}

// As rank 0 sends a Plan.
absl::StatusOr<std::string> ReceivePlan(comm::World& world, const std::string& text) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Ranks> ranks, Ranks::Create(&world));
  const std::string plan = text + std::string(1000, '.');
  absl::StatusOr<std::string> received = ranks->BroadcastFromFirst([&] { return plan; });
  if (received.ok()) {
    if (const absl::Status barrier = ranks->Barrier(); !barrier.ok()) received = barrier;
  }
  if (!received.ok()) ranks->Abort(received.status());
  RETURN_IF_ERROR(received.status());
  return received->substr(0, text.size());
}

absl::StatusOr<std::string> ReceiveTensor(comm::World& world, const std::string& text) {
  comm::Communicator& all = world.communicator();
  std::string tensor = world.rank() == 0 ? text : "";
  tensor.resize(kTensorBytes);
  RETURN_IF_ERROR(
      all.Wait(all.Broadcast(tensor.data(), tensor.data(), kTensorBytes, DType::kU8, /*root=*/0)));
  RETURN_IF_ERROR(all.Wait(all.Barrier()));
  return tensor.substr(0, text.size());
}

absl::StatusOr<std::string> Receive(const comm::WorldOptions& options, const std::string& mode,
                                    const std::string& text) {
  if (mode == "store") return ReceiveFromStore(options, text);
  ASSIGN_OR_RETURN(const std::unique_ptr<comm::ConnectedWorld> world,
                   comm::ConnectedWorld::Connect(options));
  absl::StatusOr<std::string> received =
      mode == "plan" ? ReceivePlan(*world, text) : ReceiveTensor(*world, text);
  const absl::Status left = world->Leave(received.status());
  if (received.ok() && !left.ok()) return left;
  return received;
}

absl::Status Run(const std::vector<std::string>& arguments) {
  ASSIGN_OR_RETURN(const ParsedFlags parsed,
                   ParseFlags(arguments, {{"The job", WorldFlags()}}, Rest::kBegins));
  if (parsed.rest.size() != 2) {
    return absl::InvalidArgumentError("usage: relay_ranks [FLAG...] store|plan|tensors TEXT");
  }
  ASSIGN_OR_RETURN(const comm::WorldOptions options, ReadWorldFlags());
  ASSIGN_OR_RETURN(const std::string received, Receive(options, parsed.rest[0], parsed.rest[1]));
  std::printf("received %s\n", received.c_str());
  return absl::OkStatus();
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  const absl::Status status = tessera::Run(std::vector<std::string>(argv + 1, argv + argc));
  if (status.ok()) return 0;
  std::fprintf(stderr, "error: %s\n", std::string(status.message()).c_str());
  return 1;
}
