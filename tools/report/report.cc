#include "tools/report/report.h"

#include "absl/strings/str_cat.h"
#include "tools/report/charts/svg.h"
#include "tools/report/html_page.h"
#include "tools/report/sections/sections.h"

namespace tessera {
namespace {

std::string LeadHtml(const ReportData& data) {
  std::string html;
  for (const std::string& text : {data.model, data.ranks}) {
    if (!text.empty()) absl::StrAppend(&html, "<p class=\"dim\">", Escape(text), "</p>\n");
  }
  return html;
}

}  // namespace

std::string ReportHtml(const ReportData& data) {
  HtmlPage page;
  page.title = data.title;
  page.lead_html = LeadHtml(data);
  page.sections = {SummarySection(data), StepTimeSection(data),      TimelineSection(data),
                   MemorySection(data),  CommunicationSection(data), LossSection(data),
                   PlanSection(data),    ChecksSection(data),        MachineSection(data)};
  page.footer = data.written_by.empty() ? "" : absl::StrCat("Written by ", data.written_by, ".");
  return PageHtml(page);
}

}  // namespace tessera
