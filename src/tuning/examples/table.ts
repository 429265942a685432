/** What each objective reads from its rows. To add one: a line here, and one in src/training/objectives/table.ts. */
import type { ObjectiveChoice } from "../../training/objectives/table.ts";
import type { ExampleReader } from "./example-reader.ts";
import { labeledReader } from "./labeled-reader.ts";
import { pairReader } from "./pair-reader.ts";
import { scoredReader } from "./scored-reader.ts";
import { supervisedReader } from "./supervised-reader.ts";

/** The reader of an objective. */
export function readerOf(objective: ObjectiveChoice): ExampleReader {
  switch (objective.type) {
    case "supervised":
    case "distillation":
      return supervisedReader(objective);
    case "dpo":
    case "ipo":
    case "orpo":
    case "simpo":
      return pairReader();
    case "kto":
      return labeledReader();
    case "reward-model":
      return scoredReader(objective);
  }
}
