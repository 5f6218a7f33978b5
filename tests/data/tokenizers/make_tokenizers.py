"""Makes the two small tokenizers of this folder and their cases.

    pip install tokenizers==0.23.3
    python make_tokenizers.py

`byte-level` has the layout of Phi-4-mini's tokenizer.json, `sentencepiece` that of Phi-3-mini's. Both are trained on
the few lines below. The ids and texts in cases.json are those of the `tokenizers` library. Its training breaks ties in
no fixed order, so another run gives other vocabularies, with the cases that belong to them.
"""
import codecs
import hashlib
import json
import pathlib
import struct

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

CORPUS = [
    "A small tokenizer is enough to see whether text becomes the right ids and comes back unchanged.",
    "The river runs down to the harbour, and the harbour opens to the sea; the sea has no end.",
    "She counted 12 boats, 345 gulls and 6789 waves before the rain began.",
    "def add(left, right):\n    return left + right\n",
    "for (int i = 0; i < 10; ++i) {\n\tsum += i;\n}\n",
    "It's late, we'll go, they've gone, I'm here, he'd stay, you're right.",
    "Größe, façade, naïve, señor, łódź, Ελλάδα, Москва, 東京, 서울",
    "aaaa aaaa aaaaaaaa    four spaces        eight spaces",
] * 4

TEXTS = [
    "", " ", "  ", "   ", "\n", "\n\n", " \n", "\t", "a", " a", "a ", "  a  ", "Hello world", " Hello world",
    "The sea, the sea!", "It's 12345 o'clock.", "we'LL", "x = y+1;\n\treturn x\n\n", "    return left", "naïve façade",
    "Ελλάδα Москва", "東京 서울", "日本語", "🙂", "a🙂b", "👩\u200d👩\u200d👧", "e\u0301 o\u0308", "\u00a0x\u3000y", "\x00\x01",
    "<|user|>", "<|user|>\nHi<|end|>\n<|assistant|>\n", " <|user|> x <|end|> y ", "<|user|><|user|>", "<|end", "<|end|>x",
    "a<|tool|> b", "x <|end|>\n\n y", "<s>Hi</s>", "<0x41>", "▁", "▁▁a", "a▁b", "ſs's", "A1B22C333D4444", "...!!!???",
    "/\n/", "ÖLÖL", "ok\r\nok\r\n", "\u2028\u2029", "word" * 20, "1" * 20, " " * 20, "aAbBcC", "ﬁ ①②③ ½",
]

MARKERS = [
    AddedToken("<|endoftext|>", special=True, normalized=False),
    AddedToken("<|user|>", special=True, normalized=False, rstrip=True),
    AddedToken("<|assistant|>", special=True, normalized=False, rstrip=True),
    AddedToken("<|end|>", special=True, normalized=False, lstrip=True, rstrip=True),
    AddedToken("<|tool|>", special=False, normalized=False, rstrip=True),
]

O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def byte_level():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(O200K), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=512, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.add_tokens(MARKERS)
    return tokenizer


def sentencepiece():
    special = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    trainer = trainers.BpeTrainer(vocab_size=640, show_progress=False, special_tokens=special, limit_alphabet=60)
    tokenizer.train_from_iterator(CORPUS, trainer)
    described = json.loads(tokenizer.to_str())
    described["added_tokens"] = [t for t in described["added_tokens"] if not t["content"].startswith("<0x")]
    tokenizer = Tokenizer.from_str(json.dumps(described))
    tokenizer.decoder = decoders.Sequence([
        decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    tokenizer.add_tokens(MARKERS)
    return tokenizer


def without_markers(tokenizer):
    described = json.loads(tokenizer.to_str())
    described["added_tokens"] = []
    return Tokenizer.from_str(json.dumps(described))


def decoded(tokenizer, ids):
    return {"ids": ids, "decoded": tokenizer.decode(ids, skip_special_tokens=False),
            "decoded_skip_special": tokenizer.decode(ids, skip_special_tokens=True)}


def generated(tokenizer, unit, repeat):
    ids = tokenizer.encode(unit * repeat).ids
    digest = hashlib.sha256(struct.pack(f"<{len(ids)}I", *ids)).hexdigest()
    return {"prefix": "", "unit": unit, "repeat": repeat, "suffix": "", "count": len(ids), "sha256": digest}


def alphabet():
    """The character of each byte in byte-level BPE."""
    own = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in own]
    return {chr(byte): byte for byte in own} | {chr(256 + index): byte for index, byte in enumerate(others)}


def token_bytes(tokenizer, rows):
    """What each id stands for, from the text of its token."""
    described = json.loads(tokenizer.to_str())
    markers = {token["id"] for token in described["added_tokens"]}
    byte_level = described["decoder"]["type"] == "ByteLevel"
    table = []
    for row in range(rows):
        text = tokenizer.id_to_token(row) or ""
        if row in markers:
            table.append(text.encode())
        elif byte_level:
            table.append(bytes(alphabet()[character] for character in text))
        elif text.startswith("<0x"):
            table.append(bytes([int(text[3:5], 16)]))
        else:
            table.append(text.replace("▁", " ").encode())
    return table


def stream(tokenizer, ids):
    """Characters as soon as their last byte is there, U+FFFD as soon as bytes cannot become one."""
    byte_level = json.loads(tokenizer.to_str())["decoder"]["type"] == "ByteLevel"
    codecs.register_error("each", lambda error: ("\ufffd" * (error.end - error.start), error.end))
    decoder = codecs.getincrementaldecoder("utf-8")("replace" if byte_level else "each")
    table = token_bytes(tokenizer, tokenizer.get_vocab_size())
    chunks = [decoder.decode(table[token]) if token < len(table) else "" for token in ids]
    chunks.append(decoder.decode(b"", final=True))
    if not byte_level:  # one space at the start goes
        first = next((index for index, chunk in enumerate(chunks) if chunk), None)
        if first is not None and chunks[first].startswith(" "):
            chunks[first] = chunks[first][1:]
    return {"ids": ids, "skip_special_tokens": False, "chunks": chunks[:-1], "end": chunks[-1]}


def digest_of_bytes(table):
    digest = hashlib.sha256()
    for entry in table:
        digest.update(struct.pack("<I", len(entry)) + entry)
    return digest.hexdigest()


def cases(tokenizer):
    plain = without_markers(tokenizer)
    size = tokenizer.get_vocab_size()
    scattered = [[(start * 37 + step * 101) % (size + 2) for step in range(9)] for start in range(40)]
    runs = [[65, 66], [198, 172], [229, 133], [243, 162], [243, 162, 155, 131], [131, 68], [3, 258, 257], [198, 172, 40, 229]]
    rows = size + 8
    return {
        "rows": rows,
        "token_bytes_sha256": digest_of_bytes(token_bytes(tokenizer, rows)),
        "encode": [{"text": text, "add_special_tokens": True, **decoded(tokenizer, tokenizer.encode(text).ids)}
                   for text in TEXTS],
        "encode_plain": [{"text": text, "ids": plain.encode(text).ids} for text in TEXTS],
        "decode": [decoded(tokenizer, ids) for ids in scattered + runs],
        "stream": [stream(tokenizer, ids) for ids in scattered + runs],
        "generated": [generated(tokenizer, unit, repeat)
                      for unit, repeat in [("a", 5000), (" ", 5000), ("ab ", 3000), ("\n", 3000), ("<|end|>", 500)]],
    }


def dump_cases(groups, path):
    with open(path, "w", encoding="utf-8") as out:
        out.write("{\n")
        for index, (name, entries) in enumerate(groups.items()):
            if not isinstance(entries, list):
                out.write(f'"{name}": {json.dumps(entries)},\n')
                continue
            lines = ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in entries)
            out.write(f'"{name}": [\n{lines}\n]{"," if index + 1 < len(groups) else ""}\n')
        out.write("}\n")


def main():
    here = pathlib.Path(__file__).parent
    for name, tokenizer, bos in [("byte-level", byte_level(), "<|endoftext|>"), ("sentencepiece", sentencepiece(), "<s>")]:
        folder = here / name
        folder.mkdir(exist_ok=True)
        (folder / "tokenizer.json").write_text(tokenizer.to_str(), encoding="utf-8")
        config = {"bos_token": bos, "eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>",
                  "chat_template": "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}<|end|>\n{% endfor %}"}
        (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
        dump_cases(cases(tokenizer), folder / "cases.json")


if __name__ == "__main__":
    main()
