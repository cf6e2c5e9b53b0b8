// The communication of a run on ranks, as text: its Plan, the estimate of a step, and the
// measurements.
//
// Thread safety: pure functions.
#ifndef TESSERA_TOOLS_TRAIN_REPORT_COST_REPORT_H_
#define TESSERA_TOOLS_TRAIN_REPORT_COST_REPORT_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "core/compile/compile.h"
#include "core/layout/traffic/collective_traffic.h"
#include "core/program/program.h"
#include "core/proto/cluster.pb.h"
#include "core/proto/estimate.pb.h"
#include "core/proto/plan.pb.h"

namespace tessera {

// Returns the communication of a training step under a completed Plan: the parameters that are
// gathered together (units), and the full buffers of its collectives by purpose:
//
//   plan on {data: 2}                       count     largest       total
//   unit blocks.*                               4     774 KiB    3.03 MiB  gathered in each phase
//   gathers of parameters                       9     774 KiB    6.24 MiB
//   reductions of gradients                     5     774 KiB    3.21 MiB
//   other collectives                           3         4 B        12 B
std::string PlanTable(const Plan& plan, const Program& train);

// Returns the collectives of an estimated step, with the bytes sent by the rank that sends the
// most, and the step's time:
//
//   estimated for a step                    calls        sent        time     exposed
//   all-gather along data                       9    3.12 MiB    0.31 ms     0.10 ms
//   ...
//   step 77.1 ms: computation 75.0 ms, exposed communication 2.10 ms (for cpu: ..., 1 thread)
//
// `cluster` describes the hardware and threads of the times.
std::string EstimateTable(const StepCost& estimated, absl::string_view cluster);

// Returns the estimated time of a step:
//
//   step 77.1 ms: computation 75.0 ms, exposed communication 2.10 ms (for cpu: ..., 1 thread)
//
// For a step that does not communicate, only "step 75.0 ms (for cpu: ..., 1 thread)". If kernels
// have measured prices, another line says how much of the computation has them; if collectives
// have, one says so of the communication:
//
//   prices of the computation: 93% measured here, 5% interpolated from other sizes, 2% by rates
std::string StepTimeLine(const StepCost& estimated, absl::string_view cluster);

// Returns the rates of a cluster with which the ranks at `site` were priced, and where they come
// from:
//
//   rates: matmul 187 GFLOP/s, memory 50.0 GiB/s; within a host 3 us and 10.2 GiB/s (ORIGIN)
std::string ClusterRatesLine(const Cluster& cluster, const GroupSite& site,
                             absl::string_view origin);

// Returns estimate and measurement of a step side by side. `measured` is the mean of `steps` timed
// steps. The hidden part of a collective overlapped computation.
std::string CostTable(const StepCost& estimated, const StepCost& measured, int64_t steps);

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_REPORT_COST_REPORT_H_
