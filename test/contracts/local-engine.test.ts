/** The contract of `Generate`, for the engine that runs a model: in this thread, and in its own. */

import { loadTokenizer } from "../../src/chat/tokenizer/load-tokenizer.ts";
import { LocalEngine } from "../../src/generation/local/local-engine.ts";
import { startThreadedEngine } from "../../src/generation/local/threaded-engine.ts";
import { loadCausalLm } from "../../src/models/causal-lm/load-causal-lm.ts";
import { describeGenerateContract } from "./generate-contract.ts";

const folder = "fixtures/hf-tiny/qwen3";
const tokenizer = await loadTokenizer("fixtures/tokenizer");
const vocabularySize = 260;
const contextLength = 256;
const decode = (ids: Iterable<number>) => tokenizer.decode(ids);

describeGenerateContract("local engine", async () => {
  const model = loadCausalLm(folder);
  const engine = new LocalEngine(model, { contextLength, tokenizer });
  const close = async () => {
    await engine.close();
    model.dispose();
  };
  return { generate: engine.generate, vocabularySize, contextLength, decode, close };
});

describeGenerateContract("threaded engine", async () => {
  const engine = await startThreadedEngine({
    folder,
    tokenizerFolder: "fixtures/tokenizer",
    options: { contextLength },
    numThreads: 1,
  });
  return { generate: engine.generate, vocabularySize, contextLength, decode, close: () => engine.close() };
});
