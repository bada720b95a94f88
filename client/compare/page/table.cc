// Writes <table> elements with scopes and captions.
#include "client/compare/page/table.h"

#include <cstddef>
#include <utility>

#include "client/compare/page/html_text.h"

namespace longstream::client {

PageTable::PageTable(std::string caption, std::vector<std::string> columns, size_t texts)
    : caption_(std::move(caption)), columns_(std::move(columns)), texts_(texts) {}

void PageTable::Add(const std::vector<Cell>& cells) {
  rows_ += "<tr>";
  for (size_t i = 0; i < cells.size(); ++i) {
    const Cell& cell = cells[i];
    if (i == 0) {
      rows_ += "<th scope=\"row\">" + Escaped(cell.text) + "</th>";
      continue;
    }
    rows_ += "<td class=\"" + std::string(i < texts_ ? "" : "n ") + cell.css_class + "\">";
    rows_ += Escaped(cell.text);
    if (!cell.small.empty()) rows_ += " <small>" + Escaped(cell.small) + "</small>";
    rows_ += "</td>";
  }
  rows_ += "</tr>\n";
}

std::string PageTable::Html() const {
  std::string html = "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"" +
                     Escaped(caption_) + "\">\n<table>\n<caption>" + Escaped(caption_) +
                     "</caption>\n<thead><tr>";
  for (size_t i = 0; i < columns_.size(); ++i) {
    html += std::string("<th scope=\"col\"") + (i < texts_ ? "" : " class=\"n\"") + ">" +
            Escaped(columns_[i]) + "</th>";
  }
  return html + "</tr></thead>\n<tbody>\n" + rows_ + "</tbody>\n</table>\n</div>\n";
}

}  // namespace longstream::client
