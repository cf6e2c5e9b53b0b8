// The sections of a report.
//
// Thread safety: pure functions.
#ifndef TESSERA_TOOLS_REPORT_SECTIONS_SECTIONS_H_
#define TESSERA_TOOLS_REPORT_SECTIONS_SECTIONS_H_

#include <string>

#include "tools/report/html_page.h"
#include "tools/report/report_data.h"

namespace tessera {

// Each returns a section, which says in one line why it is empty if there is nothing to show.

// The recommendation, the table of all strategies, and what is wrong with those that did not run.
Section SummarySection(const ReportData& data);
// Bars of the predicted and the measured step times.
Section StepTimeSection(const ReportData& data);
// The predicted timeline of each strategy's step.
Section TimelineSection(const ReportData& data);
// Bars of the peaks, and memory over time by category.
Section MemorySection(const ReportData& data);
// The collectives of a step.
Section CommunicationSection(const ReportData& data);
Section LossSection(const ReportData& data);
// The Plan of each strategy by layer.
Section PlanSection(const ReportData& data);
// The checks that found everything equal.
Section ChecksSection(const ReportData& data);
// The machine, and the commands that repeat the report.
Section MachineSection(const ReportData& data);

}  // namespace tessera

#endif  // TESSERA_TOOLS_REPORT_SECTIONS_SECTIONS_H_
