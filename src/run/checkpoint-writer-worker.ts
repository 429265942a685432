/**
 * The thread that writes checkpoints while training goes on: files in memory in, files on disk and their manifest out. Nobody waits for it, so that
 * it also gives back what the process has freed.
 */
import { type HeldFiles, writeHeld } from "../models/formats/file-sink.ts";
import { trimMemory } from "../torch/memory.ts";
import { hostInThread } from "../workers/host-in-thread.ts";
import { tensorCarrier } from "../workers/tensor-carrier.ts";
import { writeManifest } from "./manifest.ts";

/** What the thread does. */
export interface CheckpointWriter {
  /** Writes the files, all in this folder, and then the manifest of everything that is in it. */
  write(folder: string, files: HeldFiles): Promise<void>;
}

const writer: CheckpointWriter = {
  write: async (folder, files) => {
    writeHeld(files);
    await writeManifest(folder);
    trimMemory();
  },
};

await hostInThread(() => writer, { carrier: tensorCarrier });
