/** The word game as a server of its own: a line with a reply comes in, a line with its reward goes out. It is made to be killed. */
import { createInterface } from "node:readline";

for await (const line of createInterface({ input: process.stdin })) {
  const { id, text } = JSON.parse(line);
  process.stdout.write(`${JSON.stringify({ id, reward: text.length })}\n`);
}
