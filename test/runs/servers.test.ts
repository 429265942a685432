/** Whole runs that sample with servers of other projects: nothing that a run computes depends on whose engine draws its tokens. */
import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import type { SampleEvent } from "../../src/flow/sample-event.ts";
import { digestOf, type SmallRun, trainSmall } from "./small-run.ts";
import { type StandIn, standInSglang, standInVllm } from "./stand-in-servers.ts";

let folder: string;
let here: SmallRun;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "reroll-servers-"));
  for (const file of ["config.json", "model.safetensors"]) cpSync(`fixtures/hf-tiny/qwen3/${file}`, join(folder, file));
  for (const file of ["tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json"])
    cpSync(`fixtures/tokenizer/${file}`, join(folder, file));
  here = await trainSmall(runWith(null));
});
afterAll(() => rmSync(folder, { recursive: true }));

const contextLength = 128;

function runWith(remote: object | null): Record<string, unknown> {
  return {
    model: { path: folder },
    envs: { lake: { type: "frozen-lake", prompt: "compact", maxTurns: 2, answerTags: null } },
    rollout: { groupsPerStep: 2, groupSize: 4, contextLength, sampling: { maxTokens: 4 } },
    training: { optimizer: { lr: 1e-3 }, threads: 1 },
    loop: { type: "sync", steps: 2 },
    engine: { threads: 1, remote },
  };
}

async function using<Result>(server: StandIn, use: (server: StandIn) => Promise<Result>): Promise<Result> {
  try {
    return await use(server);
  } finally {
    await server.close();
  }
}

const RELOAD = ["/pause?mode=abort", "/collective_rpc", "/resume"];

test("a run on vLLM that reloads files ends with the weights of a run here, to the bit", async () => {
  await using(await standInVllm(folder, { contextLength }), async ({ url, calls }) => {
    const there = await trainSmall(runWith({ kind: "vllm", url }));
    expect(digestOf(there.weights)).toBe(digestOf(here.weights));
    expect(calls).toEqual(["/is_paused", ...RELOAD, ...RELOAD, ...RELOAD]);
  });
});

test("a vLLM that starts again between two steps is given the weights of the run before it draws", async () => {
  await using(await standInVllm(folder, { contextLength }), async (server) => {
    // The first tokens of the second step are asked of a server that has the weights it was started with.
    let isStruck = false;
    const strike = () => {
      if (isStruck || server.calls.length < 1 + 2 * RELOAD.length) return;
      isStruck = true;
      void server.startAgain();
    };
    const there = await trainSmall(runWith({ kind: "vllm", url: server.url }), 0, strike);
    expect(isStruck).toBe(true);
    expect(digestOf(there.weights)).toBe(digestOf(here.weights));
    expect(server.calls.filter((call) => call === "/collective_rpc").length).toBeGreaterThanOrEqual(4);
  });
});

test("a vLLM without its routes for training is refused before the first step, with what to do", async () => {
  await using(await standInVllm(folder, { contextLength, without: ["/is_paused"] }), async ({ url }) => {
    await expect(trainSmall(runWith({ kind: "vllm", url }))).rejects.toThrow(
      `${url} has no /is_paused. Start vLLM with VLLM_SERVER_DEV_MODE=1`,
    );
  });
});

test("a run on SGLang that is sent weights in a process group ends with the weights of a run here, to the bit", async () => {
  await using(await standInSglang(folder, { contextLength }), async ({ url, calls, conversation }) => {
    const weights = { type: "broadcast", group: "mine" };
    const placement = { engine: { sleep: true } };
    const there = await trainSmall({ ...runWith({ kind: "sglang", url, weights }), placement });
    expect(digestOf(there.weights)).toBe(digestOf(here.weights));
    const update = ["/pause_generation", "/update_weights_from_distributed", "/continue_generation"];
    const rest = ["/release_memory_occupation", "/resume_memory_occupation"];
    expect(calls).toEqual([
      "/continue_generation",
      "/server_info",
      "/init_weights_update_group",
      ...update,
      ...rest,
      ...update,
      ...rest,
      ...update,
      "/destroy_weights_update_group",
    ]);
    expect(there.metrics.at(-1)!["sync/bytes"]).toBe(4 * here.weights.length);
    // Fields as in `io_struct.py` and `sampling_params.py` of SGLang 0.5.23, compared by hand.
    await expect(conversation()).toMatchFileSnapshot("expected/sglang-conversation.txt");
  });
});

test("a server that starts again while replies are drawn, and is the only one, is sent the weights once more at once", async () => {
  await using(await standInSglang(folder, { contextLength }), async (server) => {
    const { url, calls } = server;
    const numUpdates = () => calls.filter((call) => call === "/update_weights_from_distributed").length;
    // The first tokens of the second step: the next version needs replies of this one.
    let isStruck = false;
    const strike = () => {
      if (isStruck || numUpdates() < 2) return;
      isStruck = true;
      void server.startAgain();
    };
    const there = await trainSmall(runWith({ kind: "sglang", url, weights: { type: "broadcast" } }), 0, strike);
    expect(isStruck).toBe(true);
    expect(digestOf(there.weights)).toBe(digestOf(here.weights));
    expect(numUpdates()).toBe(4);
  });
});

test("a server that starts again while the trainer works gets the next version in a new group", async () => {
  await using(await standInSglang(folder, { contextLength }), async (server) => {
    const { url, calls } = server;
    let numComplete = 0;
    const strike = ({ stage }: SampleEvent) => {
      // The last of the eight samples of the first step: nothing is asked of the server until it is sent weights.
      if (stage === "complete" && ++numComplete === 8) void server.startAgain();
    };
    const there = await trainSmall(runWith({ kind: "sglang", url, weights: { type: "broadcast" } }), 0, strike);
    expect(digestOf(there.weights)).toBe(digestOf(here.weights));
    expect(calls.filter((call) => call === "/init_weights_update_group")).toHaveLength(2);
  });
});

test("servers that a killed run has left stopped, half-way through an update, serve the next one", async () => {
  await using(await standInVllm(folder, { contextLength }), async ({ url }) => {
    await fetch(`${url}/pause?mode=abort`, { method: "POST" });
    const there = await trainSmall(runWith({ kind: "vllm", url }));
    expect(digestOf(there.weights)).toBe(digestOf(here.weights));
  });
  await using(await standInSglang(folder, { contextLength }), async ({ url }) => {
    await fetch(`${url}/pause_generation`, { method: "POST", body: JSON.stringify({ mode: "abort" }) });
    const there = await trainSmall(runWith({ kind: "sglang", url, weights: { type: "broadcast" } }));
    expect(digestOf(there.weights)).toBe(digestOf(here.weights));
  });
});

test("a server that dies while weights are sent leaves the others: they give up the old group and get the version in a new one", async () => {
  let dying: StandIn | null = null;
  const death = { silent: "/update_weights_from_distributed", onSilence: () => void dying!.close() };
  dying = await standInSglang(folder, { contextLength, ...death });
  await using(await standInSglang(folder, { contextLength }), async ({ url, calls }) => {
    const remote = { kind: "sglang", url: [url, dying.url], weights: { type: "broadcast" } };
    const there = await trainSmall(runWith(remote));
    expect(digestOf(there.weights)).toBe(digestOf(here.weights));
    const update = ["/pause_generation", "/update_weights_from_distributed"];
    const join = ["/server_info", "/init_weights_update_group"];
    expect(calls).toEqual([
      "/continue_generation",
      ...join,
      ...update,
      "/destroy_weights_update_group",
      ...join,
      ...[1, 2, 3].flatMap(() => [...update, "/continue_generation"]),
      "/destroy_weights_update_group",
    ]);
  });
});

test("a server that stops answering while it is given weights fails the run within a minute, by its name", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  try {
    const silence = { silent: "/pause_generation", onSilence: () => void vi.advanceTimersByTimeAsync(60_000) };
    await using(await standInSglang(folder, { contextLength, ...silence }), async ({ url }) => {
      const weights = { type: "broadcast" };
      await expect(trainSmall(runWith({ kind: "sglang", url, weights }))).rejects.toThrow(
        `${url} was asked to stop for version 0 and has not answered for 60 s. Look at its log, and start it again.`,
      );
    });
  } finally {
    vi.useRealTimers();
  }
});

test("a trainer that cannot join the group fails the run at once, though the server would wait for it", async () => {
  const silent = "/init_weights_update_group";
  await using(await standInSglang(folder, { contextLength, silent }), async ({ url }) => {
    const weights = { type: "broadcast", backend: "nccl" };
    await expect(trainSmall(runWith({ kind: "sglang", url, weights }))).rejects.toThrow(
      /joinGroup: .*(nccl|CUDA device)/,
    );
  });
});

test("weights on a shared GPU are refused where the trainer has none, and of servers that cannot read them", async () => {
  const weights = { type: "same-gpu" };
  const url = "http://127.0.0.1:9";
  await expect(trainSmall(runWith({ kind: "vllm", url, weights }))).rejects.toThrow(
    'engine.remote.weights is "same-gpu", and the trainer is on cpu. Set device to the GPU that vllm runs on',
  );
  await expect(trainSmall(runWith({ kind: "sglang", url, weights }))).rejects.toThrow(
    `engine.remote.kind "sglang" cannot be given weights on the trainer's GPU. Use "vllm"`,
  );
});

test("servers are given a LoRA run's adapters alone, by a name for each version, and one that lost them gets them again", async () => {
  const lora = (remote: object | null) => ({ ...runWith(remote), model: { path: folder, lora: { rank: 2 } } });
  const alone = await trainSmall(lora(null));
  for (const open of [standInVllm, standInSglang]) {
    await using(await open(folder, { contextLength }), async (server) => {
      const { url, adapters } = server;
      let isStruck = false;
      const strike = () => {
        if (isStruck || adapters.loaded.length < 2) return;
        isStruck = true;
        adapters.forget();
      };
      const kind = open === standInVllm ? "vllm" : "sglang";
      const there = await trainSmall(lora({ kind, url, weights: { type: "adapters" } }), 0, strike);
      expect(digestOf(there.weights)).toBe(digestOf(alone.weights));
      expect(isStruck).toBe(true);
      // The versions 0, 1, 1 once more after it was lost, and 2; the oldest goes when the third comes.
      expect(adapters.loaded.map((name) => name.slice(-3))).toEqual(["-v0", "-v1", "-v1", "-v2"]);
      expect(adapters.kept().map((name) => name.slice(-3))).toEqual(["-v1", "-v2"]);
    });
  }
});
