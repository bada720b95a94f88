"""Writes tests/golden/chat: chat templates as transformers renders them.

The templates in <golden>/templates were written for these tests and use the constructs of the model
families' templates. For each template, <golden>/<name>.json has conversations with the text that
apply_chat_template returns, or with the information that apply_chat_template fails. constructs.json
and typed.json have small templates, some written by hand and some random, with the text that the
same Jinja environment makes of them. tokens.json has conversations as ids. For a wider comparison,
--cases, --constructs and --seed make longer lists of others, and --templates uses other templates. The C++
parity test reads these from the directory that LONGSTREAM_CHAT_GOLDEN names, which then also
contains the templates.
"""

import argparse
import contextlib
import copy
import datetime
import json
import pathlib
import random
import shutil

from transformers import PreTrainedTokenizerFast
from transformers.utils import chat_template_utils
import jinja2

import chat_constructs
import chat_typed
from tokenizer_texts import TextGenerator, stdlib_words

TESTS = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"
GOLDEN = TESTS / "chat"
NOW = datetime.datetime(2026, 3, 5, 14, 7, 9)

TOOLS = [
    {"type": "function", "function": {
        "name": "get_weather", "description": "The weather of a place.\nNow.",
        "parameters": {"type": "object", "required": ["place"], "properties": {
            "place": {"type": "string", "description": "A town, such as Zürich"},
            "unit": {"type": "string", "enum": ["C", "F"], "default": "C"},
            "days": {"type": ["integer", "null"], "default": 1}}}}},
    {"type": "function", "function": {
        "name": "sum", "description": "Adds <numbers> & 'more'", "parameters": {
            "type": "object", "properties": {
                "values": {"type": "array", "items": {"type": "number"}},
                "how": {"oneOf": [{"type": "string", "description": "a name"},
                                  {"type": "object", "properties": {"exact": {"type": "boolean"}}}]}}}}},
    {"type": "function", "function": {"name": "noop"}},
]
ARGUMENTS = [{"place": "Zürich", "unit": "C"}, {"values": [1, 2.5, -3e20, 1e-7, 0.1]}, {}, "{\"a\": 1}",
             {"deep": {"list": [[], {}, None, True, "\u2028\u007f\"\\"]}}]


@contextlib.contextmanager
def fixed_time():
    class Clock(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return NOW
    before = chat_template_utils.datetime
    chat_template_utils.datetime = Clock
    try:
        yield
    finally:
        chat_template_utils.datetime = before


class ConversationGenerator:
    """Random conversations. Most are valid; in some, members are missing or have wrong types."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.texts = TextGenerator(seed, stdlib_words()[1])

    def text(self):
        makers = (lambda: self.texts.text(4), lambda: "Hello!", lambda: "  padded\n\n",
                  lambda: "", lambda: "<result>\nno\n</result>",
                  lambda: "<think>\nso\n</think>\n\nAnswer", lambda: "a\n\nb\r\n  c \t")
        return self.random.choices(makers, (6, 3, 2, 1, 1, 2, 1))[0]()

    def content(self):
        kind = self.random.random()
        if kind < 0.85:
            return self.text()
        if kind < 0.93:
            return [{"type": "text", "text": self.text()} for _ in range(self.random.randint(1, 2))]
        return self.random.choice((None, 7, {"content": "x"}, [{"type": "image"}], True))

    def call(self):
        function = {"name": self.random.choice(("get_weather", "sum")),
                    "arguments": self.random.choice(ARGUMENTS)}
        wrapped = {"id": self.random.choice(("abcdef123", "short")), "type": "function",
                   "function": function}
        return self.random.choice((wrapped, wrapped, function))

    def message(self, role):
        message = {"role": role, "content": self.content()}
        if role == "assistant" and self.random.random() < 0.3:
            message["tool_calls"] = [self.call() for _ in range(self.random.randint(1, 2))]
            if self.random.random() < 0.5:
                message["content"] = None
        if role == "assistant" and self.random.random() < 0.2:
            message[self.random.choice(("reasoning_content", "thinking", "reasoning"))] = self.text()
        if role == "tool":
            message["tool_call_id"] = "abcdef123"
        if self.random.random() < 0.04:
            message.pop(self.random.choice(list(message)))
        return message

    def messages(self):
        roles = ["system"] if self.random.random() < 0.4 else []
        for _ in range(self.random.randint(1, 4)):
            roles.append("user" if self.random.random() < 0.95 else "developer")
            if self.random.random() < 0.75:
                roles.append("assistant")
            if self.random.random() < 0.2:
                roles += ["tool", "assistant"]
        return [self.message(role) for role in roles]

    def case(self):
        case = {"messages": self.messages()}
        if self.random.random() < 0.3:
            case["tools"] = self.random.sample(TOOLS, self.random.randint(1, len(TOOLS)))
        if self.random.random() < 0.15:
            case["documents"] = [{"title": self.text(), "text": self.text(), "n": 3},
                                 {"text": "x\ny\n\nz"}]
        if self.random.random() < 0.5:
            case["add_generation_prompt"] = True
        elif self.random.random() < 0.3:
            case["continue_final_message"] = True
        if self.random.random() < 0.3:
            case["arguments"] = self.random.choice((
                {"enable_thinking": False}, {"date_string": "3 May 2021"}, {"max_turns": 2},
                {"reasoning_effort": "high", "builtin": ["browser", "python tool"]},
                {"in_first_message": False}, {"bos_token": "<other>"}))
        return case


def load_tokenizer(name, bos, eos):
    return PreTrainedTokenizerFast(
        tokenizer_file=str(TESTS / "tokenizer" / name / "tokenizer.json"), bos_token=bos, eos_token=eos)


def apply(tokenizer, template, case, **options):
    """Returns the case, extended by the result of apply_chat_template."""
    try:
        with fixed_time():
            text = tokenizer.apply_chat_template(
                case["messages"], tools=case.get("tools"), documents=case.get("documents"),
                chat_template=template, tokenize=False,
                add_generation_prompt=case.get("add_generation_prompt", False),
                continue_final_message=case.get("continue_final_message", False),
                **case.get("arguments", {}), **options)
        return {**case, "text": text}
    except jinja2.exceptions.TemplateError as error:
        return {**case, "error": str(error)}
    except Exception as error:  # the text of the error does not matter
        return {**case, "error": type(error).__name__}


def write_cases(path, cases, **head):
    lines = ",\n".join(json.dumps(case, ensure_ascii=False, separators=(",", ":")) for case in cases)
    members = "".join(f"{json.dumps(key)}:{json.dumps(value, ensure_ascii=False)},\n"
                      for key, value in head.items())
    path.write_text(f'{{{members}"cases":[\n{lines}\n]}}\n', encoding="utf-8")


def conversations(out, templates, count, seed):
    tokenizer = load_tokenizer("qwen3", "<s>", "</s>")
    for path in templates:
        generator = ConversationGenerator(f"{path.stem} {seed}")
        template = path.read_text(encoding="utf-8")
        cases = [apply(tokenizer, template, generator.case()) for _ in range(count)]
        write_cases(out / f"{path.stem}.json", cases, bos_token="<s>", eos_token="</s>")
        print(f"{path.stem}: {sum('text' in case for case in cases)} of {count} give a text")


def constructs(out, name, variables, written, generator, count):
    """Writes <name>.json: the written templates, and `count` templates of the generator."""
    def render(template):
        try:
            with fixed_time():
                compiled = chat_template_utils._compile_jinja_template(template)
                # The variables are copied, because the filter `indent` changes lists.
                return {"template": template, "text": compiled.render(**copy.deepcopy(variables))}
        except jinja2.exceptions.TemplateError as error:
            return {"template": template, "error": str(error)}
        except Exception as error:
            return {"template": template, "error": type(error).__name__}

    templates = list(written) + [generator.template() for _ in range(count)]
    cases = [render(template) for template in templates]
    # Texts with the address of an object cannot be compared, because the address differs between
    # processes.
    cases = [case for case in cases if " at 0x" not in case.get("text", "")]
    write_cases(out / f"{name}.json", cases, variables=variables)
    print(f"{name}: {sum('text' in case for case in cases)} of {len(cases)} give a text")


def tokens(out, count, seed):
    """Conversations as ids; in no message may the text of a special token occur."""
    cases = []
    for tokenizer_name, template_name, bos, eos in (
            ("qwen3", "turns", None, "<|im_end|>"), ("llama3", "headers", "<|begin_of_text|>", "<|eot_id|>")):
        tokenizer = load_tokenizer(tokenizer_name, bos, eos)
        special = set(tokenizer.all_special_tokens)
        special |= {token.content for token in tokenizer.added_tokens_decoder.values()}
        template = (GOLDEN / "templates" / f"{template_name}.jinja").read_text(encoding="utf-8")
        generator = ConversationGenerator(f"tokens {template_name} {seed}")
        while sum(case["tokenizer"] == tokenizer_name for case in cases) < count:
            case = apply(tokenizer, template, generator.case())
            inputs = json.dumps({key: value for key, value in case.items() if key != "text"},
                                ensure_ascii=False)
            if "text" not in case or any(token in inputs for token in special):
                continue
            ids = tokenizer.encode(case["text"], add_special_tokens=False)
            cases.append({"tokenizer": tokenizer_name, "template": template_name, "bos_token": bos,
                          "eos_token": eos, **case, "ids": ids})
    write_cases(out / "tokens.json", cases)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=GOLDEN)
    parser.add_argument("--templates", type=pathlib.Path, default=GOLDEN / "templates",
                        help="directory of *.jinja files")
    parser.add_argument("--cases", type=int, default=40, help="conversations per template")
    parser.add_argument("--constructs", type=int, default=400, help="templates drawn at random")
    parser.add_argument("--seed", type=int, default=5)
    arguments = parser.parse_args()

    templates = sorted(arguments.templates.glob("*.jinja"))
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.templates != arguments.out / "templates":
        shutil.copytree(arguments.templates, arguments.out / "templates", dirs_exist_ok=True)
    conversations(arguments.out, templates, arguments.cases, arguments.seed)
    constructs(arguments.out, "constructs", chat_constructs.VARIABLES, chat_constructs.WRITTEN,
               chat_constructs.TemplateGenerator(f"constructs {arguments.seed}"), arguments.constructs)
    constructs(arguments.out, "typed", chat_typed.VARIABLES, chat_typed.WRITTEN,
               chat_typed.TypedGenerator(f"typed {arguments.seed}"), arguments.constructs)
    tokens(arguments.out, arguments.cases // 2, arguments.seed)


if __name__ == "__main__":
    main()
