/** What a run file says about teachers. */
import { z } from "zod";
import { address, secret } from "../errors/secret.ts";
import { teacherKinds } from "../generation/remote/dialects.ts";

const CONTEXT = "Text that the teacher reads before the first message. {truth} and columns of the data are filled in.";

const teacherOptions = z.discriminatedUnion("type", [
  z.strictObject({
    type: z.literal("folder"),
    path: z
      .string()
      .min(1)
      .describe("Folder of the teacher, in Hugging Face layout. Its tokenizer must be the model's."),
    context: z.string().min(1).nullable().default(null).describe(CONTEXT),
  }),
  z.strictObject({
    type: z.literal("server"),
    url: address().describe("Address of the server."),
    kind: z.enum(teacherKinds).describe("Kind of server."),
    apiKey: secret().nullable().default(null).describe("API key, sent as a bearer token."),
    context: z.string().min(1).nullable().default(null).describe(CONTEXT),
  }),
  z.strictObject({
    type: z.literal("self"),
    weights: z
      .enum(["start", "current"])
      .default("start")
      .describe("Weights of the model to teach with: those the run starts from, or those being trained."),
    context: z.string().min(1).describe(CONTEXT),
  }),
]);

/** The options of distillation. */
export const distillationOptions = z.strictObject({
  teachers: z
    .record(z.string(), teacherOptions)
    .describe("Teachers by domain. The one named default teaches every domain that has none of its own."),
  form: z
    .enum(["advantage", "full"])
    .default("advantage")
    .describe(
      "What joins what: the log of teacher / policy at each sampled token the advantages (advantage), or the divergence of whole next-token distributions the loss (full).",
    ),
  divergence: z
    .enum(["reverse", "forward", "jsd"])
    .default("reverse")
    .describe(
      "Divergence of form full: KL(policy || teacher), KL(teacher || policy), or the Jensen-Shannon divergence.",
    ),
  coefficient: z.number().min(0).default(1).describe("Weight of what the teachers say. 0: it is measured only."),
  rewards: z.boolean().default(true).describe("Whether rewards train too. false: the teachers alone do."),
});

/** How a run learns from teachers. */
export type DistillationOptions = z.output<typeof distillationOptions>;
