/**
 * The terminal of a run: a live view where there is a terminal, and a line per step where there is none.
 *
 * In: the state of the run, which is read whenever it is drawn, and lines. Out: text on a stream. The view is drawn
 * four times a second, so that a fast run is not slowed down.
 */
import { createLogUpdate } from "log-update";
import pc from "picocolors";
import type { Clock } from "../flow/clock.ts";
import type { ConsoleState } from "./console-state.ts";
import { wrap } from "./format-value.ts";
import { renderLive, renderSummary } from "./render-console.ts";
import type { RunStatus } from "./run-record.ts";

/** How a run is shown in a terminal. */
export interface ConsoleOptions {
  /** Where to write. Default: standard output. */
  readonly stream?: NodeJS.WriteStream;
  /** Whether to redraw in place. Default: if the stream is a terminal and colors are not turned off. */
  readonly isLive?: boolean;
  /** Commands to go on with, by how the run ended; null for one that leaves no folder. Default: none. */
  readonly next?: (status: RunStatus) => readonly string[] | null;
}

/** What the console is told besides the state. */
export interface ConsoleView {
  /** Prints a line about something that the live view shows anyway. */
  step(line: string): void;
  /** Prints a line that stays. */
  note(line: string): void;
  /** Prints the summary and closes the view. */
  close(): void;
}

const FRAME_MS = 250;
const DEFAULT_WIDTH = 100;
const MIN_WIDTH = 40;

/** Starts to show a run. Live views draw `state()` on their own until they are closed. */
export function openConsole(state: () => ConsoleState, clock: Clock, options: ConsoleOptions = {}): ConsoleView {
  const { stream = process.stdout, next = () => [] } = options;
  const isLive = options.isLive ?? (stream.isTTY === true && pc.isColorSupported);
  const colors = pc.createColors(isLive && pc.isColorSupported);
  // The last column stays free: a terminal would wrap there.
  const width = () => Math.max(MIN_WIDTH, stream.columns === undefined ? DEFAULT_WIDTH : stream.columns - 1);
  const summary = () => renderSummary(state(), clock(), next(state().status), width(), colors);
  if (!isLive) {
    const write = (line: string) => void stream.write(`${line}\n`);
    return { step: write, note: write, close: () => write(summary()) };
  }
  const update = createLogUpdate(stream);
  const draw = () => update(renderLive(state(), clock(), width(), colors));
  const timer = setInterval(draw, FRAME_MS);
  timer.unref();
  draw();
  return {
    step() {},
    note: (line) => update.persist(wrap(line, width(), 20).join("\n")),
    close() {
      clearInterval(timer);
      update.clear();
      update.done();
      stream.write(`${summary()}\n`);
    },
  };
}
