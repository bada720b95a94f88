"""A generator of random templates that use every construct of Jinja that Longstream supports.

chat_constructs.TemplateGenerator combines everything with everything, so about half of its
templates fail at their first expression. This generator knows which type an expression has, so most
of its templates give a text, and deep combinations are reached.
"""

import random

import chat_constructs

VARIABLES = {**chat_constructs.VARIABLES, "tree": [{"n": 1, "c": [{"n": 2, "c": []}, {"n": 3}]}, {"n": 0, "c": [{"n": 4}]}]}
# The name `dict` would hide the function.
VARIABLES["keyed"] = VARIABLES.pop("dict")

WORDS = ("a", "b", "k", "AB", "x y", "", "é", "<t>", "a,b", "1", " p ", "a\\nb", "it\\'s", "ß", "-")
KEYS = ("'a'", "'b'", "1", "2", "0", "true", "none", "1.0", "2.5", "'1'", "(1, 'a')", "-1")
NAMES = ("x", "y", "z", "w")


WRITTEN = (
    # Filters and tests that do not exist: an error of the template, or of the branch that uses them.
    "{{ 1 | nofilter }}", "{{ 1 is notest }}", "{% if no %}{{ 1 | nofilter }}{% endif %}ok", "{% if no %}{{ 1 is notest }}{% endif %}ok", "{% if yes %}{{ 1 | nofilter }}{% endif %}",
    "{% if yes %}ok{% else %}{{ 1 | nofilter(2) }}{% endif %}", "{% if no %}{% elif no %}{{ 1 is not notest }}{% else %}ok{% endif %}", "{% if no and 1 | nofilter %}{% endif %}ok", "{% if 1 is notest %}{% endif %}",
    "{{ 'ok' if yes else 1 | nofilter }}", "{{ 1 | nofilter if no else 'ok' }}", "{{ 'ok' if yes or 1 is notest }}", "{{ (1 | nofilter if no) or 'ok' }}", "{{ no and 1 | nofilter }}", "{{ 1 | nofilter if yes else 2 }}",
    "{% if no %}{% for x in list %}{{ x | nofilter }}{% endfor %}{% endif %}", "{% if no %}{% for x in list | nofilter %}{% endfor %}{% endif %}ok", "{% if no %}{% for x in list if x is notest %}{% endfor %}{% endif %}",
    "{% if no %}{% set x %}{{ 1 | nofilter }}{% endset %}{% endif %}", "{% if no %}{% set x | nofilter %}{% endset %}{% endif %}", "{% if no %}{% filter nofilter %}{% endfilter %}{% endif %}", "{% macro m() %}{{ 1 | nofilter }}{% endmacro %}",
    "{% macro m() %}{% if no %}{{ 1 | nofilter }}{% endif %}ok{% endmacro %}{{ m() }}", "{% if no %}{% macro m() %}{{ 1 | nofilter }}{% endmacro %}{% endif %}", "{% if no %}{% call m() %}{{ 1 | nofilter }}{% endcall %}{% endif %}",
    "{% for x in [] %}{{ x | nofilter }}{% endfor %}", "{% for x in [] %}{% else %}{{ 1 is notest }}{% endfor %}", "{% if no %}{{ nofunction(1) }}{% endif %}ok", "{{ nofunction(1) }}", "{{ [] | map('nofilter') | list }}", "{{ [1] | map('nofilter') | list }}", "{{ [] | select('notest') | list }}", "{{ 1 | nofilter if no }}{{ 1 | nofilter }}",
    # Methods that cut and fill, formats, and filters of texts and lists.
    "{{ 'a-b-c'.partition('-') }}{{ 'a-b-c'.rpartition('-') }}{{ 'abc'.partition('-') }}{{ 'abc'.rpartition('-') }}", "{{ 'abc'.partition('') }}", "{{ 'abc'.partition(1) }}", "{{ (word ~ ' x').partition(' ')[0] }}", "{{ '7'.zfill(3) }}|{{ '-7'.zfill(4) }}|{{ '+'.zfill(3) }}|{{ ''.zfill(2) }}|{{ '1234'.zfill(2) }}|{{ word.zfill(9) }}", "{{ 'a'.zfill() }}", "{{ 'a'.zfill('3') }}",
    "[{{ 'ab'.center(5) }}][{{ 'ab'.center(4, '*') }}][{{ 'abc'.center(6, 'é') }}][{{ 'abc'.center(2) }}][{{ word.ljust(9, '.') }}][{{ word.rjust(9) }}][{{ 'a'.ljust(-3) }}]", "{{ 'a'.ljust(5, 'xy') }}", "{{ 'a'.rjust(5, '') }}", "[{{ 'foo' | center(9) }}][{{ 5 | center(4) }}][{{ 'x' | center }}]", "{{ word.casefold() }}{{ upper.casefold() }}{{ unicode.casefold() }}",
    "{% for w in ['a', 'a1', '1', '', '²', '½', '五', 'é', 'a b', '٣', '_', 'ab\\n', word, upper] %}{{ [w.isalnum(), w.isalpha(), w.isascii(), w.isdecimal(), w.isdigit(), w.isnumeric(), w.isprintable()] | map('int') | join }} {% endfor %}",
    "{{ '%s' % 'a' }}|{{ '%s-%s' % ('a', 1) }}|{{ '%d%%' % 7 }}|{{ '%5d|%-5d|%05d|%+d|% d' % (42, 42, 42, 42, 42) }}|{{ '%.2f|%8.3f|%-8.1f|%08.2f' % (real, real, real, real) }}|{{ '%x|%X|%o' % (255, 255, 8) }}", "{{ '%e|%E|%g|%G|%.3g' % (12345.678, 0.00012, 1e20, 1e-7, 12345.678) }}|{{ '%5s|%-5s|%.2s|%5.1s|' % ('abc', 'abc', 'abc', 'abc') }}|{{ '%r|%r|%r' % ('a', 1, none) }}|{{ '%s' % list }}|{{ '%s %s' % (yes, nothing) }}", "{{ '%(a)s-%(b)d' % {'a': 'x', 'b': 3} }}", "{{ '%*d|%-*d|%.*f' % (5, 42, 5, 42, 1, 2.25) }}", "{{ '%d' % 3.9 }}{{ '%d' % true }}{{ '%i' % -4 }}{{ '%u' % 4 }}", "{{ '%s' % missing }}|{{ 'abc' % missing }}|{{ 'abc' % {} }}|{{ 'abc' % [] }}|{{ 'abc' % () }}", "{{ '%.3d|%6.3d|%-6.2d|' % (5, 5, 5) }}", "{{ '%s' % () }}", "{{ '%s %s' % 'a' }}", "{{ 'abc' % 'a' }}", "{{ '%s' % ('a', 'b') }}", "{{ '%d' % 'a' }}", "{{ '%d' % nothing }}", "{{ '%d' % missing }}", "{{ '%x' % 1.5 }}", "{{ '%' % 1 }}", "{{ '%(a' % {} }}", "{{ '%(a)s' % 1 }}", "{{ '%(a)s' % {'b': 1} }}", "{{ '%f|%5.1f|%F' % (1e300 * 1e300, -1e300 * 1e300, 1e300 * 1e300) }}", "{{ '%s %s' | format('a', 2) }}", "{{ '%(x)s' | format(x=word) }}", "{{ 'abc' | format }}", "{{ '%s' | format }}", "{{ '%d' | format(1, x=2) }}", "{{ '%d items' | format(list | length) }}", "{{ 5 % 3 }}{{ 5 % '%s' }}",
    "{{ [1, 2, 3, 4, 5] | batch(2) | list }}{{ [1, 2, 3] | batch(2, 'x') | list }}{{ [] | batch(2) | list }}{{ 'abcd' | batch(3) | list }}{{ [1, 2] | batch(0) | list }}{{ [1, 2] | batch(-1, 7) | list }}{{ [1] | batch(4, none) | list }}", "{{ missing | batch(2) | list }}", "{{ [1] | batch | list }}", "{{ 5 | batch(2) | list }}", "{{ [1, 2, 3, 4, 5] | slice(3) | list }}{{ [1, 2, 3, 4] | slice(3, 'x') | list }}{{ [] | slice(2) | list }}{{ [1] | slice(-2) | list }}{{ 'abcde' | slice(2) | list }}", "{{ [1] | slice(0) | list }}",
    "{{ 'foo bar baz qux' | truncate(9) }}|{{ 'foo bar baz qux' | truncate(9, true) }}|{{ 'foo bar baz qux' | truncate(11) }}|{{ 'foo bar baz qux' | truncate(11, leeway=0) }}|{{ 'foo bar baz qux' | truncate(11, false, '..', 0) }}|{{ 'ééééééééééé' | truncate(5, leeway=0) }}|{{ ('a ' * 200) | truncate }}|{{ '' | truncate(3) }}", "{{ 'abc' | truncate(1) }}", "{{ 'abcdef' | truncate(3, leeway=-1) }}", "{{ 5 | truncate(3) }}", "{{ missing | truncate(3) }}",
    "{{ 'a b c_d e-f é1 ' | wordcount }}{{ '' | wordcount }}{{ 5 | wordcount }}{{ unicode | wordcount }}", "{{ 'a b/c?é&=~' | urlencode }}|{{ {'a b': 'c/d', 'é': 1} | urlencode }}|{{ [('x', 'y z')] | urlencode }}|{{ 5 | urlencode }}|{{ none | urlencode }}|{{ [] | urlencode }}", "{{ [1] | urlencode }}",
    '{{ \'<a href="x">\\\'&\' | e }}|{{ \'<\' | escape }}|{{ 5 | e }}|{{ \'<\' | safe | e }}|{{ \'<\' | safe | forceescape }}|{{ \'<\' | e | e }}|{{ (\'<\' | e) + \'>\' }}|{{ none | e }}|{{ missing | e }}|{{ [\'<\'] | e }}|{{ [\'<\', \'>\'] | map(\'e\') | join }}',
    "{{ deep | attr('x') }}|{{ deep | attr('nokey') is defined }}|{{ 'abc' | attr('upper') is defined }}|{{ ('abc' | attr('upper'))() }}|{{ (deep | attr('keys'))() | list }}|{{ 5 | attr('nothing') }}", "{{ missing | attr('x') }}", "{% set ns = namespace(a=4) %}{{ ns | attr('a') }}{{ ns | attr('b') }}", "{{ deep | attr(5) }}",
    # Arguments from lists and dicts.
    "{% macro m(a, b=2, c=3) %}[{{ a }},{{ b }},{{ c }}]{% endmacro %}{{ m(*[1]) }}{{ m(*[1, 4, 5]) }}{{ m(1, *[6]) }}{{ m(**{'a': 1}) }}{{ m(1, **{'c': 9}) }}{{ m(*[1], **{'b': 7}) }}{{ m(c=1, *[8]) }}{{ m(*(1, 2)) }}{{ m(*'xyz') }}{{ m(*missing) }}{{ m(*keyed) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(*[1, 2]) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, **{'a': 2}) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(**{1: 2}) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(*5) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(**[1]) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(a=1, **{'a': 2}) }}", "{{ m(**{}, *[]) }}", "{{ m(*[], 1) }}", "{{ m(**{}, a=1) }}", "{{ m(*[], *[]) }}", "{{ m(a=1, a=2) }}", "{{ m(**missing) }}", "{% if no %}{{ m(a=1, a=2) }}{% endif %}",
    "{{ range(*[1, 4]) | list }}{{ dict(**{'a': 1}, ) }}{{ namespace(**{'a': 1}).a }}{{ 'x,y,z'.split(*[',', 1]) }}{{ '{a}{}'.format(*[1], **{'a': 2}) }}{{ 'aXb' | replace(*['X', '-']) }}{{ words | join(**{'d': '+'}) }}{{ [1, 2] | map(*['string']) | list }}{{ 1 is eq(*[1]) }}{{ json.n | tojson(**{'indent': 1}) }}",
    "{% macro m(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m() }}{{ m(1) }}{{ m(1, 2, 3) }}{{ m(1, b=2) }}{{ m(1, *[2], c=3, **{'d': 4}) }}{{ m(1, a=2) }}", "{% macro m() %}{{ varargs | length }}{{ kwargs.x }}{% endmacro %}{{ m(1, 2, x=5) }}", "{% macro m(kwargs=1) %}{{ kwargs }}{% endmacro %}{{ m() }}{{ m(b=2) }}",
    "{% macro m(a, a) %}{% endmacro %}", "{% set a = 5 %}{% macro m(a=a) %}[{{ a }}]{% endmacro %}{{ m() }}{{ m(1) }}", "{% macro m(a=b, b=2) %}[{{ a }}{{ b }}]{% endmacro %}{{ m() }}{{ m(b=3) }}",
    # {% call %}.
    "{% macro m() %}<{{ caller() }}>{% endmacro %}{% call m() %}in{% endcall %}", "{% macro m(x) %}{{ x }}{{ caller(1, b=2) }}{% endmacro %}{% call(a, b=3, c=4) m('x') %}{{ a }}{{ b }}{{ c }}{% endcall %}", "{% macro m() %}{{ caller('q') }}{% endmacro %}{% call (a) m() %}{{ a }}{{ word }}{% endcall %}",
    "{% macro m(l) %}{% for i in l %}{{ caller(i) }}{% endfor %}{% endmacro %}{% for k in words %}{% call(v) m(list) %}{{ k }}{{ v }}{{ loop.index }} {% endcall %}{% endfor %}", "{% macro m() %}{{ caller() }}{{ caller() }}{% endmacro %}{% set n = namespace(i=0) %}{% call m() %}{% set n.i = n.i + 1 %}{{ n.i }}{% endcall %}",
    "{% macro m() %}{% endmacro %}{% call m() %}{% endcall %}", "{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}", "{% macro m() %}{{ caller is defined }}{% endmacro %}{{ m() }}{% call m() %}{% endcall %}", "{% call m %}{% endcall %}", "{% call 1 + 2 %}{% endcall %}", "{% call missing() %}{% endcall %}", "{% call dict(a=1) %}{% endcall %}", "{% call word.upper() %}{% endcall %}",
    "{% macro a() %}({{ caller() }}){% endmacro %}{% macro b() %}[{% call a() %}x{% endcall %}{{ caller() }}]{% endmacro %}{% call b() %}y{% endcall %}", "{% macro a() %}({{ caller() }}){% endmacro %}{% macro b() %}{% call a() %}{{ caller() }}{% endcall %}{% endmacro %}{% call b() %}y{% endcall %}",
    "{% macro m(caller) %}{{ caller() }}{% endmacro %}", "{% macro m(caller=none) %}{{ caller() }}{% endmacro %}{% call m() %}x{% endcall %}", "{% macro m() %}{{ caller(1) }}{% endmacro %}{% call m() %}x{% endcall %}", "{% macro m() %}{{ caller() }}{{ kwargs }}{{ varargs }}{% endmacro %}{% call m(1, *[2], x=3, **{'y': 4}) %}z{% endcall %}",
    "{% set ns = namespace() %}{% macro m() %}{% set ns.c = caller %}{% endmacro %}{% for x in list %}{% call m() %}{{ x }}{% endcall %}{{ ns.c() }}{% endfor %}", "{% for x in list %}{% macro m(y) %}{{ x }}{{ y }}{% endmacro %}{{ m(0) }} {% endfor %}", "{% if yes %}{% macro m() %}in{% endmacro %}{% endif %}{{ m() }}", "{% macro o() %}{% macro i() %}i{{ x }}{% endmacro %}{% set x = 1 %}{{ i() }}{% endmacro %}{{ o() }}",
    "{% for x in list %}{% call m() %}{% break %}{% endcall %}{% endfor %}", "{% for x in list %}{% generation %}{% break %}{% endgeneration %}{% endfor %}", "{% for x in list %}a{% filter upper %}b{% if x == 1 %}{% break %}{% endif %}{% endfilter %}{% endfor %}", "{% for x in list %}{% set y %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endset %}{{ y }}{% endfor %}",
    "{% macro m() %}{{ caller }}{% endmacro %}{% call m() %}{% endcall %}{{ m }}{% for x in list %}{{ loop }}{% endfor %}{{ '٣'.isdigit() }}{{ '²1'.isdigit() }}{{ 'é'.isdigit() }}{{ '½'.isdigit() }}{{ ''.isdigit() }}",
    "{% macro m() %}{{ kwargs | list }}{{ caller() }}{% endmacro %}{% call m(a=1, **{'b': 2}) %}x{% endcall %}", "{% macro m() %}{{ kwargs | list }}{% endmacro %}{% call m(a=1, **{'b': 2}) %}x{% endcall %}", "{% call m(caller=1) %}{% endcall %}", "{% macro m() %}{{ caller() }}{% endmacro %}{% call m(**{'caller': 1}) %}x{% endcall %}",
    # Keys that are not strings.
    "{% set d = {1: 'a', 2: 'b', 'c': 3} %}{{ d }}{{ d[1] }}{{ d.2 }}{{ d['1'] }}|{{ d[3] }}|{{ d.get(2) }}{{ d.get(5, 'q') }}{{ 1 in d }}{{ '1' in d }}{{ 1.0 in d }}{{ d | tojson }}{{ d | length }}{{ d | list }}{{ d.items() | list }}{{ d.keys() | list }}", "{{ {1: 'a', true: 'b', 1.0: 'c'} }}{{ {true: 1, 1: 2} }}{{ {0: 1, false: 2, -0.0: 3} }}{{ {none: 1}[none] }}{{ {1.5: 'x'}[1.5] }}{{ {2: 'x'}[2.0] }}",
    "{{ {true: 1, none: 2, 1.5: 3, 7: 4, '7': 5} | tojson }}{{ {3: 1, 1: 2} | tojson(sort_keys=true) }}{{ {1: [], 2: {}} | tojson(indent=1) }}", "{{ {1: 1, 'a': 2} | tojson(sort_keys=true) }}", "{{ {(1, 2): 1} | tojson }}", "{{ {(1, 2): 'p', (1,): 'q'}[(1, 2)] }}{{ {(1, 2): 1} }}", "{{ {[]: 1} }}", "{{ {{}: 1} }}", "{{ {1: 2}[[]] }}|", "{{ [] in {1: 2} }}", "{{ {1: 2}.get([]) }}",
    "{{ {missing: 1} }}", "{{ {2: 'b', 1: 'a'} | dictsort }}{{ {2: 'b', 1: 'a'} | dictsort(by='value') }}{{ {1: 2} == {true: 2} }}{{ {1: 2} == {'1': 2} }}{{ {1: 2} | items | list }}", "{{ {1: 2, 'a': 3} | dictsort }}", "{% for k, v in {1: 'a', 2: 'b'}.items() %}{{ k + 1 }}{{ v }}{% endfor %}{% for k in {1: 2, none: 3} %}{{ k }}{% endfor %}", "{{ dict({1: 2}, a=3) }}{{ dict([(1, 2), ('x', 3)]) }}{{ {1: {2: {3: 'deep'}}}[1][2][3] }}",
    "{% set n = namespace(d={}) %}{% for i in range(40) %}{% set n.d = dict(n.d, **{'k' ~ i: i}) %}{% endfor %}{{ n.d.k39 }}{{ n.d | length }}{% set m = namespace(d={}) %}{% for i in range(40) %}{% set m.d = dict(m.d.items() | list + [(i, 'v'), ('k' ~ i, i)]) %}{% endfor %}{{ m.d[39] }}{{ m.d['k0'] }}{{ m.d | length }}{{ m.d.get(40) }}",
    # Loops.
    "{% for x in tree recursive %}{{ x.n }}{{ loop.depth }}{{ loop.index }}/{{ loop.length }}{% if x.c %}({{ loop(x.c) }}){% endif %}{% endfor %}", "{% for x in tree recursive %}{{ loop(x.c) if x.c else 'leaf' }}{% else %}none{% endfor %}", "{% for x in list %}{{ loop(x) }}{% endfor %}", "{% for x in tree recursive %}{{ loop.depth0 }}{% for y in [1] %}{{ loop.depth }}{% endfor %}{{ loop(x.c) }}{% endfor %}",
    "{% set n = namespace(go=true) %}{% for x in list if n.go %}{{ x }}{{ loop.index }}{% set n.go = false %}{% endfor %}", "{% for x in list if x > 1 %}{{ loop.length }}{{ loop.revindex }}{{ loop.last }}{{ loop.nextitem }}{% endfor %}", "{% for x in [1, 1, 2, 2, 1] %}{{ loop.changed(x) }}{{ loop.changed(x, 2) }}{% endfor %}", "{% for x in list %}{% set loop = 1 %}{% endfor %}", "{% for loop in list %}{% endfor %}", "{% for (a, b), c in [((1, 2), 3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}", "{% for () in [[]] %}x{% endfor %}",
    "{% set (a, b) = [1, 2] %}{{ a }}{{ b }}{% set ns = namespace() %}{% set ns.a, b = 1, 2 %}{{ ns.a }}{{ b }}", "{% set true = 1 %}", "{% with a = 1, b = a %}{{ a }}{{ b }}{% endwith %}{{ a }}{% with %}{% set q = 1 %}{% endwith %}{{ q }}", "{% print 1, 'a' %}{% print %}.",
    # Numbers, ranges, texts.
    "{{ range(3) }}{{ range(1, 9, 3) }}{{ range(9)[2:7:2] }}{{ range(5)[::-1] }}{{ range(5)[1] }}{{ 2 in range(3) }}{{ range(3) == [0, 1, 2] }}{{ range(0) }}{{ [range(1)] }}", "{{ range(3) + [1] }}", "{{ range(3) * 2 }}", "{{ range(3) | tojson }}", "{{ 0 ** -1 }}", "{{ -0.5 | round(method='ceil') }}{{ (-0.5) | round(method='ceil') }}{{ (0 - 0.25) | round(1, 'ceil') }}", "{{ dict(missing) }}", "{{ 0.5 // -3.0 }}{{ 0.0 // -3 }}{{ 5.0 % -2.5 }}{{ -5.0 % 2.5 }}{{ -0.5 // 3 }}{{ 7.5 // -2 }}{{ -7.5 % 2 }}{{ 1e22 % -2.5 }}", "{{ [] is filter }}", "{{ {} is test }}", "{{ 0.0 ** -2 }}", "{{ 1e200 ** 2 }}", "{{ 2 ** -1 }}{{ 0 ** 0 }}{{ 2.0 ** 3 }}", "{{ 'inf' | float | int }}", "{{ 'inf' | int(3) }}{{ 'nan' | int }}",
    "{{ ' a b c '.split(none, 1) }}{{ ' a b c '.rsplit(none, 1) }}{{ ' a  b '.split(none, 5) }}{{ ' a '.split(none, 0) }}{{ 'a\n\nb\r\nc'.splitlines(true) }}{{ 'a\nb'.splitlines(keepends=false) }}", "{{ users | sort(attribute='name,age') | map(attribute='name') | list }}{{ [[2, 'a'], [1, 'b'], [2, 'B']] | sort(attribute='0,1') }}{{ 'ba' | list | sort(attribute='x') }}{{ [none, none] | sort }}{{ [(1, 2)] | max(attribute='x') }}",
)


class TypedGenerator:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.loops = 0
        self.macros = []
        self.callers = 0

    def pick(self, *choices):
        return self.random.choice(choices)

    def chance(self, share):
        return self.random.random() < share

    def of(self, kind, depth):
        """An expression of the kind, or sometimes of any other."""
        if self.chance(0.02):
            kind = self.pick("integer", "real", "text", "list", "dict", "bool", "any")
        expression = getattr(self, kind)(depth)
        if depth > 1 and self.chance(0.08):
            condition = self.bool(depth - 2)
            return self.pick(f"({expression} if {condition} else {getattr(self, kind)(depth - 2)})",
                             f"({expression} if {condition})", f"({expression} or {getattr(self, kind)(0)})")
        return expression

    def any(self, depth):
        return self.of(self.pick("integer", "real", "text", "list", "dict", "bool", "text", "list"), depth)

    def integer(self, depth):
        if depth <= 0:
            return self.pick("number", "negative", "0", "1", "2", "3", "7", "-1", "10", "users[0].age", "1_000", "list[0]")
        d = depth - 1
        return self.pick(
            lambda: f"({self.of('integer', d)} {self.pick('+', '-', '*', '//', '%')} {self.of('integer', d)})",
            lambda: f"({self.of('integer', d)} ** {self.pick('2', '0', '3')})", lambda: f"{self.of('list', d)} | length",
            lambda: f"{self.of('text', d)} | length", lambda: f"{self.of('dict', d)} | count", lambda: f"{self.of('any', d)} | int",
            lambda: f"{self.of('text', d)} | int({self.pick('5', 'default=-1', '0, 16', 'base=2')})",
            lambda: f"{self.of('integer', d)} | abs", lambda: f"({self.of('text', d)}).count({self.of('text', 0)})",
            lambda: f"({self.of('text', d)}).{self.pick('find', 'rfind')}({self.of('text', 0)})",
            lambda: f"{self.of('list', d)}.index({self.of('any', 0)})", lambda: f"[{self.integers(d)}] | {self.pick('sum', 'max', 'min', 'first', 'last')}",
            lambda: f"{self.of('real', d)} | round | int", lambda: f"-{self.of('integer', 0)}", lambda: f"+{self.of('integer', 0)}",
            lambda: f"{self.of('bool', d)} + 1")()

    def integers(self, depth):
        return ", ".join(self.of("integer", depth - 1) for _ in range(self.random.randint(1, 3)))

    def real(self, depth):
        if depth <= 0:
            return self.pick("real", "large", "small", "0.5", "-2.5", "1e3", "1.0", "3.14159", "2.675", "1e16", "123456789.125", "1e-5")
        d = depth - 1
        return self.pick(
            lambda: f"({self.of('integer', d)} / {self.of('integer', d)})", lambda: f"({self.of('real', d)} {self.pick('+', '-', '*', '//', '%', '/')} {self.of('real', d)})",
            lambda: f"({self.of('real', d)} {self.pick('+', '*', '-')} {self.of('integer', d)})", lambda: f"{self.of('any', d)} | float",
            lambda: f"{self.of('real', d)} | round({self.pick('1', '2', '0', '-1', '3')}{self.pick('', '', ', method=' + repr(self.pick('ceil', 'floor', 'common')))})",
            lambda: f"{self.of('integer', d)} | round({self.pick('1', '-1', '0', '0, method=' + repr(self.pick('ceil', 'floor')))})",
            lambda: f"({self.of('integer', d)} ** -1)", lambda: f"{self.of('real', d)} | abs", lambda: f"(2 ** {self.pick('0.5', '-2', '1.5')})",
            lambda: f"-{self.of('real', 0)}", lambda: f"{self.of('text', d)} | float({self.pick('1.5', 'default=2')})")()

    def bool(self, depth):
        if depth <= 0:
            return self.pick("yes", "no", "true", "false", "True", "list", "empty", "nothing", "missing", "number", "x is defined")
        d = depth - 1
        return self.pick(
            lambda: f"({self.of('any', d)} {self.pick('==', '!=')} {self.of('any', d)})",
            lambda: f"({self.of('integer', d)} {self.pick('<', '>', '<=', '>=', '==')} {self.of('real', d)})",
            lambda: f"({self.of('integer', d)} < {self.of('integer', d)} {self.pick('<', '<=', '!=', '==')} {self.of('integer', d)})",
            lambda: f"({self.of('text', d)} {self.pick('in', 'not in', '<', '>=', '==')} {self.of('text', d)})",
            lambda: f"({self.of('any', d)} {self.pick('in', 'not in')} {self.of('list', d)})", lambda: f"({self.key()} in {self.of('dict', d)})",
            lambda: f"({self.of('list', d)} {self.pick('<', '==', '!=')} {self.of('list', d)})",
            lambda: f"({self.of('bool', d)} {self.pick('and', 'or')} {self.of('bool', d)})", lambda: f"(not {self.of('bool', d)})",
            lambda: f"({self.of('any', d)} is {self.pick('', 'not ')}{self.test(d)})",
            lambda: f"({self.of('text', d)}).{self.pick('startswith', 'endswith')}({self.pick(self.of('text', 0), '(' + self.of('text', 0) + ', ' + self.of('text', 0) + ')')})",
            lambda: f"({self.of('text', d)}).{self.pick('isdigit', 'isspace', 'isupper', 'islower')}()")()

    def test(self, depth):
        return self.pick(
            "defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "mapping", "iterable", "sequence", "true", "false",
            "callable", "upper", "lower", "odd", "even", "escaped", f"in {self.of('list', 0)}", f"eq({self.of('any', depth)})", f"ne {self.of('any', 0)}",
            f"equalto({self.of('any', 0)})", f"divisibleby({self.pick('2', '3')})", f"divisibleby {self.pick('2', '3')}", "sameas none", "sameas(true)",
            f"gt({self.of('integer', 0)})", f"lt {self.pick('5', '1.5')}", f"ge({self.of('real', 0)})", f"lessthan({self.of('integer', 0)})", "filter", "test",
            f"in({self.of('list', 0)}, *[])", "eq(*[1])")

    def text(self, depth):
        if depth <= 0:
            return self.pick("text", "word", "empty", "lines", "unicode", "quoted", "upper", "users[0].name", *(f"'{word}'" for word in WORDS))
        d = depth - 1
        text = f"({self.of('text', d)})"
        return self.pick(
            lambda: f"({self.of('text', d)} {self.pick('+', '~')} {self.of('text', d)})", lambda: f"({self.of('any', d)} ~ {self.of('any', d)})",
            lambda: f"({self.of('text', d)} * {self.pick('0', '1', '2', '3', '-1', 'true')})", lambda: f"{self.of('any', d)} | string",
            lambda: f"{self.of('text', d)} | {self.filter_of_text(d)}", lambda: f"{self.of('any', d)} | tojson{self.json_arguments()}",
            lambda: text + self.slice(d), lambda: f"{text}[{self.pick('0', '1', '-1', '5')}]", lambda: f"{text}.{self.method_of_text(d)}",
            lambda: f"{self.of('list', d)} | join({self.pick('', self.of('text', 0), 'd=' + self.of('text', 0))})",
            lambda: f"({self.of('text', 0)}).join({self.of('list', d)} | map('string'))", lambda: f"users | join({self.of('text', 0)}, attribute='name')",
            lambda: f"'{self.pick('{} {}', '{1}{0}', '{{{0}}}', '{}')}'.format({self.of('integer', d)}, {self.of('any', d)})",
            lambda: self.call(d),
            lambda: f"strftime_now('{self.pick('%Y-%m-%d', '%d %B %Y', '%H:%M %p', '%-d %b %y', '%A %j')}')")()

    def json_arguments(self):
        return self.pick("", "", "(indent=2)", "(ensure_ascii=true)", "(sort_keys=true)", "(separators=(',', ':'))", "(false, 1)", "(indent=none)",
                         "(indent='--')", "(**{'indent': 1})", "(*[true, 2])")

    def filter_of_text(self, depth):
        return self.pick(
            "trim", "upper", "lower", "title", "capitalize", "string", "safe", "reverse", "first", "last", "default('d')", "d(1, true)",
            f"trim({self.of('text', 0)})", f"trim(chars={self.of('text', 0)})", f"replace({self.of('text', 0)}, {self.of('text', 0)})",
            f"replace({self.of('text', 0)}, {self.of('text', depth - 1)}, {self.pick('1', '2', 'count=1', '0')})", f"replace(old='a', new={self.of('text', 0)})",
            "indent", f"indent({self.pick('2', '0', 'width=1', repr('> '))}{self.pick('', ', true', ', first=true', ', blank=true')})",
            "indent(*[1, true])", "replace(*['a', 'q'])")

    def method_of_text(self, depth):
        short = self.of("text", 0)
        return self.pick(
            "upper()", "lower()", "title()", "capitalize()", "strip()", "lstrip()", "rstrip()", f"strip({short})", f"lstrip({short})", f"rstrip({short})",
            f"replace({short}, {self.of('text', depth - 1)})", f"replace({short}, {short}, {self.pick('1', '-1', '0')})", f"removeprefix({short})",
            f"removesuffix({short})", "strip(*[])", "strip(*['a'])")

    def slice(self, depth):
        bound = lambda: self.pick("", "", "0", "1", "2", "-1", "-2", "5", "none", f"({self.of('integer', depth)})")
        return f"[{bound()}:{bound()}{self.pick('', '', ':' + self.pick('1', '2', '-1', '-2', ''))}]"

    def list(self, depth):
        if depth <= 0:
            return self.pick("list", "words", "mixed", "nested", "users", "[]", "[1, 2, 3]", "(1, 'a')", "['b', 'a']", "range(3)", "deep.x.y", "()", "tree")
        d = depth - 1
        inner = f"({self.of('list', d)})"
        return self.pick(
            lambda: f"[{', '.join(self.of('any', d) for _ in range(self.random.randint(0, 3)))}]", lambda: f"({self.of('any', d)}, {self.of('any', d)})",
            lambda: f"({self.of('list', d)} + {self.of('list', d)})", lambda: f"({self.of('list', d)} * {self.pick('2', '0', '1')})", lambda: inner + self.slice(d),
            lambda: f"{inner} | {self.filter_of_list(d)}", lambda: f"({self.of('dict', d)}).{self.pick('keys()', 'values()', 'items()')} | list",
            lambda: f"({self.of('dict', d)}) | {self.pick('items | list', 'dictsort', 'list', 'dictsort(true)', 'dictsort(by=' + repr('value') + ')', 'dictsort(reverse=true)')}",
            lambda: f"({self.of('text', d)}).{self.pick('split', 'rsplit')}({self.pick('', self.of('text', 0), self.of('text', 0) + ', 1', 'none, 1', 'maxsplit=1')})",
            lambda: f"({self.of('text', d)}).splitlines({self.pick('', '', 'true', 'keepends=true')})", lambda: f"{self.of('text', d)} | list",
            lambda: f"range({self.pick('4', '1, 5', '5, 0, -2', '-3', '0, 10, 3')}) | list")()

    def filter_of_list(self, depth):
        test = self.pick("'defined'", "'none'", "'string'", "'eq', 1", "'in', [1, 2, 'a']", "'number'", "'gt', 1", "'sameas', none", "'odd'", "'mapping'", "")
        attribute = self.pick("'age'", "'name'", "'tags'", "0", "'0'", "'tags.0'", "'name', 'eq', 'bob'", "'age', 'defined'", "'age', 'gt', 5", "1")
        return self.pick(
            "list", "sort", "sort(reverse=true)", "sort(case_sensitive=true)", "sort(attribute='name')", "sort(attribute='age,name')", "reverse | list", "unique | list",
            "unique(case_sensitive=true) | list", "unique(attribute='name') | list", f"{self.pick('select', 'reject')}({test}) | list",
            f"{self.pick('selectattr', 'rejectattr')}({attribute}) | list", "map('string') | list", "map('upper') | list", "map('int', 3) | list",
            "map('default', 0) | list", "map('first') | list", "map('length') | list", f"map(attribute={self.pick(repr('name'), repr('age'), '0', repr('tags.0'))}{self.pick('', ', default=7')}) | list",
            "map('join', '-') | list", "map('tojson') | list", "map('list') | list", "list | reverse | list", f"map(*['replace', 'a', {self.of('text', 0)}]) | list", "map('d', **{'boolean': true}) | list",
            "min", "max", "sum", "first", "last", "sum(start=1)", "max(attribute='age')", "min(case_sensitive=true)", "map('unknown') | list", "select('unknown') | list")

    def key(self):
        return self.pick(*KEYS)

    def dict(self, depth):
        if depth <= 0:
            return self.pick("keyed", "json", "deep", "users[0]", "{}", "{'a': 1}", "{1: 'one', 2: 'two'}", "{true: 'T', none: 'N', 1.5: 'F'}")
        d = depth - 1
        return self.pick(
            lambda: "{" + ", ".join(f"{self.key()}: {self.of('any', d)}" for _ in range(self.random.randint(0, 4))) + "}", lambda: f"dict({self.of('dict', d)}, a={self.of('any', d)})",
            lambda: f"dict(**{self.of('dict', 0)})", lambda: f"dict([(1, {self.of('any', d)}), ({self.key()}, 2)])", lambda: f"({self.of('dict', d)}).copy()",
            lambda: f"({self.of('dict', d)}).get({self.key()}, {self.of('dict', 0)})", lambda: f"{{{self.of('integer', d)}: {self.of('any', d)}}}")()

    def access(self, depth):
        inner = f"({self.of('dict', depth - 1)})"
        return self.pick(f"{inner}[{self.key()}]", f"{inner}.get({self.key()})", f"{inner}.get({self.key()}, {self.of('any', 0)})", f"{inner}.a", f"{inner}.1", f"({self.of('list', depth - 1)})[{self.pick('0', '-1', '1', '9')}]")

    def call(self, depth):
        if not self.macros:
            return self.of("text", depth - 1)
        name = self.random.choice(self.macros)
        positional = ", ".join(self.of("any", depth - 1) for _ in range(self.random.randint(0, 2)))
        more = self.pick("", "", "b=" + self.of("any", 0), f"*{self.of('list', depth - 1)}", "**{'b': 1}", f"*[1], **{{'a': {self.of('any', 0)}}}", f"b=2, *{self.of('list', 0)}", "c=1")
        return f"{name}({', '.join(part for part in (positional, more) if part)})"

    # Statements.

    def tag(self, inner):
        return "{%" + self.pick("", "", "-", "+") + f" {inner} " + self.pick("", "", "-", "+") + "%}"

    def space(self):
        return "".join(self.random.choices(" \n\t", (4, 3, 1), k=self.random.choice((0, 0, 1, 2))))

    def body(self, depth):
        return "".join(self.space() + self.statement(depth) for _ in range(self.random.randint(1, 3)))

    def printed(self):
        expression = self.pick(lambda: self.of("any", 2), lambda: self.of("any", 1), lambda: self.access(2), lambda: self.random.choice(NAMES), lambda: self.of("text", 3), lambda: self.of("list", 3))()
        return "{{" + self.pick("", "", "-") + f" {expression} " + self.pick("", "", "-") + "}}" + self.pick("", "|", ";")

    def statement(self, depth):
        if depth <= 0:
            return self.pick(self.printed, self.printed, lambda: self.pick("t", "\n", " . "), lambda: self.tag(f"set {self.random.choice(NAMES)} = {self.of('any', 2)}"),
                             self.in_loop, self.in_macro, lambda: "{#" + self.pick("", "-") + " c " + self.pick("", "-") + "#}")()
        d = depth - 1
        return self.pick(
            self.printed, self.printed, lambda: self.if_tag(d), lambda: self.if_tag(d), lambda: self.for_tag(d), lambda: self.for_tag(d), lambda: self.recursive(), lambda: self.macro(d), lambda: self.call_tag(d),
            lambda: self.call_tag(d), lambda: self.tag(f"set {self.random.choice(NAMES)}{self.pick('', '', ' | upper', ' | trim | replace(' + repr('a') + ', 2)')}") + self.body(d) + self.tag("endset"),
            lambda: self.tag(f"set {self.pick('x, y', '(x, y)', 'x, (y, z)', 'x, y, z')} = {self.pick('1, 2', '(1, (2, 3))', '[1, 2]', repr('ab'), self.of('list', 1))}"),
            lambda: self.tag(f"filter {self.pick('upper', 'trim', 'indent(1)', 'replace(' + repr('a') + ', ' + repr('b') + ')')}") + self.body(d) + self.tag("endfilter"),
            lambda: self.tag(f"with {self.pick('x = ' + self.of('any', 1), 'x = 1, y = x', '')}") + self.body(d) + self.tag("endwith"), lambda: self.tag("generation") + self.body(d) + self.tag("endgeneration"),
            lambda: self.namespace(), lambda: self.tag(f"print {self.of('any', 1)}, {self.of('text', 1)}"), lambda: "{% raw %}" + self.space() + "{{ x }}" + self.space() + "{% endraw %}")()

    def in_loop(self):
        if not self.loops:
            return self.printed()
        name = self.pick("index", "index0", "first", "last", "length", "revindex", "revindex0", "previtem", "nextitem", "depth", "depth0", "cycle('a', 'b')", "changed(x)", "cycle(*list)")
        return self.pick(f"{{{{ loop.{name} }}}}", f"{{{{ loop.{name} }}}}", self.tag(f"if {self.of('bool', 1)}") + self.tag(self.pick("break", "continue")) + self.tag("endif"))

    def in_macro(self):
        return self.pick("{{ varargs }}", "{{ kwargs }}", "{{ caller() }}", "{{ caller(1, 'q') }}", "{{ caller(x=2) }}", "{{ caller is defined }}", "{{ a }}", "{{ b }}") if self.callers else self.printed()

    def if_tag(self, depth):
        text = self.tag(f"if {self.of('bool', 2)}") + self.body(depth)
        if self.chance(0.1):
            text += self.tag("elif no") + "{{ x | unknown }}{{ x is unknown }}"
        if self.chance(0.3):
            text += self.tag(f"elif {self.of('bool', 1)}") + self.body(depth)
        if self.chance(0.5):
            text += self.tag("else") + self.body(depth)
        return text + self.tag("endif")

    def for_tag(self, depth):
        head = self.pick(
            lambda: f"for x in {self.of('list', 1)}", lambda: f"for x in {self.of('list', 1)} if {self.pick('x', self.of('bool', 1), 'x is string', 'loop is defined', 'not ns.done')}", lambda: "for x, y in nested",
            lambda: f"for x, y in ({self.of('dict', 1)}).items()", lambda: f"for x in {self.of('text', 1)}", lambda: f"for x in ({self.of('dict', 1)})", lambda: "for (x, y), z in [((1, 2), 3)]")()
        self.loops += 1
        text = self.tag(head) + self.body(depth)
        self.loops -= 1
        if self.chance(0.3):
            text += self.tag("else") + self.body(depth)
        return text + self.tag("endfor")

    def recursive(self):
        inner = self.pick("{{ loop(x.c) }}", "{% if x.c %}[{{ loop(x.c) }}]{% endif %}", "{{ loop(x.c) | upper }}", "{% set y = loop(x.c) %}{{ y }}{{ y }}")
        return self.tag(self.pick("for x in tree recursive", "for x in tree if x.n recursive")) + "{{ x.n }}" + self.pick("", "{{ loop.depth }}", "{{ loop.index }}/{{ loop.length }}", "{{ loop.last }}") + inner + self.pick("", "{% else %}e") + self.tag("endfor")

    def macro(self, depth):
        name = f"m{len(self.macros)}"
        loops, self.loops = self.loops, 0
        self.callers += 1
        parameters = self.pick("", "a", "a, b=2", "a=x, b=a", "a='d', b=[]", "b=c, c=1", "a, caller=none")
        text = self.tag(f"macro {name}({parameters})") + self.body(depth) + self.in_macro() + self.tag("endmacro")
        self.loops = loops
        self.callers -= 1
        self.macros.append(name)
        return text + self.pick("", "{{ " + self.call(1) + " }}")

    def call_tag(self, depth):
        if not self.macros:
            return self.macro(depth)
        loops, self.loops = self.loops, 0
        text = self.tag(f"call{self.pick('', '', '(x)', '(a, b=1)', '(x, y=x)')} {self.call(1)}") + self.body(depth) + self.tag("endcall")
        self.loops = loops
        return text

    def namespace(self):
        return "{% set ns = namespace(n=0, done=false) %}" + self.pick(
            "{% for x in list %}{% set ns.n = ns.n + x %}{% endfor %}{{ ns.n }}", "{% for x in list if not ns.done %}{{ loop.index }}{% set ns.done = x == 1 %}{% endfor %}",
            "{% set ns.l = [] %}{% for x in words %}{% set ns.l = ns.l + [x] %}{% endfor %}{{ ns.l }}", "{% set ns.n, ns.q = 1, 2 %}{{ ns.n }}{{ ns.q }}{{ ns.nope }}", "{{ namespace({'q': 1}, **keyed).q }}")

    def template(self):
        self.loops, self.macros, self.callers = 0, [], 0
        return self.body(self.pick(1, 2, 2, 3))
