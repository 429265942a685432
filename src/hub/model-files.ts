/** Which files of a repository make a model: its config, its tokenizer and one set of weights. */
import { RerollError } from "../errors/reroll-error.ts";
import type { ChooseFiles } from "./hub.ts";

/** Files that tell about a model. */
const ABOUT = /^(config|generation_config|tokenizer|tokenizer_config|special_tokens_map|adapter_config)\.json$/;
const TEMPLATE = /^(chat_template\.jinja|additional_chat_templates\/[^/]+\.jinja)$/;
const WEIGHTS = /^(model(-\d{5}-of-\d{5})?\.safetensors|model\.safetensors\.index\.json|adapter_model\.safetensors)$/;

/** What loading a model takes. Where a repository has whole weights and shards, the whole ones are taken, as transformers does. */
export const modelFiles: ChooseFiles = async (paths) => {
  const isWhole = paths.includes("model.safetensors");
  const weights = paths.filter((path) => WEIGHTS.test(path) && !(isWhole && /^model[-.].*(-of-|index)/.test(path)));
  if (weights.length === 0) throw noWeights(paths);
  return [...tokenizerPaths(paths), ...weights];
};

/** What loading a tokenizer takes. */
export const tokenizerFiles: ChooseFiles = async (paths) => tokenizerPaths(paths);

/** What the plan of a run takes: the shape of the model. */
export const shapeFiles: ChooseFiles = async (paths) =>
  paths.filter((path) => ABOUT.test(path) && path === "config.json");

function tokenizerPaths(paths: readonly string[]): string[] {
  return paths.filter((path) => ABOUT.test(path) || TEMPLATE.test(path));
}

function noWeights(paths: readonly string[]): RerollError {
  const gguf = paths.filter((path) => path.endsWith(".gguf"));
  const others = paths.filter((path) => /\.(bin|pt|pth|safetensors|onnx)$/.test(path));
  const advice =
    gguf.length > 0
      ? `It has GGUF files; name one of them behind the repository, as in owner/name/${gguf[0]}: ${gguf.slice(0, 12).join(", ")}`
      : `It has ${others.slice(0, 8).join(", ") || "no weights at all"}; model.safetensors is needed, or its shards with their index`;
  return new RerollError("HUB_NOT_FOUND", `The repository holds no weights that reroll loads. ${advice}.`, { paths });
}
