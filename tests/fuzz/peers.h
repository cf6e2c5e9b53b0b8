// The other ranks of a job, which send to rank 0 the bytes that a fuzzer chooses.
#ifndef TESSERA_TESTS_FUZZ_PEERS_H_
#define TESSERA_TESTS_FUZZ_PEERS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "collectives/exchange.h"
#include "collectives/net/socket.h"

namespace tessera::comm {

// A rank's description of its listening socket for the others ("tcp/address").
struct Listening {
  int port = 0;
  std::string token;
};
Listening ParseListening(absl::string_view text);
// Returns the description of a rank that does not listen.
std::string NoListening();

// Proves to rank 0 of collectives/tcp, as rank `rank` of `size`, that this end knows the secret.
void ProveRank(const FileDescriptor& socket, const Listening& listening, int rank, int size);
// Returns a valid hello for a challenge with this nonce.
std::string HelloFor(absl::string_view acceptor_nonce, const Listening& listening, int rank,
                     int size);
// Receives `bytes` bytes; fewer if the other end closes.
std::string ReceiveBytes(const FileDescriptor& socket, int64_t bytes);

// Returns a connection to a port of 127.0.0.1 that is reset when it is closed.
FileDescriptor CallPort(int port);

// Returns the exchange of rank 0, in which the others answer as ranks on the same host do.
// `describe` returns the descriptions of all ranks once rank 0 listens; `connect` is then called on
// another thread while rank 0 connects.
Exchange ExchangeOfRank0(
    int size, std::function<std::vector<std::string>(const Listening& listening)> describe,
    std::function<void(const Listening& listening)> connect);

}  // namespace tessera::comm

#endif  // TESSERA_TESTS_FUZZ_PEERS_H_
