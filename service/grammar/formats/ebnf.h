// Grammars in llama.cpp's notation (GBNF).
#ifndef LONGSTREAM_SERVICE_GRAMMAR_FORMATS_EBNF_H_
#define LONGSTREAM_SERVICE_GRAMMAR_FORMATS_EBNF_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "service/grammar/grammar_builder.h"

namespace longstream {

// The strings of the rule `root`. A grammar is a list of rules, each one on a line of its own:
//
//   root   ::= "yes" | "no" reason?
//   reason ::= (", " [^\n"]{1,80})+   # a comment
//
// A rule's name has the characters A-Z a-z 0-9 - _. An item is a literal, a class, `.` (any
// character), a rule's name or a group, and may have * + ? {m} {m,} {m,n} behind it. Literals and
// classes have the escapes \n \r \t \" \\ \[ \] \- \^ \xHH \uHHHH \UHHHHHHHH. A rule goes on in the
// next line after ::= and |, before |, and inside a group. Rules may refer to themselves.
// INVALID_ARGUMENT: the grammar is wrong; the message names line and column. Limits: 1 MiB, 20,000
// rules, groups in 100 levels, counts up to 10,000.
absl::StatusOr<GrammarBuilder::Expression> AddEbnf(GrammarBuilder& builder,
                                                   std::string_view grammar);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_GRAMMAR_FORMATS_EBNF_H_
