import type { RerollError } from "../errors/reroll-error.ts";

/** Why a reply ended. */
export type Finish =
  | { readonly kind: "stop"; readonly by: "token"; readonly tokenId: number }
  | { readonly kind: "stop"; readonly by: "string"; readonly text: string }
  | { readonly kind: "length"; readonly limit: "max-tokens" | "context" }
  | { readonly kind: "aborted" }
  | { readonly kind: "failed"; readonly error: RerollError };
