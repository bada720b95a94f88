#include "gateway/page/page_files.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <string>

#include "gateway/http/problem.h"

namespace longstream::gateway {
namespace {

constexpr std::string_view kFolder = "/page/";
constexpr std::string_view kFirst = "index.html";

struct PageFile {
  std::string_view name;
  std::string_view text;
};

constexpr PageFile kFiles[] = {
#include "page_files.inc"
};

struct ContentType {
  std::string_view ending;
  const char* type;
};
constexpr std::array<ContentType, 4> kTypes = {{{".html", "text/html; charset=utf-8"},
                                                {".js", "text/javascript; charset=utf-8"},
                                                {".css", "text/css; charset=utf-8"},
                                                {".svg", "image/svg+xml"}}};

// A text of a model that reached the page as markup would still run nothing and load nothing.
constexpr char kPolicy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' "
    "data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

}  // namespace

bool IsPagePath(std::string_view path) { return path == "/" || path.starts_with(kFolder); }

HttpAnswer PageAnswer(std::string_view path) {
  const std::string_view name = path == "/" ? kFirst : path.substr(kFolder.size());
  const auto* const file = std::find_if(std::begin(kFiles), std::end(kFiles),
                                        [name](const PageFile& each) { return each.name == name; });
  if (file == std::end(kFiles)) {
    return ProblemAnswer(404, "the page has no file " + std::string(name));
  }
  const auto* const type = std::find_if(kTypes.begin(), kTypes.end(), [name](const ContentType& t) {
    return name.ends_with(t.ending);
  });
  HttpAnswer answer;
  answer.content_type = type == kTypes.end() ? "text/plain; charset=utf-8" : type->type;
  answer.body = std::string(file->text);
  answer.headers = {{"Content-Security-Policy", kPolicy},
                    {"X-Content-Type-Options", "nosniff"},
                    {"Referrer-Policy", "no-referrer"},
                    {"Cache-Control", "no-cache"}};
  return answer;
}

}  // namespace longstream::gateway
