// Groups of ranks on several hosts, some of which have more than one of them: operations go through
// shared memory within a host, and over the network between hosts.
//
// Data are reduced within each host first, and what another host needs goes there once:
// but for up to 4 KiB, where one step counts for more, and for a reduce-scatter where hosts do not
// have the same number of consecutive ranks, which goes as an all-reduce of each part. Partial
// sums of bf16 and fp16 are fp32. Where each host has the same power of two of consecutive ranks
// the order of reduction is that of collectives/reduce/reduce.h; elsewhere it is that order within
// each host, and then among the hosts: the group's note() reports it.
//
// Operations move on while their rank waits for one of them, and otherwise on a thread of the
// group's own.
//
// Memory that is kept: a reduce-scatter takes a buffer of the rank's share of its host's input,
// in fp32 for bf16 and fp16; an all-reduce of these takes up to 24 MiB.
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

// The group of the ranks of `all`, which can reach each other over the network; `local` is that of
// the ranks on this rank's host, in the same order. host_of[r] is the host of rank r. Collective.
// If all ranks are on one host it is `local` itself, and if each has a host of its own, `all`.
//
// A rank that dies or does not come is named by the ranks that wait for it. A rank that waits for
// one of these waits for up to `grace_seconds` longer than the time-out, so that the cause is
// reported first.
absl::StatusOr<std::unique_ptr<Communicator>> MakeGroup(absl::string_view name,
                                                        absl::Span<const int> host_of,
                                                        std::unique_ptr<Communicator> local,
                                                        std::unique_ptr<Communicator> all,
                                                        double grace_seconds);

// The grace period for a time-out: a tenth of it, and a second at least.
double GracePeriodOf(double timeout_seconds);

// A name for `local`, by which messages distinguish it from the group itself.
std::string LocalName(absl::string_view name, absl::Span<const int> host_of);

}  // namespace tessera::comm::hierarchical

#endif  // TESSERA_COLLECTIVES_HIERARCHICAL_HIERARCHICAL_H_
