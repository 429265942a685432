/**
 * Where the Hub is, where its files are kept and who asks: the environment variables that Hugging Face's own tools read, so that all
 * of them share one cache and one token.
 */
import { readFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { remember, SECRET } from "../errors/redact-text.ts";
import { Secret } from "../errors/secret.ts";

/** How the Hub is reached. */
export interface HubSettings {
  /** The address of the Hub, without a slash at its end. */
  readonly endpoint: string;
  /** The folder of the cache, with a folder for each repository. */
  readonly cacheFolder: string;
  /** null: nobody is logged in. */
  readonly token: Secret | null;
  /** Whether only the cache may be used. */
  readonly isOffline: boolean;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** Reads HF_ENDPOINT, HF_HOME, HF_HUB_CACHE, HF_TOKEN, HF_TOKEN_PATH and HF_HUB_OFFLINE. */
export function hubSettings(environment: Environment): HubSettings {
  const home = environment.HF_HOME || join(environment.XDG_CACHE_HOME || join(homedir(), ".cache"), "huggingface");
  return {
    endpoint: (environment.HF_ENDPOINT || "https://huggingface.co").replace(/\/+$/, ""),
    cacheFolder: environment.HF_HUB_CACHE || environment.HUGGINGFACE_HUB_CACHE || join(home, "hub"),
    token: tokenOf(environment, home),
    isOffline: isOn(environment.HF_HUB_OFFLINE) || isOn(environment.TRANSFORMERS_OFFLINE),
  };
}

function isOn(value: string | undefined): boolean {
  return value !== undefined && /^(1|true|yes|on)$/i.test(value);
}

function tokenOf(environment: Environment, home: string): Secret | null {
  const value = (
    environment.HF_TOKEN ||
    environment.HUGGING_FACE_HUB_TOKEN ||
    readToken(environment.HF_TOKEN_PATH || join(home, "token"))
  ).trim();
  if (value === "") return null;
  remember(value);
  return new Secret(() => value, SECRET);
}

/** The file that `hf auth login` writes. */
function readToken(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    // Most people are not logged in.
    return "";
  }
}
