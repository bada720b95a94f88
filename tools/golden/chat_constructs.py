"""Small templates that each use one construct of Jinja, and a generator of random templates."""

import random

VARIABLES = {
    "text": "  Hello, World  ", "word": "straße", "upper": "ÀÉÎ", "empty": "", "lines": "a\n\n  b\nc",
    "unicode": "e\u0301😀\u2028ﬁ \u00a0Σς ǆ", "quoted": "it's \"so\" \\ \x07\n", "number": 7, "negative": -3, "real": 2.5,
    "large": 1e22, "small": 1e-07, "yes": True, "no": False, "nothing": None,
    "list": [3, 1, 2], "words": ["b", "A", "c", "a"], "mixed": [1, "x", None, True, 2.0, [], {}],
    "nested": [[1, 2], [3, 4]], "dict": {"b": 1, "a": 2, "items": 3, "C": 0}, "deep": {"x": {"y": [10, {"z": "end"}]}},
    "users": [{"name": "Ann", "age": 31, "tags": ["x"]}, {"name": "bob", "age": 4, "tags": []},
              {"name": "Cyd", "tags": ["y", "z"]}],
    "json": {"s": "</a>&'é\u2028", "n": [1, 1.0, -0.0, 1e16, 123456789012], "e": {}, "l": [], "t": True, "z": None},
}

WRITTEN = (
    # White space and tags.
    "a\n  {% if yes %}\n  b\n  {% endif %}\nc\n", "a\n  {%- if yes -%}\n  b\n  {%- endif -%}\nc\n\n",
    "a\n  {%+ if yes +%}\n  b\n  {%+ endif +%}\nc", "  {# c #}\nx {# c #}\n  {#- c -#}\n y {#+ c +#}\nz",
    "x {{- ' y ' -}} z\n  {{ 1 }}\n", "{{+ 1 }}|{{+1}}", "\r\na\rb\r\n{% if yes %}\r\nc{% endif %}\r\n",
    "{% raw %} {{ x }} {% if %} {% endraw %}\n.", "a {%- raw -%} b {{ {%- endraw -%} c", "{% raw %}\n  {% endraw %}\n x",
    "{{ '{{' }} {{ '%}' }} {{ '}}' }}", "{{ {'a': {'b': 1}}['a'] }}", "{% set x = {'a': 1} %}{{ x }}{% set y = {} %}{{ y }}",
    "{# {{ x }} {% if %} #}.", "a\t\n \t{% if yes %}b{% endif %} \t{% if yes %}\n c{% endif %}", "{%if yes%}x{%endif%}{{1}}",
    "\n\n{% if yes %}\n\n{% endif %}\n\n", "{{ 1 }}\n\n", "{% set a = 1 %}\n{% set b = 2 %}\n  {{ a }}\n{{ b }}",
    # Literals and operators.
    "{{ 'a' 'b' \"c\" }}", r"{{ 'a\n\t\x41\u00e9\'\"\\\q\101' }}", "{{ 1_000 + 2 }} {{ 1.5e3 }} {{ 2e-7 }} {{ 1e16 }} {{ 1.0 }}",
    "{{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 7 / 2 }} {{ 2 ** 3 }} {{ 2 ** -1 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }}",
    "{{ 1 + 2 * 3 - 4 }} {{ (1 + 2) * 3 }} {{ -2 ** 2 }} {{ 2 ** 3 ** 2 }} {{ - 3 }} {{ + 3 }} {{ --3 }}",
    "{{ 'a' ~ 1 ~ none ~ true ~ 1.0 ~ missing ~ [1, 'b'] }}", "{{ 'ab' * 3 }} {{ [1] * 2 }} {{ 2 * 'x' }} {{ 'x' * -1 }}",
    "{{ [1] + [2, 3] }} {{ (1,) + (2,) }}", "{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 == true }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }}",
    "{{ 1 in [1, 2] }} {{ 'x' in 'xyz' }} {{ 'a' in dict }} {{ 3 not in list }} {{ none in mixed }} {{ 1.0 in list }}",
    "{{ not yes }} {{ not no and yes }} {{ yes and 'x' }} {{ empty or 'y' }} {{ no or none }} {{ 1 and 2 or 3 }}",
    "{{ 'a' if yes else 'b' }} {{ 'a' if no }} {{ 'a' if no else 'b' if no else 'c' }} {{ (1 if yes) + 1 }}",
    "{{ () }} {{ (1,) }} {{ (1) }} {{ 1, 2 }} {{ [] }} {{ [1, ] }} {{ {} }} {{ {'a': 1, } }}", "{{ true }} {{ True }} {{ false }} {{ none }} {{ None }}",
    "{{ true + 1 }} {{ true == 1 }} {{ [true, 1.5, 'x', none] }} {{ {'k': [1]} }}", "{{ 1 / 0 }}", "{{ 1 + 'a' }}", "{{ 'a' + 1 }}", "{{ none + 1 }}",
    "{{ list < 3 }}", "{{ 1 in 5 }}", "{{ 5 in 'x5' }}", "{{ -'a' }}", "{{ 1 == 'a' }} {{ [] == () }} {{ {} == [] }} {{ none == false }}", "{{ 1 <> 2 }}",
    # Names, attributes, subscripts, slices.
    "{{ missing }}|{{ missing is defined }}|{{ dict.missing }}|{{ dict['b'] }}|{{ dict.b }}", "{{ missing.x }}", "{{ dict.missing.x }}", "{{ missing[0] }}",
    "{{ missing + 1 }}", "{{ missing() }}", "{{ missing == missing }} {{ missing or 'x' }} {{ not missing }} {{ missing ~ 'x' }} {{ missing in [1] }}",
    "{{ deep.x.y[1].z }} {{ deep['x']['y'].0 }} {{ list[-1] }} {{ list[9] }} {{ word[4] }} {{ word[-2] }} {{ text['x'] }}",
    "{{ list[1:] }} {{ list[:-1] }} {{ list[::-1] }} {{ list[::2] }} {{ list[5:] }} {{ list[-2:5] }} {{ list[:] }} {{ list[2:0:-1] }}",
    "{{ word[1:3] }} {{ word[::-1] }} {{ word[-3:] }} {{ unicode[::2] }} {{ unicode[2:4] }} {{ word[:100] }} {{ word[3:1] }}", "{{ missing[1:] }}", "{{ dict[1:] }}",
    "{{ number[0] }} {{ none.x }} {{ number.x }}", "{{ list['x'] }} {{ list.x }} {{ list[none] }} {{ dict[0] }} {{ dict[none] }} {{ list[true] }}", "{{ list[1.0] }}",
    "{{ dict.items is defined }} {{ dict['items'] }} {{ dict.items() | list }} {{ dict.keys() | list }} {{ dict.values() | list }}", "{{ list[0:2:0] }}", "{{ list['a':] }}",
    "{{ dict.get('a') }} {{ dict.get('q') }} {{ dict.get('q', 5) }} {{ dict.get(none) }}", "{{ (1, 2)[0] }} {{ 'abc'[1] }} {{ [1, 2][1] }} {{ {'a': 5}.a }} {{ 'abc'.upper() }}",
    "{{ list.append(1) }}", "{{ dict.update({}) }}", "{{ dict.pop('a') }}", "{{ list.index(1) }} {{ list.count(3) }}", "{{ list.index(77) }}", "{{ text.__class__ }}", "{{ dict.x.y.z }}",
    # Statements.
    "{% for x in list %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.revindex }}{{ loop.revindex0 }} {{ x }};{% endfor %}",
    "{% for x in list if x > 1 %}{{ loop.index }}:{{ x }}/{{ loop.length }} {% else %}none{% endfor %}", "{% for x in [] %}x{% else %}none{% endfor %}{% for x in missing %}x{% endfor %}",
    "{% for a, b in nested %}{{ a }}-{{ b }};{% endfor %}{% for k, v in dict.items() %}{{ k }}={{ v }},{% endfor %}{% for k in dict %}{{ k }}{% endfor %}{% for c in word %}{{ c }}.{% endfor %}",
    "{% for x in list %}{{ loop.previtem }}<{{ x }}<{{ loop.nextitem }} {% endfor %}", "{% for x in list %}{% for y in nested %}{{ loop.depth }}{{ loop.index }}{% endfor %}{{ loop.depth0 }}{% endfor %}",
    "{% for x in list %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}|{% for x in list %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% else %}e{% endfor %}",
    "{% for x in list %}{{ loop.cycle('a', 'b') }}{% endfor %}", "{% for x in 5 %}{% endfor %}", "{% for x in none %}{% endfor %}", "{% for a, b in list %}{% endfor %}", "{% for a, b in [(1, 2, 3)] %}{% endfor %}",
    "{% set x = 1 %}{% for y in list %}{% set x = x + y %}{{ x }} {% endfor %}{{ x }}", "{% set ns = namespace(n=0, s='') %}{% for y in list %}{% set ns.n = ns.n + y %}{% endfor %}{{ ns.n }}{{ ns.s }}{{ ns.q }}",
    "{% if yes %}{% set z = 5 %}{% endif %}{{ z }}", "{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set c = 1, 2 %}{{ c }}{% set d, = [4] %}{{ d }}", "{% set x %} a {{ 1 }} {% endset %}[{{ x }}]{% set y | upper | trim %} b {% endset %}[{{ y }}]",
    "{% set list = 3 %}{{ list }}", "{% set dict.x = 3 %}", "{% set q.x = 3 %}", "{% set ns = namespace({'a': 1}, b=2) %}{{ ns.a }}{{ ns.b }}{% set ns._x = 1 %}", "{% set a, b = [1] %}", "{% set ns = namespace() %}{% set ns.x = [1] %}{{ ns.x }}{% set ns.x = ns.x + [2] %}{{ ns.x | length }}",
    "{% macro m(a, b=2, c=b) %}{{ a }},{{ b }},{{ c }};{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(a=1, c=5) }}{{ m() }}", "{% macro m(a) %}{% if a > 0 %}{{ a }}{{ m(a - 1) }}{% endif %}{% endmacro %}{{ m(5) }}", "{% macro m() %}{% endmacro %}{{ m(1) }}", "{% macro m(a) %}{% endmacro %}{{ m(b=1) }}", "{% macro m(a) %}{% endmacro %}{{ m(1, a=2) }}",
    "{% set x = 1 %}{% macro m() %}[{{ x }}]{% endmacro %}{% set x = 2 %}{{ m() }}{% for x in [9] %}{{ m() }}{% endfor %}", "{% macro m() %}{% set inner = 1 %}{{ inner }}{% endmacro %}{{ m() }}{{ inner }}", "{{ m() }}{% macro m() %}{% endmacro %}", "{% macro m(x) %}{{ x }}{% endmacro %}{{ list | map('string') | join }}{{ m('a') + 'b' }}{{ m('q') | upper }}",
    "{% if no %}a{% elif nothing %}b{% elif yes %}c{% else %}d{% endif %}", "{% generation %}a{% set q = 1 %}{% endgeneration %}{{ q }}", "{% filter upper %}a{{ word }}{% endfilter %}{% filter replace('a', 'b') | trim %} aa {% endfilter %}", "{% for x in list %}{% set loop_x = loop %}{{ loop_x.index }}{% endfor %}{{ loop }}",
    "{% set ns = namespace(found=false) %}{% for x in list if not ns.found %}{{ x }}{% set ns.found = true %}{% endfor %}", "{% for x in list %}{{ x }}{% for y in list if y > x %}({{ y }}{{ loop.last }}){% endfor %}{% endfor %}", "{% for u in users if u.age is defined and u.age > 5 %}{{ u.name }}{% endfor %}", "{% if 1, 2 %}x{% endif %}", "{% for x in 1, 2 %}{{ x }}{% endfor %}", "{% for x in (list if yes else []) %}{{ x }}{% endfor %}",
    "{% if yes: %}x{% endif %}", "{% for x in range(3) %}{{ x }}{% endfor %}{{ range(2, 8, 3) | list }}{{ range(3, 0, -1) | list }}{{ range(0) | list }}", "{% for x in range(1000000) %}{% endfor %}", "{{ raise_exception('stop ' ~ 1) }}", "{{ strftime_now('%d %b %Y, %H:%M:%S %A %j %-d') }}", "{{ dict(a=1) }}", "{{ range is callable }}",
    # Errors of syntax.
    "{% if %}", "{% if yes %}", "{{ }}", "{{ 1 + }}", "{{ 'a }}", "{% endif %}", "{% for x %}{% endfor %}", "{{ (1 }}", "{{ 1) }}", "{{ [1}} ]", "{% else %}", "{% bad %}", "{# open", "{{ open", "{% raw %} open", "{{ x is }}", "{{ x | }}", "{{ x | nofilter }}", "{{ x is notest }}", "{% break %}", "{% set %}", "{% set 1 = 2 %}", "{{ a.1b }}", "{{ 1 2 }}", "{% macro m(a=1, b) %}{% endmacro %}", "{{ ? }}", "{{ f(a=1, 2) }}", "{% if yes %}{% endfor %}", "{{ 'a' is string is string }}",
    # Tests.
    "{% for x in mixed + [2.5, -1, 'AB', 'ab'] %}{{ x is string }}{{ x is number }}{{ x is integer }}{{ x is float }}{{ x is boolean }}{{ x is none }}{{ x is mapping }}{{ x is iterable }}{{ x is sequence }}{{ x is defined }}{{ x is true }}{{ x is false }}{{ x is not none }}{{ x is upper }}{{ x is lower }};{% endfor %}",
    "{{ missing is string }}{{ missing is iterable }}{{ missing is sequence }}{{ missing is none }}{{ missing is mapping }}{{ missing is number }}{{ missing is undefined }}", "{{ 4 is even }}{{ 4 is odd }}{{ 9 is divisibleby 3 }}{{ 9 is divisibleby(2) }}{{ 1 is in [1] }}{{ 1 is sameas 1 }}{{ 'x' is eq 'x' }}{{ 1 is ne 2 }}{{ 3 is gt 2 }}{{ 3 is lessthan 2 }}{{ 3 is ge(3) }}{{ 1 is le 0 }}{{ true is sameas true }}{{ 1 is not in [1] }}",
    "{{ 'upper' is filter }}{{ 'nosuch' is filter }}{{ 'odd' is test }}", "{{ 'a' is odd }}", "{{ dict.items() is sequence }}{{ dict.items() is iterable }}{{ list | map('string') is iterable }}{{ list | map('string') is sequence }}{{ (1, 2) is sequence }}{{ list | reverse is iterable }}", "{{ not 1 is string }} {{ 1 is string or 2 is number }} {{ -1 is number }} {{ 1 + 1 is number }}", "{{ word is string and word is not mapping }}", "{{ yes is boolean }}{{ 1 is boolean }}{{ ('a' | safe) is string }}{{ ('a' | safe) is escaped }}",
    # Filters.
    "[{{ text | trim }}][{{ text | upper }}][{{ upper | lower }}][{{ word | upper }}][{{ 'aBC dEF' | capitalize }}][{{ 'aBC dEF-ghi (jk) x\ty' | title }}][{{ 'xxaxx' | trim('x') }}][{{ 5 | trim }}][{{ none | upper }}][{{ missing | trim }}]",
    "{{ unicode | upper }}|{{ unicode | lower }}|{{ unicode | capitalize }}|{{ unicode | title }}|{{ unicode.title() }}|{{ 'ΑΣ' | lower }}|{{ 'ΑΣ ΒΣ' | capitalize }}|{{ 'ǆabc' | capitalize }}|{{ 'ŉab' | capitalize }}", "{{ list | length }}{{ word | length }}{{ unicode | length }}{{ dict | count }}{{ missing | length }}{{ '' | length }}", "{{ 5 | length }}", "{{ list | map('string') | length }}",
    "{{ missing | default('d') }}{{ empty | default('d') }}{{ empty | default('d', true) }}{{ none | d('x') }}{{ none | d('x', boolean=true) }}{{ missing | default }}", "{{ list | join }}{{ words | join(', ') }}{{ users | join('/', attribute='name') }}{{ 'abc' | join('-') }}{{ mixed | join(' ') }}{{ missing | join }}", "{{ list | first }}{{ list | last }}{{ [] | first }}{{ 'xyz' | first }}{{ 'xyz' | last }}{{ dict | first }}",
    "{{ words | sort }}{{ words | sort(case_sensitive=true) }}{{ list | sort(reverse=true) }}{{ users | sort(attribute='name') | map(attribute='name') | list }}{{ dict | dictsort }}{{ dict | dictsort(true) }}{{ dict | dictsort(by='value', reverse=true) }}", "{{ mixed | sort }}", "{{ words | unique | list }}{{ ['a', 'A', 'b'] | unique(true) | list }}{{ words | min }}{{ words | max }}{{ list | sum }}{{ users | sum(attribute='age') }}", "{{ users | map(attribute='age', default=0) | sum }}{{ [] | max }}",
    "{{ users | map(attribute='name') | list }}{{ users | map(attribute='tags.0') | list }}{{ list | map('string') | list }}{{ words | map('upper') | join }}{{ words | map('replace', 'a', 'Q') | join }}{{ missing | map('upper') | list }}{{ [] | map(attribute='x') | list }}", "{{ users | selectattr('age') | map(attribute='name') | list }}{{ users | selectattr('age', 'gt', 5) | map(attribute='name') | list }}", "{{ users | selectattr('age', 'defined') | list | length }}{{ users | rejectattr('age', 'defined') | map(attribute='name') | list }}{{ list | select('odd') | list }}{{ list | reject('odd') | list }}{{ mixed | select | list }}{{ mixed | reject('none') | list }}",
    "{{ users | selectattr('name', 'equalto', 'Ann') | first }}{{ (users | selectattr('name', 'equalto', 'Ann'))[0] }}{{ users | selectattr('tags') | list | length }}", "{% set g = list | map('string') %}{{ g | list }}{{ g | list }}{{ g | first }}", "{% set g = list | select('odd') %}{{ g | first }}{{ g | list }}", "{{ list | map('nofilter') | list }}", "{{ list | select('notest') | list }}", "{{ users | map | list }}", "{{ 'a,b' | replace(',', ';') }}{{ 'aaa' | replace('a', 'b', 2) }}{{ 'ab' | replace('', '-') }}{{ 5 | replace('5', '6') }}{{ 'abab' | replace('ab', '') }}",
    "{{ '12' | int }}{{ ' 12 ' | int }}{{ '1.9' | int }}{{ 'x' | int }}{{ 'x' | int(7) }}{{ '0f' | int(base=16) }}{{ 2.9 | int }}{{ -2.9 | int }}{{ true | int }}{{ none | int }}{{ '1_000' | int }}{{ '+5' | int }}{{ '1e3' | int }}", "{{ missing | int }}", "{{ '1.5' | float }}{{ 'x' | float }}{{ 'x' | float(2) }}{{ 3 | float }}{{ '1e5' | float }}{{ 'inf' | float }}{{ ' 2 ' | float }}", "{{ 2.5 | round }}{{ 3.5 | round }}{{ 2.675 | round(2) }}{{ 2.1 | round(method='ceil') }}{{ 2.19 | round(1, 'floor') }}{{ 7 | round }}{{ -2.5 | round }}{{ 1234 | round(-2) }}{{ 1250.0 | round(-2) }}{{ -5 | abs }}{{ -5.5 | abs }}",
    "{{ lines | indent }}|{{ lines | indent(2, true) }}|{{ lines | indent(2, blank=true) }}|{{ lines | indent('> ') }}|{{ 'x' | indent }}|{{ 'x\n' | indent }}", "{{ dict | items | list }}{{ missing | items | list }}{{ dict | list }}{{ word | list }}{{ 'ab' | reverse }}{{ list | reverse | list }}{{ dict | reverse | list }}", "{{ list | items | list }}", "{{ 5 | list }}", "{{ 5 | string }}{{ none | string }}{{ true | string + 'x' }}{{ [1, 'a'] | string }}{{ missing | string }}", "{{ '<a>' | safe }}{{ ('<a>' | safe) ~ '<b>' }}{{ ['<a>' | safe, 'b'] | join('<') }}{{ ' x ' | safe | trim }}", "{{ ('<a>' | safe) + '<\\'\"&' }}{{ '<' + ('<a>' | safe) + ('>' | safe) + '>' }}",
    "{{ json | tojson }}|{{ json | tojson(indent=2) }}|{{ json | tojson(ensure_ascii=true) }}|{{ json | tojson(sort_keys=true, separators=(',', ':')) }}|{{ json | tojson(indent=0) }}|{{ json | tojson(indent='\t') }}|{{ (1, 2) | tojson }}|{{ quoted | tojson }}|{{ unicode | tojson(ensure_ascii=true) }}", "{{ missing | tojson }}", "{{ dict.items() | tojson }}", "{{ dict.items() | list | tojson }}{{ 'é' | tojson }}{{ large | tojson }}{{ small | tojson }}{{ none | tojson }}{{ [] | tojson(indent=4) }}{{ [[], {}] | tojson(indent=4) }}", "{{ list | map('string') | tojson }}",
    "{{ large }} {{ small }} {{ real }} {{ 100.0 }} {{ 123456789.123 }} {{ 0.1 + 0.2 }} {{ 1e15 }} {{ 1e16 }} {{ 0.0001 }} {{ 0.00001 }} {{ -0.0 }}", "{{ quoted }}{{ [quoted] }}{{ [unicode] }}{{ ['\\'', '\"', '\\'\"'] }}{{ dict }}{{ users }}{{ nested }}{{ mixed }}",
    # Methods.
    "[{{ text.strip() }}][{{ text.lstrip() }}][{{ text.rstrip() }}][{{ 'xyax'.strip('xy') }}][{{ 'xya'.lstrip('x') }}][{{ unicode.strip() }}][{{ 'a'.strip(none) }}]", "{{ 'a b  c '.split() }}{{ 'a,b,,c'.split(',') }}{{ 'a,b,c'.split(',', 1) }}{{ ' a b c '.split(none, 1) }}{{ 'a,b,c'.rsplit(',', 1) }}{{ ' a b c '.rsplit(none, 1) }}{{ ''.split() }}{{ ''.split(',') }}{{ 'abc'.split('') }}", "{{ 'a-b-c'.split('-')[-1] }}{{ '</t>x'.split('</t>')[0] }}{{ lines.splitlines() }}{{ 'a\r\nb\x0cc\u2028d\n'.splitlines() }}",
    "{{ word.startswith('str') }}{{ word.endswith(('x', 'e')) }}{{ word.startswith('') }}{{ word.upper() }}{{ upper.lower() }}{{ 'ab cd'.title() }}{{ 'AB cd'.capitalize() }}{{ \"they're bill's\".title() }}", "{{ 'abcabc'.find('c') }}{{ 'abc'.find('x') }}{{ 'straße'.find('e') }}{{ 'abcabc'.rfind('c') }}{{ 'abcabc'.count('b') }}{{ 'abc'.count('') }}{{ 'abc'.index('b') }}", "{{ 'abc'.index('x') }}", "{{ '-'.join(['a', 'b']) }}{{ ', '.join(dict) }}{{ 'aXbX'.replace('X', '-') }}{{ 'aXbX'.replace('X', '-', 1) }}{{ 'preab'.removeprefix('pre') }}{{ 'ab.x'.removesuffix('.x') }}{{ '12'.isdigit() }}{{ ''.isdigit() }}{{ ' '.isspace() }}{{ 'AB'.isupper() }}{{ 'ab1'.islower() }}", "{{ '-'.join([1]) }}", "{{ 'abc'.nosuch() }}", "{{ 5 .upper() }}", "{{ '{} {}'.format(1, 'a') }}{{ '{1}{0}{{x}}'.format('a', 'b') }}{{ '{n}'.format(n=5) }}", "{{ '{}'.format() }}", "{{ text.strip is defined }}",
)

ATOMS = ("text", "word", "empty", "lines", "unicode", "number", "negative", "real", "yes", "no", "nothing", "list", "words",
         "mixed", "nested", "dict", "users", "missing", "deep.x", "users[0]", "dict.a", "1", "0", "2.5", "'a b'", "''", "none",
         "true", "[1, 'b']", "{'k': 'v'}", "(1, 2)", "x")
# In Jinja filters such as `map` return a generator, which fails when it is first read, or never if
# it is not read. Longstream's filters fail when they are applied. So `list` follows these filters
# here and reads the generator at once.
FILTERS = ("trim", "upper", "lower", "length", "default('d')", "join(',')", "first", "last", "list", "string", "int", "float",
           "tojson", "title", "capitalize", "reverse | list", "sort", "unique | list", "items | list", "replace('a', 'b')",
           "map('string') | list", "abs", "sum", "select | list", "map(attribute='name') | list", "indent(1)", "round", "min",
           "d('q', true)", "tojson(indent=1)", "selectattr('age', 'defined') | list")
TESTS = ("defined", "none", "string", "mapping", "number", "iterable", "sequence", "true", "boolean", "odd", "in list", "eq 'a b'",
         "integer", "undefined", "not none", "not string", "upper", "sameas none")
SUFFIXES = (".name", ".items() | list", "[0]", "[-1]", ".strip()", ".split()", "['a']", ".get('a')", ".upper()", ".x",
            ".keys() | list", ".startswith('a')", "['name']", ".split('l')[0]")
# Only variables are sliced, because Jinja slices constants in another way: where Python fails, the
# result of Jinja is undefined.
SLICED = ("text", "word", "list", "words", "unicode", "users", "nested", "number", "dict", "missing", "mixed[1]")
SLICES = ("[1:]", "[::-1]", "[:2]", "[-2:]", "[::2]", "[1:-1]", "[5:1]", "[number:]", "[:negative:-1]")
OPERATORS = ("+", "-", "*", "~", "==", "!=", "<", ">=", "in", "not in", "and", "or", "//", "/")


class TemplateGenerator:
    """Random templates. About half of them fail, and Longstream must fail for the same ones."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def expression(self, depth):
        if depth == 0:
            return self.random.choice(ATOMS)
        makers = (
            (2, lambda: self.random.choice(ATOMS)),
            (4, lambda: f"{self.expression(depth - 1)} | {self.random.choice(FILTERS)}"),
            (2, lambda: f"({self.expression(depth - 1)}){self.random.choice(SUFFIXES)}"),
            (1, lambda: self.random.choice(SLICED) + self.random.choice(SLICES)),
            (2, lambda: f"{self.expression(depth - 1)} is {self.random.choice(TESTS)}"),
            (3, lambda: f"{self.expression(depth - 1)} {self.random.choice(OPERATORS)} {self.expression(depth - 1)}"),
            (1, lambda: f"({self.expression(depth - 1)} if {self.expression(depth - 1)} else {self.expression(depth - 1)})"),
            (1, lambda: f"not {self.expression(depth - 1)}"), (1, lambda: f"({self.expression(depth - 1)})"))
        weights, choices = zip(*makers)
        return self.random.choices(choices, weights)[0]()

    def space(self):
        return "".join(self.random.choices(" \n\t", (4, 3, 1), k=self.random.randint(0, 3)))

    def tag(self, inner):
        return "{%" + self.random.choice(("", "-", "+", "")) + f" {inner} " + self.random.choice(("", "-", "+", "")) + "%}"

    def body(self, depth):
        return "".join(self.piece(depth) for _ in range(self.random.randint(1, 2)))

    def piece(self, depth):
        makers = [lambda: self.space() + self.random.choice("ab.") + self.space(),
                  lambda: "{{" + self.random.choice(("", "-")) + f" {self.expression(2)} " + self.random.choice(("", "-")) + "}}",
                  lambda: self.space() + self.random.choice(("{# c #}", "{#- c #}", "{# c -#}")) + self.space(),
                  lambda: self.space() + self.tag(f"set x = {self.expression(2)}") + self.space()]
        if depth > 0:
            makers += [
                lambda: self.space() + self.tag(f"if {self.expression(2)}") + self.body(depth - 1) + self.tag("else") +
                self.body(depth - 1) + self.tag("endif") + self.space(),
                lambda: self.space() + self.tag(f"for x in {self.expression(1)}") + self.body(depth - 1) + "{{ loop.index }}" +
                self.tag("endfor") + self.space(),
                lambda: self.tag(f"for x in {self.expression(1)} if {self.expression(1)}") + self.body(depth - 1) + self.tag("endfor"),
                lambda: self.tag("set x") + self.body(depth - 1) + self.tag("endset")]
        return self.random.choice(makers)()

    def template(self):
        return "".join(self.piece(2) for _ in range(self.random.randint(1, 3)))
