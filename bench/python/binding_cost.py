"""The calls of bench/binding-cost.ts, in Python: nanoseconds per call."""

import time

import torch
from serve import serve

torch.set_num_threads(1)

a = torch.ones(4)
b = torch.ones(4)
recorded = torch.ones(4, requires_grad=True)
matrix = torch.ones(4, 4)
scalar = torch.ones(1)


def add(count):
    for _ in range(count):
        a + b


def add_recorded(count):
    for _ in range(count):
        recorded + b


def matmul(count):
    for _ in range(count):
        matrix @ matrix


def narrow(count):
    for _ in range(count):
        a.narrow(0, 1, 2)


def item(count):
    for _ in range(count):
        scalar.item()


calls = {"add": add, "addRecorded": add_recorded, "matmul": matmul, "narrow": narrow, "item": item}


def run(call, count):
    loop = calls[call]
    start_cpu = time.process_time_ns()
    start = time.perf_counter_ns()
    loop(count)
    wall = time.perf_counter_ns() - start
    return {"wall": wall / count, "cpu": (time.process_time_ns() - start_cpu) / count}


serve(run=run)
