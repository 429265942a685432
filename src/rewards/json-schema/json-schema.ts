/** Whether a reply is JSON that fits a schema, given in the options or by each prompt. */
import { z } from "zod";
import type { JsonValue } from "../../flow/prompt.ts";
import { CheckPool } from "../checks/check-pool.ts";
import { finalAnswer } from "../final-answer.ts";
import type { RewardDefinition } from "../reward.ts";
import { truthKey, truthOf } from "../truth-texts.ts";
import { compileSchema } from "./validate.ts";

const options = z.strictObject({
  schema: z
    .record(z.string(), z.json())
    .optional()
    .describe("JSON Schema that the reply must fit. Default: the truth of the prompt, as an object or as text."),
  valid: z.number().default(1).describe("Score of JSON that fits the schema."),
  parsed: z.number().default(0).describe("Score of JSON that does not fit the schema."),
  broken: z.number().default(0).describe("Score of a reply without JSON."),
  truthKey,
});

/** The JSON is the whole reply after the thoughts, or its last fenced block. */
export const jsonSchema: RewardDefinition<typeof options> = {
  type: "json-schema",
  options,
  build: ({ schema, valid, parsed, broken, truthKey: key }) => {
    if (schema !== undefined) compileSchema(schema);
    const checks = new CheckPool();
    return {
      name: "json-schema",
      cost: "cpu",
      score: async ({ prompt, reply }, signal) => {
        const wanted = schema ?? schemaOf(truthOf("json-schema", prompt, key));
        const fit = await checks.fitSchema({ schema: wanted, text: finalAnswer(reply) }, signal);
        if (!fit.hasJson) return { value: broken, parts: { extracted: 0 }, explanation: "holds no JSON" };
        const value = fit.problem === undefined ? valid : parsed;
        return { value, parts: { extracted: 1 }, explanation: fit.problem ?? "fits the schema" };
      },
      close: () => checks.close(),
    };
  },
};

/** Throws here, and not in the thread, where the truth is no schema. */
function schemaOf(truth: JsonValue): JsonValue {
  const schema = typeof truth === "string" ? (JSON.parse(truth) as JsonValue) : truth;
  compileSchema(schema);
  return schema;
}
