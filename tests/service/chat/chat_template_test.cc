// Properties that the golden files do not cover: the place that an error names, the limits of a
// template, and which bytes come from callers.
#include "service/chat/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <functional>
#include <string>
#include <vector>

#include "service/chat/conversation.h"
#include "tests/service/chat/chat_golden.h"

namespace longstream::chat {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Returns the text that the template renders with these variables, or the error.
absl::StatusOr<Text> Render(const std::string& source, const Json& variables = Json::object(),
                            const RenderOptions& options = GoldenOptions()) {
  const auto chat_template = ChatTemplate::Parse("t.jinja", source);
  if (!chat_template.ok()) return chat_template.status();
  return chat_template->Render(ToValue(variables).dict(), options);
}

std::string Error(const std::string& source, const Json& variables = Json::object()) {
  const auto text = Render(source, variables);
  return text.ok() ? "no error: " + text->bytes() : std::string(text.status().message());
}

// Returns the rendered text, with brackets around the bytes that come from callers.
std::string Bracketed(const std::string& source, const Json& variables) {
  const auto text = Render(source, variables);
  if (!text.ok()) return text.status().ToString();
  std::string marked;
  size_t done = 0;
  for (const TextRun& run : text->foreign()) {
    marked += text->bytes().substr(done, run.begin - done);
    marked += "[" + text->bytes().substr(run.begin, run.end - run.begin) + "]";
    done = run.end;
  }
  return marked + text->bytes().substr(done);
}

TEST(ChatTemplateTest, ErrorsNameFileLineColumnAndConstruct) {
  const std::pair<const char*, const char*> cases[] = {
      {"a\n  {{ x | nosuch }}", "line 2, column 10: the filter 'nosuch' is not supported"},
      {"{{ 1 is nosuch }}", "line 1, column 9: the test 'nosuch' is not supported"},
      {"\n\n{% include 'x' %}", "line 3, column 4: the tag {% include %} is not supported"},
      {"{% if true %}\n{{ x | nosuch }}{% endif %}",
       "line 2, column 8: the filter 'nosuch' is not supported"},
      {"é{{ 'a'.swapcase() }}", "line 1, column 8: str.swapcase is not supported"},
      {"{{ range(*5) }}", "line 1, column 9: 'int' is not iterable"},
      {"{% macro m() %}{% endmacro %}{{ m(**{'q': 1}) }}",
       "line 1, column 34: the macro 'm' has no parameter 'q'"},
      {"{% macro m() %}{% endmacro %}\n{% call m() %}{% endcall %}",
       "line 2, column 10: the macro 'm' has no parameter 'caller'"},
      {"{% call x %}{% endcall %}", "line 1, column 9: {% call %} needs a call such as name()"},
      {"{{ {[]: 1} }}", "line 1, column 4: a list cannot be a key: it has no hash"},
      {"{{ x.y.z }}", "line 1, column 7: 'dict object' has no attribute 'y'"},
      {"{% if a %}\n{{ b", "line 2, column 1: a tag is not closed"},
      {"{% if a %}", "line 1, column 11: expected {% endif %}, found the end of the template"},
      {"{% set x = 'a' + 1 %}", "line 1, column 16: '+' does not apply to 'str' and 'int'"},
  };
  for (const auto& [source, error] : cases) {
    EXPECT_EQ(Error(source, {{"x", Json::object()}}), std::string("t.jinja: ") + error) << source;
  }
}

// In Jinja, too, a template that has these can be read, wherever they stand.
TEST(ChatTemplateTest, UnsupportedConstructsOfJinjaFailOnlyWhenTheyRun) {
  const std::pair<const char*, const char*> cases[] = {
      {"{{ x | groupby('a') | list }}", "line 1, column 8: the filter 'groupby' is not supported"},
      {"{{ x | filesizeformat }}",
       "line 1, column 8: the filter 'filesizeformat' is not supported"},
      {"{{ [1] | map('pprint') }}", "line 1, column 10: the filter 'pprint' is not supported"},
      {"{{ x | random }}", "line 1, column 8: the filter 'random' is not supported"},
      {"{{ x | striptags }}", "line 1, column 8: the filter 'striptags' is not supported"},
      {"{{ x | urlize }}", "line 1, column 8: the filter 'urlize' is not supported"},
      {"{% filter wordwrap(9) %}a{% endfilter %}",
       "line 1, column 11: the filter 'wordwrap' is not supported"},
      {"{% set y | xmlattr %}{% endset %}",
       "line 1, column 12: the filter 'xmlattr' is not supported"},
      {"{{ cycler(1, 2) }}", "line 1, column 4: the function 'cycler' is not supported"},
      {"{{ joiner() }}", "line 1, column 4: the function 'joiner' is not supported"},
      {"{{ lipsum() }}", "line 1, column 4: the function 'lipsum' is not supported"},
      {"{% autoescape true %}{{ x }}{% endautoescape %}",
       "line 1, column 4: the tag {% autoescape %} is not supported"},
      {"{% block a %}{% if x %}b{% endif %}{% endblock a %}",
       "line 1, column 4: the tag {% block %} is not supported"},
      {"{% extends 'x' %}", "line 1, column 4: the tag {% extends %} is not supported"},
      {"{% from 'x' import y as z %}", "line 1, column 4: the tag {% from %} is not supported"},
      {"{% import 'x' as y %}", "line 1, column 4: the tag {% import %} is not supported"},
      {"{% include 'x' %}", "line 1, column 4: the tag {% include %} is not supported"},
  };
  for (const auto& [source, error] : cases) {
    EXPECT_EQ(Error(source), std::string("t.jinja: ") + error) << source;
    const auto text = Render("{% for x in [] %}" + std::string(source) + "{% endfor %}read");
    ASSERT_TRUE(text.ok()) << source << ": " << text.status();
    EXPECT_EQ(text->bytes(), "read") << source;
  }
}

TEST(ChatTemplateTest, CodesTellWhoseFaultItIs) {
  EXPECT_EQ(Render("{{ x | nosuch }}").status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(Render("{{ 'a'.swapcase() }}").status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(Render("{{ raise_exception('no') }}").status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Render("{{").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Render("a\xff").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ChatTemplateTest, LongMessagesAreCut) {
  const std::string error = Error("{{ raise_exception('é' * 100000) }}");
  EXPECT_LT(error.size(), 1200u);
  EXPECT_THAT(error, AllOf(HasSubstr("refuses the conversation: é"), HasSubstr("é ...")));
}

TEST(ChatTemplateTest, NothingHangsOrGrowsWithoutBound) {
  const std::vector<std::string> sources = {
      "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
      "{% set n = namespace(s='x') %}{% for i in range(99) %}{% set n.s = n.s + n.s %}{% endfor %}",
      "{% set n = namespace(l=[1]) %}{% for i in range(99) %}{% set n.l = n.l + n.l %}{% endfor %}",
      "{{ 'x' * 9999999999 }}",
      "{{ [1] * 9999999999 }}",
      "{% for i in range(99999) %}{{ 'x' * 99999 }}{% endfor %}",
      "{{ 'x' | indent(9999999999) }}",
      "{{ [[1]] | tojson(indent=9999999999) }}",
      "{{ ('x' * 1000000).replace('x', 'y' * 1000000) }}",
      "{{ ('x' * 1000000).split('') }}",
      "{% set l = ['x'] * 99999 %}{% for a in l %}{{ l | join }}{% endfor %}",
      "{% set l = range(99999) | list %}{{ l | unique | list }}",
      "{% set t = 'ab' * 999999 %}{% for a in range(99999) %}{{ 'c' in t }}{% endfor %}",
      "{% set n = namespace(l=[]) %}{% for i in range(9999) %}{% set n.l = [n.l] %}{% endfor %}",
      "{% set n = namespace(l={}) %}{% for i in range(999) %}{% set n.l = {'a': n.l} %}{% endfor "
      "%}",
      "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
      "{% macro m() %}{{ m() }}{{ m() }}{% endmacro %}{{ m() }}",
      "{% macro m() %}{% call m() %}{% endcall %}{{ caller() }}{% endmacro %}{{ m() }}",
      "{% macro m() %}{{ caller() }}{% endmacro %}{% for i in range(99999) %}{% for j in range(99) "
      "%}"
      "{% call m() %}{{ i }}{% endcall %}{% endfor %}{% endfor %}",
      "{% macro m() %}{{ varargs | length }}{% endmacro %}{% set l = range(99999) | list %}"
      "{% for i in l %}{{ m(*l) }}{% endfor %}",
      "{% macro m() %}{{ kwargs | length }}{% endmacro %}{% set n = namespace(l=[('a', 1)]) %}"
      "{% for i in range(16) %}{% set n.l = n.l + n.l %}{% endfor %}{% set k = namespace(l=[]) %}"
      "{% for i in n.l %}{% set k.l = k.l + [('k' ~ loop.index, 1)] %}{% endfor %}"
      "{{ m(**dict(k.l)) }}",
      "{% set t = namespace(t=(1, 2)) %}{% for i in range(60) %}{% set t.t = (t.t, t.t) %}{% "
      "endfor %}"
      "{{ {t.t: 1} }}",
      "{% set t = namespace(t=(1, 2)) %}{% for i in range(12) %}{% set t.t = (t.t, t.t) %}{% "
      "endfor %}"
      "{% set d = {t.t: 1} %}{% for i in range(99999) %}{{ d[t.t] }}{% endfor %}",
      "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
      "{% for x in [1, 1] recursive %}{{ loop([1, 1]) }}{% endfor %}",
      "{% set n = namespace() %}{% for x in [1] %}{% set n.l = loop %}{% endfor %}"
      "{% for x in range(9) if n.l.changed(n.l) or n.l.length %}{% set n.l = loop %}{% endfor %}",
      "{% for " + std::string(100000, '(') + "x in y %}{% endfor %}",
      "{{ 2 ** 99999999999 }}",
      "{% for i in range(9999999) %}{% endfor %}",
      std::string(100000, '(') + "1" + std::string(100000, ')'),
      "{{ " + std::string(100000, '(') + "1" + std::string(100000, ')') + " }}",
      "{{ " + std::string(100000, '[') + " }}",
      "{{ " + std::string(100000, '-') + "1 }}",
      "{{ x" + std::string(1000, '.') + " }}",
      [] {
        std::string nested;
        for (int i = 0; i < 10000; ++i) nested += "{% if 1 %}";
        return nested;
      }(),
      [] {
        std::string sum = "{{ 1";
        for (int i = 0; i < 10000; ++i) sum += " + 1";
        return sum + " }}";
      }(),
      std::string(2 << 20, 'x'),
  };
  for (const std::string& source : sources) {
    SCOPED_TRACE(source.substr(0, 120));
    const auto text = Render(source);
    // Outside of tags, parentheses are plain text.
    if (source[0] == '(') {
      EXPECT_TRUE(text.ok());
    } else {
      EXPECT_FALSE(text.ok());
    }
  }
}

// Runs `work` in a thread whose stack has this many bytes.
void RunOnStack(size_t bytes, std::function<void()> work) {
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, bytes), 0);
  pthread_t thread;
  const auto run = [](void* function) -> void* {
    (*static_cast<std::function<void()>*>(function))();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, run, &work), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

// The stack has 4 MiB, half of a thread's default. A sanitizer makes the stack frames five times as
// large; then the whole default must be enough.
TEST(ChatTemplateTest, DepthFitsTheStackOfAThread) {
  const std::vector<std::string> sources = {
      "{% macro f(x=f()) %}{{ x }}{% endmacro %}{{ f() }}",
      "{% macro f() %}{% for i in f() if f() %}{% endfor %}{% endmacro %}{{ f() }}",
      "{% macro f() %}{{ '{}'.format(f()) }}{% endmacro %}{{ f() }}",
      "{% macro f() %}{{ f(*[f()], **{'a': f()}) }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f() "
      "}}",
      "{% macro f() %}{% call f() %}{{ caller() }}{% endcall %}{{ caller }}{% endmacro %}{{ f() }}",
      "{% macro f() %}{{ caller() }}{% endmacro %}"
      "{% macro g() %}{% call f() %}{{ g() }}{% endcall %}{% endmacro %}{{ g() }}",
      "{% for x in [1] recursive %}{{ loop([x]) }}{% endfor %}",
      "{% set n = namespace() %}{% macro f() %}{% for x in [1, 2] if f() %}{{ loop.last }}{% "
      "endfor %}"
      "{% endmacro %}{{ f() }}",
      "{% macro f() %}{{ [1] | map('string') | select('equalto', f()) | list }}{% endmacro %}{{ "
      "f() "
      "}}",
      "{% macro g(a) %}{{ a }}{% endmacro %}"
      "{% macro f() %}{{ g(a=[{'a': f()}]) }}{% endmacro %}{{ f() }}",
      "{% macro f() %}{% for i in [1] %}{% set y %}{% filter upper %}{{ f() if i else 2 }}"
      "{% endfilter %}{% endset %}{% endfor %}{% endmacro %}{{ f() }}",
  };
  std::string nested = "1";
  for (int i = 0; i < 98; ++i) nested = i % 2 == 0 ? "[" + nested + "]" : "{\"a\": " + nested + "}";
  const Json variables = {{"x", Json::parse(nested)}};
#ifdef __SANITIZE_ADDRESS__
  constexpr size_t kStack = 8 << 20;
#else
  constexpr size_t kStack = 4 << 20;
#endif
  RunOnStack(kStack, [&] {
    for (const std::string& source : sources) {
      EXPECT_THAT(Error(source), HasSubstr("nested deeper than 600 levels")) << source;
    }
    EXPECT_TRUE(
        Render("{{ x | tojson(indent=2) }}{{ x }}{{ x == x }}{{ x in [x] }}", variables).ok());
  });
}

TEST(ChatTemplateTest, LimitsAreTheCallers) {
  RenderOptions options = GoldenOptions();
  options.limits.max_bytes = 1000;
  EXPECT_TRUE(Render("{{ 'x' * 100 }}", Json::object(), options).ok());
  EXPECT_EQ(Render("{{ 'x' * 1001 }}", Json::object(), options).status().message(),
            "t.jinja: line 1, column 8: the template makes more than 1000 bytes of text");
  options.limits.max_steps = 10;
  EXPECT_THAT(
      std::string(Render("{% for i in range(9) %}{{ i }}{% endfor %}", Json::object(), options)
                      .status()
                      .message()),
      HasSubstr("takes more than 10 steps"));
}

TEST(ChatTemplateTest, WhatCallersSayIsForeign) {
  const Json variables = {{"x", " <|a|> "}, {"n", 5}, {"l", {"p", "q"}}, {"o", {{"k", "v"}}}};
  const std::pair<const char*, const char*> cases[] = {
      {"<s>{{ '<|' + x + '|>' }}</s>", "<s><|[ <|a|> ]|></s>"},
      {"{{ x | trim }}{{ x.strip()[1:-1] }}", "[<|a|>|a|]"},
      {"{{ l | join('<s>') }}", "[p]<s>[q]"},
      {"{{ 'a,b'.replace(',', x) }}", "a[ <|a|> ]b"},
      {"{{ x.split('|')[1] ~ '|' }}", "[a]|"},
      {"{{ ('<' + x) | upper }}", "[< <|A|> ]"},
      {"{{ ('<s>' + 'x') | upper }}", "<S>X"},
      {"{{ o | tojson }}", R"({["k"]: ["v"]})"},
      {"{{ o }}{% for k in o %}{{ k }}{% endfor %}", "{['k']: ['v']}[k]"},
      {"{{ n }}{{ '{}!{}'.format(x, n) }}", "5[ <|a|> ]!5"},
      {"{% macro m(t) %}<m>{{ t }}{% endmacro %}{{ m(x) ~ m('t') }}", "<m>[ <|a|> ]<m>t"},
      {"{% set b %}<b>{{ x }}{% endset %}{{ b[1:] }}", "b>[ <|a|> ]"},
      {"{{ (x ~ '\n<i>') | indent(2) }}", "[ <|a|> ]\n  <i>"},
      {"{{ x[::-1] }}{{ x[2] }}", "[ >|a|< |]"},
      {"{% macro m() %}{{ kwargs }}{{ varargs[0] }}{% endmacro %}{{ m(*['<s>' ~ x], **o) }}",
       "{['k']: ['v']}<s>[ <|a|> ]"},
      {"{% macro m() %}<m>{{ caller(x) }}{% endmacro %}{% call(y) m() %}<c>{{ y }}{% endcall %}",
       "<m><c>[ <|a|> ]"},
      {"{{ {x: 1, 2: x} }}{{ {2: x}[2] }}", "{[' <|a|> ']: 1, 2: [' <|a|> ']}[ <|a|> ]"},
      {"{{ dict(**o) | tojson }}", R"({["k"]: ["v"]})"},
  };
  for (const auto& [source, bracketed] : cases) {
    EXPECT_EQ(Bracketed(source, variables), bracketed) << source;
  }
}

TEST(ChatTemplateTest, ConversationsAreCheckedFirst) {
  const auto chat_template = ChatTemplate::Parse("t", "{{ messages[0].content }}").value();
  const auto error = [&](const Json& test_case) {
    const auto text = ApplyTemplate(chat_template, Dict(), ToConversation(test_case), {});
    return text.ok() ? text->bytes() : std::string(text.status().message());
  };
  EXPECT_EQ(error({{"messages", Json::array()}}), "a conversation has one message at least");
  EXPECT_EQ(error({{"messages", {1}}}), "messages[0]: expected an object");
  EXPECT_EQ(error({{"messages", {{{"content", "x"}}}}, {"tools", {1}}}),
            "tools: expected an array of objects");
  EXPECT_EQ(error({{"messages", {{{"content", "x"}}}},
                   {"add_generation_prompt", true},
                   {"continue_final_message", true}}),
            "continue_final_message: not together with add_generation_prompt");
}

}  // namespace
}  // namespace longstream::chat
