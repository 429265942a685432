/** Whether a reply is JSON that fits a schema, given in the options or by each prompt. */
import { z } from "zod";
import type { JsonValue } from "../../flow/prompt.ts";
import { finalAnswer } from "../final-answer.ts";
import type { RewardDefinition } from "../reward.ts";
import { truthKey, truthOf } from "../truth-texts.ts";
import { findJson } from "./find-json.ts";
import { compileSchema, type Validator } from "./validate.ts";

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
    const fixed = schema === undefined ? undefined : compileSchema(schema);
    return {
      name: "json-schema",
      cost: "instant",
      score: ({ prompt, reply }) => {
        const validate = fixed ?? compileTruth(truthOf("json-schema", prompt, key));
        const found = findJson(finalAnswer(reply));
        if (found === undefined) return { value: broken, parts: { extracted: 0 }, explanation: "holds no JSON" };
        const problem = validate(found);
        const value = problem === undefined ? valid : parsed;
        return { value, parts: { extracted: 1 }, explanation: problem ?? "fits the schema" };
      },
    };
  },
};

function compileTruth(truth: JsonValue): Validator {
  return compileSchema(typeof truth === "string" ? (JSON.parse(truth) as JsonValue) : truth);
}
