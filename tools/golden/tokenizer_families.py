"""Small tokenizers with the normalizer, pre-tokenizer, kind of model, decoder and flags of each
family, trained on the source code of Python's standard library.
"""

import io
import json
import pathlib
import tempfile

from sentencepiece import SentencePieceTrainer, sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from tokenizers import processors, trainers

from tokenizer_texts import TRAINING_SEED, UNMERGED, TextGenerator, stdlib_words

LLAMA3_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN_PATTERN = LLAMA3_PATTERN.replace(r"\p{N}{1,3}", r"\p{N}")
CL100K_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
CASED_WORD = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+SUFFIX"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*SUFFIX")
CASED_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
O200K_PATTERN = (CASED_WORD.replace("SUFFIX", r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?") + r"|\p{N}{1,3}"
                 + CASED_REST)
TEKKEN_PATTERN = CASED_WORD.replace("SUFFIX", "") + r"|\p{N}" + CASED_REST
BLOOM_PATTERN = r" ?[^(\s|[.,!?…。，、।۔،])]+"
AFMOE_PATTERNS = (
    r"\p{Nd}{1,510}(?=(?>\p{Nd}{510})*(?:\P{Nd}|$))|\G\p{Nd}{510}",
    r"\A\p{Nd}{1,2}(?=\p{Nd}{3}+\z)",
    r"\A\p{Nd}{3}|\G\p{Nd}{3}",
    "[一-鿿㐀-䶿豈-﫿぀-ゟ゠-ヿ･-ﾟ⼀-⿟เ-๿຀-໿ក-៿က-႟ꩠ-ꩿꧠ-꧿가-힯ᄀ-ᇿ]+",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
MARK = "▁"  # what SentencePiece writes for a space
# Texts that the tokenizers made from SentencePiece treat specially.
PIECE_PARTS = (MARK, MARK * 2, MARK + "a", "  ", "   ", " ", "<0x41>", "<0x0A>", "<unk>", "<s>", "</s>",
               "\n\n", "[INST]", "[/INST]", "<|user|>", "<|end|> ", "<start_of_turn>", "a<s>b", " <s> ",
               "½\u0301", "ﬁ\u0301", "Ａ\u0301\u0323", "e\u0301\u0323", "㌀", "\u200b\u0301", "\r\n")


def train(merges, normalizer, pre_tokenizer, special_tokens):
    """A tokenizer with 256 byte tokens, `merges` merges and the special tokens."""
    tokenizer = Tokenizer(models.BPE())
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    text, words = stdlib_words()
    foreign = TextGenerator(TRAINING_SEED, words)
    lines = text.split("\n") + [foreign.text(8) for _ in range(3000)]
    trainer = trainers.BpeTrainer(
        vocab_size=256 + merges, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(lines, trainer)
    tokenizer.add_special_tokens(special_tokens)
    return tokenizer


def edited(tokenizer, edit):
    """Returns the tokenizer whose JSON has been changed by edit(json)."""
    data = json.loads(tokenizer.to_str())
    edit(data)
    return Tokenizer.from_str(json.dumps(data))


def gpt2():
    return train(700, None, pre_tokenizers.ByteLevel(add_prefix_space=False), ["<|endoftext|>"])


def llama3():
    split = pre_tokenizers.Split(Regex(LLAMA3_PATTERN), "isolated")
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer = train(900, None, pre_tokenizers.Sequence([split, byte_level]), [])

    def edit(data):
        model = data["model"]
        vocab = model["vocab"]
        model["ignore_merges"] = True
        # As in the files of real models, some tokens result from several pairs, and some words
        # result from no pair.
        pairs = {tuple(pair) for pair in model["merges"]}
        for token in list(vocab):
            for cut in range(1, len(token)):
                pair = (token[:cut], token[cut:])
                if pair[0] in vocab and pair[1] in vocab and pair not in pairs and cut % 2 == 0:
                    model["merges"].append(list(pair))
        for word in UNMERGED.values():
            vocab.setdefault(word, len(vocab))

    tokenizer = edited(tokenizer, edit)
    tokenizer.add_special_tokens(["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"])
    start = ("<|begin_of_text|>", tokenizer.token_to_id("<|begin_of_text|>"))
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single=f"{start[0]} $A", special_tokens=[start])])
    return tokenizer


def qwen3():
    split = pre_tokenizers.Split(Regex(QWEN_PATTERN), "isolated")
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer = train(700, normalizers.NFC(), pre_tokenizers.Sequence([split, byte_level]),
                      ["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    tokenizer.add_tokens(
        [AddedToken(text, normalized=False) for text in ("<think>", "</think>")])
    return tokenizer


def flags():
    """A tokenizer with added tokens of every kind, a leading space and single digits."""
    steps = [pre_tokenizers.Digits(individual_digits=True),
             pre_tokenizers.ByteLevel(add_prefix_space=True)]
    tokenizer = train(300, normalizers.NFC(), pre_tokenizers.Sequence(steps), ["<pad>"])
    tokenizer.add_tokens([
        AddedToken("[L]", lstrip=True, normalized=False),
        AddedToken("[R]", rstrip=True, normalized=False),
        AddedToken("[LR]", lstrip=True, rstrip=True, special=True),
        AddedToken("word", single_word=True),
        AddedToken("cafe\u0301", normalized=True), AddedToken("é", normalized=True),
        AddedToken("<a>", normalized=False), AddedToken("<a>b", normalized=False, rstrip=True),
        AddedToken("\u3000", normalized=False), AddedToken("東京", single_word=True)])
    return tokenizer


def splits():
    """A tokenizer with every behaviour of Split, also inverted."""
    steps = [
        pre_tokenizers.Split("--", "merged_with_next"),
        pre_tokenizers.Split("_", "merged_with_previous"),
        pre_tokenizers.Split(Regex(r"\p{Nd}{2}"), "contiguous"),
        pre_tokenizers.Split(Regex(r"[^\t\u3000]+"), "removed", invert=True),
        pre_tokenizers.Split(
            Regex(r"(?>\p{Han}|\p{^L})(?=\p{Lu}|e)|(?<!a)\x{e9}|[\-\]\d\S]+?"), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    return train(300, None, pre_tokenizers.Sequence(steps), ["<|endoftext|>"])


def byte_level(*patterns, normalizer=None, use_regex=False, special=("<|endoftext|>",)):
    """Byte-level BPE that cuts words with the patterns, and with use_regex also with GPT-2's
    pattern."""
    steps = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in patterns]
    steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=use_regex))
    return train(250, normalizer, pre_tokenizers.Sequence(steps), list(special))


def cohere2():
    steps = [pre_tokenizers.Digits(individual_digits=True),
             pre_tokenizers.ByteLevel(add_prefix_space=False)]
    return train(250, normalizers.NFC(), pre_tokenizers.Sequence(steps), ["<|im_end|>"])


def mpt():
    """The tokenizer of GPT-NeoX: runs of spaces are added tokens that are searched for in the
    normalized text."""
    tokenizer = byte_level(normalizer=normalizers.NFC(), use_regex=True)
    tokenizer.add_tokens([AddedToken(" " * n, normalized=True) for n in range(9, 1, -1)])
    return tokenizer


FOREIGN_LINE = "café Straße тест 東京 アパート é ẹ́ ⁄ 가"


def pieces(normalizer, pre_tokenizer, strip, merges=300):
    """BPE over characters with a token for each byte, as in tokenizers converted from
    SentencePiece."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement=MARK)
    # If characters are equally frequent, the trainer may keep any of them, so it must keep all.
    lines = stdlib_words()[0].split("\n") + [FOREIGN_LINE] * 20
    special = ["<unk>", "<s>", "</s>"]
    trainer = trainers.BpeTrainer(vocab_size=merges + 180, show_progress=False,
                                  special_tokens=special)
    tokenizer.train_from_iterator(lines, trainer)

    def edit(data):
        model = data["model"]
        texts = sorted(model["vocab"], key=model["vocab"].get)
        texts[len(special):len(special)] = [f"<0x{byte:02X}>" for byte in range(256)]
        texts += [MARK * n for n in range(2, 9) if MARK * n not in model["vocab"]]
        model["vocab"] = {text: i for i, text in enumerate(texts)}
        model["merges"] += [[MARK * (n // 2), MARK * (n - n // 2)] for n in range(2, 9)]

    tokenizer = edited(tokenizer, edit)
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    steps = [decoders.Replace(MARK, " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence(
        steps + ([decoders.Strip(content=" ", left=1)] if strip else []))
    return tokenizer


def prefixing():
    """The normalizer of Llama 2's file."""
    return normalizers.Sequence([normalizers.Prepend(MARK), normalizers.Replace(" ", MARK)])


def llama2():
    tokenizer = pieces(prefixing(), None, strip=True)
    # Old files have such a token. Here the token is not special, because the library would not skip
    # it as a special token: it looks for the normalized form, "▁<pad>", among the special tokens.
    tokenizer.add_tokens([AddedToken("<pad>", normalized=True)])
    start = ("<s>", tokenizer.token_to_id("<s>"))
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{start[0]} $A", special_tokens=[start])
    return tokenizer


def mistral():
    tokenizer = pieces(None, pre_tokenizers.Metaspace(MARK, prepend_scheme="first", split=False),
                       strip=True)
    tokenizer.add_special_tokens(["[INST]", "[/INST]"])
    return tokenizer


def phi3():
    tokenizer = pieces(prefixing(), None, strip=True)
    tokenizer.add_tokens([AddedToken(text, rstrip=True, normalized=False, special=special)
                          for text, special in (("<|user|>", True), ("<|end|>", False))])
    return tokenizer


def gemma():
    tokenizer = pieces(normalizers.Replace(" ", MARK),
                       pre_tokenizers.Split(" ", "merged_with_previous"), strip=False)
    tokenizer.add_special_tokens(["<start_of_turn>"])
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in ("\n\n", MARK * 2, MARK * 3)])
    return tokenizer


def without_bytes(fuse_unk):
    """A tokenizer without byte tokens: a character without a token becomes the unknown token, or
    nothing."""
    tokenizer = pieces(None, pre_tokenizers.Metaspace(MARK, prepend_scheme="always"), strip=True)

    def edit(data):
        model = data["model"]
        model["fuse_unk"] = fuse_unk
        # Some byte tokens are kept, so that some characters have tokens for all their bytes.
        kept = {text for text in model["vocab"] if not text.startswith("<0x")
                or text[3] in "CD" or text[3] in "89AB" and int(text[4], 16) % 2 == 0}
        texts = sorted(kept, key=model["vocab"].get)
        model["vocab"] = {text: i for i, text in enumerate(texts)}
        for token in data["added_tokens"]:
            token["id"] = model["vocab"][token["content"]]

    return edited(tokenizer, edit)


def charsmap(rules):
    """Returns SentencePiece's precompiled map for a named rule or for pairs of texts."""
    lines = stdlib_words()[0].split("\n")[:200]
    with tempfile.TemporaryDirectory() as directory:
        options = {"normalization_rule_name": rules}
        if not isinstance(rules, str):
            table = pathlib.Path(directory, "rules.tsv")
            table.write_text("".join(
                "\t".join(" ".join(f"{ord(c):X}" for c in text) for text in rule) + "\n"
                for rule in rules))
            options = {"normalization_rule_tsv": str(table)}
        prefix = str(pathlib.Path(directory, "model"))
        SentencePieceTrainer.train(sentence_iterator=iter(lines), model_prefix=prefix, vocab_size=150,
                                   minloglevel=2, hard_vocab_limit=False, **options)
        proto = sentencepiece_model_pb2.ModelProto()
        proto.ParseFromString(pathlib.Path(prefix + ".model").read_bytes())
    return proto.normalizer_spec.precompiled_charsmap


# A small map that contains every difficulty of such maps.
SMALL_CHARSMAP = (
    ("Ａ", "A"), ("e\u0301", "\u00e9"), ("e\u0301\u0323", "\u1eb9\u0301"), ("½", "1⁄2"), ("\u00a0", " "),
    ("\t", " "), ("\u200b", ""), ("ﬁ", "fi"), ("㌀", "アパート"), ("\u1100\u1161", "가"), ("\u0301", "'"),
    ("\u3000", " "))


def unigram(normalizer, pre_tokenizer, decoder, byte_fallback=False):
    """Returns a unigram model from SentencePiece's trainer, which gives the same model each
    time."""
    lines = [line for line in stdlib_words()[0].split("\n") if line] + [FOREIGN_LINE] * 20
    model = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, model_type="unigram", vocab_size=500,
        byte_fallback=byte_fallback, character_coverage=0.995, normalization_rule_name="identity",
        num_threads=1, minloglevel=2, hard_vocab_limit=False)
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(model.getvalue())
    tokenizer = Tokenizer(models.Unigram(
        [(piece.piece, round(piece.score, 4)) for piece in proto.pieces], unk_id=0,
        byte_fallback=byte_fallback))
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoder
    return tokenizer


def unigram_mapped():
    """Returns the tokenizer that transformers would make of a SentencePiece model."""
    normalizer = normalizers.Sequence([
        normalizers.Precompiled(charsmap(SMALL_CHARSMAP)),
        normalizers.Strip(left=False, right=True), normalizers.Replace(Regex(" {2,}"), MARK)])
    return unigram(normalizer, pre_tokenizers.Metaspace(MARK), decoders.Metaspace(MARK))


def unigram_nfkc():
    """The tokenizer of T5 and XLM-R: first cuts words at white space, and has a map for NFKC and
    white space."""
    pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(MARK)])
    return unigram(normalizers.Precompiled(charsmap("nmt_nfkc")), pre_tokenizer,
                   decoders.Metaspace(MARK))


def unigram_bytes():
    decoder = decoders.Sequence(
        [decoders.Replace(MARK, " "), decoders.ByteFallback(), decoders.Fuse()])
    return unigram(normalizers.Replace(" ", MARK), None, decoder, byte_fallback=True)


BYTE_LEVEL = {
    "gpt2": gpt2, "llama3": llama3, "qwen3": qwen3, "flags": flags, "splits": splits,
    "cohere2": cohere2, "mpt": mpt,
    "exaone4": lambda: byte_level(normalizer=normalizers.NFC(), use_regex=True),
    "olmo3": lambda: byte_level(CL100K_PATTERN),
    "bloom": lambda: byte_level(BLOOM_PATTERN),
    "gpt_oss": lambda: byte_level(O200K_PATTERN),
    "tekken": lambda: byte_level(TEKKEN_PATTERN),
    "afmoe": lambda: byte_level(*AFMOE_PATTERNS),
    "minicpm5": lambda: byte_level(r"\p{N}{1,3}", LLAMA3_PATTERN.replace("{1,3}", "+")),
    "nfd": lambda: byte_level(CL100K_PATTERN, normalizer=normalizers.NFD()),
    "nfkc": lambda: byte_level(CL100K_PATTERN, normalizer=normalizers.NFKC()),
    "nfkd": lambda: byte_level(CL100K_PATTERN, normalizer=normalizers.NFKD()),
}
PIECES = {
    "llama2": llama2, "mistral": mistral, "phi3": phi3, "gemma": gemma,
    "unknown": lambda: without_bytes(True), "unfused": lambda: without_bytes(False),
    "unigram": unigram_mapped, "unigram_nfkc": unigram_nfkc, "unigram_bytes": unigram_bytes,
}
