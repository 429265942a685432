/** The thread that writes checkpoints while training goes on: files in memory in, files on disk and their manifest out. */
import { type HeldFiles, writeHeld } from "../models/formats/file-sink.ts";
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
  },
};

await hostInThread(() => writer, { carrier: tensorCarrier });
