// The other ranks of a job, which say to rank 0 whatever a fuzzer has them say.
#ifndef TESSERA_TESTS_FUZZ_PEERS_H_
#define TESSERA_TESTS_FUZZ_PEERS_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "collectives/exchange.h"
#include "collectives/rendezvous/socket.h"

namespace tessera::comm {

// Where a rank of collectives/tcp listens, as it tells the others.
struct Listening {
  int port = 0;
  std::string secret;
};
// Of what is exchanged as "tcp/address".
Listening ParseListening(absl::string_view text);
// What a rank that listens nowhere would tell.
std::string NoListening();

// What a rank of collectives/tcp says first.
std::string GreetingOf(int from, int to, const std::string& secret);

// A connection to a port of 127.0.0.1. To close it is to break it off.
FileDescriptor CallPort(int port);

// The exchange of rank 0. The others answer as ranks on the same host do, and `called` is asked for
// the texts of all ranks when rank 0 listens.
Exchange ExchangeOfRank0(
    int size, std::function<std::vector<std::string>(const Listening& listening)> called);

}  // namespace tessera::comm

#endif  // TESSERA_TESTS_FUZZ_PEERS_H_
