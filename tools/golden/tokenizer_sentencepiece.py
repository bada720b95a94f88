"""Makes small SentencePiece models and the results of the `sentencepiece` library for texts and
ids.

The library has no added tokens. So a text is first cut at added tokens, as transformers does, and
each part is encoded separately.
"""

import io
import json
import random
import re

from sentencepiece import SentencePieceProcessor, SentencePieceTrainer, sentencepiece_model_pb2

from tokenizer_families import MARK, SMALL_CHARSMAP, charsmap
from tokenizer_texts import TRAINING_SEED, TextGenerator, stdlib_words

SPACE = r"[\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]*"  # Unicode's
SYMBOLS = ["\n\n", MARK * 2, MARK * 3, "<start_of_turn>", "[INST]", "word", "--"]
TIE_LETTERS = "abcé"


def train(rules=None, **options):
    """Returns the bytes of a model; `rules` are pairs of texts for its map of characters."""
    text, words = stdlib_words()
    foreign = TextGenerator(TRAINING_SEED, words)
    lines = [line for line in text.split("\n") if line] + [foreign.text(8) for _ in range(200)]
    lines = [line.replace("\0", "") for line in lines]
    model = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, hard_vocab_limit=False, minloglevel=2,
        num_threads=1, character_coverage=0.98, max_sentence_length=100000, **options)
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(model.getvalue())
    if rules is not None:
        proto.normalizer_spec.precompiled_charsmap = charsmap(rules)
    return proto.SerializeToString()


def bpe(**options):
    return train(model_type="bpe", byte_fallback=True, normalization_rule_name="identity",
                 remove_extra_whitespaces=False, **options)


def with_ties():
    """Returns the bytes of a unigram model whose scores are multiples of 0.1, so that many texts
    have several best sequences. Every fourth piece of several letters is user-defined."""
    draw = random.Random(TRAINING_SEED)
    proto = sentencepiece_model_pb2.ModelProto()
    kinds = proto.SentencePiece

    def add(text, kind):
        proto.pieces.add(piece=text, type=kind, score=-draw.randint(1, 40) / 10)

    add("<unk>", kinds.UNKNOWN)
    add("<s>", kinds.CONTROL)
    add("</s>", kinds.CONTROL)
    longer = [draw.choice(("", "", MARK)) + "".join(draw.choices(TIE_LETTERS, k=draw.randint(2, 4)))
              for _ in range(80)]
    for i, text in enumerate(dict.fromkeys([*TIE_LETTERS, MARK, *longer])):
        add(text, kinds.USER_DEFINED if len(text) > 1 and i % 4 == 0 else kinds.NORMAL)
    proto.trainer_spec.model_type = proto.trainer_spec.UNIGRAM
    proto.normalizer_spec.name = "identity"
    return proto.SerializeToString()


def text_with_ties(draw):
    return "".join(draw.choices(TIE_LETTERS * 3 + " z", k=draw.randint(1, 40)))


class Family:
    """A model and its tokenizer_config.json. `text` makes a random text from a random.Random; by
    default TextGenerator makes the texts."""

    def __init__(self, make, wide_only=False, text=None, **config):
        self.make = make
        self.wide_only = wide_only
        self.text = text
        self.config = config


FAMILIES = {
    # Llama 1 and 2, MiniCPM.
    "spm_llama": Family(lambda: bpe(vocab_size=700), legacy=True, bos_token="<s>", eos_token="</s>"),
    # Mistral, and every tokenizer with "legacy": false.
    "spm_mistral": Family(
        lambda: bpe(vocab_size=700), legacy=False,
        added_tokens_decoder={"710": {"content": "[INST]", "special": True},
                              "711": {"content": "<|user|>", "rstrip": True, "special": True},
                              "712": {"content": "<|end|>", "lstrip": True}}),
    # Gemma puts no space before a text and has user-defined symbols.
    "spm_gemma": Family(lambda: bpe(vocab_size=700, add_dummy_prefix=False, pad_id=3,
                                    user_defined_symbols=SYMBOLS)),
    "spm_unigram": Family(
        lambda: train(SMALL_CHARSMAP, vocab_size=500, model_type="unigram",
                      normalization_rule_name="identity", user_defined_symbols=["word", "--"])),
    "spm_unigram_bytes": Family(
        lambda: train(vocab_size=900, model_type="unigram", byte_fallback=True,
                      normalization_rule_name="identity", remove_extra_whitespaces=False)),
    "spm_unigram_ties": Family(with_ties, text=text_with_ties),
    "spm_nfkc": Family(lambda: train(vocab_size=500, model_type="unigram"), wide_only=True),
}


class Reference:
    """Encodes and decodes with a model and the files beside it."""

    def __init__(self, model, config):
        proto = sentencepiece_model_pb2.ModelProto()
        proto.ParseFromString(model)
        self.proto = proto
        self.processor = SentencePieceProcessor(model_proto=model)
        kinds = sentencepiece_model_pb2.ModelProto.SentencePiece
        self.pieces = [piece.piece for piece in proto.pieces]
        self.bytes = {i for i, piece in enumerate(proto.pieces) if piece.type == kinds.BYTE}
        self.added = {piece.piece: (i, True, False, False) for i, piece in enumerate(proto.pieces)
                      if piece.type in (kinds.CONTROL, kinds.UNKNOWN)}
        for i, token in config.get("added_tokens_decoder", {}).items():
            self.added[token["content"]] = (int(i), token.get("special", False),
                                            token.get("lstrip", False), token.get("rstrip", False))
        self.special = {i for i, special, _, _ in self.added.values() if special}
        self.texts = {i: text for text, (i, _, _, _) in self.added.items()}
        proto_without = sentencepiece_model_pb2.ModelProto()
        proto_without.CopyFrom(proto)
        if not config.get("legacy", True):
            proto_without.normalizer_spec.add_dummy_prefix = False
        self.later = SentencePieceProcessor(model_proto=proto_without.SerializeToString())

    def encode(self, text, special_as_text):
        names = [name for name, (_, special, _, _) in self.added.items()
                 if not (special and special_as_text)]
        ids, at = [], 0
        pattern = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
        for match in re.finditer(pattern, text) if names else ():
            token, _, lstrip, rstrip = self.added[match[0]]
            # The added token before this one may have taken the white space between the two.
            before = text[at:match.start()]
            ids += self.part(re.sub(SPACE + "$", "", before) if lstrip else before, at == 0)
            ids.append(token)
            at = match.end()
            if rstrip:
                at += re.match(SPACE, text[at:]).end()
        return ids + self.part(text[at:], at == 0)

    def part(self, text, is_first):
        return (self.processor if is_first else self.later).encode(text) if text else []

    def decode(self, ids, skip_special):
        if skip_special:
            ids = [i for i in ids if i not in self.special]
        text, run = "", b""
        for i in ids:
            if i in self.bytes:
                run += bytes([int(self.pieces[i][3:5], 16)])
                continue
            text += run.decode(errors="replace_each_byte")
            run = b""
            text += (self.texts.get(i) or self.pieces[i]).replace(MARK, " ")
        text += run.decode(errors="replace_each_byte")
        spec = self.proto.normalizer_spec
        if spec.remove_extra_whitespaces:
            text = text.lstrip(" ")
        elif spec.add_dummy_prefix:
            text = text.removeprefix(" ")
        # The library does not remove a leading space that is a byte token, and has no added tokens.
        is_plain = not any(i in self.texts for i in ids) and ids and ids[0] not in self.bytes
        assert not is_plain or text == self.processor.decode(ids), (ids, text)
        return text


def write_model(directory, family):
    """Writes the files of a model directory and returns a Reference for them."""
    model = family.make()
    (directory / "tokenizer.model").write_bytes(model)
    (directory / "tokenizer_config.json").write_text(json.dumps(family.config) + "\n")
    return Reference(model, family.config)


def read_model(directory):
    """Returns a Reference for the files of a model directory."""
    config = directory / "tokenizer_config.json"
    return Reference((directory / "tokenizer.model").read_bytes(),
                     json.loads(config.read_text()) if config.exists() else {})


def make_cases(reference, texts, decodes, generator):
    """Returns the lists of cases.json."""
    encode = []
    for text in texts:
        lists = [reference.encode(text, False), reference.encode(text, True)]
        encode.append([text, *lists[:1 if lists[0] == lists[1] else 2]])
    size = len(reference.pieces)
    lists = [case[1] for case in encode[:decodes - decodes // 2] if case[1]]
    everything, bytes_of_models, others = (0, size - 1), (0, 258), (259, size - 1)
    ranges = (everything, bytes_of_models, others) if size > 259 else (everything,)
    for _ in range(decodes // 2):
        first, last = generator.choice(ranges)
        lists.append([generator.randint(first, last) for _ in range(generator.randint(1, 12))])
    decode = [[ids, reference.decode(ids, False), reference.decode(ids, True)] for ids in lists]
    return encode, decode
