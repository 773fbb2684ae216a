#!/usr/bin/env python3
"""llama.cpp's own server on the loopback interface, with a model of a few hundred kilobytes that this script writes.

    llama.py MODEL.gguf PORT        needs the wheel `xllamacpp`, which .ci/llama.sh installs

The model knows one successor of each token: embeddings are unit vectors, the layer adds nothing, and the output matrix is
the table of successors. The end of the chat template tells it whether a person or a tool spoke last: it calls Hearth's
tool `send_message`, or says `done`. Without tools it only says `done`.
"""
import signal
import struct
import sys

CALL = '<tool_call>\n{"name": "send_message", "arguments": {"text": "from llama.cpp"}}\n</tool_call>'
WIDTH, HEADS, INNER = 320, 5, 32
# No system message, and only names of tools: one token is one byte, and the server is slow.
TEMPLATE = """{%- if tools %}{{- '<|im_start|>system\\n<tools>' }}{%- for tool in tools %}{{- ' ' + tool.function.name }}{%- endfor %}{{- '</tools>
Call a function within <tool_call></tool_call> tags:
<tool_call>\\n{"name": <function-name>, "arguments": <args-json-object>}\\n</tool_call><|im_end|>\\n' }}{%- endif %}
{%- for message in messages if message.role != 'system' %}{{- '<|im_start|>' + message.role + '\\n' + (message.content or '') }}
{%- for call in message.tool_calls or [] %}{{- '<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' + (call.function.arguments | tojson) + '}\\n</tool_call>' }}{%- endfor %}
{{- '<|im_end|>\\n' }}{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant' + ('\\t' if messages[-1].role == 'tool' or not tools else '\\n') }}{%- endif %}"""


def letters():
    """How byte-level tokenizers write each byte."""
    shown = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = iter(range(0x100, 0x200))
    return [chr(byte) if byte in shown else chr(next(hidden)) for byte in range(0x100)]


def text(value):
    return struct.pack("<Q", len(value.encode())) + value.encode()


def entry(key, value):
    """A key of the file with its value: a number, a fraction, a switch, a text or a list of numbers or texts."""
    if isinstance(value, bool):
        return text(key) + struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return text(key) + struct.pack("<II", 4, value)
    if isinstance(value, float):
        return text(key) + struct.pack("<If", 6, value)
    if isinstance(value, str):
        return text(key) + struct.pack("<I", 8) + text(value)
    kind, each = (8, map(text, value)) if isinstance(value[0], str) else (5, (struct.pack("<i", one) for one in value))
    return text(key) + struct.pack("<IIQ", 9, kind, len(value)) + b"".join(each)


def rows(count, cells):
    """A matrix of `count` rows that is 0 but for the cells, which map (row, column) to a value."""
    data = bytearray(4 * WIDTH * count)
    for (row, column), value in cells.items():
        struct.pack_into("<f", data, 4 * (WIDTH * row + column), value)
    return (WIDTH, count), 0, bytes(data)


def halves(columns, count):
    return (columns, count), 1, bytes(2 * columns * count)


def write_model(path):
    # The server needs a merge of two tokens.
    tokens = [*letters(), "th", CALL, "done", "<|im_start|>", "<|im_end|>"]
    call, done, _, end = range(257, 261)
    successor = {ord("\n"): call, ord("\t"): done, call: end, done: end}
    normal, control, user_defined = 1, 3, 4
    keys = {
        "general.architecture": "llama",
        "general.alignment": 32,
        "llama.context_length": 16384,
        "llama.embedding_length": WIDTH,
        "llama.block_count": 1,
        "llama.feed_forward_length": INNER,
        "llama.attention.head_count": HEADS,
        "llama.attention.head_count_kv": HEADS,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.rope.dimension_count": WIDTH // HEADS,
        "llama.vocab_size": len(tokens),
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [normal] * 257 + [user_defined] * 2 + [control] * 2,
        "tokenizer.ggml.merges": ["t h"],
        "tokenizer.ggml.bos_token_id": end,
        "tokenizer.ggml.eos_token_id": end,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": TEMPLATE,
    }
    ones = ((WIDTH,), 0, struct.pack("<f", 1.0) * WIDTH)
    tensors = {
        "token_embd.weight": rows(len(tokens), {(token, token): 1.0 for token in range(len(tokens))}),
        "output.weight": rows(len(tokens), {(successor.get(token, end), token): 5.0 for token in range(len(tokens))}),
        **{f"{name}.weight": ones for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm")},
        **{f"blk.0.attn_{name}.weight": halves(WIDTH, WIDTH) for name in ("q", "k", "v", "output")},
        **{f"blk.0.ffn_{name}.weight": halves(WIDTH, INNER) for name in ("gate", "up")},
        "blk.0.ffn_down.weight": halves(INNER, WIDTH),
    }
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)) + b"".join(entry(*key) for key in keys.items())
    body = b""
    for name, (shape, kind, data) in tensors.items():
        head += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, len(body))
        body += data + bytes(-len(data) % 32)
    with open(path, "wb") as file:
        file.write(head + bytes(-len(head) % 32) + body)


def serve(path, port):
    import xllamacpp

    settings = xllamacpp.CommonParams()
    settings.model.path = path
    settings.hostnames = ["127.0.0.1"]
    settings.port = port
    settings.n_ctx = 16384
    settings.n_parallel = 1
    settings.use_jinja = True
    server = xllamacpp.Server(settings)
    print(server.listening_address, flush=True)
    signal.pause()


write_model(sys.argv[1])
serve(sys.argv[1], int(sys.argv[2]))
