/** Why no token can be drawn for a sequence. */
import { RerollError } from "../../errors/reroll-error.ts";

/** The scores of a row are not numbers. */
export function notFinite(): RerollError {
  return new RerollError(
    "NON_FINITE",
    "The model's scores are not finite numbers. Check the weights: training may have diverged.",
  );
}

/** No token is left that a constraint allows. */
export function stuck(): RerollError {
  return new RerollError(
    "CONSTRAINT_STUCK",
    "No token of the vocabulary fits the format that was asked for. Ask for one that this tokenizer can write.",
  );
}
