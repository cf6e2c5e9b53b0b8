// The style sheet of a report.
#ifndef TESSERA_TOOLS_REPORT_PAGE_STYLE_H_
#define TESSERA_TOOLS_REPORT_PAGE_STYLE_H_

#include "absl/strings/string_view.h"

namespace tessera {

// Returns CSS. Colours are Okabe and Ito's palette, which people with any colour vision tell apart,
// with each of them darkened (on light pages) until its contrast with the page is at least 3.
absl::string_view PageStyle();

}  // namespace tessera

#endif  // TESSERA_TOOLS_REPORT_PAGE_STYLE_H_
