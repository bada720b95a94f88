// The files of the web page, which the program contains.
#ifndef LONGSTREAM_GATEWAY_PAGE_PAGE_FILES_H_
#define LONGSTREAM_GATEWAY_PAGE_PAGE_FILES_H_

#include <string_view>

#include "gateway/http/http_message.h"

namespace longstream::gateway {

// Whether the path is that of the page or of one of its files: "/", or "/page/" and a name.
bool IsPagePath(std::string_view path);

// The file at a path of the page. A browser runs nothing in it but the page's own scripts, and lets
// no other page show it. 404: there is no such file.
HttpAnswer PageAnswer(std::string_view path);

}  // namespace longstream::gateway

#endif  // LONGSTREAM_GATEWAY_PAGE_PAGE_FILES_H_
