#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Text from a transformers model with random weights. Knows nothing of Sluice.

--offload GIB: the model by accelerate's device map instead, with so much of it on the GPU and the rest
offloaded to host memory. Prints one line of JSON: seconds a token, the tokens, bytes of weights.
"""

import argparse
import json
import time

import torch
from transformers import AutoModelForCausalLM, LlamaConfig


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--layers", type=int, default=32)
    p.add_argument("--width", type=int, default=4096)
    p.add_argument("--tokens", type=int, default=8)
    p.add_argument("--batch", type=int, default=4)
    p.add_argument("--rounds", type=int, default=4, help="texts, one after the other")
    p.add_argument("--offload", type=float, metavar="GIB")
    args = p.parse_args()

    torch.manual_seed(1)
    config = LlamaConfig(hidden_size=args.width, intermediate_size=args.width * 11 // 4,
                         num_hidden_layers=args.layers, num_attention_heads=args.width // 128,
                         num_key_value_heads=args.width // 128, vocab_size=32000)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):  # random numbers are made there in a moment
        model = AutoModelForCausalLM.from_config(config)
    model.eval()
    if args.offload is not None:
        from accelerate import cpu_offload, dispatch_model, infer_auto_device_map

        model = model.cpu()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        memory = {0: int(args.offload * 2**30), "cpu": 2**40}
        where = infer_auto_device_map(model, max_memory=memory,
                                      no_split_module_classes=["LlamaDecoderLayer"])
        model = (dispatch_model(model, where) if 0 in where.values() or "cuda:0" in where.values()
                 else cpu_offload(model, 0))
    torch.manual_seed(2)
    prompt = torch.randint(32000, (args.batch, 32)).cuda()
    seconds, tokens = [], None
    with torch.no_grad():
        for _ in range(args.rounds):
            torch.cuda.synchronize()
            start = time.perf_counter()
            tokens = model.generate(prompt, attention_mask=torch.ones_like(prompt),
                                    max_new_tokens=args.tokens, do_sample=False,
                                    pad_token_id=0)
            torch.cuda.synchronize()
            seconds.append((time.perf_counter() - start) / args.tokens)
    print(json.dumps({"program": "generate", "seconds": seconds, "tokens": tokens[0].tolist(),
                      "steps": args.tokens,
                      "weights_bytes": sum(q.numel() * q.element_size()
                                           for q in model.parameters()),
                      "peak_bytes": torch.cuda.max_memory_allocated()}))


if __name__ == "__main__":
    main()
