/**
 * The JavaScript program that runs a solution and its tests together, and reports by the `report` of the sandbox.
 *
 * The solution stands in it as text, so that the tests see its constants and classes; a solution that does not parse fails as a
 * whole. As in Python, a word that nobody can guess starts every line of the report and names what the solution must not find.
 * There are no timers in the sandbox: the time of single tests is not limited, only that of all together.
 */
import type { HarnessJob } from "./harness-job.ts";

/** A function may be asynchronous: its result is awaited. */
export function javascriptHarness(job: HarnessJob): string {
  const name = `tests_${job.secret}`;
  const { functionName } = job;
  const target = `(typeof ${functionName} === "function" ? ${functionName} : ((one) => one.${functionName}.bind(one))(new Solution()))`;
  return [
    `const ${name} = ${harnessSource(job)};`,
    job.solution,
    `;\n${job.setup}\n;`,
    ...job.checks.map((check) => `${name}.checks.push(async () => {\n${check}\n});`),
    ...(functionName === null ? [] : [`${name}.target = () => ${target};`]),
    `${name}.run()`,
  ].join("\n");
}

function harnessSource({ secret, calls, stopsEarly }: HarnessJob): string {
  return String.raw`((send, stringify, parse) => {
  delete globalThis.report;
  const say = (line) => send(${JSON.stringify(secret)} + stringify(line) + "\n");
  const attempt = async (act) => {
    try {
      say(await act());
      return true;
    } catch (error) {
      // The end of the time can be caught here; the sandbox tells it better.
      if (String(error) !== "InternalError: interrupted") say({ kind: "error", error: String(error) });
      return false;
    }
  };
  const tests = {
    checks: [],
    target: null,
    async run() {
      for (const check of tests.checks) {
        const act = async () => { await check(); return { kind: "passed" }; };
        if (!(await attempt(act)) && ${stopsEarly}) return;
      }
      for (const values of parse(${JSON.stringify(JSON.stringify(calls))})) {
        const act = async () => ({ kind: "value", value: (await tests.target()(...values)) ?? null });
        if (!(await attempt(act)) && ${stopsEarly}) return;
      }
    },
  };
  return tests;
})(report, JSON.stringify, JSON.parse)`;
}
