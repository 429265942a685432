"""Answers requests from bench/python-child.ts: a JSON line in, a JSON line out, until the input ends."""

import json
import sys


def serve(**handlers):
    for line in sys.stdin:
        request = json.loads(line)
        reply = handlers[request.pop("handler")](**request)
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()
