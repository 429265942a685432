/**
 * What a program in the JavaScript sandbox finds beside the language: the few parts of Node that small programs use.
 *
 * console, process.stdout, process.exit, and standard input by any of the usual ways: `fs.readFileSync(0)`, `process.stdin`
 * and `readline`. Objects are printed as JSON. There are no timers, no files, no network: nothing here reaches the host but
 * `write` and `report`, which add to texts.
 */

/** A function of `write(isError, text)` and `stdin`, evaluated inside QuickJS before the program. */
export const preludeSource = String.raw`(function (write, stdin) {
  const show = (value) => {
    if (typeof value === "string") return value;
    if (value instanceof Error) return value.stack ? value + "\n" + value.stack : String(value);
    if (typeof value === "object" && value !== null) {
      try { return JSON.stringify(value); } catch { return String(value); }
    }
    return Object.is(value, -0) ? "-0" : String(value);
  };
  const line = (isError) => (...values) => write(isError, values.map(show).join(" ") + "\n");
  const assert = (isTrue, message) => {
    if (isTrue) return;
    throw message instanceof Error ? message : new Error(message === undefined ? "assertion failed" : String(message));
  };
  const later = (listener, ...values) => void Promise.resolve().then(() => listener(...values));
  const lines = () => stdin.replace(/\n$/, "").split("\n").map((text) => text.replace(/\r$/, ""));

  const input = {
    setEncoding() { return input; },
    resume() { return input; },
    on(event, listener) {
      if (event === "data" && stdin !== "") later(listener, stdin);
      if (event === "end" || event === "close") later(() => later(listener));
      return input;
    },
    async *[Symbol.asyncIterator]() { if (stdin !== "") yield stdin; },
  };
  input.once = input.addListener = input.on;
  const createInterface = () => {
    const reader = {
      on(event, listener) {
        if (event === "line" && stdin !== "") for (const text of lines()) later(listener, text);
        if (event === "close") later(() => later(listener));
        return reader;
      },
      close() {},
      async *[Symbol.asyncIterator]() { if (stdin !== "") yield* lines(); },
    };
    reader.once = reader.on;
    return reader;
  };
  const readFileSync = (path) => {
    if (path === 0 || path === "/dev/stdin") return stdin;
    throw new Error("there are no files in this sandbox, only standard input (0)");
  };
  const modules = { fs: { readFileSync }, readline: { createInterface } };
  const exit = (code = 0) => { throw Object.assign(new Error("exit " + code), { exitCode: code }); };
  const globals = {
    console: { log: line(false), info: line(false), debug: line(false), warn: line(true), error: line(true), assert },
    process: { argv: ["node", "solution.js"], env: {}, stdin: input, stdout: { write: (text) => write(false, String(text)) }, exit },
    require(name) {
      const found = modules[String(name).replace(/^node:/, "")];
      if (found === undefined) throw new Error("there is no module " + name + " in this sandbox");
      return found;
    },
  };
  for (const [name, value] of Object.entries(globals)) {
    Object.defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable: false });
  }
})`;

/**
 * A function of what was thrown: the status of `process.exit` or nothing, a colon, and the error as text. Evaluated before the prelude, so
 * that it has the functions of the language as they were.
 */
export const describeErrorSource = String.raw`((String, slice) => (error) => {
  const text = (value) => slice(typeof value === "object" || typeof value === "function" ? "" : String(value), 0, 4000);
  if (typeof error !== "object" || error === null) return ":" + (error === undefined ? "undefined was thrown" : text(error));
  const read = (name) => { try { return error[name]; } catch { return undefined; } };
  const exitCode = read("exitCode"), name = read("name"), stack = read("stack");
  const head = name === undefined ? "an object was thrown" : text(name) + ": " + text(read("message"));
  const code = typeof exitCode === "number" ? exitCode | 0 : "";
  return code + ":" + head + (typeof stack === "string" && stack !== "" ? "\n" + slice(stack, 0, 4000) : "");
})(String, Function.prototype.call.bind(String.prototype.slice))`;
