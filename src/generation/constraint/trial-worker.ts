/** The thread that tries grammars out: it compiles each, and answers with null, or with what went wrong. */
import { parentPort, workerData } from "node:worker_threads";
import { invariant } from "../../errors/reroll-error.ts";
import type { Grammar } from "./constraint.ts";
import { compileWith, openCompiler, type SpelledVocabulary } from "./xgrammar.ts";

const port = parentPort;
invariant(port !== null, "trial-worker runs as a worker thread");
const vocabulary = workerData as SpelledVocabulary;
const { xgrammar, compiler } = await openCompiler(vocabulary);
port.on("message", async (grammar: Grammar) => port.postMessage(await tryOut(grammar)));
port.postMessage(null);

async function tryOut(grammar: Grammar): Promise<string | null> {
  try {
    const compiled = await compileWith(compiler, grammar);
    const matcher = await xgrammar.GrammarMatcher.createGrammarMatcher(compiled, [...vocabulary.stopIds]);
    await matcher.getNextTokenBitmask();
    matcher.dispose();
    compiled.dispose();
    return null;
  } catch (cause) {
    return cause instanceof Error ? cause.message : String(cause);
  }
}
