"""As much of Ray as the driver of a job asks for: actors are objects of this process, and what they do runs in threads."""
import time
from concurrent.futures import ThreadPoolExecutor

from . import exceptions

threads = ThreadPoolExecutor()


class Actor:
    def __init__(self, of):
        self.of = of

    def __getattr__(self, name):
        return Method(getattr(self.of, name))


class Method:
    def __init__(self, call):
        self.call = call

    def remote(self, *arguments):
        return threads.submit(self.call, *arguments)


class Class:
    def __init__(self, of):
        self.of = of

    def options(self, **_):
        return self

    def remote(self):
        return Actor(self.of())


def init():
    pass


def remote(**_):
    return Class


def get(future, timeout=None):
    return future.result(timeout)


def wait(futures):
    while not any(future.done() for future in futures):
        time.sleep(0.01)
    first = next(future for future in futures if future.done())
    return [first], [future for future in futures if future is not first]


def kill(_):
    pass
