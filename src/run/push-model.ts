/** The weights of a run onto the Hub: exported, with a card made from the run, as one commit. */
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { RerollError } from "../errors/reroll-error.ts";
import { snapshotOrigin } from "../hub/hub-cache.ts";
import { parseHubName } from "../hub/hub-name.ts";
import { hubSettings } from "../hub/hub-settings.ts";
import { uploadFolder } from "../hub/upload-folder.ts";
import { readRun } from "../tracking/read-run.ts";
import { type ExportOptions, exportModel } from "./export-model.ts";
import { type FoundModel, findModel } from "./find-model.ts";
import { modelCard } from "./model-card.ts";
import type { RunEnvironment } from "./resolve-run.ts";

interface PushOptions extends Omit<ExportOptions, "out"> {
  /** The repository, as in owner/name or owner/name@branch. */
  readonly to: string;
  readonly isPrivate: boolean;
  readonly environment: RunEnvironment;
  readonly report?: (line: string) => void;
  readonly retryDelaysMs?: readonly number[];
}

/** Out: what was written, and where to see it. */
export async function pushModel({
  to,
  isPrivate,
  environment,
  report,
  retryDelaysMs,
  ...options
}: PushOptions): Promise<string> {
  const name = parseHubName(to);
  if (name === null || name.file !== null) {
    throw new RerollError("INVALID_OPTION", `--to takes a repository, as in owner/name: got ${JSON.stringify(to)}.`);
  }
  const found = findModel(options.from, options.step);
  const folder = await mkdtemp(join(tmpdir(), "reroll-push-"));
  try {
    await exportModel({ ...options, out: folder });
    const isAdapter = existsSync(join(folder, "adapter_config.json"));
    if (isAdapter) await nameBase(join(folder, "adapter_config.json"));
    const run = found.runFolder === null ? null : ((await readRun(found.runFolder)) ?? null);
    const card = modelCard({ repo: name.repo, run, step: stepOf(found), isAdapter });
    if (!existsSync(join(folder, "README.md"))) await writeFile(join(folder, "README.md"), card);
    const summary = `Upload ${found.runFolder === null ? basename(options.from) : `${basename(found.runFolder)}, ${basename(dirname(found.folder))}`} with reroll`;
    const page = await uploadFolder(hubSettings(environment), {
      folder,
      name,
      isPrivate,
      summary,
      ...(report !== undefined && { report }),
      ...(retryDelaysMs !== undefined && { retryDelaysMs }),
    });
    return `Pushed ${found.name} to ${page}`;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Adapters name their base as others find it: by its name on the Hub, where it was fetched from there. */
async function nameBase(file: string): Promise<void> {
  const config: Record<string, unknown> = JSON.parse(await readFile(file, "utf8"));
  const { base_model_name_or_path: base } = config;
  const origin = typeof base === "string" ? snapshotOrigin(base) : null;
  if (origin === null) return;
  await writeFile(file, `${JSON.stringify({ ...config, base_model_name_or_path: origin.repo }, null, 2)}\n`);
}

function stepOf({ runFolder, folder }: FoundModel): number | null {
  const step = runFolder === null ? undefined : /^step-(\d+)$/.exec(basename(dirname(folder)))?.[1];
  return step === undefined ? null : Number(step);
}
