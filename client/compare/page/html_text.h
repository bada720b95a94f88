// Makes any bytes safe to show in a page.
#ifndef LONGSTREAM_CLIENT_COMPARE_PAGE_HTML_TEXT_H_
#define LONGSTREAM_CLIENT_COMPARE_PAGE_HTML_TEXT_H_

#include <string>
#include <string_view>

namespace longstream::client {

// Returns HTML that shows `text` as it is, for an element's content or a quoted attribute. Models
// and prompts may hold anything, so:
// - & < > " ' become character references;
// - bytes that are not UTF-8, and code points that are no characters, become U+FFFD;
// - control characters become visible: line feed ↵, tab ⇥, others the pictures of U+2400;
// - characters that change the direction of the page's own text (U+202A, ...) become ⟨U+202A⟩.
std::string Escaped(std::string_view text);

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_COMPARE_PAGE_HTML_TEXT_H_
