"""Two environments on the server of OpenEnv (`pip install openenv`): one that takes text, one that has MCP tools.

python openenv_server.py <port> text|tools <most sessions>
"""
import sys
from typing import Any, Optional

import uvicorn
from fastmcp import FastMCP
from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.mcp_environment import MCPEnvironment
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation
from openenv.core.env_server.types import Action, Observation, State


class Word(Action):
    message: str


class Heard(Observation):
    text: str = ""


class Parrot(Environment):
    """Wants words with as many letters as its seed says, at most 3 of them."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self):
        super().__init__()
        self._seed, self._steps = 0, 0

    def reset(self, seed: Optional[int] = None, episode_id: Optional[str] = None, **_: Any) -> Heard:
        self._seed, self._steps = (seed or 0) % 7, 0
        return Heard(text=f"Say {self._seed} letters.")

    def step(self, action: Word, timeout_s: Optional[float] = None, **_: Any) -> Heard:
        if action.message == "crash":
            raise ValueError("the parrot is dead")
        self._steps += 1
        reward = -abs(len(action.message) - self._seed)
        return Heard(text=action.message.upper(), reward=reward, done=self._steps >= 3)

    @property
    def state(self) -> State:
        return State(step_count=self._steps)


class Echo(MCPEnvironment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self):
        mcp = FastMCP("echo")

        @mcp.tool
        def echo(message: str) -> str:
            """Says it again."""
            return message

        super().__init__(mcp)

    def reset(self, seed: Optional[int] = None, episode_id: Optional[str] = None, **_: Any) -> Observation:
        return Observation(done=False, reward=0.0)

    def _step_impl(self, action: Action, timeout_s: Optional[float] = None, **_: Any) -> Observation:
        raise ValueError(f"no action {action}")

    @property
    def state(self) -> State:
        return State()


if __name__ == "__main__":
    port, kind, most = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    given = (Parrot, Word, Heard) if kind == "text" else (Echo, CallToolAction, CallToolObservation)
    app = create_app(*given, env_name=kind, max_concurrent_envs=most)
    print("ready", flush=True)
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")
