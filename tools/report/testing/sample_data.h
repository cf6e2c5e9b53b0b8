// For tests: a report about a small GPT, planned and priced as the tools do it.
#ifndef TESSERA_TOOLS_REPORT_TESTING_SAMPLE_DATA_H_
#define TESSERA_TOOLS_REPORT_TESTING_SAMPLE_DATA_H_

#include <string>
#include <vector>

#include "core/compile/compile.h"
#include "core/graph/graph.h"
#include "core/proto/cluster.pb.h"
#include "core/proto/plan.pb.h"
#include "tools/report/report_data.h"

namespace tessera {

// Records the Graphs of a GPT whose layers have `channels` channels, trained by AdamW.
std::vector<Graph> RecordSampleGpt(int layers, int channels, const std::string& recompute = "",
                                   int micro_batches = 1);

// Returns the Plan of docs/plans of this name, with the settings of the Graphs.
Plan SamplePlan(const std::string& name, const std::string& recompute = "", int micro_batches = 1);

// Compiles the Graphs for this many ranks.
CompiledRun CompileSample(const std::vector<Graph>& graphs, const Plan& plan, int ranks);

// Returns hosts of one rank each, connected by Ethernet of 10 Gbit/s.
Cluster SampleCluster();

// Returns a strategy with its estimate and its view, both from the compiled run. Nothing of it is
// measured.
ReportedStrategy SampleStrategy(const std::string& label, const std::vector<Graph>& graphs,
                                const Plan& plan, int ranks);

// Returns the report of a comparison of 2 or of 6 strategies, one of which does not fit and one of
// which has failed if there are 6. Predicted values are real; "measured" ones, and losses, are
// invented, and a note says so.
ReportData SampleComparison(int strategies, int layers = 6, int channels = 384);

// Returns the report of a plan at several numbers of ranks: nothing is measured.
ReportData SamplePlanning();

}  // namespace tessera

#endif  // TESSERA_TOOLS_REPORT_TESTING_SAMPLE_DATA_H_
