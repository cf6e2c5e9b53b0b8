// A self-contained HTML page: no script, and nothing that is loaded from elsewhere.
//
// Thread safety: pure functions.
#ifndef TESSERA_TOOLS_REPORT_HTML_PAGE_H_
#define TESSERA_TOOLS_REPORT_HTML_PAGE_H_

#include <string>
#include <vector>

namespace tessera {

struct Section {
  std::string id;     // of its element: letters and hyphens
  std::string title;  // plain text
  std::string html;
};

struct HtmlPage {
  std::string title;      // plain text
  std::string lead_html;  // below the title
  std::vector<Section> sections;
  std::string footer;  // plain text
};

// Returns the page, with links to its sections. It has the colours that the reader's system
// prefers, light or dark.
std::string PageHtml(const HtmlPage& page);

}  // namespace tessera

#endif  // TESSERA_TOOLS_REPORT_HTML_PAGE_H_
