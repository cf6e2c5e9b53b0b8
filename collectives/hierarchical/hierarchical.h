// Groups of ranks on several hosts, at least one of which has several ranks. Operations use shared
// memory within a host and the network between hosts.
//
// Data are reduced within each host first, and each host sends the data that another host needs
// once. There are two exceptions. For up to 4 KiB the number of steps matters more than the bytes.
// If hosts do not have the same number of consecutive ranks, a reduce-scatter is an all-reduce of
// each part. Partial sums of bf16 and fp16 are fp32. If each host has the same power of two of
// consecutive ranks, the order of reduction is that of collectives/reduce/reduce.h; otherwise it is
// that order within each host, and then among the hosts, and the group's note() reports it.
//
// A thread that waits for an operation advances all of the group's operations; if no thread waits,
// a thread of the group's own advances them.
//
// The group keeps its scratch memory: for a reduce-scatter a buffer of the rank's share of its
// host's input (fp32 for bf16 and fp16), for an all-reduce of bf16 or fp16 up to 24 MiB.
//
// Thread safety: as Communicator.
#ifndef TESSERA_COLLECTIVES_HIERARCHICAL_HIERARCHICAL_H_
#define TESSERA_COLLECTIVES_HIERARCHICAL_HIERARCHICAL_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "collectives/communicator.h"

namespace tessera::comm::hierarchical {

// Returns the group of the ranks of `all`, which can reach each other over the network. `local` is
// the group of the ranks on this rank's host, in the same order. host_of[r] is the host of rank r.
// Collective. Returns `local` itself if all ranks are on one host, and `all` if each rank has a
// host of its own.
//
// Ranks that wait for a dead or late rank name it in their error. Ranks that wait for those waiting
// ranks wait up to `grace_seconds` longer than the time-out, so that the cause is reported first.
absl::StatusOr<std::unique_ptr<Communicator>> MakeGroup(absl::string_view name,
                                                        absl::Span<const int> host_of,
                                                        std::unique_ptr<Communicator> local,
                                                        std::unique_ptr<Communicator> all,
                                                        double grace_seconds);

// Returns the grace period for a time-out: a tenth of it, but at least one second.
double GracePeriodOf(double timeout_seconds);

// Returns a name for `local` that distinguishes it from the group itself in messages.
std::string LocalName(absl::string_view name, absl::Span<const int> host_of);

}  // namespace tessera::comm::hierarchical

#endif  // TESSERA_COLLECTIVES_HIERARCHICAL_HIERARCHICAL_H_
