import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { type FakeAnswer, type FakeJudge, type FakeRequest, startFakeJudge } from "../../../test/rewards/fake-judge.ts";
import { never, rewardInput } from "../../../test/rewards/reward-input.ts";
import { createScorer } from "../score-all.ts";
import { judge } from "./judge.ts";

let server: FakeJudge | undefined;
afterEach(() => server?.close());

type Options = Partial<Parameters<typeof judge.options.parse>[0]> & object;

async function judgeOver(answer: (request: FakeRequest, index: number) => FakeAnswer, options: Options = {}) {
  server = await startFakeJudge(answer);
  const quick = { mode: "rubric", model: "judge-1", backoffMs: 1, timeoutMs: 10_000 };
  return judge.build(judge.options.parse({ ...quick, baseUrl: server.baseUrl, ...options }));
}

const good = { say: "Fine.\nSCORE: 8" };

test("a rubric is sent with the conversation and the reply, and read as 0 to 1", async () => {
  const reward = await judgeOver(() => good, { apiKey: "secret", rubric: "Be brief.", body: { seed: 3 } });
  expect(await reward.score(rewardInput("<think>hm</think>Forty-two."), never)).toEqual({ value: 0.8 });
  const [{ body, headers }] = server!.requests as [FakeRequest];
  expect(headers.authorization).toBe("Bearer secret");
  expect(body).toMatchObject({ model: "judge-1", temperature: 0, max_tokens: 1024, seed: 3 });
  expect(body.messages[0]!.content).toContain("Be brief.");
  expect(body.messages[1]!.content).toContain("user: What is it?");
  expect(body.messages[1]!.content).toContain("\nForty-two.\n");
  expect(body.messages[1]!.content).not.toContain("hm");
});

test("a reference answer is compared with the truth", async () => {
  const reward = await judgeOver(
    ({ body }) => ({ say: `VERDICT: ${body.messages[1]!.content.includes("\nParis\n") ? "CORRECT" : "INCORRECT"}` }),
    { mode: "reference" },
  );
  expect(await reward.score(rewardInput("It is so.", "Paris"), never)).toEqual({ value: 1 });
  expect(await reward.score(rewardInput("It is so.", "Rome"), never)).toEqual({ value: 0 });
  await expect(reward.score(rewardInput("It is so.", null), never)).rejects.toMatchObject({ code: "INVALID_TRUTH" });
});

/** Which reply stands at A. */
function firstOf({ body }: FakeRequest): string {
  return /<<<REPLY_A \w+>>>\n(.*)\n/.exec(body.messages[1]!.content)![1]!;
}

test.each([
  { verdict: (first: string) => (first === "mine" ? "A" : "B"), value: 1, consistent: 1 },
  { verdict: (first: string) => (first === "mine" ? "B" : "A"), value: 0, consistent: 1 },
  { verdict: () => "A", value: 0.5, consistent: 0 },
  { verdict: () => "TIE", value: 0.5, consistent: 1 },
  { verdict: (first: string) => (first === "mine" ? "A" : "TIE"), value: 0.75, consistent: 0 },
])("pairs are judged in both orders: $value", async ({ verdict, value, consistent }) => {
  const reward = await judgeOver((request) => ({ say: `WINNER: ${verdict(firstOf(request))}` }), { mode: "pairwise" });
  expect(await reward.score(rewardInput("mine", "theirs"), never)).toEqual({ value, parts: { consistent } });
  expect(server!.requests.map(firstOf).sort()).toEqual(["mine", "theirs"]);
});

const word = { mode: "word", question: "What is it about?", contrary: ["nothing"] } as const;
const saying = (masses: Readonly<Record<string, number>>): FakeAnswer => {
  const top_logprobs = Object.entries(masses).map(([token, mass]) => ({ token, logprob: Math.log(mass) }));
  const logprobs = { content: [{ token: "x", logprob: 0, top_logprobs }] };
  return { raw: JSON.stringify({ choices: [{ message: { content: "x" }, logprobs }] }) };
};

test("a word is judged by its probability, and the same reply anew for another truth", async () => {
  const reward = await judgeOver(() => saying({ cats: 0.3, nothing: 0.6 }), { ...word, truthKey: "subject" });
  const scoreFor = async (subject: string) => (await reward.score(rewardInput("they purr", { subject }), never)).value;
  expect(await scoreFor("cats")).toBeCloseTo(0.3, 12);
  expect(await scoreFor("rain")).toBe(0);
  expect(await scoreFor("cats")).toBeCloseTo(0.3, 12);
  expect(server!.requests).toHaveLength(2);
  expect(server!.requests[0]!.body).toMatchObject({ max_tokens: 1, logprobs: true, top_logprobs: 20 });
});

test("answers of the options stand in for the truth", async () => {
  const yesNo = { mode: "word", question: "Is it polite?", answers: ["Yes"], contrary: ["No"] } as const;
  const reward = await judgeOver(() => saying({ Yes: 0.2, No: 0.6 }), yesNo);
  expect((await reward.score(rewardInput("so"), never)).value).toBeCloseTo(0.2, 12);
});

test("a server that gives no log-probs cannot judge words, and is not asked again", async () => {
  const reward = await judgeOver(() => good, word);
  await expect(reward.score(rewardInput("so", "cats"), never)).rejects.toThrow('answered without "logprobs"');
  expect(server!.requests).toHaveLength(1);
});

test("right and contrary words that begin alike are refused, and a truth among the contrary words is left out of them", async () => {
  const alike = { ...word, answers: ["Yes"], contrary: [" yes."] };
  await expect(judgeOver(() => good, alike)).rejects.toThrow("no first token tells them apart");
  const reward = await judgeOver(() => saying({ food: 0.9, sport: 0.1 }), { ...word, contrary: ["food", "sport"] });
  expect((await reward.score(rewardInput("so", "food"), never)).value).toBeCloseTo(0.9, 12);
  await expect(reward.score(rewardInput("so", "sports"), never)).rejects.toMatchObject({ code: "INVALID_TRUTH" });
});

test("mode word without its question is refused", async () => {
  await expect(judgeOver(() => good, { mode: "word" })).rejects.toThrow('Mode \\"word\\" needs a question');
});

test.each<{ name: string; fault: FakeAnswer }>([
  { name: "429", fault: { status: 429 } },
  { name: "500", fault: { status: 500, body: "oops" } },
  { name: "503", fault: { status: 503 } },
  { name: "hang", fault: "hang" },
  { name: "garbage", fault: { raw: "<html>" } },
  { name: "no choices", fault: { raw: '{"choices": []}' } },
  { name: "truncated JSON", fault: { raw: '{"choices": [{"mess' } },
  { name: "a connection that is lost", fault: { cutOff: '{"choices"' } },
  { name: "a reply without a verdict", fault: { say: "It is good." } },
])("$name is tried again", async ({ fault }) => {
  const limit = fault === "hang" ? { timeoutMs: 500 } : {};
  const reward = await judgeOver((_, index) => (index < 2 ? fault : good), limit);
  expect(await reward.score(rewardInput("so"), never)).toEqual({ value: 0.8 });
  expect(server!.requests).toHaveLength(3);
});

test.each<{ name: string; fault: FakeAnswer; code: string; message: string }>([
  { name: "500", fault: { status: 500, body: "oops" }, code: "JUDGE_REFUSED", message: 'answered 500: "oops"' },
  { name: "hang", fault: "hang", code: "JUDGE_UNREACHABLE", message: "no answer within 40 ms" },
  { name: "garbage", fault: { raw: "<html>" }, code: "JUDGE_UNREADABLE", message: 'without a reply: "<html>"' },
  { name: "lost", fault: { cutOff: "{" }, code: "JUDGE_UNREACHABLE", message: "terminated" },
  { name: "no verdict", fault: { say: "Good." }, code: "JUDGE_UNREADABLE", message: 'no verdict: got "Good."' },
])("$name without end is an error after the retries, never a zero", async ({ fault, code, message }) => {
  // A short limit only where it is what ends the call: elsewhere a busy machine would reach it first.
  const limit = fault === "hang" ? { timeoutMs: 40 } : {};
  const reward = await judgeOver(() => fault, { maxRetries: 2, ...limit });
  const outcome = await createScorer({ reward, clock: () => 0 }).score(rewardInput("so"), never);
  expect(outcome).toMatchObject({ kind: "failed", error: { code } });
  expect(outcome.kind === "failed" && outcome.error.message).toContain(message);
  expect(server!.requests).toHaveLength(3);
});

test("a refusal that will not pass is final", async () => {
  const reward = await judgeOver(() => ({ status: 401, body: "bad key" }));
  await expect(reward.score(rewardInput("so"), never)).rejects.toThrow('answered 401: "bad key"');
  expect(server!.requests).toHaveLength(1);
});

test("a server that is not there is an error", async () => {
  const reward = await judgeOver(() => good, { maxRetries: 1, baseUrl: "http://127.0.0.1:1" });
  await expect(reward.score(rewardInput("so"), never)).rejects.toMatchObject({ code: "JUDGE_UNREACHABLE" });
});

test("waits double, and Retry-After is honoured in both of its forms", async () => {
  const timesMs: number[] = [];
  const faults: FakeAnswer[] = [
    { status: 500 },
    { status: 500 },
    { status: 429, headers: { "retry-after": "0.3" } },
    {
      status: 503,
      headers: { date: "Sun, 06 Nov 1994 08:49:37 GMT", "retry-after": "Sun, 06 Nov 1994 08:49:38 GMT" },
    },
  ];
  const reward = await judgeOver(
    (_, index) => {
      timesMs.push(performance.now());
      return faults[index] ?? good;
    },
    { backoffMs: 40 },
  );
  await reward.score(rewardInput("so"), never);
  const waits = timesMs.slice(1).map((timeMs, i) => timeMs - timesMs[i]!);
  const least = [40, 80, 300, 1000];
  waits.forEach((wait, i) => void expect(wait).toBeGreaterThanOrEqual(least[i]! - 2));
  expect(waits).toHaveLength(4);
});

test("a server that asks for too long a wait is given up", async () => {
  const reward = await judgeOver(() => ({ status: 429, headers: { "retry-after": "3600" } }), { maxBackoffMs: 1000 });
  await expect(reward.score(rewardInput("so"), never)).rejects.toThrow("answered 429");
  expect(server!.requests).toHaveLength(1);
});

test("beyond its budget of calls a judge fails with BUDGET_SPENT", async () => {
  const reward = await judgeOver(() => good, { maxCalls: 2 });
  for (const reply of ["a", "b"]) expect(await reward.score(rewardInput(reply), never)).toEqual({ value: 0.8 });
  await expect(reward.score(rewardInput("c"), never)).rejects.toMatchObject({ code: "BUDGET_SPENT" });
  // What is known costs nothing.
  expect(await reward.score(rewardInput("a"), never)).toEqual({ value: 0.8 });
  expect(server!.requests).toHaveLength(2);
});

test("beyond its budget of tokens too, and retries count", async () => {
  const reward = await judgeOver((_, index) => (index === 0 ? { say: "?", tokens: 600 } : { ...good, tokens: 600 }), {
    maxTokens: 1000,
  });
  expect(await reward.score(rewardInput("a"), never)).toEqual({ value: 0.8 });
  await expect(reward.score(rewardInput("b"), never)).rejects.toThrow("The budget is spent: 1200 tokens of 1000");
});

test("a question is asked once, also in the next run where there is a file", async () => {
  const root = mkdtempSync(join(tmpdir(), "reroll-judge-"));
  const cacheFile = join(root, "verdicts.jsonl");
  const first = await judgeOver(() => good, { cacheFile });
  await first.score(rewardInput("a"), never);
  await first.score(rewardInput("a"), never);
  await first.close?.();
  const options = { mode: "rubric", model: "judge-1", baseUrl: server!.baseUrl, cacheFile };
  const second = await judge.build(judge.options.parse(options));
  expect(await second.score(rewardInput("a"), never)).toEqual({ value: 0.8 });
  expect(server!.requests).toHaveLength(1);
  const other = await judge.build(judge.options.parse({ ...options, temperature: 1 }));
  await other.score(rewardInput("a"), never);
  expect(server!.requests).toHaveLength(2);
  rmSync(root, { recursive: true });
});

test("no more calls are open than allowed", async () => {
  const reward = await judgeOver(() => ({ ...good, afterMs: 10 }), { concurrency: 3 });
  await Promise.all(Array.from({ length: 12 }, (_, i) => reward.score(rewardInput(`${i}`), never)));
  expect([server!.mostAtOnce, server!.requests.length]).toEqual([3, 12]);
});

test("a judge that is called off stops, in a call and in a wait", async () => {
  for (const fault of ["hang", { status: 429, headers: { "retry-after": "30" } }] as const) {
    const reward = await judgeOver(() => fault, { timeoutMs: 60_000 });
    const stop = new AbortController();
    const scoring = reward.score(rewardInput("so"), stop.signal);
    await expect.poll(() => server!.requests, { timeout: 60_000 }).toHaveLength(1);
    setTimeout(() => stop.abort(), 50);
    await expect(scoring).rejects.toThrow(/abort/i);
    expect(server!.requests).toHaveLength(1);
    await server!.close();
  }
});
