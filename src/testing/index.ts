/** What `import ... from "reroll/testing"` gives: engines and models that need no weights, for tests of your own. */

export {
  createScriptedEngine,
  type ScriptedEngine,
  type ScriptedOptions,
  type ScriptedReply,
} from "./scripted-generate.ts";
export { tinyConfig, tinyModel } from "./tiny-model.ts";
