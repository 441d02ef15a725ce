#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""llama.cpp (the PyPI package llama-cpp-python, built with CUDA) on a model of random weights, which it
writes first if the file is missing (the PyPI package gguf). Knows nothing of Sluice.

A round evaluates a prompt, and then makes a text token by token. --gpu-layers N: the first N layers on
the GPU, the others on the CPU, which is llama.cpp's own way to need less memory.

Prints one line of JSON: seconds of each round's prompt (or of a token of its text, with --text), both
rates, the tokens and a sum over the last logits as an exact hexadecimal number.
"""

import argparse
import ctypes
import json
import pathlib
import tempfile
import time

import llama_cpp as ll
import numpy

VOCABULARY = 32000


def model_write(path, args):
    import gguf

    rng = numpy.random.default_rng(1)
    width, inner = args.width, args.width * 43 // 16
    most = VOCABULARY * width
    noise = (rng.standard_normal(most + (1 << 20), dtype=numpy.float32) * width**-0.5).astype(numpy.float16)
    w = gguf.GGUFWriter(path, "llama")
    w.add_context_length(8192)
    w.add_embedding_length(width)
    w.add_block_count(args.layers)
    w.add_feed_forward_length(inner)
    w.add_head_count(width // 128)
    w.add_head_count_kv(width // 128)
    w.add_rope_dimension_count(128)
    w.add_layer_norm_rms_eps(1e-5)
    w.add_vocab_size(VOCABULARY)
    w.add_tokenizer_model("no_vocab")

    def matrix(name, rows, columns):
        at = int(rng.integers(1 << 20))
        w.add_tensor(name, noise[at:at + rows * columns].reshape(rows, columns))

    def norm(name):
        w.add_tensor(name, numpy.ones(width, numpy.float32))

    matrix("token_embd.weight", VOCABULARY, width)
    matrix("output.weight", VOCABULARY, width)
    norm("output_norm.weight")
    for i in range(args.layers):
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            matrix(f"blk.{i}.{part}.weight", width, width)
        matrix(f"blk.{i}.ffn_gate.weight", inner, width)
        matrix(f"blk.{i}.ffn_up.weight", inner, width)
        matrix(f"blk.{i}.ffn_down.weight", width, inner)
        norm(f"blk.{i}.attn_norm.weight")
        norm(f"blk.{i}.ffn_norm.weight")
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def model_path(args):
    path = args.folder / f"llama-{args.layers}x{args.width}.gguf"
    if not path.exists():
        part = path.with_suffix(".part")
        model_write(part, args)
        part.rename(path)
    return path


def free_bytes():
    """Of the GPU, as the CUDA runtime says it that llama.cpp brought; 0: there is none."""
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    try:
        runtime = ctypes.CDLL("libcudart.so.13")
        return 0 if runtime.cudaMemGetInfo(ctypes.byref(free), ctypes.byref(total)) else free.value
    except OSError:
        return 0


@ll.llama_log_callback
def log_nothing(level, text, user_data):
    pass


def decode(context, tokens):
    array = (ll.llama_token * len(tokens))(*tokens)
    if ll.llama_decode(context, ll.llama_batch_get_one(array, len(tokens))):
        raise RuntimeError("llama_decode failed")
    ll.llama_synchronize(context)


def logits(context):
    return numpy.ctypeslib.as_array(ll.llama_get_logits_ith(context, -1), (VOCABULARY,))


def round_run(context, prompt, n_text):
    """Seconds of the prompt and of the text, the text, the sum over its last logits."""
    ll.llama_memory_clear(ll.llama_get_memory(context), True)
    start = time.perf_counter()
    decode(context, prompt)
    middle = time.perf_counter()
    text = []
    for _ in range(n_text):
        text.append(int(logits(context).argmax()))
        decode(context, text[-1:])
    return middle - start, time.perf_counter() - middle, text, float(logits(context).sum(dtype=numpy.float64))


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--layers", type=int, default=32)
    p.add_argument("--width", type=int, default=4096)
    p.add_argument("--prompt", type=int, default=2048, help="tokens")
    p.add_argument("--batch", type=int, default=2048, help="tokens evaluated at once (-ub)")
    p.add_argument("--tokens", type=int, default=8, help="of the text")
    p.add_argument("--text", action="store_true", help="what counts is the text")
    p.add_argument("--rounds", type=int, default=8)
    p.add_argument("--gpu-layers", type=int, default=-1)
    p.add_argument("--folder", type=pathlib.Path, default=pathlib.Path(tempfile.gettempdir()))
    args = p.parse_args()

    path = model_path(args)
    ll.llama_log_set(log_nothing, ctypes.c_void_p(0))
    ll.llama_backend_init()
    before = free_bytes()
    how = ll.llama_model_default_params()
    how.n_gpu_layers = args.gpu_layers if args.gpu_layers >= 0 else 999
    model = ll.llama_model_load_from_file(str(path).encode(), how)
    how = ll.llama_context_default_params()
    how.n_ctx = args.prompt + args.tokens + 8
    how.n_batch = args.prompt
    how.n_ubatch = args.batch
    context = ll.llama_init_from_model(model, how)
    prompt = [int(t) for t in numpy.random.default_rng(2).integers(VOCABULARY, size=args.prompt)]
    rounds = [round_run(context, prompt, args.tokens) for _ in range(args.rounds)]
    peak = before - free_bytes()
    best_prompt, best_text = min(r[0] for r in rounds), min(r[1] for r in rounds)
    print(json.dumps({
        "program": "llama-text" if args.text else "llama-prompt",
        "seconds": [r[1] / args.tokens if args.text else r[0] for r in rounds],
        "tokens_per_second": {"prompt": args.prompt / best_prompt, "text": args.tokens / best_text},
        "steps": args.tokens if args.text else 1, "text": [r[2] for r in rounds], "sums": [r[3].hex() for r in rounds],
        "weights_bytes": path.stat().st_size, "peak_bytes": max(0, peak)}))


if __name__ == "__main__":
    main()
