#include "tools/report/html_page.h"

#include "absl/strings/str_cat.h"
#include "tools/report/charts/svg.h"
#include "tools/report/page_style.h"

namespace tessera {
namespace {

// Forbids scripts and everything that is not in the page, should a text ever escape its quotes.
constexpr char kPolicy[] = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'";

std::string Head(const std::string& title) {
  return absl::StrCat("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n",
                      "<meta http-equiv=\"Content-Security-Policy\" content=\"", kPolicy, "\">\n",
                      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n",
                      "<meta name=\"color-scheme\" content=\"light dark\">\n<title>", Escape(title),
                      "</title>\n<style>", PageStyle(), "</style>\n</head>\n");
}

std::string Links(const HtmlPage& page) {
  std::string html = "<nav aria-label=\"Sections\"><ul>";
  for (const Section& section : page.sections) {
    absl::StrAppend(&html, "<li><a href=\"#", section.id, "\">", Escape(section.title),
                    "</a></li>");
  }
  return html + "</ul></nav>\n";
}

}  // namespace

std::string PageHtml(const HtmlPage& page) {
  std::string html = absl::StrCat(
      Head(page.title), "<body>\n<a class=\"skip\" href=\"#main\">Skip to the contents</a>\n",
      FillDefinitions(), "<header>\n<h1>", Escape(page.title), "</h1>\n", page.lead_html,
      Links(page), "</header>\n<main id=\"main\">\n");
  for (const Section& section : page.sections) {
    absl::StrAppend(&html, "<section id=\"", section.id, "\" aria-labelledby=\"", section.id,
                    "-title\">\n<h2 id=\"", section.id, "-title\">", Escape(section.title),
                    "</h2>\n", section.html, "</section>\n");
  }
  return absl::StrCat(html, "</main>\n<footer>", Escape(page.footer),
                      "</footer>\n</body>\n</html>\n");
}

}  // namespace tessera
