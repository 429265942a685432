/** What a run file says about servers that sample for it. */
import { z } from "zod";
import { address, secret } from "../errors/secret.ts";
import { remoteKinds } from "../generation/remote/dialects.ts";

const weightsOptions = z.discriminatedUnion("type", [
  z.strictObject({ type: z.literal("files") }),
  z.strictObject({ type: z.literal("adapters") }),
  z.strictObject({ type: z.literal("same-gpu") }),
  z.strictObject({
    type: z.literal("broadcast"),
    host: z
      .string()
      .min(1)
      .default("127.0.0.1")
      .describe("Address of the trainer's machine, at which the servers reach it."),
    port: z
      .int()
      .min(0)
      .max(65_535)
      .default(0)
      .describe("Port of the store in which trainer and servers meet. 0: any free one."),
    backend: z
      .enum(["nccl", "gloo"])
      .nullable()
      .default(null)
      .describe("Library that moves the weights. null: nccl where the trainer is on a GPU, else gloo."),
    group: z
      .string()
      .min(1)
      .default("reroll")
      .describe("Beginning of the group's name on the servers; runs that share a server need different ones."),
  }),
]);

/** The options of `engine.remote`. */
export const remoteOptions = z.strictObject({
  url: z
    .union([address(), z.array(address()).min(1)])
    .describe("Address of the server, or a list of addresses of servers that share the requests."),
  kind: z.enum(remoteKinds).describe("Kind of server."),
  apiKey: secret().nullable().default(null).describe("API key, sent as a bearer token."),
  weights: weightsOptions
    .prefault({ type: "files" })
    .describe(
      "How new weights reach the servers: as whole models in the run folder (files), as adapters there (adapters, of a LoRA run), tensor by tensor in a process group (broadcast), or from the trainer's memory on the GPU that it shares with them (same-gpu).",
    ),
});

/** How new weights are handed to servers while the trainer lends them. */
export type SendingOptions = Extract<z.output<typeof weightsOptions>, { type: "broadcast" | "same-gpu" }>;

/** How new weights are broadcast to servers. */
export type BroadcastOptions = Extract<SendingOptions, { type: "broadcast" }>;
