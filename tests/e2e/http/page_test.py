"""The web page in headless Chromium, against a server with the demo models.

LONGSTREAM_PAGE_URL: the page of another server, which has the models of this test. `plain` is dense
without a chat template. LONGSTREAM_PAGE_PICTURES: a folder for pictures that people look at.
"""

import json
import os
import pathlib
import sys
import time
import unittest
import urllib.request
import uuid

from browser import Browser

SOURCE = pathlib.Path(os.environ["LONGSTREAM_SOURCE_DIR"])
sys.path.append(str(SOURCE / "tests/client/python"))
from server_process import ServerProcess  # noqa: E402

HOSTILE = '<img src=x onerror="window.ran=1"><script>window.ran=1</script><b>bold</b>'
ENDED = 'document.querySelector("#send").hidden === false'
TEXT = ".text:not(.thoughts .text)"  # without the thoughts
ANSWERS = '[...document.querySelectorAll(".turn:last-child .answer {}")].map(e => e.textContent)'


def setUpModule():
    global server, browser, url
    url = os.environ.get("LONGSTREAM_PAGE_URL")
    server = None
    if not url:
        server = ServerProcess(["--http-listen", "127.0.0.1:0", "--model",
                                f"plain={SOURCE / 'models/demo/dense'}"])
        url = f"http://127.0.0.1:{server.http_port}/"
    browser = Browser()


def tearDownModule():
    browser.close()
    if server:
        server.close()


def api(path, body):
    """The answer of the HTTP API, without the page."""
    request = urllib.request.Request(url + path, json.dumps(body).encode())
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


class PageTest(unittest.TestCase):

    def setUp(self):
        self.page = browser.open(url)
        self.expected_problems = 0
        self.page.look(1200)
        self.page.wait('[...document.querySelectorAll("#model option")].length >= 4 && '
                       '![...document.querySelectorAll("#model option")].some(e => e.disabled)')
        self.page.choose("#model", "dense")
        self.page.click("#settings summary")
        self.page.type("#temperature", "0")
        self.page.type("#max_tokens", "24")

    def tearDown(self):
        self.assertEqual(len(self.page.problems), self.expected_problems, self.page.problems)
        self.page.close()

    def ask(self, question, wait=True):
        self.page.type("#question", question)
        self.page.press_enter()
        if wait:
            self.page.wait(ENDED)

    def answers(self, part):
        return self.page.evaluate(ANSWERS.format(part))

    @staticmethod
    def unread(text):
        """A question that no session has read."""
        return f"# {uuid.uuid4()}\n{text}"

    def open_part(self, part):
        self.page.click(f'nav a[data-part="{part}"]')
        self.page.wait(f'!document.querySelector("#{part}-part").hidden')

    # Texts of the model.

    def test_a_streamed_chat_is_the_answer_of_the_api(self):
        self.page.type("#system", "Python")
        self.ask("import os")
        messages = [{"role": "system", "content": "Python"}, {"role": "user", "content": "import os"}]
        first = api("v1/chat/completions", {"model": "dense", "messages": messages,
                                            "max_tokens": 24, "temperature": 0})
        text = first["choices"][0]["message"]["content"]
        self.assertEqual(self.answers(TEXT), [text])
        # Shift+Enter begins a line and sends nothing.
        self.page.type("#question", "class A:")
        self.page.press_enter(shift=True)
        self.page.call("Input.insertText", text="    def f():")
        self.page.press_enter()
        self.page.wait(ENDED)
        messages += [{"role": "assistant", "content": text},
                     {"role": "user", "content": "class A:\n    def f():"}]
        second = api("v1/chat/completions", {"model": "dense", "messages": messages,
                                             "max_tokens": 24, "temperature": 0})
        self.assertEqual(self.answers(TEXT),
                         [second["choices"][0]["message"]["content"]])
        summary = self.answers(".summary")[0]
        self.assertRegex(summary, r"^(continued|forked); \d+ of \d+ prompt tokens cached; 24 tokens; "
                                  r"first token [\d.,]+\sm?s")

    def test_two_models_answer_side_by_side(self):
        self.page.choose("#second", "hypenet")
        question = self.unread("import re")
        self.ask(question)
        texts = self.answers(TEXT)
        # Each model goes on with its own answer.
        self.ask("import sys")
        for text in self.answers(".summary"):
            self.assertTrue(text.startswith("continued"), text)
        expected = [api("v1/chat/completions", {
            "model": model, "messages": [{"role": "user", "content": question}], "max_tokens": 24,
            "temperature": 0})["choices"][0]["message"]["content"] for model in ("dense", "hypenet")]
        self.assertEqual(texts, expected)
        self.assertEqual(self.answers(".name"), ["dense", "hypenet"])
        left = '[...document.querySelectorAll(".turn:last-child .answer")].map(' \
            'e => e.getBoundingClientRect().{})'
        tops, lefts = self.page.evaluate(left.format("top")), self.page.evaluate(left.format("left"))
        self.assertEqual(tops[0], tops[1])
        self.assertLess(lefts[0], lefts[1])
        self.page.look(390)
        tops, lefts = self.page.evaluate(left.format("top")), self.page.evaluate(left.format("left"))
        self.assertLess(tops[0], tops[1])
        self.assertEqual(lefts[0], lefts[1])

    def test_an_edited_question_forks_the_session(self):
        first = self.unread("import json")
        self.ask(first)
        self.ask("def g():")
        self.assertIn("continued", self.answers(".summary")[0])
        self.page.click(".turn:last-child .edit")
        self.page.type(".editing", "def h():")
        self.page.press_enter()
        self.page.wait(ENDED)
        self.assertEqual(self.page.evaluate(
            '[...document.querySelectorAll(".question .text")].map(e => e.textContent)'),
            [first, "def h():"])
        self.assertIn("forked", self.answers(".summary")[0])
        self.page.click(".turn:last-child .again")
        self.page.wait(ENDED)
        self.assertIn("forked", self.answers(".summary")[0])
        self.assertEqual(self.page.evaluate('document.querySelectorAll(".turn").length'), 2)
        self.page.click("#clear")
        self.page.click("#confirm-yes")
        self.page.wait('document.querySelectorAll(".turn").length === 0')

    def test_markup_of_a_model_stays_text(self):
        # The server lets the model write nothing but this.
        self.page.evaluate(f"""(real => {{ window.fetch = (path, options) => {{
            if (!options.body) return real(path, options);
            const body = JSON.parse(options.body);
            body.structured_outputs = {{choice: [{json.dumps(HOSTILE)}]}};
            body.chat_template_kwargs = {{enable_thinking: false}};
            return real(path, {{...options, body: JSON.stringify(body)}});
        }}; }})(window.fetch)""")
        self.page.type("#max_tokens", "200")
        self.ask(HOSTILE)
        self.assertEqual(self.answers(TEXT), [HOSTILE])
        self.assertEqual(self.page.evaluate(
            '[window.ran, document.querySelectorAll(".turn :is(img, script, b)").length]'), [None, 0])
        self.assertEqual(self.page.problems, [])
        # The policy stops scripts even in a page that fails to keep a text a text.
        self.page.evaluate('''document.querySelector(".turn").innerHTML =
            '<img src="data:," onerror="window.ran=1">', new Promise(done => setTimeout(done, 300))''')
        self.assertIsNone(self.page.evaluate("window.ran"))
        self.assertIn("Content Security Policy", self.page.problems[0])
        self.expected_problems = 1

    def test_thoughts_are_folded(self):
        self.page.evaluate("""(real => { window.fetch = (path, options) => {
            if (!options.body) return real(path, options);
            const body = {...JSON.parse(options.body), chat_template_kwargs: {enable_thinking: true}};
            return real(path, {...options, body: JSON.stringify(body)});
        }; })(window.fetch)""")
        self.ask("import re")
        self.assertEqual(self.page.evaluate(
            '(e => [e.hidden, e.open, e.querySelector(".text").textContent.length > 0])'
            '(document.querySelector(".thoughts"))'), [False, False, True])

    def test_a_model_without_a_template_continues_a_text(self):
        self.page.choose("#model", "plain")
        self.assertIn("no chat template", self.page.text("#mode"))
        self.ask("import os\n")
        first = api("v1/completions", {"model": "plain", "prompt": "import os\n", "max_tokens": 24,
                                       "temperature": 0})["choices"][0]["text"]
        self.assertEqual(self.answers(TEXT), [first])
        self.ask("")  # goes on behind the answer
        second = api("v1/completions", {"model": "plain", "prompt": "import os\n" + first,
                                        "max_tokens": 24, "temperature": 0})["choices"][0]["text"]
        self.assertEqual(self.answers(TEXT), [second])

    def test_aliases_may_be_chosen_and_loading_models_not(self):
        self.page.evaluate("""(real => { window.fetch = async (path, options) => {
            if (path !== "longstream/models") return real(path, options);
            const list = await (await real(path, options)).json();
            list.aliases = [{name: "auto", arms: [{model: "hwfa2", weight: 1}]}];
            list.models.find(model => model.name === "hypenet").state = "MODEL_STATE_LOADING";
            return new Response(JSON.stringify(list));
        }; })(window.fetch)""")
        self.ask_again()
        self.page.wait('!!document.querySelector("#model optgroup option[value=auto]")')
        self.assertEqual(self.page.evaluate('document.querySelector("#model").value'), "dense")
        self.assertEqual(self.page.evaluate(
            '[...document.querySelectorAll("#model option:disabled")].map(e => e.textContent)'),
            ["hypenet (loading)"])

    # Errors.

    def test_stop_keeps_what_came(self):
        self.page.type("#max_tokens", "20000")
        self.ask("import os", wait=False)
        self.page.wait('document.querySelector(".answer .text:not(.thoughts .text)")?.textContent.length > 20')
        self.page.click("#stop")
        self.page.wait(ENDED)
        text = self.page.text(".answer .text:not(.thoughts .text)")
        self.assertGreater(len(text), 20)
        self.assertIn("stopped", self.answers(".summary")[0])
        time.sleep(0.3)
        self.assertEqual(self.page.text(".answer .text:not(.thoughts .text)"), text)
        self.page.type("#max_tokens", "24")
        self.ask("go on")
        self.assertRegex(self.answers(".summary")[0], "continued|forked|new")

    def test_an_error_is_shown_and_nothing_typed_is_lost(self):
        self.page.type("#max_tokens", "-1")
        self.ask("import os")
        self.assertEqual(self.answers(".error"), [
            "max_tokens: expected a whole number in 1 ... 4294967295, found -1"])
        self.assertEqual(self.page.evaluate('document.querySelector("#question").value'), "import os")
        self.assertTrue(self.page.evaluate('document.querySelector("#max_tokens").ariaInvalid'))
        self.expected_problems = 1  # Chromium reports each answer with an error
        self.assertIn("400", self.page.problems[0])
        self.page.type("#max_tokens", "24")
        self.page.click("#send")
        self.page.wait(ENDED)
        self.assertEqual(self.page.evaluate('document.querySelectorAll(".turn").length'), 1)
        self.assertIn("24 tokens", self.answers(".summary")[0])

    def test_what_came_before_the_connection_broke_stays(self):
        self.page.evaluate("""(real => { window.fetch = async (path, options) => options.body
            ? new Response(': prefill 1 of 2 tokens\\n\\n' + 'data: {"choices": [{"delta": {"content": "The'
                           + ' beginning"}}]}\\n\\n' + end)
            : real(path, options); window.end = ""; })(window.fetch)""")
        self.ask("import os")
        self.assertEqual(self.answers(TEXT), ["The beginning"])
        self.assertEqual(self.answers(".error"), ["The connection ended before the answer did."])
        self.page.evaluate("window.end = 'data: {\"error\": {\"message\": \"No memory.\"}}\\n\\n'")
        self.page.click(".turn:last-child .again")
        self.page.wait(ENDED)
        self.assertEqual(self.answers(TEXT), ["The beginning"])
        self.assertEqual(self.answers(".error"), ["No memory."])

    def test_a_server_that_wants_a_key_says_so(self):
        self.page.evaluate("""(real => { window.fetch = async (path, options) =>
            options.headers.Authorization ? real(path, options) : new Response(
                '{"error": {"message": "No credential.", "param": null}}', {status: 401});
        })(window.fetch)""")
        self.ask_again()
        self.page.wait('!document.querySelector("#notice").hidden')
        self.assertEqual(self.page.text("#notice"), "No credential. Type the API key above.")
        self.page.type("#key", "a-key")
        self.page.press_enter()
        self.page.wait('document.querySelector("#notice").hidden')
        self.page.type("#key", "")
        self.page.press_enter()

    def test_the_key_is_sent_and_kept_for_the_tab(self):
        self.page.evaluate("""(real => { window.keys = []; window.fetch = (path, options) => {
            keys.push(options.headers.Authorization); return real(path, options);
        }; })(window.fetch)""")
        self.page.type("#key", "a-key")
        self.page.press_enter()
        self.page.wait('keys.includes("Bearer a-key")')
        self.assertEqual(self.page.evaluate(
            '[{...sessionStorage}, {...localStorage}, document.cookie]'),
            [{"longstream.key": "a-key"}, {}, ""])
        self.page.type("#key", "")
        self.page.press_enter()
        self.page.wait('!keys.at(-1) && sessionStorage.length === 0')

    def ask_again(self):
        """Lets the page ask for models and sessions, as if the tab was hidden and is shown again."""
        self.page.evaluate('document.dispatchEvent(new Event("visibilitychange"))')

    # Sessions and plots.

    def test_sessions_are_listed_and_ended(self):
        self.ask(self.unread("import socket"))
        holds = self.page.wait('document.querySelector(".holds").textContent')
        session = holds.split()[2]
        self.open_part("sessions")
        row = f'tr[data-session^="{session}"]'
        self.page.wait(f"""!!document.querySelector('{row}')""")
        cells = self.page.evaluate(
            f"""[...document.querySelectorAll('{row} td')].map(e => e.textContent)""")
        self.assertEqual(cells[0], "dense")
        self.assertRegex(cells[1], r"^\d+ of 32,768$")
        self.assertRegex(cells[2], r"^\d+\sKiB$")
        self.assertRegex(self.page.text("#memory"), "denseSessions hold|dense dense, cpuSessions hold")
        self.page.click(f"{row} button[aria-label^=Read]")
        self.page.wait("""document.querySelectorAll("#history .entry").length === 2""")
        self.assertEqual(self.page.text("#history .entry h3"), "Prompt")  # the server has no store
        self.assertRegex(self.page.text("#history .entry .text"), "import socket")
        self.page.click("#history-close")
        end = f"{row} button[aria-label^=End]"
        self.page.click(end)
        # The dialog opens again before the page has heard that it was closed.
        self.page.evaluate(f"""document.querySelector("#confirm-no").click(),
                               document.querySelector('{end}').click()""")
        self.page.click("#confirm-yes")
        self.page.wait(f"""!document.querySelector('{row}')""")

    def test_more_sessions_are_shown_if_asked_for(self):
        for _ in range(3):
            api("v1/chat/completions", {"model": "hwfa2", "max_tokens": 1,
                                        "messages": [{"role": "user", "content": str(time.time())}]})
        self.page.evaluate("""(real => { window.fetch = (path, options) => real(
            path.replace("page_size=1000", "page_size=2"), options); })(window.fetch)""")
        self.open_part("sessions")
        rows = 'document.querySelectorAll("#session-rows tr").length'
        self.page.wait(f"{rows} === 2")
        self.page.click("#more")
        self.page.wait(f"{rows} > 2")

    def test_a_hidden_tab_asks_nothing(self):
        self.page.evaluate("""(real => { window.calls = 0; window.fetch = (path, options) => {
            ++calls; return real(path, options); }; })(window.fetch)""")
        self.page.evaluate('location.hash = "sessions"')
        self.page.wait("calls >= 2")
        self.page.evaluate('Object.defineProperty(document, "hidden", {value: true, configurable: true}), '
                           'new Promise(done => setTimeout(done, 500)).then(() => { window.calls = 0; })')
        time.sleep(2.5)
        self.assertEqual(self.page.evaluate("calls"), 0)
        self.page.evaluate('delete document.hidden, '
                           'document.dispatchEvent(new Event("visibilitychange"))')
        self.page.wait("calls >= 2")

    def test_plots_show_the_answers_and_what_sessions_hold(self):
        self.page.type("#max_tokens", "300")
        self.page.choose("#second", "hypenet")
        self.ask("import os\n" * 20)
        self.open_part("plots")
        for figure, mark in (("#plot-first", "circle.point"), ("#plot-speed", "circle.point"),
                             ("#plot-load", "path.line"), ("#plot-memory", "path.area")):
            self.page.wait(f"""document.querySelectorAll('{figure} [role=img] > {mark}').length >= 2""")
        names = self.page.evaluate('[...document.querySelectorAll("svg[role=img]")].map(e => e.ariaLabel)')
        self.assertGreaterEqual(len(names), 7)
        self.assertTrue(all(names), names)
        self.assertFalse(self.page.evaluate(
            '[...document.querySelectorAll("svg[role=img] path")].some(e => /NaN|Infinity/.test(e.outerHTML))'))

    # How it looks.

    def test_it_fits_a_phone_and_a_screen(self):
        pictures = os.environ.get("LONGSTREAM_PAGE_PICTURES")
        self.page.choose("#second", "hypenet")
        self.ask("x" * 300)
        self.page.choose("#second", "")
        self.ask("import os")
        backgrounds = {}
        for part in ("chat", "sessions", "plots"):
            self.page.look(1200)
            self.open_part(part)
            for width in (390, 1200):
                for dark in (False, True):
                    self.page.look(width, dark)
                    needed, there, backgrounds[dark] = self.page.evaluate(
                        '[document.documentElement.scrollWidth, innerWidth, '
                        'getComputedStyle(document.body).backgroundColor]')
                    self.assertEqual((needed, there), (width, width), part)
                    if pictures:
                        time.sleep(0.3)
                        self.page.picture(f"{pictures}/{part}-{width}-{'dark' if dark else 'light'}.png")
        self.assertNotEqual(backgrounds[False], backgrounds[True])

    def test_controls_have_names(self):
        self.ask("import os")
        for part in ("chat", "sessions", "plots"):
            self.open_part(part)
            unnamed = [node["role"]["value"] for node in self.page.call(
                "Accessibility.getFullAXTree")["nodes"] if not node["ignored"]
                and node["role"]["value"] in ("button", "textbox", "combobox", "img", "meter", "link")
                and not node.get("name", {}).get("value")]
            self.assertEqual(unnamed, [])


if __name__ == "__main__":
    unittest.main()
