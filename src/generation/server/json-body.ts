/** Request bodies as JSON, with a limit on their nesting: code that walks a value step by step would run out of stack. */
import type { FastifyInstance } from "fastify";
import { jsonDepth, MAX_JSON_DEPTH } from "../../errors/json-depth.ts";
import { requestError } from "./openai-errors.ts";

/** Reads JSON bodies as the framework does, and refuses those that nest too deep. */
export function addJsonParser(app: FastifyInstance): void {
  const parse = app.getDefaultJsonParser("error", "error");
  app.removeContentTypeParser("application/json");
  app.addContentTypeParser<string>("application/json", { parseAs: "string" }, (request, body, done) => {
    if (jsonDepth(body) > MAX_JSON_DEPTH) done(tooDeep("body", "The request body"));
    else void parse(request, body, done);
  });
}

/** Throws for a text that would be too deep as JSON. */
export function expectShallow(param: string, text: string): void {
  if (jsonDepth(text) > MAX_JSON_DEPTH) throw tooDeep(param, param);
}

function tooDeep(param: string, what: string) {
  return requestError(param, `${what} nests deeper than ${MAX_JSON_DEPTH} levels of lists and objects.`);
}
