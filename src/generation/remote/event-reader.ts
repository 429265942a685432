/** Server-sent events from text that comes in pieces. */
import { remoteFault } from "./remote-fault.ts";

/** A line longer than this is no event of an inference server. */
const MAX_LINE = 64 * 1024 * 1024;

/** Yields the data of each event. Other fields, comments and empty lines are skipped. */
export async function* readEvents(chunks: AsyncIterable<string>, url: string): AsyncGenerator<string> {
  let rest = "";
  for await (const chunk of chunks) {
    const lines = (rest + chunk).split("\n");
    rest = lines.pop() ?? "";
    if (rest.length > MAX_LINE) throw remoteFault(`${url} sends an event without an end`);
    for (const line of lines) {
      if (line.startsWith("data:")) yield line.slice("data:".length).trim();
    }
  }
}
