// Writes accessible tables of a page.
#ifndef LONGSTREAM_CLIENT_COMPARE_PAGE_TABLE_H_
#define LONGSTREAM_CLIENT_COMPARE_PAGE_TABLE_H_

#include <cstddef>
#include <string>
#include <vector>

namespace longstream::client {

// A table whose first column names its rows. All texts may hold any bytes.
class PageTable {
 public:
  struct Cell {
    std::string text;
    std::string small = "";      // below the text
    std::string css_class = "";  // of the text
  };

  // `columns`: their headings. The first `texts` columns are aligned left, numbers right.
  PageTable(std::string caption, std::vector<std::string> columns, size_t texts = 1);

  // REQUIRES: as many cells as columns.
  void Add(const std::vector<Cell>& cells);

  // Returns the table in a box that scrolls sideways, and that the keyboard can reach.
  std::string Html() const;

 private:
  std::string caption_;
  std::vector<std::string> columns_;
  size_t texts_;
  std::string rows_;
};

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_COMPARE_PAGE_TABLE_H_
